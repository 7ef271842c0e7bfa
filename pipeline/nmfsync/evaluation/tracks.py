"""The tracks that matches form: how many, how long, and what synchronisation changed.

A track is a connected component of the matches with at least two features and
at most one feature of every image. A component with two features of one image
is inconsistent: at least one of its matches is wrong. Near-duplicates that are
marked count as one feature.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.types.arrays import IntArray
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches

PRODUCTS = 2**24  # entries of a product of sparse matrices at a time


@dataclass(frozen=True)
class TrackCounts:
    """How many of the m features are in a track, thrown away, or without a match.

    Attributes
    ----------
    lengths : (n,) int64 array
        Number of features of every track, ascending.
    lost : int
        Features in inconsistent components.
    alone : int
        Features without a match.
    """

    lengths: IntArray
    lost: int
    alone: int

    def __repr__(self) -> str:
        return (
            f"TrackCounts({len(self.lengths):,} tracks of {self.kept:,} features, "
            f"{self.lost:,} lost, {self.alone:,} alone)"
        )

    @property
    def kept(self) -> int:
        """Number of features in tracks."""
        return int(self.lengths.sum())


@dataclass(frozen=True)
class Change:
    """How matches and tracks differ before and after synchronisation.

    Attributes
    ----------
    images, features : int
    pairs : int
        Pairs of images that had matches before.
    kept, removed, added : int
        Matches that are in both, only before, only after.
    elsewhere : int
        Added matches between images that had no matches before.
    tracks : tuple of TrackCounts
        Before and after.
    inconsistent : tuple of int
        Number of inconsistent components before and after.
    """

    images: int
    features: int
    pairs: int
    kept: int
    removed: int
    added: int
    elsewhere: int
    tracks: tuple[TrackCounts, TrackCounts]
    inconsistent: tuple[int, int]


def track_counts(matches: Matches) -> TrackCounts:
    """Count the tracks of matches.

    The components of pairwise matches are those that union-find makes: it joins
    whatever is connected. Programs for structure from motion throw away an
    inconsistent component as a whole.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching

    Returns
    -------
    TrackCounts
        `lost` is 0 for a MultiMatching.
    """
    features, images = _component_sizes(matches)
    consistent = features == images
    return TrackCounts(
        lengths=np.sort(features[consistent & (features > 1)]),
        lost=int(features[~consistent].sum()),
        alone=int((features == 1).sum()),
    )


def compare(before: PairwiseMatches, after: Matches) -> Change:
    """Compare matches and tracks before and after synchronisation.

    Parameters
    ----------
    before : PairwiseMatches
    after : PairwiseMatches or MultiMatching
        Matches of the same features.

    Returns
    -------
    Change
    """
    k, image_of = len(before.sizes), before.image_of
    old_pairs = np.unique(_image_pairs(before))
    if isinstance(after, MultiMatching):  # without its W: a track of n features has n² matches
        kept = (int(after.keeps(before).sum()) - len(image_of)) // 2
        new = after.match_count - _count_confirmed(after, before)
        elsewhere = after.match_count - _count_between(after, old_pairs)
    else:
        kept = (before.W.astype(bool).multiply(after.W.astype(bool)).nnz - len(image_of)) // 2
        new = after.match_count - kept
        elsewhere = int(np.isin(_image_pairs(after), old_pairs, invert=True).sum())
    return Change(
        images=k,
        features=len(image_of),
        pairs=len(old_pairs),
        kept=kept,
        removed=before.match_count - kept,
        added=new,
        elsewhere=elsewhere,
        tracks=(track_counts(before), track_counts(after)),
        inconsistent=(_count_inconsistent(before), _count_inconsistent(after)),
    )


def _count_confirmed(result: MultiMatching, matches: PairwiseMatches) -> int:
    """Count the matches of a result that others have too, or near-duplicates of its features."""
    W = matches.W.tocoo()
    stands = np.arange(len(result.universe)) if result.duplicate_of is None else result.duplicate_of
    inside = result.keeps(matches)
    p, q = stands[W.row[inside]], stands[W.col[inside]]
    return len(np.unique((p * np.int64(len(stands)) + q)[p < q]))


def _image_pairs(matches: PairwiseMatches) -> IntArray:
    """(n,) ints: i · k + j of the images i < j of every match."""
    above = sparse.triu(matches.W, k=1, format="coo")
    image_of = matches.image_of
    return np.asarray(image_of[above.row] * len(matches.sizes) + image_of[above.col])


def _count_between(result: MultiMatching, pairs: IntArray) -> int:
    """Count the matches of a result between pairs of images, which are given as i · k + j."""
    k, tracks = len(result.sizes), result.U[:, np.bincount(result.universe) > 1]
    # seen[i, t] = 1 if image i sees track t
    member = sparse.csr_array(
        (np.ones(len(result.universe)), (result.image_of, np.arange(len(result.universe)))),
        shape=(k, len(result.universe)),
    )
    seen = (member @ tracks).tocsr()
    # Two images share the tracks that both see: found among those of the image with fewer.
    number = np.diff(seen.indptr)
    i, j = divmod(pairs, k)
    more, fewer = np.where(number[i] < number[j], [j, i], [i, j])
    compared = sparse.csr_array((np.ones(len(pairs)), (more, fewer)), shape=(k, k))
    block = np.cumsum(compared @ number) // PRODUCTS
    cuts = [0, *np.flatnonzero(np.diff(block)) + 1, k]
    shared = (
        (compared[start:stop] @ seen).multiply(seen[start:stop]).sum()
        for start, stop in pairwise(cuts)
    )
    return int(sum(shared))


def _count_inconsistent(matches: Matches) -> int:
    features, images = _component_sizes(matches)
    return int((features > images).sum())


def _component_sizes(matches: Matches) -> tuple[IntArray, IntArray]:
    """Count the features, and the different images, of every connected component: (n,), (n,)."""
    if isinstance(matches, MultiMatching):
        component = matches.universe
    else:
        _, component = connected_components(matches.contracted().W, directed=False)
    counted = np.arange(len(component))
    if matches.duplicate_of is not None:
        counted = np.flatnonzero(matches.duplicate_of == counted)
    component = component[counted]
    features = np.bincount(component, minlength=1)
    return features, count_different(component, matches.image_of[counted], len(features))


def count_different(group: IntArray, value: IntArray, groups: int) -> IntArray:
    """Count the different values in every group: (groups,)."""
    step = int(value.max(initial=0)) + 1
    return np.bincount(np.unique(group * np.int64(step) + value) // step, minlength=groups)
