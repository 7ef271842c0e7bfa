"""Pairs of images that match right and wrong at once.

Neighbours along a row of look-alikes see a little of one place, and match the rest one house
farther: all of it agrees with one geometry. They share a smaller part of the unique tracks than
of those that look-alikes have, though right neighbours share about as much of either.
"""

from collections.abc import Sequence

import numpy as np

from nmfsync.disambiguation.unique import Rates
from nmfsync.types.arrays import BoolArray, IntArray

# Share of unique tracks by that of the others, in parts of what the best pairs of both images have.
# Chosen on simulated streets; a larger part loses more right pairs than it finds mixed ones.
_MIXED = 0.5

_LEAST_UNIQUE = 8  # expected features of unique tracks, to know their share


def mixed(k: int, pairs: IntArray, found: Sequence[Rates | None], right: BoolArray) -> BoolArray:
    """(n,) bools: whether a pair shares much less of the unique tracks than of the others.

    Parameters
    ----------
    k : int
        Images.
    pairs : (n, 2) ints
    found : (n,) sequence
        What each pair shares.
    right : (n,) bools
        Pairs that are right but for this.
    """
    ratio = np.array([np.nan if r is None else _ratio(r) for r in found])
    best = np.zeros(k)
    known = right & np.isfinite(ratio)
    for end in pairs[known].T:
        np.maximum.at(best, end, ratio[known])
    with np.errstate(invalid="ignore"):  # what is not known is not mixed
        return np.asarray(ratio < _MIXED * best[pairs].min(axis=1))


def _ratio(rates: Rates) -> float:
    known = rates.alike > 0 and rates.unique_expected >= _LEAST_UNIQUE
    return rates.unique / rates.alike if known else np.nan
