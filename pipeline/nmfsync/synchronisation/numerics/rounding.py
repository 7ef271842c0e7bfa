"""From real numbers to matches: assignments, pruning, and greedy selection."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from nmfsync.runtime.progress import phase
from nmfsync.types.arrays import IntArray

NO_EVIDENCE = 1e-9  # entries of R up to here are rounding errors


def assign_to_universe(R: NDArray[np.floating], sizes: IntArray, theta: float) -> IntArray:
    """Round R to a universe feature for every feature.

    For every image, the assignment that maximises ⟨R_i, U_i⟩ is found exactly.
    Features that find no column (m_i > d), and assigned ones with R < theta or
    without any evidence, get a universe feature of their own (the paper,
    Sec. 4.3).

    Parameters
    ----------
    R : (m, d) float64 array
        How well feature p fits universe feature c.
    sizes : (k,) int array
    theta : float

    Returns
    -------
    (m,) int array
        The universe feature of every feature; the numbers have gaps.
    """
    m, d = R.shape
    universe = d + np.arange(m)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    with phase(len(sizes), "Assigning", "image") as bar:
        for start, stop in pairwise(offsets):
            rows, columns = linear_sum_assignment(R[start:stop], maximize=True)
            universe[start + rows] = columns
            bar.update()
    assigned = np.flatnonzero(universe < d)
    fit = R[assigned, universe[assigned]]
    pruned = assigned[(fit < theta) | (fit <= NO_EVIDENCE)]
    universe[pruned] = d + pruned
    return np.asarray(universe)


def greedy_one_to_one(
    rows: IntArray, columns: IntArray, scores: NDArray[np.floating]
) -> NDArray[np.bool_]:
    """Accept entries by descending score while their row and column are free.

    Ties go to the entry listed first. An entry that comes first in both its row
    and its column is accepted whatever happens elsewhere, so all such entries
    are accepted at once, round after round, with the same outcome.

    Parameters
    ----------
    rows, columns : (n,) int arrays
    scores : (n,) float array

    Returns
    -------
    (n,) bool array
    """
    accepted = np.zeros(len(rows), dtype=bool)
    left = np.argsort(-scores, kind="stable")
    _, rows = np.unique(rows, return_inverse=True)
    _, columns = np.unique(columns, return_inverse=True)
    free_row = np.ones(rows.max(initial=-1) + 1, dtype=bool)
    free_column = np.ones(columns.max(initial=-1) + 1, dtype=bool)
    while len(left):
        first = _first_of_its_kind(rows[left]) & _first_of_its_kind(columns[left])
        taken = left[first]
        accepted[taken] = True
        free_row[rows[taken]] = False
        free_column[columns[taken]] = False
        left = left[free_row[rows[left]] & free_column[columns[left]]]
    return accepted


def _first_of_its_kind(values: IntArray) -> NDArray[np.bool_]:
    """Mark where a value appears for the first time."""
    first = np.zeros(len(values), dtype=bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first
