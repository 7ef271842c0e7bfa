"""Sparse assignment by shortest augmenting paths."""

import numpy as np

from nmfsync.runtime.compiled import compiled


@compiled
def assign(row_first, column, gain, columns):
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
def _push(keys, items, n, key, item):
    """Put into a binary heap; return its new length."""
    place = n
    while place > 0 and keys[(place - 1) // 2] > key:
        keys[place], items[place] = keys[(place - 1) // 2], items[(place - 1) // 2]
        place = (place - 1) // 2
    keys[place], items[place] = key, item
    return n + 1


@compiled
def _pop(keys, items, n):
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
