"""Tell right pairs of images from look-alikes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from nmfsync.disambiguation.bridges import bridges, restored
from nmfsync.disambiguation.company import apart_log_odds
from nmfsync.disambiguation.covisibility import incidence, shared_tracks, triplets
from nmfsync.disambiguation.missing import Missing, missing_correspondences
from nmfsync.disambiguation.mixed import mixed
from nmfsync.disambiguation.triplets import beliefs
from nmfsync.disambiguation.unique import Rates, TrackPairs, log_odds, pairs_of_tracks, rates
from nmfsync.disambiguation.views import views_of
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray
from nmfsync.types.matches import ImagePair, MultiMatching, PairwiseMatches, StoredKeypoints
from nmfsync.types.verdicts import PairVerdict

# Share of features in conflict from which a pair contradicts itself, and the change that
# is worth one logarithm of odds. Of similar views of EPFL, sceaux and reichstag, 95 % of
# the pairs have less than .05 and the worst one .18; of the wrong ones of street, 95 % more
# than .11 and half of them more than .2.
_CONFLICT, _CONFLICT_STEP = 0.11, 0.04

# What conflicts say at most: features may also miss where light or season is another. That
# nothing is in conflict says nothing: images may show look-alikes alone.
_AGAINST = 4.0

# Similar views: the median match is nearer than this (in diagonals) to an affinity that
# stretches no more than this. Else surfaces turn away, and features miss in right pairs too.
_PARALLAX, _STRETCH = 0.02, 1.35

_SEEN = -1.0  # log-odds below which a pair is seen to be wrong, whatever triplets say

_PRIOR = 0.3  # log-odds of a pair of which nothing is known: matches passed the verification

# Tracks tell wrong pairs, and wrong pairs tell which tracks are of look-alikes. Further
# rounds find no more wrong pairs of street, and lose right ones that share little.
_ROUNDS = 2

# Before any pair is left out, the log-odds of one pair must come down to the first (.19 of its
# features in conflict, more than in any right pair of similar views above), and those of all
# pairs that contradict themselves add up to the second: a lone pair must be very clear.
_CLEAR, _CLEAR_TOGETHER = -2.0, -4.0


def judge_image_pairs(
    matches: PairwiseMatches, tracks: MultiMatching, keypoints: Sequence[StoredKeypoints]
) -> list[PairVerdict]:
    """Judge every pair of images that has matches.

    A pair is looked at closely only if some pair contradicts itself: both images have
    features, confirmed by others, where the other image should show them, and match
    none in whole places (`missing`), or few that no other image shows in company
    (`company`). Then tracks that wrong pairs share are told from unique ones (`unique`),
    triplets of images have to agree (`triplets`), pairs that match right and wrong at once
    go (`mixed`), and pairs that alone link two groups stay unless they contradict themselves
    (`bridges`). If no pair contradicts itself, all are right.

    The limits were chosen on street, and on simulated streets, temples and two-sided buildings;
    they were checked on EPFL, sceaux, reichstag and the other simulated scenes.
    Given the tracks, the result does not depend on the order of the images.

    Parameters
    ----------
    matches : PairwiseMatches
        Verified ones.
    tracks : MultiMatching
        What synchronising the matches gives.
    keypoints : sequence of StoredKeypoints
        Of every image.

    Returns
    -------
    list of PairVerdict
        In order of i, then j.

    References
    ----------
    Zach, Irschara, Bischof, "What can missing correspondences tell us about 3D structure
    and motion?", CVPR 2008; Zach, Klopschitz, Pollefeys, "Disambiguating visual relations
    using loop constraints", CVPR 2010; Wilson, Snavely, "Network principles for SfM:
    disambiguating repeated structures with local context", ICCV 2013; Heinly, Dunn,
    Frahm, "Correcting for duplicate scene structure in sparse 3D reconstruction", ECCV
    2014; Yan, Yang, Zhang, Xiao, "Distinguishing the indistinguishable: exploring
    structural ambiguities via geodesic context", CVPR 2017.
    """
    image_pairs = list(matches.by_image_pair())
    pairs = np.array([(pair.i, pair.j) for pair in image_pairs], np.int64).reshape(-1, 2)
    shown = incidence(tracks)
    shared, cosines = shared_tracks(shown, pairs)
    missing = _missing(image_pairs, tracks, keypoints)
    found = _judge(len(matches.sizes), pairs, shown, missing, shared * cosines**2)
    alone = bridges(len(matches.sizes), pairs)
    return [
        _verdict(pair, int(shared[n]), float(cosines[n]), missing[n], found, n, bool(alone[n]))
        for n, pair in enumerate(image_pairs)
    ]


def _missing(
    image_pairs: Sequence[ImagePair], tracks: MultiMatching, keypoints: Sequence[StoredKeypoints]
) -> list[Missing | None]:
    views = views_of(tracks, keypoints)
    xy = [np.asarray(image.xy, np.float64) for image in keypoints]
    return [
        missing_correspondences(views[i], views[j], xy[i][rows[:, 0]], xy[j][rows[:, 1]])
        for i, j, rows, _ in image_pairs
    ]


class _Found(NamedTuple):
    """What the whole set says about its pairs; no rates and beliefs if all are right."""

    right: BoolArray
    conflicts: FloatArray  # log-odds
    rates: list[Rates | None] | None
    belief: FloatArray | None


def _judge(
    k: int,
    pairs: IntArray,
    shown: sparse.csr_array,
    missing: Sequence[Missing | None],
    strength: FloatArray,
) -> _Found:
    alike = [m if m is not None and _is_similar(m) else None for m in missing]
    conflicts = np.array([_conflict_log_odds(m) for m in alike])
    apart = apart_log_odds(shown, pairs, alike)
    if not apart.any() and (conflicts.min(initial=0) > _CLEAR or conflicts.sum() > _CLEAR_TOGETHER):
        return _Found(np.ones(len(pairs), bool), conflicts, None, None)
    conflicts = np.minimum(conflicts, apart)
    wrong = seen = (conflicts <= _SEEN).astype(float)
    sides, shares = triplets(shown, pairs)
    for _ in range(_ROUNDS):
        counts = pairs_of_tracks(shown.shape[1], missing, wrong)
        found = _rates(missing, counts, wrong)
        own = conflicts + np.array([0.0 if r is None else log_odds(r) for r in found])
        belief = beliefs(own + _PRIOR, sides, shares)
        wrong = np.maximum(-belief, seen)
    right = belief >= 0
    right &= ~mixed(k, pairs, found, right)
    return _Found(restored(k, pairs, right, own, strength), conflicts, found, belief)


def _rates(
    missing: Sequence[Missing | None], counts: TrackPairs, wrong: FloatArray
) -> list[Rates | None]:
    return [
        None if m is None else rates(m, counts, float(w))
        for m, w in zip(missing, wrong, strict=True)
    ]


def _is_similar(missing: Missing) -> bool:
    """Whether two images are views so similar that features should not miss."""
    return missing.parallax <= _PARALLAX and missing.stretch <= _STRETCH


def _conflict_log_odds(missing: Missing | None) -> float:
    """Log-odds that a pair is right by its conflicts; 0 if it is no pair of similar views."""
    if missing is None or missing.conflict is None:
        return 0.0
    return float(np.clip((_CONFLICT - missing.conflict) / _CONFLICT_STEP, -_AGAINST, 0))


def _verdict(
    pair: ImagePair,
    shared: int,
    cosine: float,
    missing: Missing | None,
    found: _Found,
    n: int,
    bridge: bool,
) -> PairVerdict:
    right = bool(found.right[n])
    of_pair = None if found.rates is None else found.rates[n]
    belief = None if found.belief is None else float(found.belief[n])
    return PairVerdict(
        pair.i,
        pair.j,
        len(pair.rows),
        shared,
        right,
        "" if right else _reason(float(found.conflicts[n]), missing, of_pair, belief or 0.0),
        covisibility=cosine,
        expected=None if missing is None else missing.expected,
        shared=None if missing is None else missing.matched,
        conflict=None if missing is None else missing.conflict,
        unique_expected=None if of_pair is None else of_pair.unique_expected,
        unique_shared=None if of_pair is None else of_pair.unique,
        alike_shared=None if of_pair is None else of_pair.alike,
        belief=belief,
        bridge=bridge,
    )


def _reason(conflicts: float, missing: Missing | None, of_pair: Rates | None, belief: float) -> str:
    """Say what speaks most against a pair."""
    by_unique = 0.0 if of_pair is None else log_odds(of_pair)
    if missing is not None and missing.conflict is not None and conflicts < min(by_unique, 0):
        return (
            f"{missing.conflict:.0%} of the {missing.expected} features expected in both images "
            "are in places where nothing matches"
        )
    if of_pair is not None and by_unique < 0:
        count = round(of_pair.unique * of_pair.unique_expected)
        return (
            f"shares {count} of {of_pair.unique_expected} features of unique tracks expected, but "
            f"{of_pair.alike:.0%} of those that look-alikes have too"
        )
    if of_pair is not None and belief >= 0:
        return (
            f"matches right and wrong at once: shares {of_pair.unique:.0%} of unique tracks, and "
            f"{of_pair.alike:.0%} of those that look-alikes have too"
        )
    return "disagrees with other pairs over triplets of images"
