"""Divide the members of two clusters anew: the local search of Kernighan and Lin (1970).

Of two clusters, the members s and t are on side 0 or 1. The score depends on the
sides by

    Σ gain[s, t] over all pairs on the same side
    − price of the clusters, by the number of members on each side.

Tests compare the outcome with the score computed by `search.score`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.synchronisation.clustersync.members import EPSILON
from nmfsync.synchronisation.clustersync.nearby import find_nearby
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray

PASSES = 20  # at most: the first raises nothing nearly always, and the third hardly ever

# 2⁸ members, whose best turn is known until one of them changes. Up to `DENSE` are one block.
BLOCK = 8
STALE = -2


class _Division(NamedTuple):
    """The members of two clusters, s and t, and the side that each is on.

    Attributes
    ----------
    dense, first, stop, member
        The pairs of members, as in `Nearby`.
    gain : (e,) float64 array
        What they gain by being together.
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
    size : (2,) int64 array
        The number of members on each side.
    best : (blocks,) int64 array
        Of every block of members, the one whose turn gains most, -1 for none;
        STALE where that may have changed.
    """

    dense: bool
    first: IntArray
    stop: IntArray
    member: NDArray[np.int32]
    gain: FloatArray
    partner: IntArray
    side: IntArray
    flip: FloatArray
    locked: BoolArray
    order: IntArray
    size: IntArray
    best: IntArray


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
    nearby = find_nearby(graph, members, split, places)
    division = _make_division(nearby, _compute_gains(prices, nearby))
    common = _find_partners(graph, members, split, division, places)
    total, across = _take_sides(split, division)
    tolerance = EPSILON * max(1.0, total)  # of the rounding errors
    # A merge gains Σ gain[s, t] over the pairs across the sides, and the difference in price.
    track = prices.track
    given = 0
    if split < n and common == 0:  # else n can be more than the images, which have no price
        if across + track[split] + track[n - split] - track[n] > tolerance:
            given = n - split
        for t in range(given):
            division.order[t] = split + t
    improved = False
    for _ in range(PASSES + (given > 0)):
        turns = given if given > 0 else n - common
        if not _improve(turns, given, track, tolerance, division):
            break
        improved, given = True, 0
    return improved, division.side


@inlined
def _make_division(nearby, gain):
    n = len(nearby.stop)
    blocks = (n >> BLOCK) + 1
    return _Division(
        nearby.dense,
        nearby.first,
        nearby.stop,
        nearby.member,
        gain,
        np.full(n, -1),
        np.empty(n, dtype=np.int64),
        np.empty(n),
        np.empty(n, dtype=np.bool_),
        np.empty(n, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
        np.empty(blocks, dtype=np.int64),
    )


@inlined
def _find_partners(graph, members, split, division, places):
    """Find the members of both clusters in the same image; return the number of these images."""
    partner, of_image = division.partner, places.of_image[:, 0]
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


@inlined
def _compute_gains(prices, nearby):
    """Return (e,) what every two members gain by being together, in place of the weights.

    gain = reward if they are matched, else − missing[others] · image_pair,

    where `others` of the two have another match in the image of the other.
    """
    gain, pair, others = nearby.weight, nearby.pair, nearby.others
    missing, image_pair = prices.missing, prices.image_pair
    for entry in range(len(gain)):  # without a branch, which could not be foretold
        price = missing[others[entry]] * image_pair[max(pair[entry], 0)] * (pair[entry] >= 0)
        gain[entry] = -price if np.isnan(gain[entry]) else gain[entry]
    return gain


@inlined
def _take_sides(split, division):
    """Put the first `split` members on side 0, the others on side 1.

    Returns Σ |gain[s, t]| over all s and t, and Σ gain[s, t] over s on side 0
    and t on side 1.
    """
    gain, first, stop, member = division.gain, division.first, division.stop, division.member
    side, flip = division.side, division.flip
    n = len(side)
    total = across = 0.0
    for s in range(n):
        side[s] = s >= split
    division.size[0], division.size[1] = split, n - split
    for s in range(n):
        here, own = side[s], 0.0
        for entry in range(first[s], stop[s]):
            t = entry - first[s] if division.dense else member[entry]
            own += -gain[entry] if here == side[t] else gain[entry]
            total += abs(gain[entry])
            across += gain[entry] if here < side[t] else 0.0
        flip[s] = own
    return total, across


@inlined
def _improve(turns, given, track, tolerance, division):
    """Make one pass; return whether it raises the score.

    Moves every member once to the other side, with its partner in exchange, the
    best first even if the score falls; then goes back to the best state on the way.
    Or only moves those that are `given`, which `division.order` begins with.
    """
    # One loop without calls: each would count references to all these arrays.
    dense, gain, first, stop = division.dense, division.gain, division.first, division.stop
    member, partner = division.member, division.partner
    side, flip, best, size = division.side, division.flip, division.best, division.size
    order, locked = division.order, division.locked
    for s in range(len(side)):
        locked[s] = False
    for block in range(len(best)):
        best[block] = STALE
    before = track[size[0]] + track[size[1]]
    total, most, kept = 0.0, tolerance, given
    for step in range(2 * turns):
        if step < given:
            s = order[step]
        elif step < turns:
            s, raised = _best_turn(flip, partner, locked, best)
            order[step], locked[s] = s, True
            total += raised
        else:  # back to the best state, the last turn first
            if 2 * turns - 1 - step < kept:
                break
            s = order[2 * turns - 1 - step]
        best[s >> BLOCK] = STALE
        turned = s
        while turned >= 0:
            # t had it on its own side, and now has it on the other, or the reverse.
            here, start = side[turned], first[turned]
            if dense:  # which is one block
                for t in range(len(side)):
                    change = 2 * gain[start + t]
                    flip[t] += change if side[t] == here else -change
            else:
                for entry in range(start, stop[turned]):
                    t = member[entry]
                    flip[t] += 2 * gain[entry] if side[t] == here else -2 * gain[entry]
                    best[max(t, partner[t]) >> BLOCK] = STALE
            flip[turned] = -flip[turned]
            size[here] -= 1
            side[turned] = 1 - here
            size[1 - here] += 1
            turned = partner[s] if turned == s else -1
        if given <= step < turns:
            # Σ gains of the turns + price of the clusters before − price now
            raised = total + before - (track[size[0]] + track[size[1]])
            if raised > most:
                most, kept = raised, step + 1
    return kept > 0


@inlined
def _best_turn(flip, partner, locked, best):
    """Return the member whose turn gains most, and the gain; the first of equal ones."""
    s, most = -1, -np.inf
    for block in range(len(best)):
        if best[block] == STALE:
            best[block], most_here = -1, -np.inf
            for t in range(block << BLOCK, min((block + 1) << BLOCK, len(flip))):
                if not locked[t] and partner[t] < t:  # of two partners, the second stands for both
                    gain = flip[t] + (flip[partner[t]] if partner[t] >= 0 else 0.0)
                    if gain > most_here:
                        best[block], most_here = t, gain
        t = best[block]
        if t >= 0:
            gain = flip[t] + (flip[partner[t]] if partner[t] >= 0 else 0.0)
            if gain > most:
                s, most = t, gain
    return s, most
