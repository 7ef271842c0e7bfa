"""Unique tracks: those that no wrong pair of images shares.

A track that images of two places share is of a structure that both have. Two images
of one place share the other tracks as well, at about the same rate, however
different their viewpoints and light are; images of look-alikes share none of these
(Yan, Yang, Zhang, Xiao, "Distinguishing the indistinguishable: exploring structural
ambiguities via geodesic context", CVPR 2017; Wilson, Snavely, "Network principles
for SfM", ICCV 2013).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmfsync.disambiguation.missing import Missing
from nmfsync.types.arrays import FloatArray

# A track is of look-alikes if more than this share of its pairs of images is wrong: one wrong
# pair in a right track of eight images does no harm. Chosen on street and simulated streets.
_WRONG_PAIRS = 0.04

# Rate of unique tracks, relative to the others, that right and wrong pairs share.
# Right ones are at .3 to 1 with neighbours on street and at .06 at worst, wrong
# ones below .01 once all wrong pairs are known, and below .1 before.
_RIGHT, _WRONG = 0.35, 0.03

# Features of one place appear and disappear together: so many of them are one observation.
_TOGETHER = 0.3

_CERTAIN = 3.0  # the most that this says, as a logarithm of odds

# A pair that shares tracks of look-alikes, and no place for as many unique ones as this, may be
# of any of these: less likely right than wrong, unless triplets say so.
_FEW, _ALIKE_ALONE = 3, -0.6

# Features of look-alikes that are needed to know at what rate they are shared.
_LEAST_FEATURES = 10


class TrackPairs(NamedTuple):
    """Pairs of images with matches that show each track: all, and the wrong ones (weighted)."""

    all: FloatArray
    wrong: FloatArray


def pairs_of_tracks(
    tracks: int, missing: Sequence[Missing | None], wrong: FloatArray
) -> TrackPairs:
    """Count the pairs of images of every track.

    Parameters
    ----------
    tracks : int
        How many there are.
    missing : (n,) sequence
        Pairs of images.
    wrong : (n,) floats
        0 for right pairs to 1 for wrong ones.
    """
    counts = TrackPairs(np.zeros(tracks), np.zeros(tracks))
    for pair, weight in zip(missing, wrong, strict=True):
        if pair is not None:
            for side in pair.sides:
                shared = side.view.tracks[side.shared]
                counts.all[shared] += 0.5
                counts.wrong[shared] += 0.5 * weight
    return counts


class Rates(NamedTuple):
    """How much of what a pair of images should share it shares.

    Attributes
    ----------
    unique, alike : float
        Shares of the features in unique tracks, and in those of look-alikes.
    unique_expected, alike_expected : int
        Numbers of these features.
    """

    unique: float
    alike: float
    unique_expected: int
    alike_expected: int


def rates(missing: Missing, counts: TrackPairs, wrong: float) -> Rates:
    """Compare unique tracks with those of look-alikes; the pair's own part in these left out."""
    parts = []
    for side in missing.sides:
        tracks, shared = side.view.tracks[side.expected], side.shared[side.expected]
        others = np.maximum(counts.all[tracks] - shared, 1)
        alike = (counts.wrong[tracks] - wrong * shared) / others > _WRONG_PAIRS
        parts.append(
            [(shared & kind).sum() / max(kind.sum(), 1) for kind in (~alike, alike)]
            + [kind.sum() for kind in (~alike, alike)]
        )
    (u1, a1, m1, n1), (u2, a2, m2, n2) = parts
    return Rates(float(max(u1, u2)), float(max(a1, a2)), int(min(m1, m2)), int(min(n1, n2)))


def log_odds(rates: Rates) -> float:
    """Logarithm of the odds that the pair is right: of two Poisson distributions."""
    if rates.alike_expected < _LEAST_FEATURES:
        return 0.0
    expected = rates.alike * rates.unique_expected
    found = rates.unique * rates.unique_expected
    if max(expected, found) < _FEW:
        return _ALIKE_ALONE
    odds = found * np.log(_RIGHT / _WRONG) - expected * (_RIGHT - _WRONG)
    return float(np.clip(_TOGETHER * odds, -_CERTAIN, _CERTAIN))
