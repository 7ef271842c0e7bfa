"""The order of images and features: what it may change, and what not.

How much it changes on more problems is measured in `tests/benchmarks/test_order.py`.
"""

import numpy as np
import pytest

from builders import in_first_order, in_other_order, same
from nmfsync import PairwiseMatches, evaluation, synchronise, synthetic


@pytest.mark.parametrize("what", ["images", "features"])
@pytest.mark.parametrize("seed", range(4))
def test_order_changes_only_numbers_where_the_matches_are_clear(what, seed):
    """With 40 % of the rows of every block shuffled."""
    W, truth, sizes = synthetic.generate(k=30, d=20, rho=0.6, sigma=0.4, seed=seed)
    matches = PairwiseMatches(W, sizes)
    permuted, order = in_other_order(matches, np.random.default_rng(seed), what)
    first, other = synchronise(matches), synchronise(permuted)
    assert same(in_first_order(other, order, sizes).W, first.W)
    assert same(first.W, truth)


@pytest.mark.parametrize(
    ("what", "mean", "worst"), [("images", 0.03, 0.12), ("features", 0.02, 0.1)]
)
def test_order_changes_little_where_they_are_not(what, mean, worst):
    """With 65 %: results are other local optima, and as good."""
    differences = []
    for seed in range(10):
        W, truth, sizes = synthetic.generate(k=20, d=20, rho=0.5, sigma=0.65, seed=seed)
        matches = PairwiseMatches(W, sizes)
        permuted, order = in_other_order(matches, np.random.default_rng(seed), what)
        other = in_first_order(synchronise(permuted), order, sizes)
        first = synchronise(matches)
        scores = [evaluation.f_score(result.W, truth) for result in (first, other)]
        differences.append(abs(scores[1] - scores[0]))
    assert np.mean(differences) < mean
    assert max(differences) < worst
