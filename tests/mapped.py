"""COLMAP's mapper on matches of images with known cameras."""

from pathlib import Path

import numpy as np

from colmap_scenes import map_images


def write_cameras_and_matches(path, cameras, xy, matches) -> None:
    """Write a COLMAP database with the true intrinsics, and geometries verified by COLMAP."""
    import pycolmap

    with pycolmap.Database.open(path) as database:
        for n, (camera, positions) in enumerate(zip(cameras, xy, strict=True), start=1):
            K = camera.K
            written = pycolmap.Camera(
                model="PINHOLE", width=camera.size[0], height=camera.size[1], camera_id=n,
                params=[K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5],
            )  # fmt: skip
            written.has_prior_focal_length = True
            image = pycolmap.Image(name=f"{n:03}.png", camera_id=database.write_camera(written))
            database.write_keypoints(database.write_image(image), positions + np.float32(0.5))
        for i, j, rows, _ in matches.by_image_pair():
            database.write_matches(i + 1, j + 1, rows.astype(np.uint32))
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    pycolmap.geometric_verification(path, two_view_geometry_options=options)


def map_matches(folder: Path, cameras, xy, matches) -> tuple[int, float]:
    """Map; count the images of the largest model, and measure its camera error.

    This is the mean distance of the centres from the true ones after the best
    alignment, as a share of the spread of the true ones.
    """
    folder.mkdir()
    write_cameras_and_matches(folder / "matches.db", cameras, xy, matches)
    models = map_images(folder / "matches.db", folder)
    model = max(models, key=lambda model: model.num_reg_images(), default=None)
    if model is None:
        return 0, np.nan
    images = [image for image in model.images.values() if image.has_pose]
    found = np.array([image.projection_center() for image in images])
    true = np.array([cameras[int(image.name[:3]) - 1].centre for image in images])
    return len(images), _distance_of_shapes(found, true)


def _distance_of_shapes(found: np.ndarray, true: np.ndarray) -> float:
    a, b = found - found.mean(axis=0), true - true.mean(axis=0)
    U, S, Vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(U @ Vt))])
    moved = (S * signs).sum() / (a**2).sum() * a @ (U * signs @ Vt).T
    spread = np.sqrt((b**2).sum(axis=1).mean())
    return float(np.linalg.norm(moved - b, axis=1).mean() / spread)
