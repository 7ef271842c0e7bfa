"""Agreement over triplets of images: no triangle has exactly one wrong side.

If images i and k show one place, and k and j, then what all three share puts i and
j at one place as well (Zach, Klopschitz, Pollefeys, "Disambiguating visual relations
using loop constraints", CVPR 2010, check cycles of poses in the same spirit). So two
right sides speak for the third side, a right and a wrong one against it, and two
wrong ones say nothing. They count by the share of the tracks of i and j that k shows.
"""

import numpy as np

from nmfsync.types.arrays import FloatArray, IntArray

# What all triplets together say at most, as a logarithm of odds: less than missing
# correspondences can, which are seen and not inferred.
_STRENGTH = 1.0

# Weight of triplets, in shares of the pair's tracks, at which they say three quarters of that.
_ENOUGH = 0.9

_ROUNDS = 40  # half-steps: the beliefs change by less than a thousandth after about 20


def beliefs(log_odds: FloatArray, sides: IntArray, shares: FloatArray) -> FloatArray:
    """Spread what is known about pairs of images over triplets.

    Parameters
    ----------
    log_odds : (n,) floats
        For every pair, of being right.
    sides, shares
        As of `covisibility.triplets`.

    Returns
    -------
    (n,) floats
        -1 for pairs that are certainly wrong to 1 for those that are certainly right.
    """
    pair, first, second = sides.T
    n, belief = len(log_odds), np.tanh(log_odds)
    for _ in range(_ROUNDS):
        a, b = belief[first], belief[second]
        votes = shares * np.where((a < 0) & (b < 0), 0, a * b)
        total = np.bincount(pair, np.abs(votes), n) + _ENOUGH / 3
        said = _STRENGTH * np.bincount(pair, votes, n) / total
        belief = (belief + np.tanh(log_odds + said)) / 2
    return np.asarray(belief)
