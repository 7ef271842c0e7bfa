"""The members of one or two clusters that count for each other: their images have matches."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.synchronisation.clustersync.graph import MatchGraph, find_pair
from nmfsync.types.arrays import FloatArray, IntArray

# Up to so many members every pair of them has an entry, which is faster, and fits into the cache.
DENSE = 256

# Where an image has matches with this many times more images than there are members, its pairs
# with their images are searched; otherwise all of its pairs are read.
FEW = 4


class Places(NamedTuple):
    """Where features are in a list of members; made once for all lists.

    Attributes
    ----------
    of_image : (k, 2) int64 array
        The position of the feature of every image, -1 for none; of the first
        cluster and of the second one.
    of_feature : (m,) int64 array
        The position of every feature, -1 for one that is not in the list.
    pair : (k,) int64 array
        The number of a pair with every image, of the last image that had pairs with it:
        its number says whose it is, so that it is never cleared.
    sees : (k,) int64 array
        p for the images that p has a match in, of the last feature p that marked
        them: true whatever the list, so that it is never cleared.
    """

    of_image: IntArray
    of_feature: IntArray
    pair: IntArray
    sees: IntArray


class Nearby(NamedTuple):
    """For every member s, the members t whose images have matches with that of s.

    Attributes
    ----------
    dense : bool
        Every s has an entry for every t, in order; then `member` is not filled in.
    first : (n + 1,) int64 array
        Member s has the entries from first[s] on.
    stop : (n,) int64 array
        Where its entries end, at first[s + 1] at the latest.
    member : (e,) int32 array
        t, ascending for each s.
    pair : (e,) int32 array
        The number of the pair of images, -1 if they have no matches.
    weight : (e,) float64 array
        Of the match of s and t, NaN for none.
    others : (e,) int8 array
        If there is none, how many of the two have another match in the image of the other.
    """

    dense: bool
    first: IntArray
    stop: IntArray
    member: NDArray[np.int32]
    pair: NDArray[np.int32]
    weight: FloatArray
    others: NDArray[np.int8]


def make_places(graph: MatchGraph) -> Places:
    """Return the `Places` of an empty list."""
    m, k = len(graph.image), len(graph.offset) - 1
    return Places(np.full((k, 2), -1), np.full(m, -1), np.full(k, -1), np.full(k, -1))


@compiled
def find_nearby(graph, members, split, places):
    """Find which members of two clusters count for each other.

    Parameters
    ----------
    graph : MatchGraph
    members : (n,) int64 array
        The features of both clusters.
    split : int
        The number of them in the first one, which come first; n for one cluster.
    places : Places
        Of an empty list, and left so.

    Returns
    -------
    Nearby
    """
    for s in range(len(members)):
        places.of_feature[members[s]] = s
    if len(members) <= DENSE:
        nearby = _compare_all(graph, members, places)
    else:
        nearby = _enter_members(graph, members, split, places)
        _compare_entries(graph, members, nearby, places)
    for p in members:
        places.of_feature[p] = -1
    return nearby


@inlined
def _compare_all(graph, members, places):
    """Return the entries of every two members."""
    match_first, other, image, match_weight = graph.first, graph.other, graph.image, graph.weight
    pairs, pair_first, pair_other = graph.pairs, graph.pairs.first, graph.pairs.other
    of_feature, pair_with, sees = places.of_feature, places.pair, places.sees
    n = len(members)
    first, images = np.empty(n + 1, np.int64), np.empty(n, np.uint32)  # unsigned: read faster
    first[n] = n * n
    for s in range(n):
        first[s], images[s] = s * n, image[members[s]]
    weight, pair = np.full((n, n), np.nan), np.empty((n, n), np.int32)
    others = np.empty((n, n), np.int8)
    for s in range(n):
        p, i = members[s], images[s]
        for entry in range(match_first[p], match_first[p + 1]):
            q = other[entry]
            sees[image[q]] = p
            if of_feature[q] >= 0:
                weight[s, of_feature[q]] = match_weight[entry]
        for t in range(n):
            others[s, t] = sees[images[t]] == p
        start, stop = pair_first[i], pair_first[i + 1]
        if stop - start > FEW * n:
            for t in range(n):
                pair[s, t] = find_pair(pairs, i, image[members[t]])
        else:
            for number in range(start, stop):
                pair_with[pair_other[number]] = number
            for t in range(n):
                number = pair_with[images[t]]
                pair[s, t] = number if start <= number < stop else -1
    for s in range(n):
        for t in range(s):
            others[s, t] += others[t, s]
            others[t, s] = others[s, t]
    numbers = pair.ravel()  # also for `member`, to spare an array
    return Nearby(True, first, first[1:], numbers, numbers, weight.ravel(), others.ravel())


@inlined
def _enter_members(graph, members, split, places):
    """Enter every member t for all others that it counts for, and whether it sees their images."""
    match_first, other, image = graph.first, graph.other, graph.image
    pair_first, pair_other = graph.pairs.first, graph.pairs.other
    of_image, sees = places.of_image, places.sees
    n, clusters = len(members), 1 if split == len(members) else 2
    first = np.zeros(n + 1, np.int64)
    for s in range(n):
        i = image[members[s]]
        of_image[i, 0 if s < split else 1] = s
        # An image has a member of each cluster at most.
        first[s + 1] = first[s] + min(n, clusters * (pair_first[i + 1] - pair_first[i]))
    stop, room = first[:n].copy(), first[n]
    member, pair_of = np.empty(room, np.int32), np.full(room, -1, np.int32)
    others = np.zeros(room, np.int8)
    for t in range(n):  # ascending, so that the entries of every s are
        q = members[t]
        j = image[q]
        for entry in range(match_first[q], match_first[q + 1]):
            sees[image[other[entry]]] = q
        for pair in range(pair_first[j], pair_first[j + 1]):
            i = pair_other[pair]
            for cluster in range(clusters):
                s = of_image[i, cluster]
                if s >= 0:
                    entry = stop[s]
                    member[entry], pair_of[entry], others[entry] = t, pair, sees[i] == q
                    stop[s] = entry + 1
    for p in members:
        of_image[image[p], 0] = of_image[image[p], 1] = -1
    return Nearby(False, first, stop, member, pair_of, np.empty(room), others)


@inlined
def _compare_entries(graph, members, nearby, places):
    """Fill in the matches of every member s, and whether it sees the images of the others."""
    match_first, other, image, match_weight = graph.first, graph.other, graph.image, graph.weight
    first, stop, member = nearby.first, nearby.stop, nearby.member
    others, weights = nearby.others, nearby.weight
    of_feature, sees = places.of_feature, places.sees
    n = len(members)
    weight = np.full(n, np.nan)  # of the matches of s
    for s in range(n):
        p = members[s]
        for entry in range(match_first[p], match_first[p + 1]):
            q = other[entry]
            sees[image[q]] = p
            if of_feature[q] >= 0:
                weight[of_feature[q]] = match_weight[entry]
        for entry in range(first[s], stop[s]):
            t = member[entry]
            others[entry] += sees[image[members[t]]] == p
            weights[entry], weight[t] = weight[t], np.nan
