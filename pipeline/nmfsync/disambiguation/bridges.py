"""Bridges: pairs of images that alone link two groups."""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.types.arrays import BoolArray, FloatArray, IntArray

# No mapper makes a model of fewer images, which are lost without a bridge: theirs may be in
# doubt, down to these log-odds. A wrong bridge between larger groups folds both of them.
_SMALL, _DOUBT = 3, -1.0


def groups(k: int, pairs: IntArray) -> IntArray:
    """(k,) ints: the group of images that pairs (n, 2) connect, for every image."""
    graph = sparse.csr_array((np.ones(len(pairs)), pairs.T), shape=(k, k))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def restored(
    k: int, pairs: IntArray, right: BoolArray, own: FloatArray, strength: FloatArray
) -> BoolArray:
    """Take back the pairs that alone link groups, unless they contradict themselves.

    Parameters
    ----------
    k : int
        Images.
    pairs : (n, 2) ints
    right : (n,) bools
        What was found.
    own : (n,) floats
        The log-odds that a pair itself gives, without triplets.
    strength : (n,) floats
        Stronger bridges are taken first.

    Returns
    -------
    (n,) bools
    """
    right = right.copy()
    of = groups(k, pairs[right])
    order = np.lexsort((pairs[:, 1], pairs[:, 0], -strength))
    for n in order[~right[order]]:
        a, b = of[pairs[n]]
        small = min((of == a).sum(), (of == b).sum()) < _SMALL
        if a != b and own[n] >= (_DOUBT if small else 0):
            right[n] = True
            of[of == b] = a
    return right


def bridges(k: int, pairs: IntArray) -> BoolArray:
    """(n,) bools: whether images fall into more groups without the pair (Tarjan, 1974)."""
    neighbours: list[list[tuple[int, int]]] = [[] for _ in range(k)]
    for n, (i, j) in enumerate(pairs.tolist()):
        neighbours[i].append((j, n))
        neighbours[j].append((i, n))
    alone = np.zeros(len(pairs), bool)
    entered, lowest = [-1] * k, [0] * k
    for start in range(k):
        if entered[start] < 0:
            _walk(start, neighbours, entered, lowest, alone)
    return alone


def _walk(
    start: int,
    neighbours: list[list[tuple[int, int]]],
    entered: list[int],
    lowest: list[int],
    alone: BoolArray,
) -> None:
    """Go through a group depth first; `lowest` is the earliest image reached from one or beyond."""
    clock = max(entered) + 1
    entered[start] = lowest[start] = clock
    path = [(start, -1, iter(neighbours[start]))]
    while path:
        image, came_by, rest = path[-1]
        step = next(((j, n) for j, n in rest if n != came_by), None)
        if step is None:
            path.pop()
            if path:
                before = path[-1][0]
                lowest[before] = min(lowest[before], lowest[image])
                alone[came_by] = lowest[image] > entered[before]
        elif entered[step[0]] >= 0:
            lowest[image] = min(lowest[image], entered[step[0]])
        else:
            clock += 1
            entered[step[0]] = lowest[step[0]] = clock
            path.append((*step, iter(neighbours[step[0]])))
