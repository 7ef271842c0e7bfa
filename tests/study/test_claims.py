"""Claims are checked, not believed."""

import numpy as np
import pytest

from nmfsync.study.claims import Comparison, Consistency, Robustness


def points(**methods):
    """Two points, sigma = 1 and sigma = 2, with the given f-scores of every method."""
    values = [
        {name: {"f_score": np.array(both[n]), "cycle_error": np.array(both[n])}
         for name, both in methods.items()}
        for n in (0, 1)
    ]  # fmt: skip
    return [("sigma", 1, values[0]), ("sigma", 2, values[1])]


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        (([0.9, 0.8], [0.5, 0.6]), ([0.7, 0.6], [0.4, 0.5]), "holds"),
        (([0.9, 0.8], [0.5, 0.6]), ([0.7, 0.6], [0.6, 0.7]), "holds in part"),
        (([0.5, 0.4], [0.5, 0.6]), ([0.7, 0.6], [0.5, 0.6]), "does not hold"),
        (([0.5, 0.7], [0.5, 0.6]), ([0.7, 0.5], [0.5, 0.6]), "no difference"),
    ],
)
def test_comparison_counts_points(a, b, outcome):
    verdict = Comparison("a", "b", "f_score", "higher").check(points(a=a, b=b))
    assert verdict.outcome == outcome
    assert verdict.claim == "a has a higher f-score than b"


def test_comparison_says_where_it_fails():
    verdict = Comparison("a", "b", "f_score", "lower").check(
        points(a=([0.1, 0.2], [0.9, 0.8]), b=([0.3, 0.4], [0.5, 0.4]))
    )
    assert str(verdict) == (
        "a has a lower f-score than b: holds in part. Lower at 1 of 2 points, higher at 1, the "
        "rest within two standard errors; on average 0.5 against 0.4. Higher at sigma = 2."
    )


def test_consistency_is_exact():
    none = points(a=([0.0, 0.0], [0.0, 0.0]))
    some = points(a=([0.0, 0.0], [0.0, 1e-9]))
    assert Consistency("a", "is").check(none).outcome == "holds"
    assert Consistency("a", "is").check(some).outcome == "does not hold"


def test_robustness_compares_worst_with_best():
    claim = Robustness("a", "sigma", "f_score")
    assert claim.check(points(a=([1.0, 1.0], [0.9, 0.92]))).outcome == "holds"
    verdict = claim.check(points(a=([1.0, 1.0], [0.8, 0.8])))
    assert verdict.outcome == "does not hold"
    assert "worst 0.800 at 2: 20% less" in verdict.detail
