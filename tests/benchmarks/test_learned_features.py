"""Matches without a ratio test in files of hloc, as learned features have them, and their models.

python -m pytest -m benchmark tests/benchmarks/test_learned_features.py -s

No network is at hand: RootSIFT stands in, with nearest neighbours in both directions (hloc's
`NN-mutual`) and the cosine in half precision as score. Needs `pip install 'nmfsync[colmap,hloc]'`.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparison import Table
from benchmarks.mapping import copy_photographs, count_matches, run_mapper, true_poses
from nmfsync import PairwiseMatches, extract_all, synchronise_file, verify_file
from nmfsync.exchange.new_database import write_new_database
from nmfsync.run.new_images import new_images
from nmfsync.run.settings import FINE_CONTRAST

h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")
pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
pytestmark = pytest.mark.benchmark

SCENES = ("epfl/fountain-P11", "epfl/entry-P10", "epfl/castle-P19", "sfm/reichstag")
FEATURES = 4096
RUNS = 3  # each without another 1 % of the matches
FIGURES = ("observations", "pixels", "camera")


def verified_by_colmap(files: Path, photographs: Path, out: Path) -> None:
    matches = PairwiseMatches.from_hloc(files / "matches.h5", files / "features.h5")
    images = new_images(matches.source.names, matches.source.keypoints(), photographs)
    write_new_database(out, images, matches, verified=False)


def verified(files: Path, photographs: Path, out: Path) -> None:
    verify_file(files / "matches.h5", out, files / "features.h5", images=photographs)


def synchronised(files: Path, photographs: Path, out: Path) -> None:
    synchronise_file(
        files / "matches.h5", out, files / "features.h5", geometry="fundamental",
        images=photographs,
    )  # fmt: skip


WAYS: dict[str, Callable[[Path, Path, Path], None]] = {
    "COLMAP's verification": verified_by_colmap,
    "verify": verified,
    "synchronise --verify": synchronised,
}


def test_models_of_matches_without_ratio_test(tmp_path: Path) -> None:
    table = Table("Models, means of runs", ["pairs", "matches", "images", "models", *FIGURES])
    ratios: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for scene in SCENES:
            folder = tmp_path / scene.replace("/", "-")
            photographs = write_files(scene, folder)
            rows = {}
            for n, (way, make) in enumerate(WAYS.items()):
                database = folder / f"{n}.db"
                make(folder, photographs, database)
                runs = [
                    pool.submit(run_mapper, database, photographs, true_poses(scene),
                                "incremental", seed)
                    for seed in range(RUNS)
                ]  # fmt: skip
                models = [run.result() for run in runs]
                rows[way] = [np.mean([getattr(m, field) for m in models]) for field in FIGURES]
                images = min(model.images for model in models)
                parts = max(model.models for model in models)
                table.add(f"{scene.split('/')[1]}, {way}"[:42], *count_matches(database),
                          images, parts, *map(float, rows[way]))  # fmt: skip
            first = np.array(rows[next(iter(WAYS))])
            for way in WAYS:
                ratios[way].append(list(np.array(rows[way]) / first))
    table.write("learned-features")
    means = Table("Relative to COLMAP's verification: geometric means", list(FIGURES))
    for way, rows in ratios.items():
        means.add(way, *map(float, np.exp(np.log(rows).mean(axis=0))))
    means.write("learned-features-means")
    mean = dict(zip((row[0] for row in means.rows), (row[1:] for row in means.rows), strict=True))
    for way in ("verify", "synchronise --verify"):
        assert mean[way][1] < 1  # reprojection error


def write_files(scene: str, folder: Path) -> Path:
    """Write features.h5 and matches.h5 as hloc does; return the folder of the photographs."""
    photographs = folder / "photos"
    copy_photographs(scene, photographs)
    paths = sorted(photographs.iterdir())
    found = extract_all(paths, FEATURES, contrast=FINE_CONTRAST, progress=False)
    with h5py.File(folder / "features.h5", "w") as file:
        for path, features in zip(paths, found, strict=True):
            file[f"{path.name}/keypoints"] = features.xy
            file[f"{path.name}/image_size"] = features.image_size
    directions = [unit_length(features.rooted().descriptors) for features in found]
    with h5py.File(folder / "matches.h5", "w") as file:
        for i, j in combinations(range(len(paths)), 2):
            group = file.create_group(f"{paths[i].name}/{paths[j].name}")
            matches, scores = mutual(directions[i], directions[j])
            group["matches0"], group["matching_scores0"] = matches, scores
    return photographs


def unit_length(descriptors: np.ndarray) -> np.ndarray:
    values = descriptors.astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def mutual(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest neighbours in both directions, -1 for none, and their cosines."""
    cosines = a @ b.T
    there, back = cosines.argmax(axis=1), cosines.argmax(axis=0)
    both = back[there] == np.arange(len(a))
    scores = np.where(both, cosines.max(axis=1), 0)
    return np.where(both, there, -1).astype(np.int32), scores.astype(np.float16)
