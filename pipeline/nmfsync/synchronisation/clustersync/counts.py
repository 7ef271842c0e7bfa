"""What a clustering says about matches: the counts that prices are learnt from.

Plain versions of both are in tests/synchronisation/clustersync/test_prices.py.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

from nmfsync.runtime.compiled import compiled
from nmfsync.runtime.threads import block_length, map_blocks
from nmfsync.synchronisation.clustersync.graph import MatchGraph
from nmfsync.synchronisation.clustersync.nearby import find_nearby, make_places
from nmfsync.types.arrays import FloatArray, IntArray

# Of clusters, for threads: few, because each needs arrays for all features.
BLOCKS = 4
LEAST_BLOCK = 2**10


def count_confirmations(graph: MatchGraph, label: IntArray) -> FloatArray:
    """Count how many matches are confirmed by others, inside clusters and between them.

    A match between the clusters a and b (or inside one) is confirmed by every
    other match between the two; it could be by every other pair of features.

    Parameters
    ----------
    graph : MatchGraph
    label : (m,) int64 array
        Numbers below m.

    Returns
    -------
    (2, 2) float64 array
        Confirmed and possible, summed over all matches; the first row inside
        clusters, the second between them, where every match counts from both ends.
    """
    order, begins = _members_by_cluster(label)
    size = np.bincount(label, minlength=len(label))

    def count(part: slice) -> FloatArray:
        begins_here = begins[part.start : part.stop + 1]
        return np.asarray(_count_confirmations(graph, label, size, order, begins_here))

    return _sum_of_blocks(count, len(begins) - 1, BLOCKS)


def count_pairs_within(
    graph: MatchGraph, label: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Count the pairs of features inside clusters, in images that have matches.

    Parameters
    ----------
    graph : MatchGraph
    label : (m,) int64 array

    Returns
    -------
    pairs, matched : (c,) float64 arrays
        The number of pairs, and of those that are matched, by pair of images.
    missing : (3,) float64 array
        The number of pairs that are not, by how many of the two features have
        another match in the image of the other.
    """
    order, begins = _members_by_cluster(label)
    c = len(graph.pairs.other)

    def count(part: slice) -> FloatArray:
        begins_here = begins[part.start : part.stop + 1]
        return np.concatenate(_count_pairs_within(graph, order, begins_here, make_places(graph)))

    # Every block counts for all pairs of images: no more of them than the matches have room for.
    counts = _sum_of_blocks(count, len(begins) - 1, min(BLOCKS, len(graph.other) // max(c, 1)))
    return counts[:c], counts[c : 2 * c], counts[2 * c :]


def _sum_of_blocks(count: Callable[[slice], FloatArray], length: int, blocks: int) -> FloatArray:
    """Sum up what is counted in blocks of clusters; whole and half numbers, so exactly."""
    block = block_length(length, max(blocks, 1), LEAST_BLOCK)
    return np.asarray(reduce(np.add, map_blocks(count, length, block)))


def _members_by_cluster(label: IntArray) -> tuple[IntArray, IntArray]:
    """Return the features cluster by cluster, and where each begins (and the last one ends)."""
    order = np.argsort(label, kind="stable")
    begins = np.flatnonzero(np.diff(label[order], prepend=-1))
    return order, np.append(begins, len(label))


@compiled
def _count_confirmations(graph, label, size, order, begins):
    m = len(label)
    counts = np.zeros((2, 2))
    shared, neighbours = np.zeros(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    for cluster in range(len(begins) - 1):
        members = order[begins[cluster] : begins[cluster + 1]]
        a, n = label[members[0]], 0
        for p in members:
            for entry in range(graph.first[p], graph.first[p + 1]):
                b = label[graph.other[entry]]
                if shared[b] == 0:
                    neighbours[n] = b
                    n += 1
                shared[b] += 1
        for b in neighbours[:n]:
            if a == b:  # every match was met at both ends
                row, matches, pairs = 0, shared[b] / 2, size[a] * (size[a] - 1) / 2
            else:
                row, matches, pairs = 1, float(shared[b]), float(size[a] * size[b])
            counts[row, 0] += matches * (matches - 1)
            counts[row, 1] += matches * (pairs - 1)
            shared[b] = 0
    return counts


@compiled
def _count_pairs_within(graph, order, begins, places):
    c = len(graph.pairs.other)
    pairs, matched, missing = np.zeros(c), np.zeros(c), np.zeros(3)
    for cluster in range(len(begins) - 1):
        members = order[begins[cluster] : begins[cluster + 1]]
        n = len(members)
        if n == 1:
            continue
        nearby = find_nearby(graph, members, n, places)
        for s in range(n):
            for entry in range(nearby.first[s], nearby.stop[s]):
                if nearby.pair[entry] < 0:
                    continue
                pairs[nearby.pair[entry]] += 1
                if not np.isnan(nearby.weight[entry]):
                    matched[nearby.pair[entry]] += 1
                else:
                    missing[nearby.others[entry]] += 0.5  # it is met at both ends
    return pairs, matched, missing
