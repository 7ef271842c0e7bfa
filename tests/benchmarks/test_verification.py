"""What geometric verification does to matches, and to their synchronisation.

python -m pytest -m benchmark tests/benchmarks/test_verification.py -s
"""

import time

import numpy as np
import pytest

from nmfsync import evaluation, extract_all, load_scene, match, synchronise
from nmfsync.matching.verification import verify
from nmfsync.scenes.catalogue import scene_names
from real_data import real_data

pytestmark = pytest.mark.benchmark

FEATURES = 1000


def figures(matches, scene, features):
    """Matches, FCM and precision at 1 %: by homographies, or by epipolar lines."""
    if scene.truth is None:
        errors = evaluation.epipolar_errors(matches, features, scene.cameras)
    else:
        errors = evaluation.match_errors(matches, features, scene.truth)
    fcm = evaluation.fcm(errors, matches.sizes, [0.01])[0]
    return len(errors.p) / 2, fcm, evaluation.precision_at(errors, [0.01])[0]


@pytest.mark.parametrize("dataset", ["graffiti", "epfl"])
def test_matches_and_tracks_with_and_without(dataset):
    real_data(dataset)
    columns = ("matches", "verified", "tracks", "tracks of verified")
    print(f"\n{FEATURES} features; matches / FCM / precision at 1 %")
    print(f"{'scene':20}" + "".join(f"{column:>22}" for column in columns) + f"{'ms a pair':>12}")
    rows = []
    for name in scene_names(dataset):
        scene = load_scene(name)
        features = extract_all(scene.paths, FEATURES)
        matches = match(features, weighted=True, progress=False)
        start = time.perf_counter()
        sizes = [f.image_size for f in features]
        verified = verify(matches, [f.xy for f in features], progress=False, sizes=sizes)
        k = len(features)
        milliseconds = (time.perf_counter() - start) * 1e3 / (k * (k - 1) / 2)
        results = (matches, verified, synchronise(matches), synchronise(verified))
        rows.append([figures(result, scene, features) for result in results])
        show(name, rows[-1], milliseconds)
    show("mean", np.mean(rows, axis=0))
    means = np.mean(rows, axis=0)
    assert means[1, 2] > means[0, 2]
    assert means[3, 2] > means[2, 2]


def show(name, row, milliseconds=None):
    cells = "".join(f"{f'{int(n):,} / {fcm:.3f} / {p:.3f}':>22}" for n, fcm, p in row)
    print(f"{name:20}{cells}" + (f"{milliseconds:12.1f}" if milliseconds else ""), flush=True)
