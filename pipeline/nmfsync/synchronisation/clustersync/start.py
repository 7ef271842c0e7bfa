"""The clustering that the search starts from: grown along the matches with most support.

Plain versions of both steps are in tests/synchronisation/clustersync/test_start.py.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.ascending import next_common
from nmfsync.runtime.compiled import compiled
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.clustersync.graph import MatchGraph
from nmfsync.types.arrays import FloatArray, IntArray

# Matches are sorted and joined piece by piece: the best of those that are left, and all that are
# as good. Meanwhile most others have come into one cluster, and are left out (filter-Kruskal:
# Osipov, Sanders, Singler 2009).
PIECE = 0.3
LEAST_PIECE = 2**16  # matches


class _Growing(NamedTuple):
    """Clusters that are joined. All (m,) arrays.

    Attributes
    ----------
    label : int32 array
        The cluster of every feature.
    size : int32 array
        The number of members of every cluster.
    head, tail, after : int32 arrays
        The members in a linked list, -1 after the last one: lists are only ever joined.
    beside : int64 array
        The number of features of all images in a cluster.
    """

    label: NDArray[np.int32]  # read all over the place: half as many bytes are faster
    size: NDArray[np.int32]
    head: NDArray[np.int32]
    tail: NDArray[np.int32]
    after: NDArray[np.int32]
    beside: IntArray


def support(graph: MatchGraph) -> FloatArray:
    """Share of a feature's matches that agree with a match, for every match p < q; else 0.

    A match p–q is supported by r if p–r and q–r are matches too. The number of
    supporters (by weight, the match itself included) is divided by the smaller
    number of matches of p and q.
    """
    result = np.zeros(len(graph.other))
    map_blocks(lambda rows: _support(graph, rows.start, rows.stop, result), len(graph.image))
    return result


def grow(graph: MatchGraph, priority: FloatArray) -> IntArray:
    """Join clusters along the matches of positive weight, those of highest priority first.

    Every feature begins as a cluster. Two clusters stay apart if they have
    features of one image.

    Parameters
    ----------
    graph : MatchGraph
    priority : (n,) float64 array
        Of every entry p–q with p < q; others are not read. The first of equal
        ones comes first.

    Returns
    -------
    (m,) int64 array
        The cluster of every feature, a number below m.
    """
    p, q = graph.feature, graph.other
    growing = _all_alone(graph)
    left = np.flatnonzero((p < q) & (graph.weight > 0))
    while len(left):
        values = priority[left]
        best = values >= _least_of_piece(values)
        piece = left[best][np.argsort(-values[best], kind="stable")]
        seen_for = np.full(len(graph.offset) - 1, -1)
        _grow(p[piece], q[piece], growing, graph.image, graph.offset, seen_for)
        left = left[~best]
        left = left[growing.label[p[left]] != growing.label[q[left]]]
    return growing.label.astype(np.int64)


def _all_alone(graph: MatchGraph) -> _Growing:
    m = len(graph.image)
    alone, size = np.arange(m, dtype=np.int32), np.diff(graph.offset)
    nobody = np.full(m, -1, np.int32)
    ones = np.ones(m, np.int32)
    return _Growing(alone, ones, alone.copy(), alone.copy(), nobody, size[graph.image])


def _least_of_piece(values: FloatArray) -> float:
    """Return the least priority of the matches that are joined next."""
    if len(values) < LEAST_PIECE:
        return -np.inf
    nth = int(len(values) * (1 - PIECE))
    return float(np.partition(values, nth)[nth])


@compiled
def _support(graph, start, stop, result):
    """Fill in the support of the entries of features `start` to `stop` - 1."""
    first, other, weight = graph.first, graph.other, graph.weight
    for p in range(start, stop):
        for entry in range(first[p], first[p + 1]):
            q = other[entry]
            if q < p:
                continue
            # support = (w_pq + Σ_r min(w_pr, w_qr)) / min(number of matches of p, of q)
            total = weight[entry]
            e, f = first[p], first[q]  # both lists of matches ascend
            while True:
                e, f = next_common(other, e, first[p + 1], f, first[q + 1])
                if e == first[p + 1] or f == first[q + 1]:
                    break
                total += min(weight[e], weight[f])
                e, f = e + 1, f + 1
            result[entry] = total / min(first[p + 1] - first[p], first[q + 1] - first[q])


@compiled
def _grow(P, Q, growing, image, offset, seen_for):
    """Join the clusters of P[n] and Q[n], for n = 0, 1, …, where no image is in both.

    Notes n for the images of the smaller cluster of match n in `seen_for`.
    """
    label, size, head, tail, after, beside = growing
    for n in range(len(P)):
        a, b = label[P[n]], label[Q[n]]
        if a == b:
            continue
        if size[a] < size[b]:
            a, b = b, a
        if beside[b] < size[a]:
            p = _first_beside(a, head[b], after, label, image, offset)
        else:
            p = head[b]
            while p >= 0:
                seen_for[image[p]] = n
                p = after[p]
            p = head[a]
            while p >= 0 and seen_for[image[p]] != n:
                p = after[p]
        if p >= 0:  # the image of p is in both
            continue
        p = head[b]
        while p >= 0:
            label[p] = a
            p = after[p]
        after[tail[a]], tail[a] = head[b], tail[b]
        size[a] += size[b]
        beside[a] += beside[b]


@compiled
def _first_beside(a, p, after, label, image, offset):
    """Return a feature of cluster a in an image of the cluster that begins with p, -1 for none."""
    while p >= 0:
        for q in range(offset[image[p]], offset[image[p] + 1]):
            if label[q] == a:
                return q
        p = after[p]
    return -1
