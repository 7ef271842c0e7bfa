"""How many matches are right, by their ratio to the second nearest, on the real Graffiti scenes.

python -m pytest -m benchmark tests/benchmarks/test_weights.py -s
"""

from itertools import pairwise

import numpy as np
import pytest

from nmfsync import evaluation, extract_all, load_scene, match
from nmfsync.catalogue import scene_names
from nmfsync.matching import LEAST_WEIGHT
from real_data import real_data

pytestmark = pytest.mark.benchmark

BINS = np.array([0, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1])


def weights_and_errors(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Weight and transfer error of every match of a scene that the truth can judge."""
    scene = load_scene(name)
    features = extract_all(scene.paths, progress=False)
    matches = match(features, weighted=True, progress=False)
    errors = evaluation.match_errors(matches, features, scene.truth)
    judged = np.isfinite(errors.error)
    weights = np.asarray(matches.W[errors.p, errors.q]).ravel()
    return weights[judged], errors.error[judged]


def test_share_of_right_matches_by_ratio():
    """Every scene counts as much as it has matches; 1 − r⁴ is the mean of a bin's weights."""
    real_data("graffiti")
    found = [weights_and_errors(name) for name in scene_names("graffiti")]
    weights, errors = (np.concatenate(part) for part in zip(*found, strict=True))
    assert weights.min() >= LEAST_WEIGHT
    bin_of = np.digitize((1 - weights) ** 0.25, BINS[1:-1])
    print(f"\n{'ratio':12}{'matches':>10}{'right (1 %)':>14}{'1 - r^4':>10}")
    shares = []
    for number, (low, high) in enumerate(pairwise(BINS)):
        chosen = bin_of == number
        right, weight = (errors[chosen] <= 0.01).mean(), weights[chosen].mean()
        shares.append((right, weight))
        print(f"{low:.2f} to {high:.2f}{chosen.sum() // 2:10,}{right:14.3f}{weight:10.3f}")
    print(f"{'all':12}{len(errors) // 2:10,}{(errors <= 0.01).mean():14.3f}{weights.mean():10.3f}")
    right, weight = np.array(shares).T
    assert np.abs(right - weight).max() < 0.1
    assert (np.diff(right) < 0).all()  # the larger the ratio, the fewer are right
