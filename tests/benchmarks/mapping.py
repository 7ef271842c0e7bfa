"""Maps COLMAP databases, and measures the models."""

import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from os import times
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmfsync import load_scene
from nmfsync.types.arrays import FloatArray
from real_data import real_data

MAPPERS = ("incremental", "global")
DROPPED = 0.01  # share of the verified matches that a run goes without
PHOTOGRAPHS = (".jpg", ".jpeg", ".png")
APART = 3.0  # pixels: nearer features of one image may be one point at several scales

TABLES = ("cameras", "images", "keypoints", "two_view_geometries")  # what mappers read


class Pose(NamedTuple):
    """A camera: rotation from the world to it (3, 3), and its centre (3,)."""

    R: FloatArray
    centre: FloatArray


@dataclass(frozen=True)
class Model:
    """Figures of the largest model of a run; camera errors are NaN without truth.

    Attributes
    ----------
    models, images, points, observations : int
        Models of the run; images registered, points and observations of the largest.
    doubled, apart : int
        Points that two features of one image show, and those of them whose features are more
        than `APART` pixels apart.
    length : float
        Mean number of observations of a point.
    pixels : float
        Mean reprojection error.
    camera, rotation : float
        Mean error of camera centres after the best similarity, in % of the root mean square
        distance of the true centres from their mean; of rotations in degrees.
    seconds : float
        CPU time of the mapper.
    """

    models: int = 0
    images: int = 0
    points: int = 0
    observations: int = 0
    doubled: int = 0
    apart: int = 0
    length: float = np.nan
    pixels: float = np.nan
    camera: float = np.nan
    rotation: float = np.nan
    seconds: float = 0.0


def cpu() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    return sum(times()[:4])


def photographs_of(scene: str) -> list[Path]:
    folder = real_data(scene)
    images = folder / "images"
    files = (images if images.is_dir() else folder).iterdir()
    return sorted(file for file in files if file.suffix.lower() in PHOTOGRAPHS)


def copy_photographs(scene: str, folder: Path) -> None:
    """Copy the photographs alone, as a user has them, to a new folder."""
    folder.mkdir(parents=True)
    for file in photographs_of(scene):
        shutil.copyfile(file, folder / file.name)


def true_poses(scene: str) -> dict[str, Pose]:
    """Return the true poses by the name of the image; none if they are not known."""
    if scene.startswith("epfl/"):
        truth = load_scene(scene)
        return {
            name: Pose(camera.R, -camera.R.T @ camera.t)
            for name, camera in zip(truth.names, truth.cameras, strict=True)
        }
    file = real_data(scene) / "poses.txt"
    return read_poses(file.read_text()) if file.exists() else {}


def read_poses(text: str) -> dict[str, Pose]:
    """Read lines of a name, a rotation row by row, and a centre."""
    lines = [line.split() for line in text.splitlines() if line and line[0] != "#"]
    numbers = {name: np.array(rest, float) for name, *rest in lines}
    return {name: Pose(row[:9].reshape(3, 3), row[9:]) for name, row in numbers.items()}


def run_mapper(database: Path, photographs: Path, truth: Mapping[str, Pose], mapper: str,
               seed: int) -> Model:  # fmt: skip
    """Map a database without 1 % of its verified matches, other ones for every seed."""
    with tempfile.TemporaryDirectory() as folder:
        copy, out = Path(folder, "database.db"), Path(folder, "models")
        out.mkdir()
        drop_matches(database, copy, DROPPED, seed)
        start = cpu()
        models = list(_models(copy, photographs, out, mapper))
        seconds = cpu() - start
    return measured(models, truth, seconds)


def drop_matches(database: Path, copy: Path, share: float, seed: int) -> None:
    """Copy a database without a share of its verified matches, drawn at random."""
    import pycolmap

    shutil.copyfile(database, copy)
    rng = np.random.default_rng(seed)
    with pycolmap.Database.open(copy) as opened:
        pairs = list(zip(*opened.read_two_view_geometries(), strict=True))
        with pycolmap.DatabaseTransaction(opened):
            opened.clear_two_view_geometries()
            for pair, geometry in pairs:
                matches = np.asarray(geometry.inlier_matches)
                if len(matches):
                    geometry.inlier_matches = matches[rng.random(len(matches)) >= share]
                opened.write_two_view_geometry(*pycolmap.pair_id_to_image_pair(pair), geometry)


def _models(database: Path, photographs: Path, out: Path, mapper: str):
    """Map with COLMAP's defaults; intrinsics are those of the database, and are refined."""
    import pycolmap

    pycolmap.logging.minloglevel = 3
    if mapper == "global":
        options = pycolmap.GlobalPipelineOptions(random_seed=0, num_threads=1)
        return pycolmap.global_mapping(database, photographs, out, options=options).values()
    options = pycolmap.IncrementalPipelineOptions(
        random_seed=0, num_threads=1, extract_colors=False
    )
    return pycolmap.incremental_mapping(database, photographs, out, options=options).values()


def measured(models: list, truth: Mapping[str, Pose], seconds: float) -> Model:
    """Measure the largest of the models of a run."""
    if not models:
        return Model(seconds=seconds)
    model = max(models, key=lambda model: (model.num_reg_images(), model.num_points3D()))
    doubled = [gap for gap in _widest_gaps(model) if gap >= 0]
    camera, rotation = _errors_of(model, truth)
    return Model(
        len(models), model.num_reg_images(), model.num_points3D(),
        model.compute_num_observations(), len(doubled), int(sum(gap > APART for gap in doubled)),
        model.compute_mean_track_length(), model.compute_mean_reprojection_error(),
        camera, rotation, seconds,
    )  # fmt: skip


def _widest_gaps(model):
    """Yield for every point how far apart its features of one image are; -1 if it has no two."""
    xy = {n: np.array([p.xy for p in image.points2D]) for n, image in model.images.items()}
    for point in model.points3D.values():
        by_image: dict[int, list[int]] = {}
        for element in point.track.elements:
            by_image.setdefault(element.image_id, []).append(element.point2D_idx)
        gaps = [
            np.linalg.norm(np.ptp(xy[n][features], axis=0))
            for n, features in by_image.items()
            if len(features) > 1
        ]
        yield max(gaps, default=-1.0)


def _errors_of(model, truth: Mapping[str, Pose]) -> tuple[float, float]:
    found = {
        image.name: Pose(image.cam_from_world().rotation.matrix(), image.projection_center())
        for image in model.images.values()
        if image.has_pose
    }
    return pose_errors(found, truth)


def pose_errors(found: Mapping[str, Pose], truth: Mapping[str, Pose]) -> tuple[float, float]:
    """Return the mean errors of centres (%) and rotations (degrees); see `Model`.

    NaN with less than three images in common. Centres nearly on a line leave the turn about it
    open, so that rotations are aligned on their own.
    """
    names = sorted(found.keys() & truth.keys())
    if len(names) < 3:
        return np.nan, np.nan
    centres = np.array([found[name].centre for name in names])
    wanted = np.array([truth[name].centre for name in names])
    a, b = centres - centres.mean(axis=0), wanted - wanted.mean(axis=0)
    turn, values = nearest_rotation(b.T @ a)
    scale = values.sum() / (a**2).sum()
    errors = np.linalg.norm(scale * a @ turn.T - b, axis=1)
    everything = np.array([pose.centre for pose in truth.values()])
    spread = np.sqrt(((everything - everything.mean(axis=0)) ** 2).sum(axis=1).mean())
    pairs = [(found[name].R, truth[name].R) for name in names]
    align, _ = nearest_rotation(sum(R.T @ T for R, T in pairs))
    cosines = [(np.trace(R @ align @ T.T) - 1) / 2 for R, T in pairs]
    degrees = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
    return float(100 * errors.mean() / spread), float(degrees.mean())


def nearest_rotation(M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rotation nearest to a matrix, and the matrix's signed singular values."""
    U, values, Vt = np.linalg.svd(M)
    signs = np.array([1, 1, np.sign(np.linalg.det(U @ Vt))])
    return U * signs @ Vt, values * signs


def slim_down(database: Path, out: Path) -> None:
    """Copy what mappers read of a database: without descriptors and raw matches."""
    shutil.copyfile(database, out)
    with closing(sqlite3.connect(out)) as opened:
        for table in ("descriptors", "matches"):
            opened.execute(f"DELETE FROM {table}")
        opened.commit()
        opened.execute("VACUUM")
        opened.execute("PRAGMA journal_mode = DELETE")  # no files beside it


def digest_of(database: Path) -> str:
    """Return a digest of what mappers read of a database."""
    found = sha256()
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        for table in TABLES:
            for row in opened.execute(f"SELECT * FROM {table} ORDER BY 1"):
                found.update(repr(row).encode())
    return found.hexdigest()[:16]


def count_matches(database: Path) -> tuple[int, int]:
    """Count the pairs of images with verified matches, and these matches."""
    query = "SELECT count(*), coalesce(sum(rows), 0) FROM two_view_geometries WHERE rows > 0"
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        pairs, matches = opened.execute(query).fetchone()
    return pairs, matches
