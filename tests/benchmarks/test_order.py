"""What the order of the images, and of the features in them, changes in ClusterSync's results.

python -m pytest -m benchmark tests/benchmarks/test_order.py -s
"""

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import sparse

from benchmarks.comparison import Table
from builders import in_first_order, in_other_order, same
from nmfsync import (
    PairwiseMatches,
    evaluation,
    extract_all,
    load_scene,
    match,
    synchronise,
    synthetic,
)
from nmfsync.scenes.catalogue import scene_names
from nmfsync.study.landmarks import landmark_matches, load_landmarks
from real_data import real_data

pytestmark = pytest.mark.benchmark

Problem = tuple[str, PairwiseMatches, sparse.csr_array]

SAMPLES = 30

# (k, d, rho, sigma) of `synthetic.generate`.
CASES = [
    (30, 20, 0.6, 0.4),
    (20, 20, 0.5, 0.5),
    (20, 20, 0.5, 0.65),
    (20, 20, 0.5, 0.8),
    (10, 20, 0.6, 0.4),
    (5, 20, 0.6, 0.3),
]
HARD = {"spread": 0.5, "outliers": 0.3, "missing": 0.2}


def made_up() -> Iterator[Problem]:
    for seed in range(SAMPLES):
        for case in CASES:
            W, truth, sizes = synthetic.generate(*case, seed=seed)
            yield "k={}, d={}, rho={}, sigma={}".format(*case), PairwiseMatches(W, sizes), truth
        W, truth, sizes = synthetic.hard(15, 20, 0.4, 0.3, seed=seed, **HARD)
        yield "outliers and missing", PairwiseMatches(W, sizes), truth


def real() -> Iterator[Problem]:
    """In Graffiti, the result in the first order stands for the truth."""
    for name in ("house", "hotel"):
        matches, truth = landmark_matches(load_landmarks(name), 30, seed=0)
        yield name, matches, truth.W
    for name in scene_names("graffiti"):
        matches = match(
            extract_all(load_scene(name).paths, 200, progress=False), weighted=True, progress=False
        )
        yield "Graffiti, 200 features", matches, synchronise(matches).W
        matches = matches.unweighted()
        yield "Graffiti, as 0/1", matches, synchronise(matches).W


@pytest.mark.parametrize("problems", [made_up, real])
def test_other_orders(problems):
    real_data("landmarks/house/house_sync_data.mat")
    table = Table(
        "ClusterSync in another order: share of results that change, and their f-score",
        ["n", "changed", "first", "other", "mean |diff|", "worst"],
        40,
    )
    rows: dict[str, list[tuple[bool, float, float]]] = {}
    for name, matches, truth in problems():
        first = synchronise(matches)
        for what in ("images", "features"):
            permuted, order = in_other_order(matches, np.random.default_rng(0), what)
            other = in_first_order(synchronise(permuted), order, matches.sizes)
            scores = [evaluation.f_score(result.W, truth) for result in (first, other)]
            rows.setdefault(f"{name}: {what}", []).append((not same(first.W, other.W), *scores))
    for name, outcomes in rows.items():
        changed, first, other = np.array(outcomes, dtype=float).T
        difference = np.abs(other - first)
        values = changed.mean(), first.mean(), other.mean(), difference.mean(), difference.max()
        table.add(name, len(outcomes), *map(float, values))
        assert difference.mean() < 0.1
    table.write(f"order-{problems.__name__.replace('_', '-')}")
