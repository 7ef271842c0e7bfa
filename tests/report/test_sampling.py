"""What a page leaves out where there is too much."""

import numpy as np
import pytest

from nmfsync.report.sampling import choose_by_turns, evenly_first, pick_evenly, spread, water_fill


@pytest.mark.parametrize("budget", [0, 1, 7, 40, 99, 1000])
def test_shares_use_the_budget_and_are_level(budget):
    counts = np.random.default_rng(0).integers(0, 12, 17)
    shares = water_fill(counts, budget)
    assert shares.sum() == min(budget, counts.sum())
    assert (shares <= counts).all()
    assert (shares[shares < counts] >= shares.max() - 1).all()


def test_every_group_gets_its_share_from_all_of_its_parts():
    group = np.repeat([0, 2, 3], [10, 4, 7])
    chosen = pick_evenly(group, np.array([2, 0, 4, 0]))
    assert np.bincount(group[chosen], minlength=4).tolist() == [2, 0, 4, 0]
    assert np.flatnonzero(chosen[:10]).tolist() == [4, 9]


def test_places_are_different_and_spread():
    assert spread(7, 7).tolist() == list(range(7))
    assert spread(5, 0).tolist() == []
    assert np.diff(spread(100, 9)).tolist() == [11] * 8


@pytest.mark.parametrize("n", [0, 1, 2, 13, 64])
def test_an_order_that_is_spread_names_every_place_once(n):
    order = evenly_first(n)
    assert sorted(order.tolist()) == list(range(n))
    if n == 64:
        assert sorted(order[:8].tolist()) == list(range(0, 64, 8))


def test_all_items_are_chosen_if_the_budget_allows():
    costs = np.array([[2, 3, 4], [1, 1, 1]])
    assert choose_by_turns(costs, [np.arange(3)] * 2, [9, 3]).all()


def test_every_order_uses_its_part_of_the_budget():
    costs = np.full((1, 10), 2)
    up, down = np.arange(10), np.arange(10)[::-1]
    assert np.flatnonzero(choose_by_turns(costs, [up, down], [8])).tolist() == [0, 1, 8, 9]
    # What the first one took does not count for the second one.
    assert np.flatnonzero(choose_by_turns(costs, [up, up], [8])).tolist() == [0, 1, 2, 3]


def test_an_item_that_is_too_large_does_not_block_the_others():
    costs = np.array([[50, 1, 1]])
    order = np.arange(3)
    assert choose_by_turns(costs, [order], [10]).tolist() == [False, True, True]
