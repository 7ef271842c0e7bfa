"""What a clustering says about matches: the counts that prices are learnt from.

Plain versions of both are in tests/synchronisation/clustersync/test_prices.py.
"""

import numpy as np

from nmfsync.runtime.compiled import compiled
from nmfsync.synchronisation.clustersync.graph import MatchGraph
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray

# How a feature stands to one in another image. Two that are not matched have 0 or 1 each, which
# add up to the kind of the missing pair.
SEES = 1  # has another match in its image
MATCHED = 2


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
    size = np.bincount(label, minlength=len(label))
    return np.asarray(_count_confirmations(graph, label, size, *_members_by_cluster(label)))


def count_pairs_within(
    graph: MatchGraph, label: IntArray, compared: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Count the pairs of features inside clusters.

    Parameters
    ----------
    graph : MatchGraph
    label : (m,) int64 array
    compared : (k, k) bool array
        Pairs of images with any match.

    Returns
    -------
    pairs, matched : (k, k) float64 arrays
        The number of pairs, and of those that are matched, by their images.
    missing : (3,) float64 array
        The number of pairs that are not, in images that are compared, by how
        many of the two features have another match in the image of the other.
    """
    pairs, matched, missing = _count_pairs_within(graph, compared, *_members_by_cluster(label))
    return pairs, matched, missing


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
def _count_pairs_within(graph, compared, order, begins):
    image = graph.image
    m, k = len(image), len(graph.offset) - 1
    pairs, matched, missing = np.zeros((k, k)), np.zeros((k, k)), np.zeros(3)
    matched_with, sees = np.full(m, -1), np.full(k, -1)  # p, for the matches and images of p
    for cluster in range(len(begins) - 1):
        members = order[begins[cluster] : begins[cluster + 1]]
        n = len(members)
        if n == 1:
            continue
        relation = np.zeros((n, n), dtype=np.int8)
        for s in range(n):
            p = members[s]
            for entry in range(graph.first[p], graph.first[p + 1]):
                q = graph.other[entry]
                matched_with[q], sees[image[q]] = p, p
            for t in range(n):
                q = members[t]
                if matched_with[q] == p:
                    relation[s, t] = MATCHED
                elif sees[image[q]] == p:
                    relation[s, t] = SEES
        for s in range(n):
            for t in range(n):
                if s != t:
                    i, j = image[members[s]], image[members[t]]
                    pairs[i, j] += 1
                    if relation[s, t] == MATCHED:
                        matched[i, j] += 1
                    elif s < t and compared[i, j]:
                        missing[relation[s, t] + relation[t, s]] += 1
    return pairs, matched, missing
