"""Correlation clustering with at most one feature of an image in a cluster.

The compiled heart of `clustersync`: local search on the score of a clustering,

    score = Σ reward of the matches inside clusters
            − Σ price of the pairs inside clusters that are not matched
            − opening · (number of clusters),

by two kinds of moves that never lower it: all features of one image choose
their clusters anew, which is an exact assignment; and two clusters (or one and
an empty one) exchange features, which contains merging, splitting and swapping.
Everything is a count over the matches of a feature and the members of the
clusters it touches, so the cost of a sweep is linear in the number of matches.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.compiled import compiled
from nmfsync.matches import IntArray
from nmfsync.synchronisation.parallel import map_blocks

FloatArray = NDArray[np.float64]

EPSILON = 1e-9  # a gain below is a rounding error
SWEEPS = 3
ROUNDS = 30
PASSES = 20
SHARED = 0.5  # reward between two clusters for each feature of the smaller, to try an exchange


class Matches(NamedTuple):
    """W without its diagonal, as the kernels read it.

    Attributes
    ----------
    first : (m + 1,) int64 array
        Row p has the entries first[p] to first[p + 1] - 1 (CSR).
    other : (nnz,) int32 array
        The matched feature of every entry, ascending in a row.
    weight : (nnz,) float64 array
    image : (m,) int32 array
        The image of every feature.
    offset : (k + 1,) int64 array
        Image i has the features offset[i] to offset[i + 1] - 1.
    """

    first: NDArray[np.int64]
    other: NDArray[np.int32]
    weight: FloatArray
    image: NDArray[np.int32]
    offset: NDArray[np.int64]


class Prices(NamedTuple):
    """What the score charges.

    Attributes
    ----------
    missing : (3,) float64 array
        Price of a pair that is not matched, if neither, one, or both of its
        features have another match in the image of the other.
    image_pair : (k, k) float32 array
        Factor on it for every pair of images; 0 where images were not matched.
    opening : float
        Price of a cluster.
    """

    missing: FloatArray
    image_pair: NDArray[np.float32]
    opening: float


def read_matches(W: sparse.csr_array, sizes: IntArray) -> Matches:
    """Prepare a match matrix for the kernels."""
    m = W.shape[0]
    W = sparse.csr_array(W, copy=True)
    W.sort_indices()
    row = np.repeat(np.arange(m), np.diff(W.indptr))
    between = (W.indices != row) & (W.data != 0)
    first = np.concatenate([[0], np.cumsum(np.bincount(row[between], minlength=m))])
    return Matches(
        first.astype(np.int64),
        W.indices[between].astype(np.int32),
        W.data[between].astype(np.float64),
        np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def score(matches: Matches, prices: Prices, label: IntArray) -> float:
    """Score of a clustering, as written at the top: slow, but plain; for tests.

    Parameters
    ----------
    matches : Matches
    prices : Prices
    label : (m,) int array
        The cluster of every feature.

    Returns
    -------
    float
    """
    m, image = len(label), matches.image
    row = np.repeat(np.arange(m), np.diff(matches.first))
    weight, seen = np.zeros((m, m)), np.zeros((m, len(matches.offset) - 1), dtype=int)
    weight[row, matches.other] = matches.weight
    seen[row, image[matches.other]] = 1
    price = prices.missing[seen[:, image] + seen[:, image].T] * prices.image_pair[image][:, image]
    pairs = np.triu(label[:, None] == label, 1)
    gain = np.where(weight > 0, weight, -price)
    return float(gain[pairs].sum() - prices.opening * len(np.unique(label)))


def support(matches: Matches) -> FloatArray:
    """Share of a feature's matches that agree with a match, for every match p < q; else 0.

    A match p–q is supported by r if p–r and q–r are matches too. The number of
    supporters (by weight, the match itself included) is divided by the smaller
    number of matches of p and q.
    """
    result = np.zeros(len(matches.other))
    map_blocks(lambda rows: _support(matches, rows.start, rows.stop, result), len(matches.image))
    return result


def grow(matches: Matches, priority: FloatArray) -> IntArray:
    """Clusters grown from the matches of highest priority, one feature of an image in each."""
    row = np.repeat(np.arange(len(matches.image), dtype=np.int32), np.diff(matches.first))
    once = np.flatnonzero(row < matches.other)
    once = once[np.argsort(-priority[once], kind="stable")]
    return _grow(row[once], matches.other[once], matches.image, len(matches.offset) - 1)


def search(
    matches: Matches,
    prices: Prices,
    label: IntArray,
    rounds: int = ROUNDS,
    done: Callable[[], Any] = lambda: None,
) -> IntArray:
    """Improve a clustering until no move raises its score.

    Parameters
    ----------
    matches : Matches
    prices : Prices
    label : (m,) int64 array
        Numbers below m. No two features of one image have the same.
    rounds : int
        Stop after so many rounds of both moves in any case.
    done : callable
        Called after every round.

    Returns
    -------
    (m,) int64 array
    """
    label = label.copy()
    moved = exchanged = np.ones(len(label), dtype=np.bool_)
    for _ in range(rounds):
        moved = _reassign_images(matches, prices, label, moved | exchanged)
        exchanged = _exchange_between_clusters(matches, prices, label, moved | exchanged)
        done()
        if not (moved.any() or exchanged.any()):
            break
    return _connected_parts(matches, label)


def _connected_parts(matches: Matches, label: IntArray) -> IntArray:
    """Take clusters apart that no match holds together any more.

    Pairs of images that were never matched charge nothing, so that features
    which only came together over a third one would stay.
    """
    m = len(label)
    row = np.repeat(np.arange(m), np.diff(matches.first))
    inside = label[row] == label[matches.other]
    graph = sparse.coo_array(
        (np.ones(inside.sum(), dtype=bool), (row[inside], matches.other[inside])), shape=(m, m)
    )
    return connected_components(graph, directed=False)[1].astype(np.int64)


# Sets of features are linked lists through the clusters: a feature moves in
# constant time, whatever the size of its cluster.


@compiled
def _lists(label):  # type: ignore[no-untyped-def]
    m = len(label)
    lists = (np.full(m, -1), np.full(m, -1), np.full(m, -1), np.zeros(m, dtype=np.int64))
    for p in range(m - 1, -1, -1):
        _link(p, label[p], label, lists)
    return lists


@compiled
def _link(p, cluster, label, lists):  # type: ignore[no-untyped-def]
    head, after, before, size = lists
    label[p] = cluster
    size[cluster] += 1
    before[p], after[p] = -1, head[cluster]
    if head[cluster] >= 0:
        before[head[cluster]] = p
    head[cluster] = p


@compiled
def _unlink(p, label, lists):  # type: ignore[no-untyped-def]
    head, after, before, size = lists
    size[label[p]] -= 1
    if before[p] >= 0:
        after[before[p]] = after[p]
    else:
        head[label[p]] = after[p]
    if after[p] >= 0:
        before[after[p]] = before[p]


@compiled
def _support(matches, start, stop, result):  # type: ignore[no-untyped-def]
    first, other, weight = matches.first, matches.other, matches.weight
    for p in range(start, stop):
        for entry in range(first[p], first[p + 1]):
            q = other[entry]
            if q < p:
                continue
            total = weight[entry]
            a, b = first[p], first[q]
            while a < first[p + 1] and b < first[q + 1]:
                if other[a] == other[b]:
                    total += min(weight[a], weight[b])
                    a, b = a + 1, b + 1
                elif other[a] < other[b]:
                    a += 1
                else:
                    b += 1
            result[entry] = total / min(first[p + 1] - first[p], first[q + 1] - first[q])


@compiled
def _grow(P, Q, image, k):  # type: ignore[no-untyped-def]
    m = len(image)
    label = np.arange(m)
    size = np.ones(m, dtype=np.int64)
    head, tail, after = np.arange(m), np.arange(m), np.full(m, -1)
    mark = np.full(k, -1)
    for entry in range(len(P)):
        a, b = label[P[entry]], label[Q[entry]]
        if a == b:
            continue
        if size[a] < size[b]:
            a, b = b, a
        p = head[b]
        while p >= 0:
            mark[image[p]] = entry
            p = after[p]
        p = head[a]
        while p >= 0 and mark[image[p]] != entry:
            p = after[p]
        if p >= 0:
            continue
        p = head[b]
        while p >= 0:
            label[p] = a
            p = after[p]
        after[tail[a]], tail[a] = head[b], tail[b]
        size[a] += size[b]
    return label


@compiled
def _reassign_images(matches, prices, label, changed):  # type: ignore[no-untyped-def]
    """Let the features of one image after another choose their clusters anew.

    Begins with the images that the clusters marked in `changed` have matches in.
    Returns the marks of those that lost or won a feature.
    """
    first, other, weight, image, offset = matches
    missing, image_pair, opening = prices
    m, k = len(image), len(offset) - 1
    lists = _lists(label)
    head, after, _, size = lists
    widest, most = 0, 0
    for i in range(k):
        widest = max(widest, first[offset[i + 1]] - first[offset[i]])
        most = max(most, offset[i + 1] - offset[i])
    widest += most  # the cluster a feature is in may share no match with it
    row_first = np.zeros(most + 1, dtype=np.int64)
    column, gain = np.empty(widest, dtype=np.int64), np.empty(widest)
    cluster_of, column_of = np.empty(widest, dtype=np.int64), np.full(m, -1)
    touched = np.empty(widest, dtype=np.int64)
    reward, degree = np.zeros(m), np.zeros(m, dtype=np.int64)
    # A bound that spares most clusters the walk through their members.
    cheapest = np.zeros(k)
    for i in range(k if k > 1 else 0):
        factor = image_pair[i].copy()
        factor[i] = np.inf
        cheapest[i] = missing.min() * factor.min()
    # Marks hold the number of the visit that set them, so that none is ever cleared.
    matched, seen_by = np.full(m, -1), np.full(m, -1)
    sees = np.full(k, -1)
    waiting, now = np.zeros(k, dtype=np.bool_), np.zeros(m, dtype=np.bool_)
    for p in range(m):
        if changed[label[p]]:
            waiting[image[p]] = True
            for entry in range(first[p], first[p + 1]):
                waiting[image[other[entry]]] = True
    empty, empties = np.empty(m, dtype=np.int64), 0
    for cluster in range(m):
        if head[cluster] < 0:
            empty[empties] = cluster
            empties += 1
    visit = 0
    for _ in range(SWEEPS):
        moved = 0
        for i in range(k):
            if not waiting[i]:
                continue
            waiting[i] = False
            visit += m + 1
            start, stop = offset[i], offset[i + 1]
            for p in range(start, stop):
                _unlink(p, label, lists)
                for entry in range(first[p], first[p + 1]):
                    seen_by[other[entry]] = visit
            edges, columns = 0, 0
            for p in range(start, stop):
                stamp = visit + p
                n = 0
                for entry in range(first[p], first[p + 1]):
                    q = other[entry]
                    matched[q], sees[image[q]] = stamp, stamp
                    if reward[label[q]] == 0.0:
                        touched[n] = label[q]
                        n += 1
                    reward[label[q]] += weight[entry]
                    degree[label[q]] += 1
                if reward[label[p]] == 0.0 and head[label[p]] >= 0:
                    touched[n] = label[p]
                    n += 1
                for t in range(n):
                    cluster = touched[t]
                    value = reward[cluster] + opening
                    reward[cluster] = 0.0
                    if cluster == label[p]:
                        value += EPSILON  # ties: stay
                    if value <= (size[cluster] - degree[cluster]) * cheapest[i]:
                        degree[cluster] = 0
                        continue
                    degree[cluster] = 0
                    q = head[cluster]
                    while q >= 0 and value > 0:
                        if matched[q] != stamp:
                            others = (sees[image[q]] == stamp) + (seen_by[q] == visit)
                            value -= image_pair[i, image[q]] * missing[others]
                        q = after[q]
                    if value > 0:
                        if column_of[cluster] < 0:
                            column_of[cluster], cluster_of[columns] = columns, cluster
                            columns += 1
                        column[edges], gain[edges] = column_of[cluster], value
                        edges += 1
                row_first[p - start + 1] = edges
            chosen = _assign(row_first[: stop - start + 1], column, gain, columns)
            for c in range(columns):
                column_of[cluster_of[c]] = -1
            n, empties = _move(
                matches,
                chosen,
                cluster_of,
                i,
                label,
                lists,
                now,
                waiting,
                empty,
                empties,
            )
            moved += n
        if moved == 0:
            break
    return now


@compiled
def _move(matches, chosen, cluster_of, i, label, lists, changed, waiting, empty, empties):  # type: ignore[no-untyped-def]
    """Carry out an image's choice; a feature without a cluster gets an empty one.

    Returns how many features have moved, and the new number of empty clusters.
    """
    first, other, image = matches.first, matches.other, matches.image
    head = lists[0]
    start, stop = matches.offset[i], matches.offset[i + 1]
    moved = 0
    old = label[start:stop].copy()
    for p in range(start, stop):
        if chosen[p - start] >= 0:
            _link(p, cluster_of[chosen[p - start]], label, lists)
    for p in range(start, stop):
        cluster = old[p - start]
        if chosen[p - start] < 0 and head[cluster] < 0:
            _link(p, cluster, label, lists)
        elif chosen[p - start] < 0:
            empties -= 1
            _link(p, empty[empties], label, lists)
    for p in range(start, stop):
        if head[old[p - start]] < 0:
            empty[empties] = old[p - start]
            empties += 1
        if label[p] != old[p - start]:
            moved += 1
            changed[label[p]] = changed[old[p - start]] = True
            for entry in range(first[p], first[p + 1]):
                waiting[image[other[entry]]] = True
    return moved, empties


@compiled
def _assign(row_first, column, gain, columns):  # type: ignore[no-untyped-def]
    """Assign rows to columns so that the sum of the gains is largest; -1 for no column.

    Shortest augmenting paths, row by row (Jonker & Volgenant 1987), on the given
    entries only. A row may also stay alone, at gain 0.
    """
    rows = len(row_first) - 1
    column_in, row_in = np.full(rows, -1), np.full(columns, -1)
    u, v = np.zeros(rows), np.zeros(columns)  # dual variables: gain ≤ -u - v
    distance, parent = np.full(columns, np.inf), np.full(columns, -1)
    done = np.zeros(columns, dtype=np.bool_)
    reached = np.empty(columns, dtype=np.int64)
    keys, items = np.empty(row_first[-1] + 1), np.empty(row_first[-1] + 1, dtype=np.int64)
    for root in range(rows):
        for entry in range(row_first[root], row_first[root + 1]):
            u[root] = min(u[root], -gain[entry] - v[column[entry]])
        row, length = root, 0.0
        shortest, last_row, last_column = np.inf, -1, -1
        n, heap = 0, 0
        while True:
            if length - u[row] < shortest:  # the path may end here: the row stays alone
                shortest, last_row = length - u[row], row
            for entry in range(row_first[row], row_first[row + 1]):
                c = column[entry]
                step = length - gain[entry] - u[row] - v[c]
                if not done[c] and step < distance[c] and step < shortest:
                    if distance[c] == np.inf:
                        reached[n] = c
                        n += 1
                    distance[c], parent[c] = step, row
                    heap = _push(keys, items, heap, step, c)
            c = -1
            while heap > 0:
                key, item = keys[0], items[0]
                heap = _pop(keys, items, heap)
                if not done[item] and key == distance[item]:
                    c = item
                    break
            if c < 0 or distance[c] >= shortest:
                break
            if row_in[c] < 0:
                shortest, last_row, last_column = distance[c], -1, c
                break
            done[c] = True
            row, length = row_in[c], distance[c]
        u[root] += shortest
        for t in range(n):
            c = reached[t]
            if done[c]:
                v[c] -= shortest - distance[c]
                u[row_in[c]] += shortest - distance[c]
        c = last_column
        if last_row >= 0:
            c, column_in[last_row] = column_in[last_row], -1
        while c >= 0:
            row = parent[c]
            c_next = column_in[row]
            column_in[row], row_in[c] = c, row
            c = -1 if row == root else c_next
        for t in range(n):
            distance[reached[t]], done[reached[t]] = np.inf, False
    return column_in


@compiled
def _push(keys, items, n, key, item):  # type: ignore[no-untyped-def]
    """Put into a binary heap; return its new length."""
    place = n
    while place > 0 and keys[(place - 1) // 2] > key:
        keys[place], items[place] = keys[(place - 1) // 2], items[(place - 1) // 2]
        place = (place - 1) // 2
    keys[place], items[place] = key, item
    return n + 1


@compiled
def _pop(keys, items, n):  # type: ignore[no-untyped-def]
    """Remove the smallest of a binary heap; return its new length."""
    n -= 1
    key, item = keys[n], items[n]
    place, child = 0, 1
    while child < n:
        if child + 1 < n and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[place], items[place] = keys[child], items[child]
        place, child = child, 2 * child + 1
    keys[place], items[place] = key, item
    return n


@compiled
def _exchange_between_clusters(matches, prices, label, changed):  # type: ignore[no-untyped-def]
    """Let every two clusters that share matches exchange features; try to split each.

    Only pairs of which one is marked in `changed` take part. Returns the marks
    of those that lost or won a feature.
    """
    first, other, weight = matches.first, matches.other, matches.weight
    m, k = len(label), len(matches.offset) - 1
    lists = _lists(label)
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
                _unlink(members[s], label, lists)
            for s in range(total):
                _link(members[s], b if side[s] else a, label, lists)
            if head[a] < 0:
                empty = min(empty, a)
            elif head[b] < 0:
                empty = min(empty, b)
            now[a] = now[b] = True
    return now


@compiled
def _exchange(matches, prices, members, split, side, place, mark):  # type: ignore[no-untyped-def]
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
def _gains(matches, prices, members, split, place, mark):  # type: ignore[no-untyped-def]
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
def _turn(A, s, partner, side, flip, alone):  # type: ignore[no-untyped-def]
    """Move s to the other side, and its partner to this one."""
    for turned in (s, partner):
        if turned >= 0:
            for t in range(len(A)):
                flip[t] += 2 * A[turned, t] if side[t] == side[turned] else -2 * A[turned, t]
            alone[side[turned]] -= 1
            side[turned] = 1 - side[turned]
            alone[side[turned]] += 1
            flip[turned] = -flip[turned]
