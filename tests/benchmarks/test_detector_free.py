"""Tracks from detector-free matches, against hloc's aggregation of the same matches.

python -m pytest -m benchmark tests/benchmarks/test_detector_free.py -s

Matches are simulated: grid points of six photographs of EPFL's fountain are moved by the laser
scan, with noise, shared errors and outliers (see `detector_free.simulated_pair`). COLMAP verifies
and maps what either way makes of them. Needs `pip install 'nmfsync[colmap]'`.
"""

import csv
import time
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.comparison import OUTPUTS
from detector_free import hloc_aggregation, simulated_pair
from nmfsync import load_scene
from nmfsync.matching.merging import merge, verify_positions
from nmfsync.truth.depth_files import depth_maps_beside
from nmfsync.types.positions import PositionPair
from real_data import real_data

pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
pytestmark = pytest.mark.benchmark

VIEWS = range(2, 8)
SIZE = (1024, 683)  # what LoFTR usually gets
KEPT = 0.2  # share of the grid that is matched
NOISES, SEEDS = (0.5, 1.0, 2.0), range(3)
OUTLIERS, SMOOTH = 0.05, 0.3  # share; pixels that neighbours share

WAYS = {
    "hloc, loftr": lambda pairs: hloc_aggregation(pairs, 1, 1),
    "hloc, loftr_aachen": lambda pairs: hloc_aggregation(pairs, 2, 8),
    "nmfsync": lambda pairs: merged(pairs),
}


class Model(NamedTuple):
    """Figures of a reconstruction; `keypoints` are those given, `cpu` is without matching."""

    keypoints: float
    images: float
    observations: float
    doubled: float  # points that two keypoints of an image show
    length: float  # of tracks
    pixels: float  # mean reprojection error
    camera: float  # mean error of centres, % of their root mean square distance from the middle
    cpu: float  # seconds of merging and mapping


def simulated(scene, truth, noise, seed):
    rng, scale = np.random.default_rng(seed), scene.cameras[0].size[0] / SIZE[0]

    def transfer(i, j):
        def move(xy):
            moved, valid = truth.transfer(i, j, (xy + 0.5) * scale - 0.5)
            return (moved + 0.5) / scale - 0.5, valid

        return move

    return {
        (a, b): simulated_pair(transfer(i, j), SIZE, rng, noise, OUTLIERS, SMOOTH, KEPT)
        for a, i in enumerate(VIEWS)
        for b, j in enumerate(VIEWS)
        if a < b
    }


def merged(pairs):
    verified = verify_positions([PositionPair(i, j, *arrays) for (i, j), arrays in pairs.items()])
    found = merge(verified, len(VIEWS))
    return dict(enumerate(found.xy)), {
        pair: (r, found.scores[pair]) for pair, r in found.rows.items()
    }


def write_database(path, cameras, keypoints, matches):
    with pycolmap.Database.open(path) as database, pycolmap.DatabaseTransaction(database):
        for n, camera in enumerate(cameras):
            K = camera.K
            written = pycolmap.Camera.create_from_model_id(
                n + 1, pycolmap.CameraModelId.PINHOLE, K[0, 0], *camera.size
            )
            written.params = [K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5]
            written.has_prior_focal_length = True
            camera_id = database.write_camera(written)
            image = pycolmap.Image(name=str(n), camera_id=camera_id, image_id=n + 1)
            database.write_image(image, True)
            database.write_keypoints(n + 1, (keypoints[n] + 0.5).astype(np.float32))
        for (i, j), (rows, _) in matches.items():
            database.write_matches(i + 1, j + 1, rows.astype(np.uint32))
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    pycolmap.geometric_verification(path, two_view_geometry_options=options)


def mapped(path, folder):
    options = pycolmap.IncrementalPipelineOptions(
        ba_refine_focal_length=False,
        ba_refine_principal_point=False,
        ba_refine_extra_params=False,
        random_seed=0,
        extract_colors=False,
    )
    folder.mkdir()
    models = pycolmap.incremental_mapping(path, folder, folder, options=options)
    return max(models.values(), key=lambda model: model.num_reg_images())


def camera_error(model, cameras):
    images = [image for image in model.images.values() if image.has_pose]
    a = np.array([image.projection_center() for image in images])
    b = np.array([cameras[int(image.name)].centre for image in images])
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    U, values, Vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(U @ Vt))])
    scale = (values * signs).sum() / (a**2).sum()
    apart = np.linalg.norm(scale * a @ (U * signs @ Vt).T - b, axis=1)
    return 100 * apart.mean() / np.sqrt((b**2).sum(axis=1).mean())


def measured(cameras, pairs, way, folder):
    start = time.process_time()
    keypoints, matches = WAYS[way](pairs)
    write_database(folder / "database.db", cameras, keypoints, matches)
    model = mapped(folder / "database.db", folder / "model")
    seconds = time.process_time() - start
    tracks = [[e.image_id for e in p.track.elements] for p in model.points3D.values()]
    return Model(
        sum(map(len, keypoints.values())), model.num_reg_images(),
        model.compute_num_observations(), sum(len(set(t)) < len(t) for t in tracks),
        model.compute_mean_track_length(), model.compute_mean_reprojection_error(),
        camera_error(model, cameras), seconds,
    )  # fmt: skip


def test_detector_free(tmp_path):
    pycolmap.logging.minloglevel = 3
    real_data("epfl")
    scene = load_scene("epfl/fountain-P11")
    truth = depth_maps_beside(scene.paths, scene.cameras)
    cameras = [scene.cameras[i].scaled_to(SIZE) for i in VIEWS]
    print(
        "\n" + f"{'noise':>5}  {'matches made by':24}" + "".join(f"{n:>13}" for n in Model._fields)
    )
    table = {}
    for noise in NOISES:
        rows = {way: [] for way in WAYS}
        for seed in SEEDS:
            pairs = simulated(scene, truth, noise, seed)
            for n, way in enumerate(WAYS):
                folder = tmp_path / f"{noise}-{seed}-{n}"
                folder.mkdir()
                rows[way].append(measured(cameras, pairs, way, folder))
        for way in WAYS:
            figures = table[noise, way] = Model(*np.mean(rows[way], axis=0))
            print(
                f"{noise:5}  {way:24}" + "".join(f"{value:13,.3f}" for value in figures), flush=True
            )
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    with (OUTPUTS / "detector_free.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("noise", "way", *Model._fields), *((*key, *f) for key, f in table.items())]
        )
    for noise in NOISES:
        ours = table[noise, "nmfsync"]
        assert ours.doubled == 0
        for way in list(WAYS)[:-1]:
            theirs = table[noise, way]
            assert ours.observations > theirs.observations
            assert ours.pixels < theirs.pixels
    assert mean_camera(table, "nmfsync") <= mean_camera(table, "hloc, loftr")


def mean_camera(table, way):
    """Mean over all noises: single figures differ by chance."""
    return np.mean([table[noise, way].camera for noise in NOISES])
