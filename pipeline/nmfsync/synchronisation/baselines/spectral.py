"""Spectral synchronisation of permutations, extended to partial matchings."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.effort import PRODUCT, Effort
from nmfsync.synchronisation.numerics.eigenpairs import (
    NULL,
    Eigenpairs,
    effort_of_rounding,
    eigenpairs_by_component,
)
from nmfsync.synchronisation.numerics.rounding import NO_EVIDENCE
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, PairwiseMatches

MIN_CORRELATION = 0.5

ROW = 4e-5  # seconds for a feature, for the estimate of the effort


def spectral(matches: PairwiseMatches, universe_size: int, seed: int) -> MultiMatching:
    """Synchronise by the leading eigenvectors of W.

    With d the universe size, maximises ::

        ⟨W, YYᵀ⟩   over   Y (m × d) with YᵀY = I,

    the relaxation of a multi-matching, whose columns, scaled to length 1, are
    orthonormal indicators of universe features. The optimum is the d leading
    eigenvectors. Their rows, scaled to length 1, are the same for features of one
    point and orthogonal for features of different points if W is consistent.

    With more eigenvectors than points, the further ones have eigenvalues λ near 0
    or below: they say nothing of the matches, but would push the rows of one point
    apart. A feature without matches has λ = 1. So eigenvectors with less are
    multiplied by √λ before, and by 0 if λ ≤ 0; consistent matches then come back
    whatever d is, if it is large enough.

    If every image has d features, the rows Y_i of image i are assigned to those
    of the first image, by the permutation P that maximises ⟨Y_i Y_1ᵀ, P⟩; those
    whose product is not positive stay alone. Otherwise every feature that is
    still free, in order, opens a universe feature, which the free feature of every
    later image joins that has the largest product with it, if this is above ½.

    Parameters
    ----------
    matches : PairwiseMatches
    universe_size : int
        d, the number of eigenvectors. With fewer than there are points, some features
        are in none of them, or those of different points have the same row.
    seed : int
        For the start vectors of the eigensolver.

    Returns
    -------
    MultiMatching

    Notes
    -----
    Beside the eigenvectors, a component of n features with d of them costs O(n² d)
    time and O(n d) memory.

    References
    ----------
    Pachauri, Kondor, Singh: Solving the multi-way matching problem by
    permutation synchronization. NIPS 2013. Rounding for partial matchings:
    Zhou, Zhu, Daniilidis: Multi-image matching via fast alternating
    minimization. ICCV 2015.
    """
    sizes = matches.sizes
    parts = eigenpairs_by_component(matches.W, universe_size, by="algebraic", seed=seed)
    if np.all(sizes == universe_size):
        return MultiMatching(_assign_to_first_image(parts, sizes), sizes)
    universe = np.arange(len(matches.image_of))
    with phase(len(parts), "Gathering", "component") as bar:
        for part in parts:
            gathered = _gather(_unit_rows(part), matches.image_of[part.rows])
            universe[part.rows] = part.rows[gathered]
            bar.update()
    return MultiMatching(universe, sizes)


def effort(matches: PairwiseMatches, settings: Mapping[str, Any]) -> Effort:
    """Estimate what the method will take."""
    d = settings["universe_size"]
    gathered = effort_of_rounding(matches, d, ROW)
    if np.any(matches.sizes != d):
        return gathered
    cells = float(len(matches.sizes)) * d**2  # of all rows, and of their products with those of one
    seconds, memory = gathered.seconds + PRODUCT * cells * d, gathered.memory + 16 * cells
    return Effort(seconds, memory, gathered.problem)


def _unit_rows(part: Eigenpairs) -> FloatArray:
    """Rows of the weighted eigenvectors, scaled to length 1; zero if nothing is known of them."""
    weight = np.sqrt(np.where(part.values > NULL, np.minimum(part.values, 1), 0))
    vectors = part.vectors * weight
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-9))


def _assign_to_first_image(parts: list[Eigenpairs], sizes: IntArray) -> IntArray:
    """Permutation of every image's features that fits the first image best; others are alone."""
    k, d = len(sizes), int(sizes[0])
    rows = np.zeros((k * d, d))
    for part in parts:
        rows[part.rows[:, None], part.rank] = _unit_rows(part)
    blocks = rows.reshape(k, d, d)
    universe = np.arange(len(rows)).reshape(k, d)
    with phase(k - 1, "Assigning", "image") as bar:
        for block, labels in zip(blocks[1:], universe[1:], strict=True):
            fit = block @ blocks[0].T
            p, q = linear_sum_assignment(fit, maximize=True)
            alike = fit[p, q] > NO_EVIDENCE
            labels[p[alike]] = q[alike]
            bar.update()
    return universe.ravel()


def _gather(rows: FloatArray, image_of: IntArray) -> IntArray:
    """Let every free feature, in order, collect its best partner in every later image.

    `rows` and `image_of` are those of a component; returns a member for every one.
    """
    universe = np.full(len(rows), -1)
    stops = np.append(np.flatnonzero(np.diff(image_of)) + 1, len(rows))
    for start, stop in pairwise([0, *stops]):
        here = start + np.flatnonzero(universe[start:stop] < 0)
        later = stop + np.flatnonzero(universe[stop:] < 0)
        universe[here] = here
        for p, correlation in zip(here, _correlations(rows, here, later), strict=True):
            near = np.flatnonzero((correlation > MIN_CORRELATION) & (universe[later] < 0))
            # Best first, ties to the lower index; then the first one of each image.
            near = later[near[np.argsort(-correlation[near], kind="stable")]]
            _, best = np.unique(image_of[near], return_index=True)
            universe[near[best]] = p
    return universe


def _correlations(rows: FloatArray, here: IntArray, later: IntArray) -> FloatArray:
    """Products of the rows `here` with those of `later`, shape (len(here), len(later))."""
    result = np.empty((len(here), len(later)))

    def work(part: slice) -> None:
        result[:, part] = rows[here] @ rows[later[part]].T

    map_blocks(work, len(later))
    return result
