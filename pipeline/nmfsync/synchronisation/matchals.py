"""MatchALS: synchronisation by low-rank matrix recovery."""

from itertools import pairwise

import numpy as np
import psutil
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.csgraph import connected_components

from nmfsync.errors import NmfsyncError
from nmfsync.matches import IntArray, PairwiseMatches
from nmfsync.synchronisation.projection import greedy_one_to_one

Float32Array = NDArray[np.float32]
ALPHA = 50.0  # weight of the nuclear norm
BETA = 0.1  # price of a match
PART_SIZE = 200  # small components are solved together, up to so many features
DENSE_ARRAYS = 8  # m × m arrays alive at once


class TooLargeError(NmfsyncError):
    """The problem does not fit into memory with this method."""


def matchals(
    matches: PairwiseMatches,
    universe_size: int,
    theta: float = 0.0,
    seed: int = 0,
    max_iterations: int = 1000,
    tolerance: float = 5e-4,
) -> PairwiseMatches:
    """Synchronise by recovering a low-rank match matrix.

    Minimises ⟨β − W, X⟩ + α‖X‖_* over X in [0, 1] with identity diagonal
    blocks, by the alternating direction method of multipliers with X = ABᵀ, and
    keeps the entries above ½ (best first, where several in a block compete for
    one feature). The result is not cycle-consistent.

    Features without a path of matches between them have X = 0 at the optimum:
    dropping such entries of any X raises neither term. So each part of the
    problem that holds together is solved on its own, on dense arrays of its
    size.

    Parameters
    ----------
    matches : PairwiseMatches
    universe_size : int
        Not used: the authors take the rank min(m, 4·max m_i), here of each part.
    theta : float
        Not used: the method has no pruning threshold.
    seed : int
        For the random start of A.
    max_iterations : int
    tolerance : float
        Stops when the primal and the dual residual are both below.

    Returns
    -------
    PairwiseMatches

    Raises
    ------
    TooLargeError
        If the dense arrays do not fit into memory.

    References
    ----------
    Zhou, Zhu, Daniilidis: Multi-image matching via fast alternating
    minimization. ICCV 2015.
    """
    parts = _independent_parts(matches.W)
    _require_memory(max(map(len, parts), default=1))
    image, k = matches.image_of, len(matches.sizes)
    pairs = [np.empty((2, 0), dtype=np.int64)]
    for rows in parts:
        sizes = np.bincount(image[rows], minlength=k)
        part = PairwiseMatches(matches.W[rows][:, rows], sizes)
        rank = int(min(len(rows), 4 * sizes.max()))
        X = _solve(part, rank, seed, max_iterations, tolerance)
        pairs.append(rows[_threshold(X, part)])
    p, q = np.hstack(pairs)
    upper = sparse.coo_array((np.ones(len(p)), (p, q)), shape=matches.W.shape).tocsr()
    return PairwiseMatches(upper + upper.T, matches.sizes)


def _independent_parts(W: sparse.csr_array) -> list[IntArray]:
    """Features of W's connected components, small ones put together; none of single features."""
    _, label = connected_components(W, directed=False)
    size = np.bincount(label)
    limit = max(size.max(initial=0), PART_SIZE)
    part_of = np.full(len(size), -1)
    filled: list[int] = []
    for component in np.argsort(-size, kind="stable"):
        if size[component] == 1:
            break
        if not filled or filled[-1] + size[component] > limit:
            filled.append(0)
        filled[-1] += size[component]
        part_of[component] = len(filled) - 1
    return [np.flatnonzero(part_of[label] == part) for part in range(len(filled))]


def _solve(
    matches: PairwiseMatches, rank: int, seed: int, max_iterations: int, tolerance: float
) -> Float32Array:
    """Run the ADMM; return the relaxed matches X, symmetrised.

    Works in place throughout: fresh m × m arrays cost more time than the products.
    """
    m = matches.W.shape[0]
    inside, identity_blocks = _diagonal_blocks(matches.offsets)
    X = matches.W.astype(np.float32).toarray()
    np.fill_diagonal(X, 0)
    reward = X - np.float32(BETA)  # W − β
    Z, Y, spare, X_next = X.copy(), np.zeros_like(X), np.empty_like(X), np.empty_like(X)
    mu = np.float32(64)
    A = np.random.default_rng(seed).random((m, rank), dtype=np.float32)
    identity = np.eye(rank, dtype=np.float32)
    for _ in range(max_iterations):
        target = np.subtract(reward, Y, out=spare)
        target /= mu
        target += Z
        ridge = ALPHA / mu * identity
        B = (A.T @ target).T @ _inverse(A.T @ A + ridge)
        A = (target @ B) @ _inverse(B.T @ B + ridge)
        np.matmul(A, B.T, out=X_next)
        dual = mu * np.linalg.norm(np.subtract(X_next, X, out=X)) / m
        X, X_next = X_next, X
        np.divide(Y, mu, out=Z)
        Z += X
        Z.ravel()[inside] = identity_blocks
        np.clip(Z, 0, 1, out=Z)
        gap = np.subtract(X, Z, out=spare)
        primal = np.linalg.norm(gap) / m
        Y += np.multiply(gap, mu, out=gap)
        if primal < tolerance and dual < tolerance:
            break
        if primal > 10 * dual:
            mu *= 2
        elif dual > 10 * primal:
            mu /= 2
    return (X + X.T) / 2


def _inverse(matrix: Float32Array) -> Float32Array:
    """Invert a positive definite matrix, in double precision: it may be badly conditioned."""
    upper = lapack.dpotri(lapack.dpotrf(matrix.astype(np.float64))[0])[0]
    return (np.triu(upper) + np.triu(upper, 1).T).astype(np.float32)


def _diagonal_blocks(offsets: IntArray) -> tuple[IntArray, Float32Array]:
    """Positions of the diagonal blocks in the flattened m × m array, and what belongs there."""
    m = int(offsets[-1])
    rows = [np.repeat(np.arange(start, stop), stop - start) for start, stop in pairwise(offsets)]
    columns = [np.tile(np.arange(start, stop), stop - start) for start, stop in pairwise(offsets)]
    row, column = np.concatenate(rows), np.concatenate(columns)
    return row * m + column, (row == column).astype(np.float32)


def _threshold(X: Float32Array, matches: PairwiseMatches) -> IntArray:
    """Keep entries above one half, at most one of a feature in every other image."""
    image, k = matches.image_of, len(matches.sizes)
    p, q = np.nonzero(X > 0.5)
    above = image[p] < image[q]
    p, q = p[above], q[above]
    taken = greedy_one_to_one(p * k + image[q], q * k + image[p], X[p, q])
    return np.stack([p[taken], q[taken]])


def _require_memory(m: int) -> None:
    needed = 4 * (DENSE_ARRAYS + 2) * m**2  # and A and B with what they are made from
    available = psutil.virtual_memory().available
    if needed > 0.9 * available:
        raise TooLargeError(
            f"matchals needs about {needed / 1e9:,.1f} GB for {m:,} connected features, "
            f"but {available / 1e9:,.1f} GB are free; use fewer features or another method"
        )
