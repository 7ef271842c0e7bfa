"""Whether other images show together what two images have in the place of each other.

Two photographs of one place may each miss what the other one shows: light, occluders and
viewpoints differ. Then photographs between them show some of both. No photograph shows the
surroundings of two look-alikes: their tracks are never in company.
"""

import numpy as np
from scipy import sparse

from nmfsync.disambiguation.missing import Missing
from nmfsync.types.arrays import FloatArray, IntArray

# Features of either image that contradict the other one, and their share of the expected ones,
# from which a pair is asked. Pairs of two simulated seasons, in which three quarters of the
# features change, have shares of .028 at most; no image shows both seasons.
_LEAST_DEAD, _LEAST_DEAD_SHARE = 5, 0.03

# Company below which a pair is apart. Chosen on data `street` and on simulated streets, temples and
# two-sided buildings.
_APART = 0.06

# Features that are worth one logarithm of odds, and the most that they say: they appear and
# disappear together.
_FEATURES, _AGAINST = 3.0, 4.0

# Before this counts, so many pairs, and this share of all that contradict themselves, must be
# apart, and their log-odds add up to so much: in a scene without look-alikes few are.
_LEAST_PAIRS, _LEAST_SHARE, _TOGETHER = 4, 0.3, -8.0


def apart_log_odds(
    shown: sparse.csr_array, pairs: IntArray, missing: list[Missing | None]
) -> FloatArray:
    """Log-odds that pairs of images are right, by the company of what contradicts them.

    Parameters
    ----------
    shown : (k, d) array
        Which image shows which track.
    pairs : (n, 2) ints
    missing : (n,) list
        Of pairs of similar views; None for others.

    Returns
    -------
    (n,) floats
        0 for pairs that this says nothing of, and for all if too few pairs are apart.
    """
    columns = sparse.csc_array(shown)
    dead = np.array([0 if m is None else min(map(len, m.dead)) for m in missing])
    expected = np.array([0 if m is None else m.expected for m in missing])
    asked = dead >= np.maximum(_LEAST_DEAD, _LEAST_DEAD_SHARE * expected)
    apart = np.zeros(len(pairs), bool)
    for n in np.flatnonzero(asked):
        found = missing[n]
        apart[n] = found is not None and _company(columns, pairs[n], found.dead) < _APART
    odds = np.where(apart, -np.minimum(dead / _FEATURES, _AGAINST), 0.0)
    enough = apart.sum() >= max(_LEAST_PAIRS, _LEAST_SHARE * asked.sum())
    return odds if enough and odds.sum() <= _TOGETHER else np.zeros(len(pairs))


def _company(shown: sparse.csc_array, pair: IntArray, dead: tuple[IntArray, IntArray]) -> float:
    """Share of what other images show of either side's tracks that comes with the other side's.

    0 if no other image shows tracks of both, to 1 if all that show some show as many of either.
    """
    first, second = (np.asarray(shown[:, tracks].sum(axis=1)).ravel() for tracks in dead)
    first[pair] = second[pair] = 0
    return float(np.minimum(first, second).sum() / max(min(first.sum(), second.sum()), 1))
