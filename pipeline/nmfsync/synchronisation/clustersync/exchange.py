"""The second move: two clusters exchange features.

Merging two clusters, splitting one, and swapping some features are special cases.
"""

from typing import NamedTuple

import numpy as np

from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.runtime.threads import block_length, map_blocks
from nmfsync.synchronisation.clustersync.division import divide_anew
from nmfsync.synchronisation.clustersync.graph import MatchGraph
from nmfsync.synchronisation.clustersync.members import add_member, list_members, remove_member
from nmfsync.synchronisation.clustersync.nearby import Places, make_places
from nmfsync.synchronisation.clustersync.prices import Prices
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray

# Reward between two clusters that see an image in common, for each feature of the smaller one, to
# try an exchange. Trying all doubles the time of a search and raises the score by some hundredths
# of a per cent. Clusters that may be merged are tried in any case: where few pairs of images are
# matched, one match can be enough.
LEAST_REWARD = 0.5

# Where features of two clusters have one match, these two chose in the first move already.
LEAST_MATCHES = 2

# A cluster that is this many times as large as another one is not read to compare their images.
FAR_LARGER = 8

# Features, for tries on threads to be worth the second pass; and into how many blocks they go, few
# because each needs buffers for all features: with 16, a chain of 100,000 images took half as long
# again.
LARGE = 2**14
BLOCKS = 4

LEAST_MEMBERS = 3  # of a cluster to be divided: a pair was divided by the first move


class _Buffers(NamedTuple):
    """Made once for all pairs of clusters.

    Attributes
    ----------
    matches : (m,) int64 array
        The number of matches between the present cluster and every other, while
        they are counted; then 0.
    reward : (m,) float64 array
        Their reward; then 0.
    neighbours : (m,) int64 array
        The clusters that the present one may exchange features with, in its
        first entries.
    number : (m,) int64 array
        The number of matches with each of these.
    shared : (m,) float64 array
        The reward of these matches.
    overlaps : (m,) int64 array
        The number of the last marking that marked the image of a feature in each cluster
        with which a match was found.
    members : (2k,) int64 array
        The features of two clusters, in its first entries.
    seen_in : (k,) int64 array
        The number of the last marking of the images of a cluster that marked each.
    marking : (1,) int64 array
        The number of the last one.
    """

    matches: IntArray
    reward: FloatArray
    neighbours: IntArray
    number: IntArray
    shared: FloatArray
    overlaps: IntArray
    members: IntArray
    seen_in: IntArray
    marking: IntArray


def exchange_between_clusters(
    graph: MatchGraph, prices: Prices, label: IntArray, changed: BoolArray
) -> BoolArray:
    """Let every two clusters that share matches exchange features; try to split each.

    Most tries find nothing better. In large problems, threads make all of them with the clusters
    as they are, and only those that found something are made again, one after the other, and
    those that this changes.

    Parameters
    ----------
    graph : MatchGraph
    prices : Prices
    label : (m,) int64 array
        Changed in place.
    changed : (m,) bool array
        Clusters that changed before: one of two has to be among them.

    Returns
    -------
    (m,) bool array
        Clusters that lost or won a feature.
    """
    due = changed.copy() if changed.all() else _find_near(graph, label, changed)
    if len(label) >= LARGE:
        clusters = list_members(label)
        tried, due = np.flatnonzero(due & (clusters.head >= 0)), np.zeros(len(label), np.bool_)

        def try_all(part: slice) -> None:
            buffers = _make_buffers(graph)
            _try_all(tried[part], graph, prices, clusters, changed, due, *buffers)

        map_blocks(try_all, len(tried), block_length(len(tried), BLOCKS))
    return exchange_due(graph, prices, label, changed, due)


@compiled
def _try_all(tried, graph, prices, clusters, changed, due, buffers, places):
    """Say which of these clusters have a better division with one of their others."""
    for a in tried:
        _mark_images(a, graph, clusters, buffers)
        n = _find_neighbours(a, graph, clusters, changed, buffers)
        t = _next_promising(a, 0, n, graph, clusters, buffers)
        while t < n and not due[a]:
            b = buffers.neighbours[t]
            split, total = _list_both(a, b, clusters, buffers.members)
            due[a] = divide_anew(graph, prices, buffers.members[:total], split, places)[0]
            t = _next_promising(a, t + 1, n, graph, clusters, buffers)


def exchange_due(
    graph: MatchGraph, prices: Prices, label: IntArray, changed: BoolArray, due: BoolArray
) -> BoolArray:
    """Let the clusters that are due exchange features with others, and those near what changes."""
    changed_now = np.zeros(len(label), np.bool_)
    arrays = (list_members(label), changed, due, changed_now)
    exchange_in_order(graph, prices, *arrays, *_make_buffers(graph))
    return changed_now


@compiled
def exchange_in_order(graph, prices, clusters, changed, due, changed_now, buffers, places):
    """Do what `exchange_due` says, from the first cluster to the last one."""
    empty = 0  # no cluster before this one is empty
    for a in range(len(due)):
        if clusters.head[a] < 0 or not due[a]:
            continue
        _mark_images(a, graph, clusters, buffers)
        n, t = _find_neighbours(a, graph, clusters, changed, buffers), -1
        while True:
            t = _next_promising(a, t + 1, n, graph, clusters, buffers)
            if t == n:
                break
            b = buffers.neighbours[t]
            split, total = _list_both(a, b, clusters, buffers.members)
            members = buffers.members[:total]
            improved, side = divide_anew(graph, prices, members, split, places)
            if not improved:
                continue
            if a == b:  # a is divided; its second part becomes a cluster
                while clusters.head[empty] >= 0:
                    empty += 1
                b = empty
            _carry_out(a, b, members, side, clusters)
            changed_now[a] = changed_now[b] = due[a] = due[b] = True
            for p in members:
                _mark_matched(p, graph, clusters.label, due)
            _mark_images(a, graph, clusters, buffers)
            if clusters.head[a] < 0:
                empty = min(empty, a)
            elif clusters.head[b] < 0:
                empty = min(empty, b)


# By NumPy: each kind of array takes long to compile.
def _make_buffers(graph: MatchGraph) -> tuple[_Buffers, Places]:
    m, k = len(graph.image), len(graph.offset) - 1
    buffers = _Buffers(
        np.zeros(m, np.int64),
        np.zeros(m),
        np.empty(m, np.int64),
        np.empty(m, np.int64),
        np.empty(m),
        np.zeros(m, np.int64),
        np.empty(2 * k, np.int64),
        np.zeros(k, np.int64),
        np.zeros(1, np.int64),
    )
    return buffers, make_places(graph)


@compiled
def _find_near(graph, label, changed):
    """(m,) the clusters that changed, and those that have matches with one of them."""
    near = changed.copy()
    for p in range(len(label)):
        if changed[label[p]]:
            _mark_matched(p, graph, label, near)
    return near


@inlined
def _mark_matched(p, graph, label, near):
    """Mark the clusters of the features that p is matched with."""
    for entry in range(graph.first[p], graph.first[p + 1]):
        near[label[graph.other[entry]]] = True


@inlined
def _mark_images(a, graph, clusters, buffers):
    """Mark the images that a cluster has features of, for `_next_promising`."""
    buffers.marking[0] += 1
    p = clusters.head[a]
    while p >= 0:
        buffers.seen_in[graph.image[p]] = buffers.marking[0]
        p = clusters.next[p]


@inlined
def _find_neighbours(a, graph, clusters, changed, buffers):
    """List the clusters that may exchange features with a; return how many.

    Only a itself and later ones, so that every two meet once.
    """
    matches, reward, marking = buffers.matches, buffers.reward, buffers.marking[0]
    n = 0
    p = clusters.head[a]
    while p >= 0:
        for entry in range(graph.first[p], graph.first[p + 1]):
            q = graph.other[entry]
            b = clusters.label[q]
            if b >= a:
                if buffers.seen_in[graph.image[q]] == marking:
                    buffers.overlaps[b] = marking
                if matches[b] == 0:
                    buffers.neighbours[n] = b
                    n += 1
                matches[b] += 1
                reward[b] += graph.weight[entry]
        p = clusters.next[p]
    kept = 0
    for t in range(n):
        b = buffers.neighbours[t]
        if changed[a] or changed[b]:
            buffers.neighbours[kept] = b
            buffers.number[kept], buffers.shared[kept] = matches[b], reward[b]
            kept += 1
        matches[b], reward[b] = 0, 0.0
    return kept


@compiled
def _next_promising(a, start, n, graph, clusters, buffers):
    """Return the next of the n neighbours of a, from `start` on, that is worth a try; else n."""
    head, after, size, image = clusters.head, clusters.next, clusters.size, graph.image
    seen_in, overlaps, marking = buffers.seen_in, buffers.overlaps, buffers.marking[0]
    for t in range(start, n):
        b, shared = buffers.neighbours[t], buffers.shared[t]
        smaller = min(size[a], size[b])
        enough = buffers.number[t] >= LEAST_MATCHES and shared >= LEAST_REWARD * smaller
        if a == b:
            enough = enough and smaller >= LEAST_MEMBERS
        elif not enough and smaller > 1 and shared > 0 and overlaps[b] != marking:
            # They may be merged, unless they have features of the same image.
            if size[b] > FAR_LARGER * size[a]:
                enough = not _share_image_with_large(a, b, graph, clusters)
            else:
                q = head[b]
                while q >= 0 and seen_in[image[q]] != marking:
                    q = after[q]
                enough = q < 0
        if enough:
            return t
    return n


@compiled
def _share_image_with_large(a, b, graph, clusters):
    """Whether a large cluster b has features of the same image as a, without reading all of b."""
    p = clusters.head[a]
    while p >= 0 and not _has_feature_in(b, graph.image[p], graph, clusters):
        p = clusters.next[p]
    return p >= 0


@compiled
def _has_feature_in(a, i, graph, clusters):
    """Whether a cluster has a feature of image i: read the image or the cluster, the smaller."""
    start, stop = graph.offset[i], graph.offset[i + 1]
    if stop - start < clusters.size[a]:
        while start < stop and clusters.label[start] != a:
            start += 1
        return start < stop
    p = clusters.head[a]
    while p >= 0 and graph.image[p] != i:
        p = clusters.next[p]
    return p >= 0


@inlined
def _list_both(a, b, clusters, members):
    """List the members of a, then of b if it is another; return the number of a's, and of all."""
    total = 0
    p = clusters.head[a]
    while p >= 0:
        members[total] = p
        total += 1
        p = clusters.next[p]
    split = total
    p = clusters.head[b] if b != a else -1
    while p >= 0:
        members[total] = p
        total += 1
        p = clusters.next[p]
    return split, total


@inlined
def _carry_out(a, b, members, side, clusters):
    """Put the members on side 0 into cluster a, those on side 1 into b."""
    for p in members:
        remove_member(clusters, p)
    for s in range(len(members)):
        add_member(clusters, members[s], b if side[s] else a)
