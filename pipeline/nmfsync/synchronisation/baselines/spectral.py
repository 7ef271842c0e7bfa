"""Spectral synchronisation of permutations, extended to partial matchings."""

from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.eigenpairs import top_eigenpairs
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, PairwiseMatches

MIN_CORRELATION = 0.5


def spectral(matches: PairwiseMatches, universe_size: int, seed: int) -> MultiMatching:
    """Synchronise by the leading eigenvectors of W.

    With d the universe size, maximises ::

        ⟨W, YYᵀ⟩   over   Y (m × d) with YᵀY = I,

    the relaxation of a multi-matching, whose columns, scaled to length 1, are
    orthonormal indicators of universe features. The optimum is the d leading
    eigenvectors. Their rows, scaled to length 1, are the same for features of one
    point and orthogonal for features of different points if W is consistent.

    If every image has d features, the rows Y_i of image i are assigned to those
    of the first image, by the permutation P that maximises ⟨Y_i Y_1ᵀ, P⟩.
    Otherwise every feature that is still free, in order, opens a universe
    feature, which the free feature of every later image joins that has the
    largest product with it, if this is above ½.

    Parameters
    ----------
    matches : PairwiseMatches
    universe_size : int
        d, the number of eigenvectors.
    seed : int
        For the start vectors of the eigensolver.

    Returns
    -------
    MultiMatching

    Notes
    -----
    Beside the eigenvectors, it costs O(m² d) time and O(m d) memory.

    References
    ----------
    Pachauri, Kondor, Singh: Solving the multi-way matching problem by
    permutation synchronization. NIPS 2013. Rounding for partial matchings:
    Zhou, Zhu, Daniilidis: Multi-image matching via fast alternating
    minimization. ICCV 2015.
    """
    sizes = matches.sizes
    _, vectors = top_eigenpairs(matches.W, universe_size, by="algebraic", seed=seed)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-9)
    if np.all(sizes == universe_size):
        return MultiMatching(_assign_to_first_image(rows, len(sizes)), sizes)
    return MultiMatching(_gather(rows, matches), sizes)


def _assign_to_first_image(rows: FloatArray, k: int) -> IntArray:
    """Permutation of every image's features that fits the first image best."""
    blocks = rows.reshape(k, -1, rows.shape[1])
    assigned = []
    with phase(k, "Assigning", "image") as bar:
        for block in blocks:
            assigned.append(linear_sum_assignment(block @ blocks[0].T, maximize=True)[1])
            bar.update()
    return np.concatenate(assigned)


def _gather(rows: FloatArray, matches: PairwiseMatches) -> IntArray:
    """Let every free feature collect its best partner in every later image."""
    offsets, image_of = matches.offsets, matches.image_of
    universe = np.full(len(rows), -1)
    with phase(len(matches.sizes), "Gathering", "image") as bar:
        for start, stop in pairwise(offsets):
            here = start + np.flatnonzero(universe[start:stop] < 0)
            later = stop + np.flatnonzero(universe[stop:] < 0)
            universe[here] = here
            for p, correlation in zip(here, _correlations(rows, here, later), strict=True):
                near = np.flatnonzero((correlation > MIN_CORRELATION) & (universe[later] < 0))
                # Best first, ties to the lower index; then the first one of each image.
                near = later[near[np.argsort(-correlation[near], kind="stable")]]
                _, best = np.unique(image_of[near], return_index=True)
                universe[near[best]] = p
            bar.update()
    return universe


def _correlations(rows: FloatArray, here: IntArray, later: IntArray) -> FloatArray:
    """Products of the rows `here` with those of `later`, shape (len(here), len(later))."""
    result = np.empty((len(here), len(later)))

    def work(part: slice) -> None:
        result[:, part] = rows[here] @ rows[later[part]].T

    map_blocks(work, len(later))
    return result
