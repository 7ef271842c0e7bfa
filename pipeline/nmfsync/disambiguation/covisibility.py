"""Which tracks which images share."""

import numpy as np
from scipy import sparse

from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import MultiMatching

# Tracks of a pair of images that are looked up in third images, at most: shares of
# them are exact to two per cent, and the work does not grow with the features.
_SAMPLED_TRACKS = 1000


def incidence(tracks: MultiMatching) -> sparse.csr_array:
    """(k, d) matrix: 1 where an image shows a track that another image shows as well."""
    shape = (len(tracks.sizes), tracks.universe_size)
    used = np.bincount(tracks.universe, minlength=1)[tracks.universe] > 1
    at = (tracks.image_of[used], tracks.universe[used])
    return sparse.csr_array((np.ones(used.sum()), at), shape=shape)


def shared_tracks(shown: sparse.csr_array, pairs: IntArray) -> tuple[IntArray, FloatArray]:
    """Count what pairs (n, 2) share: tracks, and the cosine of the tracks of both images."""
    counts = sparse.csr_array(shown @ shown.T)
    own = counts.diagonal()
    both = np.array([counts[i, j] for i, j in pairs])
    return both.astype(np.int64), both / np.sqrt(np.maximum(own[pairs].prod(axis=1), 1))


def triplets(shown: sparse.csr_array, pairs: IntArray) -> tuple[IntArray, FloatArray]:
    """Find the triplets of images that share tracks, and are all pairs of the list.

    Returns
    -------
    sides : (n, 3) ints
        A pair (i, j) and the pairs (i, k), (j, k): every triplet is there three times.
    shares : (n,) floats
        Of the tracks that i and j share, those that k shows as well.
    """
    k = shown.shape[0]
    number = {(int(i), int(j)): n for n, (i, j) in enumerate(pairs)}
    by_track = sparse.csr_array(shown.T)
    partners = sparse.csr_array((np.ones(len(pairs)), pairs.T), shape=(k, k))
    partners = sparse.csr_array(partners + partners.T)
    sides: list[tuple[int, int, int]] = []
    shares: list[float] = []
    for n, (i, j) in enumerate(pairs):
        tracks = np.intersect1d(_row(shown, i), _row(shown, j))
        if not len(tracks):
            continue
        chosen = tracks[:: -(-len(tracks) // _SAMPLED_TRACKS)]
        seen = np.asarray(by_track[chosen].sum(axis=0)).ravel() / len(chosen)
        for other in np.intersect1d(_row(partners, i), _row(partners, j)):
            if seen[other] > 0:
                first, second = (number[min(a, other), max(a, other)] for a in (i, j))
                sides.append((n, first, second))
                shares.append(seen[other])
    return np.array(sides, np.int64).reshape(-1, 3), np.array(shares)


def _row(matrix: sparse.csr_array, i: int) -> IntArray:
    return np.asarray(matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]])
