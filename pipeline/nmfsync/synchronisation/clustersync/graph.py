"""The matches as a graph, and the clusters to start from."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.runtime.compiled import compiled
from nmfsync.runtime.threads import map_blocks
from nmfsync.types.arrays import FloatArray, IntArray


class MatchGraph(NamedTuple):
    """W without its diagonal, as the kernels read it.

    Attributes
    ----------
    first : (m + 1,) int64 array
        Row p has the entries first[p] to first[p + 1] - 1 (CSR).
    other : (nnz,) int32 array
        The matched feature of every entry, ascending in a row.
    weight : (nnz,) float64 array
    image : (m,) int32 array
        The image of every feature.
    offset : (k + 1,) int64 array
        Image i has the features offset[i] to offset[i + 1] - 1.
    """

    first: NDArray[np.int64]
    other: NDArray[np.int32]
    weight: FloatArray
    image: NDArray[np.int32]
    offset: NDArray[np.int64]


class Prices(NamedTuple):
    """What the score charges.

    Attributes
    ----------
    missing : (3,) float64 array
        Price of a pair that is not matched, if neither, one, or both of its
        features have another match in the image of the other.
    image_pair : (k, k) float32 array
        Factor on it for every pair of images; 0 where images were not matched.
    opening : float
        Price of a cluster.
    """

    missing: FloatArray
    image_pair: NDArray[np.float32]
    opening: float


def build_graph(W: sparse.csr_array, sizes: IntArray) -> MatchGraph:
    """Prepare a match matrix for the kernels."""
    m = W.shape[0]
    W = sparse.csr_array(W, copy=True)
    W.sort_indices()
    row = np.repeat(np.arange(m), np.diff(W.indptr))
    between = (W.indices != row) & (W.data != 0)
    first = np.concatenate([[0], np.cumsum(np.bincount(row[between], minlength=m))])
    return MatchGraph(
        first.astype(np.int64),
        W.indices[between].astype(np.int32),
        W.data[between].astype(np.float64),
        np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def support(matches: MatchGraph) -> FloatArray:
    """Share of a feature's matches that agree with a match, for every match p < q; else 0.

    A match p–q is supported by r if p–r and q–r are matches too. The number of
    supporters (by weight, the match itself included) is divided by the smaller
    number of matches of p and q.
    """
    result = np.zeros(len(matches.other))
    map_blocks(lambda rows: _support(matches, rows.start, rows.stop, result), len(matches.image))
    return result


def grow(matches: MatchGraph, priority: FloatArray) -> IntArray:
    """Clusters grown from the matches of highest priority, one feature of an image in each."""
    row = np.repeat(np.arange(len(matches.image), dtype=np.int32), np.diff(matches.first))
    once = np.flatnonzero(row < matches.other)
    once = once[np.argsort(-priority[once], kind="stable")]
    return np.asarray(_grow(row[once], matches.other[once], matches.image, len(matches.offset) - 1))


def connected_parts(matches: MatchGraph, label: IntArray) -> IntArray:
    """Take clusters apart that no match holds together any more.

    Pairs of images that were never matched charge nothing, so that features
    which only came together over a third one would stay.
    """
    m = len(label)
    row = np.repeat(np.arange(m), np.diff(matches.first))
    inside = label[row] == label[matches.other]
    graph = sparse.coo_array(
        (np.ones(inside.sum(), dtype=bool), (row[inside], matches.other[inside])), shape=(m, m)
    )
    _, label = connected_components(graph, directed=False)
    return np.asarray(label, dtype=np.int64)


@compiled
def _support(matches, start, stop, result):
    first, other, weight = matches.first, matches.other, matches.weight
    for p in range(start, stop):
        for entry in range(first[p], first[p + 1]):
            q = other[entry]
            if q < p:
                continue
            total = weight[entry]
            a, b = first[p], first[q]
            while a < first[p + 1] and b < first[q + 1]:
                if other[a] == other[b]:
                    total += min(weight[a], weight[b])
                    a, b = a + 1, b + 1
                elif other[a] < other[b]:
                    a += 1
                else:
                    b += 1
            result[entry] = total / min(first[p + 1] - first[p], first[q + 1] - first[q])


@compiled
def _grow(P, Q, image, k):
    m = len(image)
    label = np.arange(m)
    size = np.ones(m, dtype=np.int64)
    head, tail, after = np.arange(m), np.arange(m), np.full(m, -1)
    mark = np.full(k, -1)
    for entry in range(len(P)):
        a, b = label[P[entry]], label[Q[entry]]
        if a == b:
            continue
        if size[a] < size[b]:
            a, b = b, a
        p = head[b]
        while p >= 0:
            mark[image[p]] = entry
            p = after[p]
        p = head[a]
        while p >= 0 and mark[image[p]] != entry:
            p = after[p]
        if p >= 0:
            continue
        p = head[b]
        while p >= 0:
            label[p] = a
            p = after[p]
        after[tail[a]], tail[a] = head[b], tail[b]
        size[a] += size[b]
    return label
