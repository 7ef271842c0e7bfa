"""Paired differences and their intervals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from compared import figures
from nmfsync import NmfsyncError
from nmfsync.evaluation.differences import METRICS, difference_of, paired_interval

METRIC = {metric.key: metric for metric in METRICS}


@pytest.mark.parametrize("n", [2, 3, 8, 50])
def test_interval_is_that_of_scipy(n):
    rng = np.random.default_rng(n)
    before, after = rng.normal(size=(2, n))
    reference = stats.ttest_rel(after, before).confidence_interval(0.95)
    mean, interval = paired_interval(after - before)
    assert mean == pytest.approx((after - before).mean())
    assert interval == pytest.approx(tuple(reference))


def test_interval_holds_as_often_as_it_says():
    samples = np.random.default_rng(0).normal(0.3, 1, (2000, 5))
    held = [low <= 0.3 <= high for _, (low, high) in map(paired_interval, samples)]
    assert 0.935 < np.mean(held) < 0.965


def test_without_a_spread_there_is_no_interval():
    assert paired_interval([0.25]) == (0.25, None)
    assert paired_interval([0.25, 0.25]) == (0.25, None)
    assert paired_interval([0.0, 0.0]) == (0.0, (0.0, 0.0))
    # Sums in another order are no difference.
    assert paired_interval([0.1 + 0.2 - 0.3, 0.0]) == (0.0, (0.0, 0.0))


@pytest.mark.parametrize("odd", [[], [np.nan, 1], [np.inf]])
def test_differences_must_be_numbers(odd):
    with pytest.raises(NmfsyncError, match="finite numbers"):
        paired_interval(odd)


def sides(key, before, after):
    def make(values):
        return {f"s{n}": replace(figures(), **{key: value}) for n, value in enumerate(values)}

    return make(before), make(after)


def test_ratios_are_averaged_by_their_logarithms():
    found = difference_of(METRIC["seconds"], *sides("seconds", [1, 1, 2], [2, 0.5, 2]))
    assert found.mean == pytest.approx(1)
    assert found.sign == 0
    before, after = [1.0, 2.0, 4.0], [2.1, 3.9, 8.4]
    found = difference_of(METRIC["seconds"], *sides("seconds", before, after))
    logs = stats.ttest_rel(np.log(after), np.log(before)).confidence_interval(0.95)
    assert found.mean == pytest.approx(stats.gmean(np.divide(after, before)))
    assert found.interval == pytest.approx(tuple(np.exp(logs)))
    assert found.sign == 1


def test_a_cost_of_zero_has_no_ratio():
    found = difference_of(METRIC["megabytes"], *sides("peak_memory_mb", [0, 2.0], [1.0, 4.0]))
    assert found.scenes == ("s1",)
    assert found.mean == pytest.approx(2)
    assert (found.interval, found.sign) == (None, 0)
    assert difference_of(METRIC["megabytes"], *sides("peak_memory_mb", [0], [1.0])) is None


def test_an_interval_too_wide_for_a_number():
    found = difference_of(METRIC["seconds"], *sides("seconds", [1e-300, 1e300], [1e300, 1.0]))
    assert found.sign == 0
    assert found.interval == (0.0, np.inf)


def test_only_scenes_where_both_sides_know_a_figure_are_paired():
    before = {"a": figures(0.2), "b": figures(None), "c": figures(0.4), "d": figures(0.5)}
    after = {"c": figures(0.5), "a": figures(0.3), "b": figures(0.9), "e": figures(0.1)}
    found = difference_of(METRIC["fcm"], before, after)
    assert found.scenes == ("a", "c")
    assert (found.before, found.after) == ((0.2, 0.4), (0.3, 0.5))
    assert found.mean == pytest.approx(0.1)
    assert difference_of(METRIC["precision"], {"b": figures(None, None)}, after) is None


def test_sign_only_where_the_interval_excludes_nothing():
    values = [0.5, 0.6, 0.7], [0.4, 0.49, 0.61]
    sure = difference_of(METRIC["estimated_precision"], *sides("estimated_precision", *values))
    assert sure.sign == -1
    unsure = difference_of(METRIC["matches"], *sides("matchings", [5, 5, 5], [6, 5, 7]))
    assert unsure.mean == 1
    assert unsure.sign == 0
