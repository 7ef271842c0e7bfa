"""MatchALS: synchronisation by low-rank matrix recovery."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from nmfsync.runtime.compiled import compiled
from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import BLOCK, map_blocks, thread_count
from nmfsync.synchronisation.numerics.components import diagonal_blocks, label_components
from nmfsync.synchronisation.numerics.effort import PRODUCT, PRODUCT_SINGLE, Effort
from nmfsync.synchronisation.numerics.products import gram
from nmfsync.synchronisation.numerics.rounding import greedy_one_to_one
from nmfsync.types.arrays import Float32Array, IntArray
from nmfsync.types.matches import PairwiseMatches

ALPHA = 50.0  # weight of the nuclear norm

BETA = 0.1  # price of a match


PART_SIZE = 200  # small components are solved together, up to so many features

# For the estimate of the effort: iterations where half of the pairs of images is matched or more,
# and seconds for an iteration, and in it for an entry of X beside the products.
FEWEST, STEP, ENTRY = 120, 2e-4, 3e-9

ZERO, ONE = np.float32(0), np.float32(1)


def matchals(
    matches: PairwiseMatches,
    seed: int,
    max_iterations: int = 1000,
    tolerance: float = 5e-4,
) -> PairwiseMatches:
    """Synchronise by recovering a low-rank match matrix.

    Minimises ::

        ⟨β − W, X⟩ + α‖X‖_*   over   X in [0, 1] with identity diagonal blocks,

    where ‖X‖_* is the sum of the singular values, α = 50 their price and β = 0.1
    the price of a match. The alternating direction method of multipliers solves
    it with X = ABᵀ, where A and B have r = min(m, 4 · most features of an image)
    columns. Entries above ½ become matches (best first, where several in a block
    compete for one feature). The result is not cycle-consistent.

    Features without a path of matches between them have X = 0 at the optimum:
    dropping such entries of any X raises neither term. So each part of the
    problem that holds together is solved on its own, on dense arrays of its
    size.

    Parameters
    ----------
    matches : PairwiseMatches
    seed : int
        For the random start of A.
    max_iterations : int
    tolerance : float
        Stops when the primal and the dual residual are both below.

    Returns
    -------
    PairwiseMatches

    Notes
    -----
    For a part with m features, an iteration costs O(m² r) time, and the memory is
    two m × m arrays in single precision. Parts with the same matches are solved once.

    References
    ----------
    Zhou, Zhu, Daniilidis: Multi-image matching via fast alternating
    minimization. ICCV 2015.
    """
    pairs = [np.empty((2, 0), dtype=np.int64)]
    with phase(None, "Recovering", "iteration") as bar:
        for equal in _independent_parts(matches):
            part = equal[0].matches
            X = _solve(part, _rank(part), seed, max_iterations, tolerance, bar.update)
            found = _threshold(X, part)
            pairs.extend(other.rows[found] for other in equal)
    p, q = np.hstack(pairs)
    return PairwiseMatches.from_entries(p, q, matches.sizes)


def effort(matches: PairwiseMatches, settings: Mapping[str, Any]) -> Effort:
    """Estimate what the method will take.

    The number of iterations is the uncertain part: it is between 50 and 1,000, and
    larger where few of the images of a part are matched with each other.
    """
    seconds = memory = features = 0.0
    most = settings.get("max_iterations", math.inf)
    parts = _independent_parts(matches)
    for part, *_ in parts:
        n, k = float(len(part.rows)), len(part.matches.sizes)
        r = float(_rank(part.matches))
        matched = (part.matches.W.nnz / n - 1) / max(k - 1, 1)  # share of the other images
        iterations = min(most, FEWEST * np.clip(0.5 / matched, 1, 6))
        products = PRODUCT_SINGLE * (3 * n**2 * r + 4 * n * r**2) + 2 * PRODUCT * r**3
        seconds += iterations * (STEP + ENTRY * n**2 + products)
        blocks = 2 * thread_count() * BLOCK * n
        memory = max(memory, 4 * (2 * n**2 + 2 * n * r + 8 * r**2 + blocks))
        features = max(features, n)
    return Effort(
        seconds, memory, f"{len(parts):,} dense problems of up to {features:,.0f} features"
    )


class _Part(NamedTuple):
    """Features that no match connects to others, and the matches of these."""

    rows: IntArray  # (n,): the features, ascending
    matches: PairwiseMatches  # in those images alone that have any of them


def _independent_parts(matches: PairwiseMatches) -> list[list[_Part]]:
    """Return W's connected components, small ones put together, the largest first.

    None is of single features. Those with the same matches are in one list: they have
    the same solution.
    """
    label = label_components(matches.W)
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
    matched = np.flatnonzero(part_of[label] >= 0)
    image_of = matches.image_of[matched]
    found: dict[tuple[bytes, ...], list[_Part]] = {}
    for rows, W in diagonal_blocks(matches.W[matched][:, matched], part_of[label[matched]]):
        sizes = np.unique(image_of[rows], return_counts=True)[1]
        key = tuple(array.tobytes() for array in (W.data, W.indices, W.indptr, sizes))
        found.setdefault(key, []).append(_Part(matched[rows], PairwiseMatches(W, sizes)))
    return list(found.values())


def _rank(part: PairwiseMatches) -> int:
    """Return the number of columns of A and B."""
    return int(min(part.W.shape[0], 4 * part.sizes.max()))


def _solve(
    matches: PairwiseMatches,
    rank: int,
    seed: int,
    max_iterations: int,
    tolerance: float,
    done: Callable[[], Any] = lambda: None,
) -> Float32Array:
    """Run the ADMM; return the relaxed matches X, symmetrised.

    Only X and P = X + Y/μ are kept as m × m arrays: Z is P projected onto the
    constraints, and the multipliers are Y = μ(P − Z). All else is made from
    them, block by block, where it is needed. `done` is called after every iteration.
    """
    m = matches.W.shape[0]
    identity = sparse.eye_array(m, dtype=np.float32)
    W = (matches.W - identity).astype(np.float32).tocsr()
    own = np.repeat(list(pairwise(matches.offsets)), matches.sizes, axis=0)
    X = W.toarray()
    P = X.copy()
    np.fill_diagonal(P, 1)
    mu, ratio = 64.0, 1.0  # ratio of the μ that P was made with to the present one
    reward = (W * np.float32(1 / mu) - identity).tocsr()  # as if Z, too, began without a diagonal
    A = np.random.default_rng(seed).random((m, rank), dtype=np.float32)
    B = np.empty_like(A)
    for _ in range(max_iterations):
        target = _Target(P, own, reward, np.float32(ratio), np.float32(BETA / mu))
        _fit(partial(target.transposed_times, A), A, ALPHA / mu, out=B)
        _fit(partial(target.times, B), B, ALPHA / mu, out=A)
        primal, change = _move(X, P, A, B, own, np.float32(ratio))
        dual, ratio = mu * change, 1.0
        done()
        if primal < tolerance and dual < tolerance:
            break
        if primal > 10 * dual:
            mu, ratio = 2 * mu, 0.5
        elif dual > 10 * primal:
            mu, ratio = mu / 2, 2.0
        reward = W * np.float32(1 / mu)
    del P, target  # which would hold it
    symmetric = X + X.T
    symmetric *= np.float32(0.5)
    return np.asarray(symmetric)


class _Target(NamedTuple):
    """What X is fitted to, T = Z − (Y − W + β)/μ, never formed as a whole.

    Attributes
    ----------
    P : (m, m) float32 array
    own : (m, 2) int array
        First and last + 1 feature of every feature's image.
    reward : float32 sparse array, shape (m, m)
        W/μ without the diagonal; symmetric.
    ratio : float32
        μ that P was made with, relative to the present μ.
    price : float32
        β/μ.
    """

    P: Float32Array
    own: IntArray
    reward: sparse.csr_array
    ratio: np.float32
    price: np.float32

    def times(self, B: Float32Array, rows: slice) -> Float32Array:
        """Rows of TB."""
        dense = np.empty((rows.stop - rows.start, len(B)), dtype=np.float32)
        _target_block(self.P, self.own, self.ratio, self.price, rows.start, 0, dense)
        return np.asarray(dense @ B + self.reward[rows] @ B)

    def transposed_times(self, A: Float32Array, rows: slice) -> Float32Array:
        """Rows of TᵀA."""
        dense = np.empty((len(A), rows.stop - rows.start), dtype=np.float32)
        _target_block(self.P, self.own, self.ratio, self.price, 0, rows.start, dense)
        return np.asarray(dense.T @ A + self.reward[rows] @ A)


@compiled
def _project(value, p, q, own):
    """Z at (p, q): the identity inside an image, elsewhere P clipped to [0, 1]."""
    if own[p, 0] <= q < own[p, 1]:
        return ONE if p == q else ZERO
    return min(max(value, ZERO), ONE)


@compiled
def _target_block(P, own, ratio, price, row, column, out):
    """Fill `out` with Z − Y/μ − β/μ, from the given row and column of P on."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            p, q = row + i, column + j
            z = _project(P[p, q], p, q, own)
            out[i, j] = z - ratio * (P[p, q] - z) - price


def _fit(
    product: Callable[[slice], Float32Array], F: Float32Array, ridge: float, out: Float32Array
) -> None:
    """Solve a ridge regression on the factor F, given (by blocks of rows) the target times F."""
    inverse = _inverse(gram(F) + np.float32(ridge) * np.eye(F.shape[1], dtype=np.float32))

    def work(rows: slice) -> None:
        np.matmul(product(rows), inverse, out=out[rows])

    map_blocks(work, len(out))


def _move(
    X: Float32Array,
    P: Float32Array,
    A: Float32Array,
    B: Float32Array,
    own: IntArray,
    ratio: np.float32,
) -> tuple[float, float]:
    """Set X to ABᵀ, then P to X + Y/μ; return ‖X − Z‖/m and how far X moved, ‖ΔX‖/m."""

    def work(rows: slice) -> tuple[float, float]:
        error, change = _move_block(X, P, own, ratio, rows.start, A[rows] @ B.T)
        return error, change

    squares = np.array(map_blocks(work, len(X)))
    gap, change = np.sqrt(squares.sum(axis=0)) / len(X)
    return float(gap), float(change)


@partial(compiled, fastmath={"reassoc"})  # or the sums would not be vectorised
def _move_block(X, P, own, ratio, row, moved):
    """Update the rows of X and P from the given one on; return ‖X − Z‖² and ‖ΔX‖²."""
    gap = change = 0.0
    for i in range(moved.shape[0]):
        p = row + i
        for q in range(moved.shape[1]):
            x = moved[i, q]
            z = _project(P[p, q], p, q, own)
            P[p, q] = x + ratio * (P[p, q] - z)
            z = _project(P[p, q], p, q, own)
            gap += np.float64(x - z) ** 2
            change += np.float64(x - X[p, q]) ** 2
            X[p, q] = x
    return gap, change


def _inverse(matrix: Float32Array) -> Float32Array:
    """Invert a positive definite matrix, in double precision: it may be badly conditioned."""
    upper = lapack.dpotri(lapack.dpotrf(matrix.astype(np.float64))[0])[0]
    return np.asarray((np.triu(upper) + np.triu(upper, 1).T).astype(np.float32))


def _threshold(X: Float32Array, matches: PairwiseMatches) -> IntArray:
    """Keep entries above one half, at most one of a feature in every other image."""
    image, k = matches.image_of, len(matches.sizes)
    p, q = np.nonzero(X > 0.5)
    above = image[p] < image[q]
    p, q = p[above], q[above]
    taken = greedy_one_to_one(p * k + image[q], q * k + image[p], X[p, q])
    return np.stack([p[taken], q[taken]])
