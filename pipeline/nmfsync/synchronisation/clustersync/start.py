"""The clustering that the search starts from: grown along the matches with most support.

Plain versions of both steps are in tests/synchronisation/clustersync/test_start.py.
"""

import numpy as np

from nmfsync.runtime.ascending import next_common
from nmfsync.runtime.compiled import compiled
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.clustersync.graph import MatchGraph
from nmfsync.types.arrays import FloatArray, IntArray


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
    once = np.flatnonzero((p < q) & (graph.weight > 0))
    once = once[np.argsort(-priority[once], kind="stable")]
    return np.asarray(_grow(p[once], q[once], graph.image, graph.offset), dtype=np.int64)


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
def _grow(P, Q, image, offset):
    """Join the clusters of P[n] and Q[n], for n = 0, 1, …, where no image is in both."""
    m, k = len(image), len(offset) - 1
    # They are read all over the place: half as many bytes are faster.
    label, size = np.arange(m).astype(np.int32), np.ones(m, np.int32)
    # The members of every cluster in a linked list: lists are only ever joined.
    head, tail, after = label.copy(), label.copy(), np.full(m, -1, np.int32)
    beside = np.empty(m, np.int64)  # the features of all images in a cluster
    for p in range(m):
        beside[p] = offset[image[p] + 1] - offset[image[p]]
    seen_for = np.full(k, -1)  # n for the images of the smaller cluster of match n
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
    return label


@compiled
def _first_beside(a, p, after, label, image, offset):
    """Return a feature of cluster a in an image of the cluster that begins with p, -1 for none."""
    while p >= 0:
        for q in range(offset[image[p]], offset[image[p] + 1]):
            if label[q] == a:
                return q
        p = after[p]
    return -1
