"""How many matches are right, by their ratio to the second nearest, on the real Graffiti scenes.

And whether their distance says more than that: the last columns are the nearer
and the farther half of the matches with a ratio.

python -m pytest -m benchmark tests/benchmarks/test_weights.py -s
"""

from itertools import pairwise

import numpy as np
import pytest

from nmfsync import evaluation, extract_all, load_scene, match
from nmfsync.matching.match import LEAST_WEIGHT
from nmfsync.scenes.catalogue import scene_names
from real_data import real_data

pytestmark = pytest.mark.benchmark

BINS = np.array([0, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1])


def weights_errors_and_distances(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, transfer error and distance of every match of a scene that the truth can judge."""
    scene = load_scene(name)
    features = extract_all(scene.paths, progress=False)
    matches = match(features, weighted=True, progress=False)
    errors = evaluation.match_errors(matches, features, scene.truth)
    judged = np.isfinite(errors.error)
    weights = np.asarray(matches.W[errors.p, errors.q]).ravel()
    descriptors = np.concatenate([f.descriptors for f in features]).astype(np.float64)
    distances = np.linalg.norm(descriptors[errors.p] - descriptors[errors.q], axis=1)
    return weights[judged], errors.error[judged], distances[judged]


def test_share_of_right_matches_by_ratio():
    """Every scene counts as much as it has matches; 1 − r⁴ is the mean of a bin's weights."""
    real_data("graffiti")
    found = [weights_errors_and_distances(name) for name in scene_names("graffiti")]
    weights, errors, distances = (np.concatenate(part) for part in zip(*found, strict=True))
    assert weights.min() >= LEAST_WEIGHT
    bin_of = np.digitize((1 - weights) ** 0.25, BINS[1:-1])
    columns = ("matches", "right (1 %)", "1 - r^4", "nearer", "farther")
    print(f"\n{'ratio':12}" + "".join(f"{column:>12}" for column in columns))
    shares = []
    for number, (low, high) in enumerate(pairwise(BINS)):
        chosen = bin_of == number
        right, weight = (errors[chosen] <= 0.01).mean(), weights[chosen].mean()
        shares.append((right, weight))
        near = distances[chosen] < np.median(distances[chosen])
        halves = [(errors[chosen][half] <= 0.01).mean() for half in (near, ~near)]
        print(f"{low:.2f} to {high:.2f}{chosen.sum() // 2:12,}{right:12.3f}{weight:12.3f}"
              f"{halves[0]:12.3f}{halves[1]:12.3f}")  # fmt: skip
    print(f"{'all':12}{len(errors) // 2:12,}{(errors <= 0.01).mean():12.3f}{weights.mean():12.3f}")
    right, weight = np.array(shares).T
    assert np.abs(right - weight).max() < 0.1
    assert (np.diff(right) < 0).all()  # the larger the ratio, the fewer are right
