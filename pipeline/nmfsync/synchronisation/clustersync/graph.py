"""The matches as a graph: features are its nodes, matches its edges."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.runtime.ascending import first_from
from nmfsync.runtime.compiled import compiled
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray, IntArray


class ImagePairs(NamedTuple):
    """The pairs of images that have matches, each in both directions.

    Of other pairs nothing is kept anywhere, so that many images cost no more than
    their matches.

    Attributes
    ----------
    first : (k + 1,) int64 array
        Image i has the pairs first[i] to first[i + 1] - 1 (CSR).
    other : (c,) int32 array
        The other image of every pair, ascending for each image.
    matches : (c,) int64 array
        The number of its matches.
    """

    first: NDArray[np.int64]
    other: NDArray[np.int32]
    matches: IntArray

    @property
    def image(self) -> NDArray[np.int32]:
        """(c,) ints: the image that every pair belongs to."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))


class MatchGraph(NamedTuple):
    """W without its diagonal, as the kernels read it.

    Attributes
    ----------
    first : (m + 1,) int64 array
        Feature p has the entries first[p] to first[p + 1] - 1 (CSR).
    other : (n,) int32 array
        The matched feature of every entry, ascending for each feature.
    weight : (n,) float64 array
        What a match counts. One that is not above 0 holds no features together, but is no
        missing match either.
    image : (m,) int32 array
        The image of every feature.
    offset : (k + 1,) int64 array
        Image i has the features offset[i] to offset[i + 1] - 1.
    pairs : ImagePairs
    """

    first: NDArray[np.int64]
    other: NDArray[np.int32]
    weight: FloatArray
    image: NDArray[np.int32]
    offset: NDArray[np.int64]
    pairs: ImagePairs

    @property
    def feature(self) -> NDArray[np.int32]:
        """(n,) ints: the feature that every entry belongs to."""
        return np.repeat(np.arange(len(self.image), dtype=np.int32), np.diff(self.first))


def build_graph(W: sparse.csr_array, sizes: IntArray) -> MatchGraph:
    """Prepare a match matrix for the kernels.

    Parameters
    ----------
    W : sparse array, shape (m, m)
        Symmetric and non-negative.
    sizes : (k,) int array
        Number of features of every image.
    """
    W = sparse.csr_array(W)
    W = W if W.has_sorted_indices else W.sorted_indices()
    row = np.repeat(np.arange(W.shape[0], dtype=np.int32), np.diff(W.indptr))
    between = (W.indices != row) & (W.data != 0)
    first = _first_where(W.indptr, row, between)
    other = W.indices[between].astype(np.int32, copy=False)
    weight = W.data[between].astype(np.float64, copy=False)
    image = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    offset = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pairs = ImagePairs(*_find_image_pairs(first, other, image, offset))
    return MatchGraph(first, other, weight, image, offset, pairs)


def _first_where(first: AnyArray, row: AnyArray, kept: BoolArray) -> NDArray[np.int64]:
    """Return where every row (m + 1,) begins among the entries (n,) that are kept; mostly all."""
    counts = np.diff(first) - np.bincount(row[~kept], minlength=len(first) - 1)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@compiled
def _find_image_pairs(first, other, image, offset):
    """Return what `ImagePairs` holds."""
    k = len(offset) - 1
    pair_first, seen_from = np.zeros(k + 1, np.int64), np.full(k, -1)
    for i in range(k):
        pair_first[i + 1] = pair_first[i]
        for entry in range(first[offset[i]], first[offset[i + 1]]):
            j = image[other[entry]]
            if seen_from[j] != i:
                seen_from[j] = i
                pair_first[i + 1] += 1
    pair_other, matches = np.empty(pair_first[k], np.int32), np.zeros(pair_first[k], np.int64)
    stop = pair_first[:k].copy()
    # Matches are symmetric: those of i are entered for its others, so that all rows ascend.
    for i in range(k):
        for entry in range(first[offset[i]], first[offset[i + 1]]):
            j = image[other[entry]]
            if stop[j] == pair_first[j] or pair_other[stop[j] - 1] != i:
                pair_other[stop[j]] = i
                stop[j] += 1
            matches[stop[j] - 1] += 1
    return pair_first, pair_other, matches


@compiled
def find_pair(pairs, i, j):
    """Return the number of the pair of images i and j, -1 if they have no matches."""
    stop = pairs.first[i + 1]
    pair = first_from(pairs.other, pairs.first[i], stop, j)
    return pair if pair < stop and pairs.other[pair] == j else -1


@compiled
def of_matches(graph, values):
    """Return for every entry of a graph (n,) the value (c,) of its pair of images."""
    pairs, result = graph.pairs, np.empty(len(graph.other))
    with_image = np.empty(len(graph.offset) - 1)
    for i in range(len(with_image)):
        for pair in range(pairs.first[i], pairs.first[i + 1]):
            with_image[pairs.other[pair]] = values[pair]
        for entry in range(graph.first[graph.offset[i]], graph.first[graph.offset[i + 1]]):
            result[entry] = with_image[graph.image[graph.other[entry]]]
    return result


def matches_where(graph: MatchGraph, kept: BoolArray) -> MatchGraph:
    """Keep some entries (n,) of a graph; of a match, both or none. The pairs of images stay."""
    first = _first_where(graph.first, graph.feature, kept)
    return graph._replace(first=first, other=graph.other[kept], weight=graph.weight[kept])


def connected_parts(graph: MatchGraph, label: IntArray) -> IntArray:
    """Take clusters apart that no match holds together any more.

    Pairs of images that were never matched charge nothing, so that features
    which only came together over a third one would stay.
    """
    return np.asarray(_label_parts(graph, label, 0.0))


@compiled
def _label_parts(graph, label, above):
    """Return (m,) the connected parts, in order of their first features.

    Matches connect features with one label, if they weigh more than `above`.
    """
    m = len(label)
    part, waiting = np.full(m, -1), np.empty(m, np.int64)
    parts = 0
    for p in range(m):
        if part[p] >= 0:
            continue
        part[p], waiting[0] = parts, p
        n = 1
        while n > 0:
            n -= 1
            reached = waiting[n]
            for entry in range(graph.first[reached], graph.first[reached + 1]):
                q = graph.other[entry]
                if part[q] < 0 and label[q] == label[reached] and graph.weight[entry] > above:
                    part[q], waiting[n] = parts, q
                    n += 1
        parts += 1
    return part


def keep_uncontradicted(graph: MatchGraph, label: IntArray) -> IntArray:
    """Put connected features together where nothing contradicts their matches.

    That is, no two of them are in one image, and all of them are matched with each
    other where their images are matched at all.
    """
    m = len(label)
    part = _label_parts(graph, np.zeros(m, np.int64), -np.inf)
    order = np.argsort(part, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(part[order], prepend=-1)), m)
    label = label.copy()
    _keep_uncontradicted(graph, order, ends, label)
    return label


@compiled
def _keep_uncontradicted(graph, order, ends, label):
    """Label the components order[ends[c]] to order[ends[c + 1] - 1] that nothing contradicts."""
    seen_in = np.full(len(graph.offset) - 1, -1)  # c for the images of component c
    for c in range(len(ends) - 1):
        members = order[ends[c] : ends[c + 1]]
        once = True
        for p in members:
            once &= seen_in[graph.image[p]] != c
            seen_in[graph.image[p]] = c
        if once and _all_matched(graph, members, seen_in, c):
            for p in members:
                label[p] = label[members[0]]


@compiled
def _all_matched(graph, members, seen_in, c):
    """Whether every member has matches in all images of c that its image has matches with."""
    pairs = graph.pairs
    for p in members:
        i, possible = graph.image[p], 0
        for pair in range(pairs.first[i], pairs.first[i + 1]):
            possible += seen_in[pairs.other[pair]] == c
        if possible > graph.first[p + 1] - graph.first[p]:
            return False
    return True
