"""Whether of the matches with the probability P the share P is right, on real photographs.

python -m pytest -m benchmark tests/benchmarks/test_weights.py -s

For every scene, the mean probability of its matches beside the share that is right, and the same
for the matches of every bin of probabilities: a reliability diagram as a table.
"""

from dataclasses import replace

import numpy as np
import pytest

from nmfsync import evaluation, extract_all, load_scene, match
from nmfsync.scenes.catalogue import scene_names
from nmfsync.truth.depths import FeatureDepths
from nmfsync.truth.plane_sweep import sweep_depths
from real_data import real_data

pytestmark = pytest.mark.benchmark

GRAFFITI = scene_names("graffiti")

# Those with few images: depths are made from the images, which takes minutes for more.
CAMERAS = [
    "epfl/fountain-P11",
    "epfl/Herz-Jesu-P8",
    "epfl/entry-P10",
    "epfl/castle-P19",
    "middlebury/dinoSparseRing",
    "middlebury/templeSparseRing",
]

RIGHT = 0.01  # error of a right match, relative to the larger side of the image

BINS = np.array([0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1])


def with_truth(scene, features):
    """Give a scene with cameras the depths of its features."""
    if scene.truth is not None:
        return scene
    xy = [f.xy for f in features]
    depths = sweep_depths(scene.images, scene.cameras, xy, scene.bounds, progress=False)
    return replace(scene, truth=FeatureDepths(scene.cameras, xy, depths))


def judged(name: str, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Probability of every match that the truth can judge, and whether it is right."""
    scene = load_scene(name)
    features = extract_all(scene.paths, limit, progress=False)
    matches = match(features, weighted=True, progress=False)
    errors = evaluation.match_errors(matches, features, with_truth(scene, features).truth)
    known = np.isfinite(errors.error)  # in both directions, as precision counts them
    P = np.asarray(matches.W[errors.p[known], errors.q[known]]).ravel()
    return P, errors.error[known] <= RIGHT


def calibration(P: np.ndarray, right: np.ndarray) -> list[tuple[int, float, float]]:
    """Number of matches of every bin, their mean probability, and the share that is right."""
    bin_of = np.digitize(P, BINS[1:-1])
    chosen = [bin_of == number for number in range(len(BINS) - 1)]
    return [(int(c.sum()), P[c].mean(), right[c].mean()) if c.any() else (0, 0, 0) for c in chosen]


def show(name: str, P: np.ndarray, right: np.ndarray) -> float:
    """Print a row; return the mean distance of probability and share, over the matches in bins."""
    bins = calibration(P, right)
    cells = "".join(f"{f'{p:.2f}/{share:.2f}' if n else '-':>12}" for n, p, share in bins)
    gap = sum(n * abs(p - share) for n, p, share in bins) / len(P)
    print(
        f"{name:28}{len(P) // 2:8,}{P.mean():7.3f}{right.mean():7.3f}{gap:7.3f}{cells}", flush=True
    )
    return gap


@pytest.mark.parametrize(
    ("scenes", "limit", "most"),
    [(GRAFFITI, 200, 0.04), (GRAFFITI, 1000, 0.04), (CAMERAS, 300, 0.08)],
    ids=["graffiti 200", "graffiti 1000", "cameras 300"],
)
def test_share_of_right_matches_by_probability(scenes, limit, most):
    """`most` is the largest mean distance of a scene's mean probability and its precision."""
    real_data(scenes[0].split("/")[0])
    print(f"\n{limit} features; mean probability / share of right matches within {RIGHT:.0%}")
    header = "".join(f"{f'to {high:.2f}':>12}" for high in BINS[1:])
    print(f"{'scene':28}{'matches':>8}{'P':>7}{'right':>7}{'gap':>7}{header}")
    found = [judged(name, limit) for name in scenes]
    for name, (P, right) in zip(scenes, found, strict=True):
        show(name, P, right)
    P, right = (np.concatenate(part) for part in zip(*found, strict=True))
    show("all", P, right)
    distance = np.mean([abs(P.mean() - right.mean()) for P, right in found])
    print(f"mean |P - right| of the scenes: {distance:.3f}")
    assert distance < most
    shares = [share for n, _, share in calibration(P, right) if n]
    assert np.diff(shares).min() > -0.02  # the surer, the more are right
