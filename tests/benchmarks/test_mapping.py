"""COLMAP's mapper on raw, verified and synchronised matches of the six EPFL scenes.

python -m pytest -m benchmark tests/benchmarks/test_mapping.py -s

Needs `pip install pycolmap`.
"""

import csv
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.comparison import OUTPUTS
from nmfsync import (
    MultiMatching,
    NmfsyncWarning,
    PairwiseMatches,
    extract_all,
    load_scene,
    match,
    synchronise,
)
from nmfsync.matching.verification import verify
from nmfsync.report.figures.style import to_png
from nmfsync.runtime.threads import thread_count
from nmfsync.scenes.catalogue import scene_names
from real_data import real_data

pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
pytestmark = pytest.mark.benchmark

FEATURES, CONTRAST = 2000, 0.02
SEEDS = range(3)  # of the mapper; figures are means
# What else there is takes minutes for more features, or refuses them.
OTHER_METHODS, MOST_FEATURES = ("nmfsync", "spectral", "matcheig"), 23_000
BASELINE, OURS = "0.8, COLMAP", "0.85, nmfsync"


class Model(NamedTuple):
    """Figures of a reconstruction."""

    registered: float
    points: float
    doubled: float  # points that two features of one image show
    length: float  # of tracks
    pixels: float  # mean reprojection error
    position: float  # mean error of camera centres after similarity alignment, metres
    worst: float
    rotation: float  # mean error of camera rotations after alignment, degrees
    seconds: float  # from raw matches to the model


def write_database(path, scene, features, matches):
    """Write cameras, images, keypoints and raw matches, as COLMAP's own matcher leaves them."""
    with pycolmap.Database.open(path) as database:
        for n, (f, camera) in enumerate(zip(features, scene.cameras, strict=True), start=1):
            K = camera.K
            written = pycolmap.Camera.create_from_model_id(
                n, pycolmap.CameraModelId.PINHOLE, K[0, 0], *camera.size
            )
            written.params = [K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5]
            written.has_prior_focal_length = True
            camera_id = database.write_camera(written)
            image = pycolmap.Image(name=scene.names[n - 1], camera_id=camera_id, image_id=n)
            database.write_image(image, True)
            database.write_keypoints(n, f.xy + np.float32(0.5))
        for i, j, rows, _ in matches.by_image_pair():
            database.write_matches(i + 1, j + 1, rows.astype(np.uint32))


def verify_by_colmap(path):
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    pycolmap.geometric_verification(path, two_view_geometry_options=options)


def mapped(path, scene, folder, seed):
    """The largest model, or None."""
    options = pycolmap.IncrementalPipelineOptions(
        ba_refine_focal_length=False,
        ba_refine_principal_point=False,
        ba_refine_extra_params=False,
        num_threads=thread_count(),
        random_seed=seed,
    )
    out = folder / f"model-{time.monotonic_ns()}"
    out.mkdir()
    models = pycolmap.incremental_mapping(path, scene.paths[0].parent, out, options=options)
    return max(models.values(), key=lambda model: model.num_reg_images(), default=None)


def camera_errors(model, scene):
    """Errors of camera centres (metres) and rotations (degrees) after the best alignment."""
    true = dict(zip(scene.names, scene.cameras, strict=True))
    images = [image for image in model.images.values() if image.has_pose]
    found = np.array([image.projection_center() for image in images])
    wanted = np.array([-true[image.name].R.T @ true[image.name].t for image in images])
    a, b = found - found.mean(axis=0), wanted - wanted.mean(axis=0)
    turn, values = nearest_rotation(b.T @ a)
    scale = values.sum() / (a**2).sum()
    # Centres nearly on a line leave the turn about it open, so rotations are aligned apart.
    R = [image.cam_from_world().rotation.matrix() for image in images]
    pairs = [(r, true[image.name].R) for r, image in zip(R, images, strict=True)]
    align, _ = nearest_rotation(sum(r.T @ t for r, t in pairs))
    angles = [np.arccos(np.clip((np.trace(r @ align @ t.T) - 1) / 2, -1, 1)) for r, t in pairs]
    return np.linalg.norm(scale * a @ turn.T - b, axis=1), np.degrees(angles)


def nearest_rotation(M):
    """Rotation nearest to a matrix, and the matrix's signed singular values."""
    U, values, Vt = np.linalg.svd(M)
    signs = np.array([1, 1, np.sign(np.linalg.det(U @ Vt))])
    return U * signs @ Vt, values * signs


def measured(path, scene, folder, seconds):
    """Figures of the mapper's models; `seconds` were spent before."""
    rows = []
    for seed in SEEDS:
        start = time.perf_counter()
        model = mapped(path, scene, folder, seed)
        took = seconds + time.perf_counter() - start
        if model is None:
            return None
        position, rotation = camera_errors(model, scene)
        rows.append((model.num_reg_images(), model.num_points3D(), doubled(model),
                     model.compute_mean_track_length(), model.compute_mean_reprojection_error(),
                     position.mean(), position.max(), rotation.mean(), took))  # fmt: skip
    return Model(*np.mean(rows, axis=0))


def doubled(model):
    """Count the points that two features of one image show."""
    tracks = (point.track.elements for point in model.points3D.values())
    images = ([element.image_id for element in elements] for elements in tracks)
    return sum(len(set(track)) < len(track) for track in images)


def timed(work, *arguments, **options):
    start = time.perf_counter()
    result = work(*arguments, **options)
    return result, time.perf_counter() - start


def synchronised(path, out, method, verify_first):
    """What `nmfsync synchronise` does."""
    matches = PairwiseMatches.from_colmap(path, verified=False if verify_first else None)
    if verify_first:
        matches = verify(matches, matches.source.xy(), progress=False)
    result = synchronise(matches.unweighted(), method)
    result.to_colmap(out)
    if isinstance(result, MultiMatching):
        assert_consistent(out)


def assert_consistent(path):
    """No track holds two features of one image: uniting matches drops none of them."""
    matches = PairwiseMatches.from_colmap(path)
    assert (synchronise(matches, "unionfind").W - matches.W).min() >= 0


def variants(scene, folder):
    """Yield the name of every way, the database it leaves, and the seconds it took."""
    features = extract_all(scene.paths, FEATURES, contrast=CONTRAST, progress=False)
    methods = ["clustersync", "unionfind"]
    if sum(map(len, features)) <= MOST_FEATURES:
        methods += OTHER_METHODS
    for ratio in (0.8, 0.85, None):
        name = "none" if ratio is None else str(ratio)
        raw = folder / f"{name}.db"
        write_database(raw, scene, features, match(features, ratio, progress=False))
        if ratio == 0.8:
            as_they_are = folder / "raw.db"
            PairwiseMatches.from_colmap(raw).to_colmap(as_they_are, verify=False)
            yield f"{name}, raw", as_they_are, 0.0
        out = folder / f"{name}-ours.db"
        _, seconds = timed(synchronised, raw, out, "clustersync", verify_first=True)
        ours = f"{name}, nmfsync", out, seconds
        if ratio != 0.85:
            _, seconds = timed(verify_by_colmap, raw)
            yield f"{name}, COLMAP", raw, seconds
            for method in methods if ratio == 0.8 else ["clustersync"]:
                out = folder / f"{name}-{method}.db"
                _, more = timed(synchronised, raw, out, method, verify_first=False)
                yield f"{name}, COLMAP, {method}", out, seconds + more
        yield ours


def test_mapping(tmp_path):
    pycolmap.logging.minloglevel = 2
    real_data("epfl")
    warnings.simplefilter("ignore", NmfsyncWarning)
    tables = {}
    for name in scene_names("epfl"):
        scene, folder = load_scene(name), tmp_path / name.split("/")[1]
        folder.mkdir()
        print(f"\n{name}, {len(scene.paths)} images, {FEATURES} features"
              f"\n{'matches':30}{'images':>7}{'points':>8}{'doubled':>9}{'length':>8}{'pixels':>8}"
              f"{'metres':>9}{'worst':>8}{'degrees':>9}{'seconds':>9}")  # fmt: skip
        tables[name] = {}
        for way, path, seconds in variants(scene, folder):
            figures = tables[name][way] = measured(path, scene, folder, seconds)
            print(f"{way:30}" + ("  no model" if figures is None else
                  f"{figures.registered:7.1f}{figures.points:8.0f}{figures.doubled:9.0f}"
                  f"{figures.length:8.2f}"
                  f"{figures.pixels:8.3f}{figures.position:9.4f}{figures.worst:8.4f}"
                  f"{figures.rotation:9.3f}{figures.seconds:9.2f}"), flush=True)  # fmt: skip
    write(tables)
    for table in tables.values():
        assert table[OURS].doubled == 0
        assert table[OURS].registered >= table[BASELINE].registered
        assert table[OURS].points >= table[BASELINE].points
    assert mean_ratio(tables, "pixels") < 1
    assert mean_ratio(tables, "seconds") < 1


def mean_ratio(tables, field):
    """Geometric mean over the scenes of our figure by COLMAP's."""
    ratios = [getattr(t[OURS], field) / getattr(t[BASELINE], field) for t in tables.values()]
    return np.exp(np.mean(np.log(ratios)))


def write(tables):
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    rows = [(s, w, *f) for s, table in tables.items() for w, f in table.items() if f]
    with (OUTPUTS / "mapping.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("scene", "matches", *Model._fields), *rows])
    (OUTPUTS / "mapping.png").write_bytes(to_png(figure_of(tables)))
    print(f"written: {Path(OUTPUTS) / 'mapping.png'}")


def figure_of(tables):
    """Figures of our way relative to COLMAP's, scene by scene."""
    figure = Figure((9, 3), layout="constrained")
    titles = {"points": "3-D points", "pixels": "reprojection error",
              "position": "camera error", "seconds": "seconds"}  # fmt: skip
    scenes = [name.split("/")[1] for name in tables]
    for axes, (field, title) in zip(
        figure.subplots(1, 4, sharey=True), titles.items(), strict=True
    ):
        ratios = [getattr(t[OURS], field) / getattr(t[BASELINE], field) for t in tables.values()]
        better = [(ratio >= 1) == (field == "points") for ratio in ratios]
        colours = ["tab:green" if good else "tab:orange" for good in better]
        axes.barh(scenes, ratios, color=colours)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_title(title)
        axes.grid(axis="x", alpha=0.3)
    figure.axes[0].invert_yaxis()
    figure.supxlabel("verified and synchronised by nmfsync, ratio 0.85 : verified by COLMAP, 0.8")
    return figure
