"""The matches of a collection that are synchronised, read row by row from where they lie."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.matching.rows import ROWS, Judged, kept_matches
from nmfsync.runtime.compiled import csr_arrays
from nmfsync.runtime.engine import stream
from nmfsync.synchronisation.clustersync.graph import ImagePairs
from nmfsync.synchronisation.clustersync.parts import Problem, Reader
from nmfsync.synchronisation.numerics.components import components_of, join
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import (
    MultiMatching,
    PairwiseMatches,
    first_compatible,
    strongest_first,
)

# Where the matches of an image lie, and the verdict from which on those of every pair are kept.
_Row = tuple[Judged, NDArray[np.int8]]

# For every image, the number of its first feature, and the places of those that stand for others.
_Numbering = dict[int, tuple[int, NDArray[np.int32] | None]]


class RowMatches:
    """The matches that are synchronised, which lie in the entries of their rows.

    Parameters
    ----------
    rows : sequence of Judged
    least : (n,) int8 array
        For every pair of images, row by row, the verdict from which on its matches are kept.
    sizes : (k,) int64 array
        Number of features of every image.

    Attributes
    ----------
    offsets : (k + 1,) int64 array
        Image i has the features offsets[i] to offsets[i + 1] - 1.
    duplicate_of : (m,) int32 array or None
        See `PairwiseMatches`; if it is set, near-duplicates have no matches.
    verified : bool
    """

    def __init__(self, rows: Sequence[Judged], least: NDArray[np.int8], sizes: IntArray) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.duplicate_of: NDArray[np.int32] | None = None
        self.verified = any(row.verified for row in rows)
        ends = np.cumsum([len(row.others) for row in rows])
        lowest = np.split(least, ends)[: len(rows)]
        self._rows = {row.i: (row, own) for row, own in zip(rows, lowest, strict=True)}

    def part(self, features: NDArray[np.int32]) -> Reader:
        """Return what reads the matches among some features, in any process."""
        images = np.unique(np.searchsorted(self.offsets, features, "right") - 1)
        rows = [self._rows[i] for i in images.tolist() if i in self._rows]
        return partial(read_among, features, rows, self._numbering(rows))

    def _numbering(self, rows: Sequence[_Row]) -> _Numbering:
        """Return the numbers through all images of the features of the images in rows."""
        ends = [np.append(row.others, row.i) for row, _ in rows]
        images = np.unique(np.concatenate([np.empty(0, np.int64), *ends]))
        return {i: self._numbers(i) for i in images.tolist()}

    def _numbers(self, i: int) -> tuple[int, NDArray[np.int32] | None]:
        start, stop = int(self.offsets[i]), int(self.offsets[i + 1])
        if self.duplicate_of is None:
            return start, None
        stands = (self.duplicate_of[start:stop] - start).astype(np.int32)
        return start, None if np.array_equal(stands, np.arange(stop - start)) else stands

    def kept_by(self, tracks: MultiMatching) -> PairwiseMatches:
        """Return the matches that tracks keep, in memory; of near-duplicates, those of all."""
        track, rows = tracks.universe_of_stand_ins, list(self._rows.values())
        each: _Numbering = {i: (int(start), None) for i, start in enumerate(self.offsets[:-1])}
        ends, weights = [np.empty((2, 0), np.int64)], [np.empty(0)]
        for _, _, p, q, probability in _read_rows(rows, each):
            kept = track[p] == track[q]
            ends.append(np.stack([p[kept], q[kept]]))
            weights.append(probability[kept])
        p, q = np.concatenate(ends, axis=1)
        return PairwiseMatches.from_entries(p, q, tracks.sizes, np.concatenate(weights))

    def problem(self) -> Problem:
        """Return the matches with their components, and the pairs of images with matches."""
        m, k = int(self.offsets[-1]), len(self.offsets) - 1
        root, linked = np.arange(m, dtype=np.int32), [np.empty((0, 3), np.int64)]
        rows = list(self._rows.values())
        groups = (rows[n : n + ROWS] for n in range(0, len(rows), ROWS))
        tasks = (((group, self._numbering(group)),) for group in groups)
        for p, q, pairs in stream(links_of, tasks):
            join(root, p, q)
            linked.append(pairs)
        i, j, n = np.concatenate(linked).T
        both = sparse.csr_array(
            (np.tile(n, 2), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(k, k)
        )
        both.sort_indices()
        image_pairs = ImagePairs(*csr_arrays(both), both.data.astype(np.int64))
        return Problem(self, components_of(root), self.offsets, image_pairs)


def _read_rows(
    rows: Sequence[_Row], numbering: _Numbering
) -> Iterator[tuple[int, int, IntArray, IntArray, FloatArray]]:
    """Hand out the matches of rows: both images, both features through all images, probability.

    Those of near-duplicates are those of the features that stand for them, as in
    `PairwiseMatches.contracted`.
    """
    for judged, least in rows:
        for j, ends, probability in kept_matches(judged, least):
            (p, first), (q, second) = (
                _numbered(own, *numbering[n]) for own, n in zip(ends.T, (judged.i, j), strict=True)
            )
            if first or second:
                p, q, probability = strongest_first(p, q, probability, int(q.max()) + 1)
                kept = first_compatible(p, q)
                p, q, probability = p[kept], q[kept], probability[kept]
            yield judged.i, j, p, q, probability


def _numbered(
    own: NDArray[np.int32], start: int, stands: NDArray[np.int32] | None
) -> tuple[IntArray, bool]:
    """Give features of an image their numbers through all images; say if any is a duplicate."""
    counted = own if stands is None else stands[own]
    return start + counted.astype(np.int64), counted is not own and bool((counted != own).any())


def links_of(
    task: tuple[Sequence[_Row], _Numbering],
) -> tuple[IntArray, IntArray, IntArray]:
    """Return links that connect what the matches of rows do, and the matches of every pair."""
    ends, pairs = [np.empty((2, 0), np.int64)], [np.empty((0, 3), np.int64)]
    for i, j, p, q, _ in _read_rows(*task):
        ends.append(np.stack([p, q]))
        pairs.append(np.array([[i, j, len(p)]]))
    both = np.concatenate(ends, axis=1)
    features, places = np.unique(both, return_inverse=True)
    p, q = places.reshape(both.shape)
    graph = sparse.coo_array((np.ones(len(p), np.int8), (p, q)), shape=(len(features),) * 2)
    part = connected_components(graph, directed=False)[1] if len(features) else p
    first = features[np.unique(part, return_index=True)[1]]
    return features, first[part], np.concatenate(pairs)


def read_among(
    features: NDArray[np.int32],
    rows: Sequence[_Row],
    numbering: _Numbering,
) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    """Return the matches among some features, as `parts.Source` says."""
    n, ends, weights = len(features), [np.empty((2, 0), np.int64)], [np.empty(0)]
    for _, _, p, q, probability in _read_rows(rows, numbering):
        ends.append(np.stack([p, q]))
        weights.append(probability)
    both_ends = np.concatenate(ends, axis=1)
    places = np.minimum(np.searchsorted(features, both_ends), n - 1)
    inside = (features[places] == both_ends).all(axis=0)
    (s, t), weight = places[:, inside], np.concatenate(weights)[inside]
    both = sparse.csr_array(
        (np.tile(weight, 2), (np.concatenate([s, t]), np.concatenate([t, s]))), shape=(n, n)
    )
    both.sort_indices()
    return *csr_arrays(both), both.data
