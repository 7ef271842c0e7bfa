"""The first move: all features of one image choose their clusters anew.

They are taken out of their clusters. Every feature may join one of the clusters
it has matches with, return to the one it was in, or open one of its own, and no
cluster may take two of them. Which choice raises the score most is an assignment
problem, solved exactly.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.synchronisation.clustersync.assignment import assign
from nmfsync.synchronisation.clustersync.graph import MatchGraph
from nmfsync.synchronisation.clustersync.members import (
    EPSILON,
    Clusters,
    add_member,
    list_members,
    remove_member,
)
from nmfsync.synchronisation.clustersync.prices import Prices
from nmfsync.types.arrays import BoolArray, Float32Array, FloatArray, IntArray

SWEEPS = 3  # over the images that wait, before exchanges: 1 or 10 find about as good a score


class _Tally(NamedTuple):
    """What the matches of one feature p of image i say; made once for all features.

    The first three hold the last p or i that marked an entry. What a mark says is
    true of the graph, whatever the clustering, so that none is ever cleared.

    Attributes
    ----------
    matched_with : (m,) int32 array
        p for the features that p is matched with.
    sees : (k,) int32 array
        p for the images that p has a match in.
    seen_from : (m,) int32 array
        i for the features that have a match in image i.
    reward : (m,) float64 array
        Of the matches of p in every cluster, 0 between features.
    matches : (m,) int32 array
        The number of these matches, 0 between features.
    clusters : int64 array
        The clusters p may join, in its first entries.
    factor : (k,) float32 array
        That on the price of a missing pair of image i with every other.
    """

    matched_with: NDArray[np.int32]
    sees: NDArray[np.int32]
    seen_from: NDArray[np.int32]
    reward: FloatArray
    matches: NDArray[np.int32]
    clusters: IntArray
    factor: Float32Array


class _Choices(NamedTuple):
    """The assignment problem of one image; made once for all images.

    A row for every feature, a column for every cluster that one of them may join.

    Attributes
    ----------
    row_first, column, gain
        As `assign` takes them.
    cluster_of : int64 array
        The cluster of every column.
    column_of : (m,) int64 array
        The column of every cluster, -1 for none.
    """

    row_first: IntArray
    column: IntArray
    gain: FloatArray
    cluster_of: IntArray
    column_of: IntArray


class _State(NamedTuple):
    """What changes from image to image.

    Attributes
    ----------
    waiting : (k,) bool array
        Images that have to choose (again).
    changed : (m,) bool array
        Clusters that lost or won a feature.
    empty : (m,) int64 array
        A stack of the empty clusters.
    height : (1,) int64 array
        Of the stack.
    """

    waiting: BoolArray
    changed: BoolArray
    empty: IntArray
    height: IntArray


def reassign_images(
    graph: MatchGraph, prices: Prices, label: IntArray, changed: BoolArray
) -> BoolArray:
    """Let the features of one image after another choose their clusters anew.

    Parameters
    ----------
    graph : MatchGraph
    prices : Prices
    label : (m,) int64 array
        Changed in place.
    changed : (m,) bool array
        Clusters that changed before: only images they have features or matches
        in choose at first, and then those that a move concerns.

    Returns
    -------
    (m,) bool array
        Clusters that lost or won a feature.
    """
    clusters, waiting = list_members(label), _find_waiting(graph, label, changed)
    state = _make_state(clusters, waiting)
    cheapest = _cheapest_missing(graph, prices)
    _reassign(graph, prices, cheapest, clusters, *_make_buffers(graph), state)
    return state.changed


@compiled
def _reassign(graph, prices, cheapest, clusters, tally, choices, state):
    for _ in range(SWEEPS):
        moved = 0
        for i in range(len(state.waiting)):
            if state.waiting[i]:
                state.waiting[i] = False
                columns = _collect_choices(i, graph, prices, cheapest[i], clusters, tally, choices)
                features = graph.offset[i + 1] - graph.offset[i]
                chosen = assign(
                    choices.row_first[: features + 1], choices.column, choices.gain, columns
                )
                moved += _move(i, chosen, graph, clusters, choices, state)
                for cluster in choices.cluster_of[:columns]:
                    choices.column_of[cluster] = -1
        if moved == 0:
            break


# By NumPy: each kind of array takes long to compile.
def _make_buffers(graph: MatchGraph) -> tuple[_Tally, _Choices]:
    m, k = len(graph.image), len(graph.offset) - 1
    features = int(np.diff(graph.offset).max(initial=0))  # the most of one image
    matches = int(np.diff(graph.first[graph.offset]).max(initial=0))
    choices = matches + features  # a feature may have no match in the cluster it was in
    return (
        _Tally(
            np.full(m, -1, np.int32),
            np.full(k, -1, np.int32),
            np.full(m, -1, np.int32),
            np.zeros(m),
            np.zeros(m, np.int32),
            np.empty(choices, np.int64),
            np.zeros(k, np.float32),
        ),
        _Choices(
            np.zeros(features + 1, np.int64),
            np.empty(choices, np.int64),
            np.empty(choices),
            np.empty(choices, np.int64),
            np.full(m, -1),
        ),
    )


def _make_state(clusters: Clusters, waiting: BoolArray) -> _State:
    m = len(clusters.label)
    empty, unused = np.empty(m, np.int64), np.flatnonzero(clusters.head < 0)
    empty[: len(unused)] = unused
    return _State(waiting, np.zeros(m, np.bool_), empty, np.array([len(unused)], np.int64))


@compiled
def _find_waiting(graph, label, changed):
    """(k,) the images that changed clusters have features or matches in."""
    waiting = np.zeros(len(graph.offset) - 1, np.bool_)
    for p in range(len(label)):
        if changed[label[p]]:
            waiting[graph.image[p]] = True
            for entry in range(graph.first[p], graph.first[p + 1]):
                waiting[graph.image[graph.other[entry]]] = True
    return waiting


def _cheapest_missing(graph: MatchGraph, prices: Prices) -> FloatArray:
    """(k,) price of a missing pair of every image at least."""
    first, k = graph.pairs.first, len(graph.offset) - 1
    cheapest = np.zeros(k)
    # Without matches in one of the others, it is 0.
    complete = np.flatnonzero(np.diff(first) == k - 1)
    if k > 1 and len(complete):
        factors = prices.image_pair[first[complete, None] + np.arange(k - 1)]
        cheapest[complete] = prices.missing.min() * factors.min(axis=1).astype(np.float64)
    return cheapest


@compiled
def _collect_choices(i, graph, prices, cheapest, clusters, tally, choices):
    """Take the features of image i out of their clusters; fill in what they may choose.

    Returns the number of columns.
    """
    start, stop, pairs = graph.offset[i], graph.offset[i + 1], graph.pairs
    beside = 0  # the features of all images that i has matches with
    for pair in range(pairs.first[i], pairs.first[i + 1]):
        j = pairs.other[pair]
        tally.factor[j] = prices.image_pair[pair]
        beside += graph.offset[j + 1] - graph.offset[j]
    for p in range(start, stop):
        remove_member(clusters, p)
        for entry in range(graph.first[p], graph.first[p + 1]):
            tally.seen_from[graph.other[entry]] = i
    entries, columns = 0, 0
    for p in range(start, stop):
        n = _read_matches(p, graph, clusters, tally)
        for t in range(n):
            cluster = tally.clusters[t]
            if clusters.size[cluster] > beside:
                gain = _gain_beside(p, i, cluster, graph, prices, clusters, tally)
            else:
                gain = _gain(p, i, cluster, graph, prices, cheapest, clusters, tally)
            tally.reward[cluster], tally.matches[cluster] = 0.0, 0
            if gain > 0:
                if choices.column_of[cluster] < 0:
                    choices.column_of[cluster], choices.cluster_of[columns] = columns, cluster
                    columns += 1
                choices.column[entries] = choices.column_of[cluster]
                choices.gain[entries] = gain
                entries += 1
        choices.row_first[p - start + 1] = entries
    for pair in range(pairs.first[i], pairs.first[i + 1]):
        tally.factor[pairs.other[pair]] = 0.0
    return columns


@inlined
def _read_matches(p, graph, clusters, tally):
    """Mark and count the matches of p; return how many clusters it may join.

    Those it has matches with, and its last one if somebody is left there.
    """
    n = 0
    for entry in range(graph.first[p], graph.first[p + 1]):
        q = graph.other[entry]
        cluster = clusters.label[q]
        tally.matched_with[q] = p
        tally.sees[graph.image[q]] = p
        if tally.matches[cluster] == 0:
            tally.clusters[n] = cluster
            n += 1
        tally.matches[cluster] += 1
        tally.reward[cluster] += graph.weight[entry]
    old = clusters.label[p]
    tally.clusters[n] = old
    # Without a branch, which would cost reference counts.
    return n + ((tally.matches[old] == 0) & (clusters.head[old] >= 0))


@inlined
def _gain(p, i, cluster, graph, prices, cheapest, clusters, tally):
    """By how much the score is higher if p joins the cluster than if it opens one.

    gain = Σ reward of its matches there − Σ price of its missing pairs there
           + price of the cluster and of one with p alone − price of the cluster with p

    Where this is not above 0, some number not above 0 is returned.
    """
    gain = _gain_of_matches(p, cluster, prices, clusters, tally)
    missing = clusters.size[cluster] - tally.matches[cluster]
    if gain <= missing * cheapest:  # this spares most clusters the walk through their members
        return 0.0
    q = clusters.head[cluster]
    while q >= 0 and gain > 0:
        if tally.matched_with[q] != p:
            j = graph.image[q]
            others = (tally.sees[j] == p) + (tally.seen_from[q] == i)
            gain -= tally.factor[j] * prices.missing[others]
        q = clusters.next[q]
    return gain


@compiled
def _gain_beside(p, i, cluster, graph, prices, clusters, tally):
    """Return what `_gain` does, by reading all features of the images that i has matches with."""
    gain, pairs = _gain_of_matches(p, cluster, prices, clusters, tally), graph.pairs
    for pair in range(pairs.first[i], pairs.first[i + 1]):
        j = pairs.other[pair]
        for q in range(graph.offset[j], graph.offset[j + 1]):
            if clusters.label[q] == cluster and tally.matched_with[q] != p:
                others = (tally.sees[j] == p) + (tally.seen_from[q] == i)
                gain -= tally.factor[j] * prices.missing[others]
    return gain


@inlined
def _gain_of_matches(p, cluster, prices, clusters, tally):
    """Return what p gains in a cluster if none of its pairs there is missing."""
    size, track = clusters.size[cluster], prices.track
    gain = tally.reward[cluster] + track[size] + track[1] - track[size + 1]
    if cluster == clusters.label[p]:
        gain += EPSILON  # of equal choices, to stay
    return gain


@compiled
def _move(i, chosen, graph, clusters, choices, state):
    """Put the features of image i into the clusters they chose; return how many moved.

    One without a cluster stays in its own if nobody else is there any more, and
    opens one if there is.
    """
    start, stop = graph.offset[i], graph.offset[i + 1]
    old = clusters.label[start:stop].copy()
    for p in range(start, stop):
        if chosen[p - start] >= 0:
            add_member(clusters, p, choices.cluster_of[chosen[p - start]])
    for p in range(start, stop):
        if chosen[p - start] < 0:
            alone = clusters.head[old[p - start]] < 0
            add_member(clusters, p, old[p - start] if alone else _pop_empty(state))
    moved = 0
    for p in range(start, stop):
        before, after = old[p - start], clusters.label[p]
        if clusters.head[before] < 0:
            _push_empty(before, state)
        if after != before:
            moved += 1
            state.changed[before] = state.changed[after] = True
            for entry in range(graph.first[p], graph.first[p + 1]):
                state.waiting[graph.image[graph.other[entry]]] = True
    return moved


@inlined
def _push_empty(cluster, state):
    state.empty[state.height[0]] = cluster
    state.height[0] += 1


@inlined
def _pop_empty(state):
    state.height[0] -= 1
    return state.empty[state.height[0]]
