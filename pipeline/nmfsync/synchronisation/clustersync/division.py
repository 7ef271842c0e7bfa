"""Divide the members of two clusters anew: the local search of Kernighan and Lin (1970).

Of two clusters, the members s and t are on side 0 or 1. The score depends on the
sides by

    Σ gain[s, t] over all pairs on the same side
    − price of the clusters, by the number of members on each side.

Tests compare the outcome with the score computed by `search.score`.
"""

from typing import NamedTuple

import numpy as np

from nmfsync.runtime.compiled import compiled
from nmfsync.synchronisation.clustersync.members import EPSILON
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray

PASSES = 20  # at most: the first raises nothing nearly always, and the third hardly ever


class Places(NamedTuple):
    """Where features are in a list of members; made once for all pairs of clusters.

    Attributes
    ----------
    of_feature : (m,) int64 array
        The position of every feature, -1 for one that is not in the list.
    of_image : (k,) int64 array
        The position of the first cluster's feature of every image, -1 for none.
    sees : (k,) int64 array
        p for the images that p has a match in, of the last feature p that marked
        them: true whatever the list, so that it is never cleared.
    """

    of_feature: IntArray
    of_image: IntArray
    sees: IntArray


@compiled
def make_places(m, k):
    """Return the `Places` of an empty list, for m features and k images."""
    return Places(np.full(m, -1), np.full(k, -1), np.full(k, -1))


class _Division(NamedTuple):
    """The members of two clusters, s and t, and the side that each is on.

    Attributes
    ----------
    gain : (n, n) float64 array
        What s and t gain by being together; 0 for s itself and its partner.
    sees : (n, n) bool array
        s has a match in the image of t.
    partner : (n,) int64 array
        The member of the same image, which is always on the other side; -1 for none.
    side : (n,) int64 array
        0 or 1.
    flip : (n,) float64 array
        What s would gain by going to the other side alone,
        Σ gain[s, t] over t on the other side − Σ gain[s, t] over t on its own.
    locked : (n,) bool array
        s has had its turn.
    order : (n,) int64 array
        The members by their turns.
    """

    gain: FloatArray
    sees: BoolArray
    partner: IntArray
    side: IntArray
    flip: FloatArray
    locked: BoolArray
    order: IntArray


@compiled
def divide_anew(graph, prices, members, split, places):
    """Find a better division of the members of two clusters, if there is one nearby.

    Starts with the clusters as they are, or with the plain merge, which the
    passes can miss, if that is better.

    Parameters
    ----------
    graph : MatchGraph
    prices : Prices
    members : (n,) int64 array
        The features of both clusters.
    split : int
        The number of them in the first one, which come first; n to divide one
        cluster.
    places : Places
        Of an empty list, and left so.

    Returns
    -------
    improved : bool
        Whether the score is higher.
    side : (n,) int64 array
        The side of every member, 0 or 1.
    """
    n = len(members)
    division = _make_division(n)
    common = _find_partners(graph, members, split, division, places)
    _compute_gains(graph, prices, members, division, places)
    total, across = _take_sides(split, division)
    tolerance = EPSILON * max(1.0, total)  # of the rounding errors
    # A merge gains Σ gain[s, t] over the pairs across the sides, and the difference in price.
    track = prices.track
    improved = False
    if split < n and common == 0:
        improved = across + track[split] + track[n - split] - track[n] > tolerance
    if improved:
        for s in range(split, n):
            _turn(s, division)
    for _ in range(PASSES):
        if not _improve(n - common, track, tolerance, division):
            break
        improved = True
    return improved, division.side


@compiled
def _make_division(n):
    return _Division(
        np.full((n, n), np.nan),
        np.empty((n, n), dtype=np.bool_),
        np.full(n, -1),
        np.empty(n, dtype=np.int64),
        np.zeros(n),
        np.empty(n, dtype=np.bool_),
        np.empty(n, dtype=np.int64),
    )


@compiled
def _find_partners(graph, members, split, division, places):
    """Find the members of both clusters in the same image; return the number of these images."""
    partner, of_image = division.partner, places.of_image
    common = 0
    for s in range(split):
        of_image[graph.image[members[s]]] = s
    for t in range(split, len(members)):
        s = of_image[graph.image[members[t]]]
        if s >= 0:
            partner[s], partner[t] = t, s
            common += 1
    for s in range(split):
        of_image[graph.image[members[s]]] = -1
    return common


@compiled
def _compute_gains(graph, prices, members, division, places):
    """Compute what every two members gain by being together.

    gain = reward if they are matched, else − missing[others] · image_pair,

    where `others` of the two have another match in the image of the other.
    """
    n = len(members)
    gain, sees = division.gain, division.sees
    for s in range(n):
        places.of_feature[members[s]] = s
    for s in range(n):
        p = members[s]
        for entry in range(graph.first[p], graph.first[p + 1]):
            q = graph.other[entry]
            places.sees[graph.image[q]] = p
            if places.of_feature[q] >= 0:
                gain[s, places.of_feature[q]] = graph.weight[entry]
        for t in range(n):
            sees[s, t] = places.sees[graph.image[members[t]]] == p
    for s in range(n):
        places.of_feature[members[s]] = -1
        for t in range(n):
            if np.isnan(gain[s, t]):
                i, j = graph.image[members[s]], graph.image[members[t]]
                others = sees[s, t] + sees[t, s]
                gain[s, t] = -prices.missing[others] * prices.image_pair[i, j]
        gain[s, s] = 0.0
        if division.partner[s] >= 0:
            gain[s, division.partner[s]] = 0.0  # the two are never together


@compiled
def _take_sides(split, division):
    """Put the first `split` members on side 0, the others on side 1.

    Returns Σ |gain[s, t]| over all s and t, and Σ gain[s, t] over s on side 0
    and t on side 1.
    """
    gain, side, flip = division.gain, division.side, division.flip
    n = len(side)
    total = across = 0.0
    for s in range(n):
        side[s] = s >= split
    for s in range(n):
        for t in range(n):
            flip[s] += -gain[s, t] if side[s] == side[t] else gain[s, t]
            total += abs(gain[s, t])
            across += gain[s, t] if side[s] < side[t] else 0.0
    return total, across


@compiled
def _improve(turns, track, tolerance, division):
    """Make one pass; return whether it raises the score.

    Moves every member once to the other side, with its partner in exchange, the
    best first even if the score falls; then goes back to the best state on the way.
    """
    order, locked = division.order, division.locked
    locked[:] = False
    before = _price(track, division)
    total, best, kept = 0.0, tolerance, 0
    for turn in range(turns):
        s, gain = _best_turn(division)
        order[turn], locked[s] = s, True
        _turn(s, division)
        total += gain
        # Σ gains of the turns + price of the clusters before − price now
        raised = total + before - _price(track, division)
        if raised > best:
            best, kept = raised, turn + 1
    for turn in range(turns - 1, kept - 1, -1):
        _turn(order[turn], division)
    return kept > 0


@compiled
def _price(track, division):
    """Price of both clusters."""
    second = division.side.sum()
    return track[len(division.side) - second] + track[second]


@compiled
def _best_turn(division):
    """Return the member whose turn gains most, and the gain."""
    partner, flip = division.partner, division.flip
    s, most = -1, -np.inf
    for t in range(len(partner)):
        if not division.locked[t] and partner[t] < t:  # of two partners, the second stands for both
            gain = flip[t] + (flip[partner[t]] if partner[t] >= 0 else 0.0)
            if gain > most:
                s, most = t, gain
    return s, most


@compiled
def _turn(s, division):
    """Move s to the other side, and its partner, if it has one, to this side."""
    gain, side, flip = division.gain, division.side, division.flip
    for turned in (s, division.partner[s]):
        if turned >= 0:
            for t in range(len(side)):
                # t had it on its own side, and now has it on the other, or the reverse.
                flip[t] += 2 * gain[turned, t] if side[t] == side[turned] else -2 * gain[turned, t]
            flip[turned] = -flip[turned]
            side[turned] = 1 - side[turned]
