"""Tracks of matches: how many, how long, and what synchronising changed."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.types.arrays import IntArray
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches


@dataclass(frozen=True)
class TrackCounts:
    """What becomes of the m features: in a track, thrown away, or alone.

    Attributes
    ----------
    lengths : (n,) int array
        Number of features of every consistent track with at least two.
    lost : int
        Features in components that hold two features of one image.
    alone : int
        Features without a match.
    """

    lengths: IntArray
    lost: int
    alone: int

    @property
    def kept(self) -> int:
        """Features in consistent tracks."""
        return int(self.lengths.sum())


def track_counts(matches: Matches) -> TrackCounts:
    """Count the tracks of a result, or those that union-find makes of pairwise matches.

    Union-find joins whatever is connected. A component that then holds two
    features of one image contradicts itself; reconstruction programs throw it
    away as a whole.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching

    Returns
    -------
    TrackCounts
        `lost` is 0 for a cycle-consistent result.
    """
    if isinstance(matches, MultiMatching):
        label = matches.universe
    else:
        _, label = connected_components(matches.W, directed=False)
    k = len(matches.sizes)
    size = np.bincount(label, minlength=1)
    views = np.bincount(np.unique(label * np.int64(k) + matches.image_of) // k, minlength=len(size))
    consistent = size == views
    return TrackCounts(
        lengths=np.sort(size[consistent & (size > 1)]),
        lost=int(size[~consistent].sum()),
        alone=int((size == 1).sum()),
    )


@dataclass(frozen=True)
class Change:
    """What became of matches and tracks.

    Tracks are the connected components of the matches with at least two
    features; one that holds two features of an image is inconsistent, and does
    not count as a track.

    Attributes
    ----------
    images, features : int
    pairs : int
        Pairs of images that had matches.
    kept, removed, added : int
        Matches that are in both, only before, only after.
    elsewhere : int
        How many of those added are between images that had no matches.
    tracks : tuple of TrackCounts
        Before and after.
    inconsistent : tuple of int
        Number of inconsistent tracks before and after.
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


def compare(before: PairwiseMatches, after: Matches) -> Change:
    """Say what became of matches and tracks.

    Parameters
    ----------
    before : PairwiseMatches
    after : PairwiseMatches or MultiMatching
        Of the same images.

    Returns
    -------
    Change
    """
    k, image_of = len(before.sizes), before.image_of
    was = sparse.triu(before.W.astype(bool), k=1, format="csr")
    now = sparse.triu(after.W.astype(bool), k=1, format="csr")
    kept = int(was.multiply(now).nnz)
    matched, pairs = (image_of[W.row] * k + image_of[W.col] for W in (was.tocoo(), now.tocoo()))
    return Change(
        images=k,
        features=len(image_of),
        pairs=len(np.unique(matched)),
        kept=kept,
        removed=was.nnz - kept,
        added=now.nnz - kept,
        elsewhere=int(np.isin(pairs, matched, invert=True).sum()),
        tracks=(track_counts(before), track_counts(after)),
        inconsistent=(_inconsistent(before), _inconsistent(after)),
    )


def _inconsistent(matches: Matches) -> int:
    """Count the components that hold two features of one image."""
    if isinstance(matches, MultiMatching):
        return 0
    number, label = connected_components(matches.W, directed=False)
    k = len(matches.sizes)
    images = np.bincount(np.unique(label * np.int64(k) + matches.image_of) // k, minlength=number)
    return int((np.bincount(label, minlength=number) > images).sum())
