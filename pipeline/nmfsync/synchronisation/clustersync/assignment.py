"""Sparse assignment by shortest augmenting paths.

SciPy's `linear_sum_assignment` on the dense problem is the reference in the tests.
"""

from typing import NamedTuple

import numpy as np

from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.runtime.heap import pop, push
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray


class _Solution(NamedTuple):
    """The assignment so far, and the dual variables that prove it best.

    The cost of an entry is −gain, that of staying alone 0. Costs reduced by the
    dual variables, −gain − u − v and 0 − u, are never negative, and 0 where a row
    is assigned.

    Attributes
    ----------
    column_of : (rows,) int64 array
        The column of every row, -1 for none.
    row_of : (columns,) int64 array
        The row of every column, -1 for none.
    u : (rows,) float64 array
    v : (columns,) float64 array
    """

    column_of: IntArray
    row_of: IntArray
    u: FloatArray
    v: FloatArray


class _Paths(NamedTuple):
    """The shortest paths from one row to columns, and the columns yet to be visited.

    Attributes
    ----------
    distance : (columns,) float64 array
        Length of the shortest path known, inf for none.
    parent : (columns,) int64 array
        The last row on it.
    done : (columns,) bool array
        No shorter path exists.
    reached : (columns,) int64 array
        The columns with a path, in its first `n` entries.
    keys : float64 array
    items : int64 array
        Heap of columns by distance.
    """

    distance: FloatArray
    parent: IntArray
    done: BoolArray
    reached: IntArray
    keys: FloatArray
    items: IntArray


@compiled
def assign(row_first, column, gain, columns):
    """Assign rows to columns so that the sum of the gains is largest.

    Row r may take the columns column[e] at gain[e], for e from row_first[r] to
    row_first[r + 1] - 1, or stay alone at gain 0. Shortest augmenting paths, row
    by row (Jonker & Volgenant 1987).

    Parameters
    ----------
    row_first : (rows + 1,) int64 array
    column : (n,) int64 array
        Its entries after row_first[-1] are not read.
    gain : (n,) float64 array
    columns : int
        Number of columns.

    Returns
    -------
    (rows,) int64 array
        The column of every row, -1 for none.
    """
    rows, entries = len(row_first) - 1, row_first[-1]
    solution = _Solution(np.full(rows, -1), np.full(columns, -1), np.zeros(rows), np.zeros(columns))
    paths = _Paths(
        np.full(columns, np.inf),
        np.full(columns, -1),
        np.zeros(columns, dtype=np.bool_),
        np.empty(columns, dtype=np.int64),
        np.empty(entries + 1),
        np.empty(entries + 1, dtype=np.int64),
    )
    for root in range(rows):
        for entry in range(row_first[root], row_first[root + 1]):
            # The largest u without a negative reduced cost.
            reduced = -gain[entry] - solution.v[column[entry]]
            solution.u[root] = min(solution.u[root], reduced)
        length, last_row, last_column, n = _shortest_path(
            root, row_first, column, gain, solution, paths
        )
        _update_duals(root, length, n, solution, paths)
        _augment(last_row, last_column, solution, paths)
        for c in paths.reached[:n]:
            paths.distance[c], paths.done[c] = np.inf, False
    return solution.column_of


@inlined
def _shortest_path(root, row_first, column, gain, solution, paths):
    """Find the cheapest way to give `root` a place, by Dijkstra's algorithm on reduced costs.

    The path takes a column from its row, finds this row another column, and so
    on. It ends with a column that no row had, or with a row that stays alone.

    Returns
    -------
    length : float
    last_row, last_column : int
        Where it ends; the other one is -1.
    n : int
        Number of columns reached.
    """
    shortest, last_row, last_column = np.inf, -1, -1  # the best end so far
    n, waiting = 0, np.int64(0)  # of a fixed type: else the heap is compiled twice
    row, length = root, 0.0  # the row that paths are extended from, and the length up to there
    while row >= 0:
        alone = length - solution.u[row]
        if alone < shortest:
            shortest, last_row = alone, row
        for entry in range(row_first[row], row_first[row + 1]):
            c = column[entry]
            distance = length - gain[entry] - solution.u[row] - solution.v[c]
            if not paths.done[c] and distance < paths.distance[c] and distance < shortest:
                if paths.distance[c] == np.inf:
                    paths.reached[n] = c
                    n += 1
                paths.distance[c], paths.parent[c] = distance, row
                waiting = push(paths.keys, paths.items, waiting, distance, c)
        c, length, waiting = _pop_nearest(paths, waiting)
        row = -1
        if length < shortest:
            row = solution.row_of[c]
            if row < 0:
                shortest, last_row, last_column = length, -1, c
            else:
                paths.done[c] = True
    return shortest, last_row, last_column, n


@inlined
def _pop_nearest(paths, waiting):
    """Take the nearest column that is not done from the heap.

    Returns the column and its distance, -1 and inf if there is none, and the
    new length of the heap.
    """
    while waiting > 0:
        distance, c = paths.keys[0], paths.items[0]
        waiting = pop(paths.keys, paths.items, waiting)
        if not paths.done[c] and distance == paths.distance[c]:  # else a shorter path was found
            return c, distance, waiting
    return -1, np.inf, waiting


@inlined
def _update_duals(root, length, n, solution, paths):
    """Let the reduced costs be 0 along the path, and nowhere negative."""
    solution.u[root] += length
    for c in paths.reached[:n]:
        if paths.done[c]:
            solution.v[c] -= length - paths.distance[c]
            solution.u[solution.row_of[c]] += length - paths.distance[c]


@inlined
def _augment(last_row, last_column, solution, paths):
    """Give every row on the path its new column, from the end to the root."""
    c = last_column
    if last_row >= 0:
        c, solution.column_of[last_row] = solution.column_of[last_row], -1
    while c >= 0:  # the root, where the path began, had no column
        row = paths.parent[c]
        solution.row_of[c] = row
        c, solution.column_of[row] = solution.column_of[row], c
