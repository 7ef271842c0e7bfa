"""Which matches and tracks a page shows where there are too many: the same ones every time."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from nmfsync.types.arrays import BoolArray, IntArray


def water_fill(counts: IntArray, budget: int) -> IntArray:
    """Share a budget among groups so that the smallest share is as large as possible.

    Parameters
    ----------
    counts : (n,) int64 array
        How much every group could take.
    budget : int

    Returns
    -------
    (n,) int64 array
        At most `counts`; the sum is the budget, or all there is.

    Examples
    --------
    >>> water_fill(np.array([2, 90, 5, 80]), 21)
    array([2, 7, 5, 7])
    """
    if counts.sum() <= budget:
        return counts
    levels = range(int(counts.max()) + 1)
    level = bisect_right(levels, budget, key=lambda x: int(np.minimum(counts, x).sum())) - 1
    shares = np.minimum(counts, level)
    larger = np.flatnonzero(counts > level)
    shares[larger[spread(len(larger), budget - int(shares.sum()))]] += 1
    return shares


def spread(n: int, number: int) -> IntArray:
    """Choose a number of the places 0 to n − 1, evenly spread.

    Examples
    --------
    >>> spread(10, 4)
    array([0, 2, 5, 7])
    """
    return np.arange(number) * n // max(number, 1)


def pick_evenly(group: IntArray, shares: IntArray) -> BoolArray:
    """Choose rows so that every group has its share, evenly spread over the group.

    Parameters
    ----------
    group : (n,) int64 array
        The group of every row, ascending.
    shares : (G,) int64 array
        How many rows of every group to choose; at most its number of rows.

    Returns
    -------
    (n,) bool array
    """
    counts = np.bincount(group, minlength=len(shares))
    place, count, share = place_in_group(group), counts[group], shares[group]
    return np.asarray((place + 1) * share // count > place * share // count)


def place_in_group(group: IntArray) -> IntArray:
    """Count the rows of every group from 0; the groups are in ascending order."""
    return np.arange(len(group)) - np.searchsorted(group, group)


def choose_by_turns(
    costs: IntArray, orders: Sequence[IntArray], budget: Sequence[int]
) -> BoolArray:
    """Choose items by several orders, each of which may use the same part of a budget.

    Parameters
    ----------
    costs : (r, n) int64 array
        What every item needs of r resources.
    orders : sequence of (n,) int64 arrays
        The items, the first one the most wanted.
    budget : sequence of int, length r
        How much there is of every resource.

    Returns
    -------
    (n,) bool array
        The chosen items. All of them if the budget is large enough; an item that needs more
        than a part of the budget is left out otherwise.
    """
    budgets = np.asarray(budget)[:, None]
    if np.all(costs.sum(axis=1, keepdims=True) <= budgets):
        return np.ones(costs.shape[1], dtype=bool)
    part = budgets // len(orders)
    chosen = np.any(costs > part, axis=0)
    too_large = chosen.copy()
    for order in orders:
        left = order[~chosen[order]]
        chosen[left[np.all(np.cumsum(costs[:, left], axis=1) <= part, axis=0)]] = True
    return np.asarray(chosen & ~too_large)


def evenly_first(n: int) -> IntArray:
    """Order the places 0 to n − 1 so that every beginning of the order is spread over all.

    Examples
    --------
    >>> evenly_first(8)
    array([0, 4, 2, 6, 1, 5, 3, 7])
    """
    bits = max(n - 1, 1).bit_length()
    reversed_bits = np.zeros(n, dtype=np.int64)
    for bit in range(bits):
        reversed_bits |= ((np.arange(n) >> bit) & 1) << (bits - 1 - bit)
    return np.argsort(reversed_bits)
