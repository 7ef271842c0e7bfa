"""The second move: two clusters exchange features."""

import numpy as np

from nmfsync.runtime.compiled import compiled
from nmfsync.synchronisation.clustersync.members import (
    EPSILON,
    add_member,
    member_lists,
    remove_member,
)

PASSES = 20

SHARED = 0.5  # reward between two clusters for each feature of the smaller, to try an exchange


@compiled
def exchange_between_clusters(matches, prices, label, changed):
    """Let every two clusters that share matches exchange features; try to split each.

    Only pairs of which one is marked in `changed` take part. Returns the marks
    of those that lost or won a feature.
    """
    first, other, weight = matches.first, matches.other, matches.weight
    m, k = len(label), len(matches.offset) - 1
    lists = member_lists(label)
    head, after, _, size = lists
    place, mark = np.full(m, -1), np.full(k + 1, -1)
    mark[-1] = 0  # the next mark
    members = np.empty(2 * k, dtype=np.int64)
    side = np.empty(2 * k, dtype=np.int64)
    count, touched = np.zeros(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    reward = np.zeros(m)
    now = np.zeros(m, dtype=np.bool_)
    empty = 0
    for a in range(m):
        if head[a] < 0:
            continue
        n = 0
        p = head[a]
        while p >= 0:
            for entry in range(first[p], first[p + 1]):
                b = label[other[entry]]
                if b >= a:
                    if count[b] == 0:
                        touched[n] = b
                        n += 1
                    count[b] += 1
                    reward[b] += weight[entry]
            p = after[p]
        for t in range(n):
            b = touched[t]
            shared, between = count[b], reward[b]
            count[b], reward[b] = 0, 0.0
            # Few matches between them hardly help: their features have chosen already.
            if shared < 2 or between < SHARED * min(size[a], size[b]):
                continue
            if not (changed[a] or changed[b]):
                continue
            total, split = 0, 0
            p = head[a]
            while p >= 0:
                members[total], total, p = p, total + 1, after[p]
            split = total
            p = head[b] if b != a else -1
            while p >= 0:
                members[total], total, p = p, total + 1, after[p]
            if total < 3:
                continue
            if not _exchange(matches, prices, members[:total], split, side, place, mark):
                continue
            if a == b:
                while head[empty] >= 0:
                    empty += 1
                b = empty
            for s in range(total):
                remove_member(members[s], label, lists)
            for s in range(total):
                add_member(members[s], b if side[s] else a, label, lists)
            if head[a] < 0:
                empty = min(empty, a)
            elif head[b] < 0:
                empty = min(empty, b)
            now[a] = now[b] = True
    return now


@compiled
def _exchange(matches, prices, members, split, side, place, mark):
    """Divide the members of two clusters anew (Kernighan & Lin 1970).

    The first `split` members are on side 0, the others on side 1. Moves one
    feature after another to the other side, with its partner of the same image
    in exchange, the best first and each once; keeps the best state on the way;
    repeats while that helps. Starts with the plain merge, which this can miss,
    if that helps. Writes the sides; says whether anything changed.
    """
    n, opening = len(members), prices.opening
    A, partner = _gains(matches, prices, members, split, place, mark)
    alone = np.zeros(2, dtype=np.int64)
    for s in range(n):
        side[s] = s >= split
        alone[side[s]] += 1
    flip = np.zeros(n)  # what moving s to the other side would gain
    for s in range(n):
        for t in range(n):
            flip[s] += -A[s, t] if side[s] == side[t] else A[s, t]
    tolerance = EPSILON * max(1.0, np.abs(A).sum())  # of the rounding errors
    order, locked = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    improved = partner.max() < 0 and A[:split, split:].sum() + opening > tolerance and split < n
    if improved:
        for s in range(split, n):
            _turn(A, s, -1, side, flip, alone)
    for _ in range(PASSES):
        locked[:] = False
        closed = opening if min(alone[0], alone[1]) == 0 else 0.0
        total, best, kept, length = 0.0, tolerance, 0, 0
        while True:
            s, most = -1, -np.inf
            for t in range(n):
                if not locked[t] and partner[t] < t:
                    value = flip[t] + (flip[partner[t]] if partner[t] >= 0 else 0.0)
                    if value > most:
                        s, most = t, value
            if s < 0:
                break
            total += most
            order[length] = s
            length += 1
            locked[s] = True
            _turn(A, s, partner[s], side, flip, alone)
            now = total - closed + (opening if min(alone[0], alone[1]) == 0 else 0.0)
            if now > best:
                best, kept = now, length
        for step in range(length - 1, kept - 1, -1):
            s = order[step]
            _turn(A, s, partner[s], side, flip, alone)
        if kept == 0:
            break
        improved = True
    return improved


@compiled
def _gains(matches, prices, members, split, place, mark):
    """Return what every two members gain by being together, and who shares whose image.

    Members without a partner have -1.
    """
    first, other, weight, image = matches.first, matches.other, matches.weight, matches.image
    n = len(members)
    A, sees = np.zeros((n, n)), np.empty((n, n), dtype=np.int64)
    partner = np.full(n, -1)
    # Marks from one call to the next only grow, so that none is ever cleared.
    start = mark[-1]
    mark[-1] += 2 * n + 1
    for s in range(n):
        place[members[s]] = s
        there = image[members[s]]
        if s < split:
            mark[there] = start + s
        elif mark[there] >= start:
            partner[s] = mark[there] - start
            partner[partner[s]] = s
    for s in range(n):
        for entry in range(first[members[s]], first[members[s] + 1]):
            mark[image[other[entry]]] = start + n + s
            if place[other[entry]] >= 0:
                A[s, place[other[entry]]] = weight[entry]
        for t in range(n):
            sees[s, t] = mark[image[members[t]]] == start + n + s
    for s in range(n):
        place[members[s]] = -1
        for t in range(n):
            if A[s, t] == 0.0:
                price = prices.missing[sees[s, t] + sees[t, s]]
                A[s, t] = -price * prices.image_pair[image[members[s]], image[members[t]]]
        A[s, s] = 0.0
        if partner[s] >= 0:
            A[s, partner[s]] = 0.0
    return A, partner


@compiled
def _turn(A, s, partner, side, flip, alone):
    """Move s to the other side, and its partner to this one."""
    for turned in (s, partner):
        if turned >= 0:
            for t in range(len(A)):
                flip[t] += 2 * A[turned, t] if side[t] == side[turned] else -2 * A[turned, t]
            alone[side[turned]] -= 1
            side[turned] = 1 - side[turned]
            alone[side[turned]] += 1
            flip[turned] = -flip[turned]
