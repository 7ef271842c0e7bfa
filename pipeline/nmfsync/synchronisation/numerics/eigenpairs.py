"""Leading eigenpairs of a sparse match matrix, the same in every run.

W is block-diagonal over the connected components of the matches, and real W
has hundreds of small ones. Each component is solved on its own: this is exact,
keeps the repeated eigenvalues 2, 3, 4 … of the small ones (on which ARPACK
fails) apart, and settles ties by the order of the features.
"""

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import linalg, sparse

from nmfsync.errors import NmfsyncWarning
from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.components import (
    count_by_component,
    groups,
    label_components,
)
from nmfsync.synchronisation.numerics.effort import PRODUCT, Effort
from nmfsync.synchronisation.numerics.products import (
    PANEL,
    gram,
    inner,
    recurrence_step,
    sparse_product,
)
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import PairwiseMatches

Order = Literal["algebraic", "magnitude"]

DENSE_SIZE = 1500  # components up to here are solved densely, at about 1 s and 50 MB

# Larger ones are, too, up to this multiple of the number of eigenvectors: their basis alone is
# then about as large as the dense matrix, and most of the spectrum is wanted.
DENSE_RATIO = 3

DIGITS = 9  # after the point, by which eigenvalues differ; the later ones are rounding errors

NULL = 1e-6  # eigenvalues up to here are rounding errors, where W is 0/1

EPS = np.finfo(np.float64).eps

# The iterative solver for the other components.

MAX_FILTERS = 60  # rounds; spectra without a gap would take hundreds for the last digits

TOLERANCE = 1e-6  # of the residual, relative to a bound of the largest eigenvalue

WARNING = 1e-3  # residual that is worth a warning, relative to the same bound

# Vectors beyond those wanted, at least, and as a share of those: the last wanted ones converge
# the faster the further away the first eigenvalue is that has no vector.
LEAST_SPARE = 10
SPARE_SHARE = 8  # 1 / 8

LANCZOS_STEPS = 20  # for the ends of the spectrum, which only have to be bounded

EXHAUSTED = 1e-9  # length of the next Lanczos vector below which it is rounding errors

MAX_GAIN = 1e7  # of the largest eigenvalue over those to be damped, about 1/ε in single precision

MIN_DEGREE, MAX_DEGREE = 2, 32  # of the filter; a higher one gains less than a new projection

LEAST_WIDTH = 1e-3  # of the damped interval, where the spectrum ends just below the wanted part

# The least half width of the damped interval, relative to the largest eigenvalue: a filter of the
# least degree, which gains 2x², then stays below MAX_GAIN.
LEAST_HALF = 1 / 2000

# For the estimate of the effort, in seconds on one core: per cubed size of a dense matrix, per
# entry of W and vector in a round of the filter; and how many rounds there are as a rule.
EIGH, FILTER, USUAL_ROUNDS = 2e-10, 2e-8, 4

COMPARE = 4e-9  # and for a product of two rows of the eigenvectors, beside the product itself

LEAST_DISTANCE = 1e-6  # of the largest eigenvalue from the damped interval, in half widths


def top_eigenpairs(
    W: sparse.csr_array, count: int, by: Order = "algebraic", seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Return the leading eigenpairs of a symmetric sparse matrix.

    Parameters
    ----------
    W : sparse array, shape (m, m)
        Symmetric.
    count : int
        Number of eigenpairs; more than m are cut to m.
    by : "algebraic" or "magnitude"
        Take the largest eigenvalues, or those largest in absolute value.
    seed : int
        For the start vectors of large components.

    Returns
    -------
    values : (count,) float64 array
        In descending order (of absolute value, for "magnitude").
    vectors : (m, count) float64 array
        Orthonormal columns, each of them zero outside one component.

    Warns
    -----
    NmfsyncWarning
        If the eigenvectors of a large component have not converged, or if
        `count` is so small that some matched features lie outside all of them.
    """
    parts = eigenpairs_by_component(W, count, by, seed)
    count = sum(len(part.values) for part in parts)
    values, vectors = np.empty(count), np.zeros((W.shape[0], count))
    for part in parts:
        values[part.rank] = part.values
        vectors[part.rows[:, None], part.rank] = part.vectors
    return values, vectors


def eigenpairs_effort(
    n: IntArray, entries: IntArray, count: int | IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimate what eigenpairs of each of several components take.

    Parameters
    ----------
    n, entries : (c,) int arrays
        Features of the components, and entries of W in them.
    count : int or (c,) int array
        Number of eigenpairs.

    Returns
    -------
    seconds, kept, work : (c,) float64 arrays
        Time, bytes of the result, and bytes beside it in the meantime.
    """
    dense = n <= np.maximum(DENSE_SIZE, DENSE_RATIO * count)
    size = n.astype(float)
    width = count + np.maximum(LEAST_SPARE, count // SPARE_SHARE)
    # One round turns the basis, and filters it.
    rounds = 4 * PRODUCT * size * width**2 + FILTER * width * entries
    seconds = np.where(dense, EIGH * size**3, USUAL_ROUNDS * rounds)
    kept = 8 * np.where(dense, size**2, size * width)
    return seconds, kept, np.where(dense, 2, 4) * kept


def effort_of_rounding(matches: PairwiseMatches, d: int, row: float) -> Effort:
    """Estimate d eigenpairs, and the products of all rows in a component with each other.

    Beside them, a row takes so many seconds.
    """
    n, entries = count_by_component(matches.W)
    seconds, kept, work = eigenpairs_effort(n, entries, d)
    rows = n.astype(float)
    seconds += rows**2 * (PRODUCT / 2 * np.minimum(n, d) + COMPARE) + row * rows
    memory = kept.sum() + max(work.max(), 24 * rows.max() * float(matches.sizes.max()))
    return Effort(seconds.sum(), memory, f"d = {d:,} and {n.max():,} connected features")


class Eigenpairs(NamedTuple):
    """Those of the leading eigenpairs that belong to one component of the matches."""

    rows: IntArray  # (n,): the features of the component, ascending
    values: FloatArray  # (c,)
    vectors: FloatArray  # (n, c)
    rank: IntArray  # (c,): the place of each among those of all components


def eigenpairs_by_component(
    W: sparse.csr_array, count: int, by: Order = "algebraic", seed: int = 0
) -> list[Eigenpairs]:
    """Return the same as `top_eigenpairs`, without the zeros outside the components.

    Components without any of the eigenpairs are left out.
    """
    count = min(count, W.shape[0])
    blocks = _component_eigenpairs(W, count, by, seed)
    values = np.concatenate([v for _, v, _ in blocks])
    block_of = np.repeat(np.arange(len(blocks)), [len(v) for _, v, _ in blocks])
    column_of = np.concatenate([np.arange(len(v)) for _, v, _ in blocks])
    # Equal eigenvalues differ by rounding: the first feature decides among them.
    first = np.array([rows[0] for rows, _, _ in blocks])[block_of]
    size = np.abs(values) if by == "magnitude" else values
    chosen = np.lexsort((column_of, first, -np.round(size, DIGITS)))[:count]
    by_block = np.argsort(block_of[chosen], kind="stable")
    parts = []
    for rank in np.split(by_block, np.flatnonzero(np.diff(block_of[chosen[by_block]])) + 1):
        rows, block_values, block_vectors = blocks[block_of[chosen[rank[0]]]]
        columns = column_of[chosen[rank]]
        parts.append(Eigenpairs(rows, block_values[columns], block_vectors[:, columns], rank))
    _warn_if_truncated(W, parts)
    return parts


def _warn_if_truncated(W: sparse.csr_array, parts: list[Eigenpairs]) -> None:
    matched = np.diff(W.indptr) > 1
    lost = matched.copy()
    for part in parts:
        lost[part.rows] &= ~part.vectors.any(axis=1)
    if lost.any():
        count = sum(len(part.values) for part in parts)
        warnings.warn(
            f"universe size {count} is too small: {lost.sum()} of {matched.sum()} matched "
            "features cannot be represented and lose their matches; give a larger one",
            NmfsyncWarning,
            stacklevel=3,
        )


def _component_eigenpairs(
    W: sparse.csr_array, count: int, by: Order, seed: int
) -> list[tuple[IntArray, FloatArray, FloatArray]]:
    """Rows, eigenvalues and eigenvectors of every connected component."""
    by_size: dict[int, list[IntArray]] = {}
    for rows in groups(label_components(W)):
        by_size.setdefault(len(rows), []).append(rows)
    limit = max(DENSE_SIZE, DENSE_RATIO * count)
    dense = [group for n, group in sorted(by_size.items()) if n <= limit]
    result: list[tuple[IntArray, FloatArray, FloatArray]] = []
    with phase(sum(map(len, dense)), "Eigenvectors", "component") as bar:
        for group in dense:
            values, vectors = _dense_eigenpairs(W, np.array(group))
            result.extend(zip(group, values, vectors, strict=True))
            bar.update(len(group))
    for n, group in sorted(by_size.items()):
        for rows in group if n > limit else ():
            pairs = _filtered_subspace(W[rows][:, rows], count, by, seed)
            result.append((rows, *pairs))
    return result


def _dense_eigenpairs(W: sparse.csr_array, group: IntArray) -> tuple[Any, Any]:
    """Solve all components of one size at once; `group` is (components, rows).

    NumPy's solver is divide and conquer: the relatively robust one may fail on
    repeated eigenvalues.
    """
    count, n = group.shape
    place = np.empty(W.shape[0], dtype=np.int64)
    place[group.ravel()] = np.tile(np.arange(n), count)
    entries = W[group.ravel()].tocoo()
    stack = np.zeros((count, n, n))
    stack[entries.row // n, entries.row % n, place[entries.col]] = entries.data
    return np.linalg.eigh(stack)


def _filtered_subspace(
    A: sparse.csr_array, count: int, by: Order, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Chebyshev-filtered subspace iteration with Rayleigh-Ritz projections.

    It copes with repeated eigenvalues, and stops after a bounded number of rounds
    with the best pairs found (Zhou, Saad, Tiago & Chelikowsky 2006). The filter
    works in single precision: it only has to turn the subspace, whose eigenpairs
    and residuals are computed in double precision.
    """
    n = A.shape[0]
    A = sparse.csr_array((A.data, A.indices.astype(np.int32), A.indptr), shape=A.shape)
    A_single = A.astype(np.float32)
    width = min(n, count + max(LEAST_SPARE, count // SPARE_SHARE))
    radius = float(np.abs(A).sum(axis=1).max())  # |λ| ≤ max_p Σ_q |a_pq| (Gershgorin)
    rng = np.random.default_rng(seed)
    least, largest = _extreme_values(A, rng.standard_normal(n))
    X = rng.standard_normal((n, width))
    with phase(None, "Eigenvectors", "round") as bar:
        for filters_left in reversed(range(MAX_FILTERS)):
            values, residual = _rayleigh_ritz(A, X, by)
            unfinished = np.flatnonzero(residual[:count] > TOLERANCE * radius)
            if len(unfinished) == 0 or filters_left == 0:
                break
            if by == "magnitude":
                # ‖Ax‖ = √(value² + residual²), and not the Ritz value, which is near 0
                # where λ and −λ are mixed.
                cut = np.hypot(values, residual)[count:].min()
                low = -cut
            else:
                cut = values[-1]
                low = min(least, cut - LEAST_WIDTH)
            _filter(A_single, X[:, unfinished[0] :], low, cut, max(largest, -least))
            bar.update()
    worst = residual[:count].max()
    if worst > WARNING * radius:
        warnings.warn(
            f"the {count} leading eigenvectors of a component of {n} features "
            f"are exact only to {worst / radius:.0e}; another seed or universe size may do better",
            NmfsyncWarning,
            stacklevel=2,
        )
    return values[:count], X[:, :count]


def _extreme_values(A: sparse.csr_array, start: FloatArray) -> tuple[float, float]:
    """Bounds of the spectrum, from a few Lanczos steps (Zhou & Li 2011); nearly always true.

    The extreme eigenvalues of the tridiagonal matrix, less or more by the
    residual of their eigenvectors.
    """
    previous, beta = np.zeros_like(start), 0.0
    current = start / np.linalg.norm(start)
    diagonal, beside = [], []
    for _ in range(LANCZOS_STEPS):
        following = A @ current - beta * previous
        diagonal.append(current @ following)
        following -= diagonal[-1] * current
        beta = float(np.linalg.norm(following))
        beside.append(beta)
        if beta < EXHAUSTED:
            break
        previous, current = current, following / beta
    values, vectors = linalg.eigh_tridiagonal(diagonal, beside[:-1])
    error = beta * np.abs(vectors[-1])
    return float(values[0] - error[0]), float(values[-1] + error[-1])


def _rayleigh_ritz(A: sparse.csr_array, X: FloatArray, by: Order) -> tuple[FloatArray, FloatArray]:
    """Turn the columns of X, in place, into Ritz vectors; return their values and residuals."""
    AX = sparse_product(A, X)
    G, H = gram(X), inner(X, AX)
    # Columns differ in length by what the filter made of them.
    scale = 1 / np.sqrt(np.diag(G))
    lengths, whiten = np.linalg.eigh(G * scale * scale[:, None])
    whiten *= scale[:, None] / np.sqrt(np.maximum(lengths, EPS * lengths[-1]))
    values, rotation = np.linalg.eigh(whiten.T @ ((H + H.T) / 2) @ whiten)
    order = np.argsort(-np.abs(values) if by == "magnitude" else -values, kind="stable")
    values, rotation = values[order], whiten @ rotation[:, order]

    def rotate(rows: slice) -> FloatArray:
        X[rows] = X[rows] @ rotation
        return np.asarray(((AX[rows] @ rotation - X[rows] * values) ** 2).sum(axis=0))

    return values, np.sqrt(np.sum(map_blocks(rotate, len(X)), axis=0))


def _filter(A: sparse.csr_array, X: FloatArray, low: float, high: float, largest: float) -> None:
    """Damp, in place, the eigenvectors with eigenvalues in [low, high], amplify all others.

    The Chebyshev polynomial T_n(x) with x = (A − centre) / half, by the recurrence
    T_(j+1) = 2x T_j − T_(j−1). In [low, high] it is between −1 and 1; outside, it
    is about ½ exp(n arccosh |x|). Its degree is limited such that the largest
    eigenvalue does not drown the others in rounding errors.
    """
    centre, half = (low + high) / 2, max((high - low) / 2, LEAST_HALF * largest)
    growth = np.arccosh(max((largest - centre) / half, 1 + LEAST_DISTANCE))
    degree = int(np.clip(np.log(MAX_GAIN) / growth, MIN_DEGREE, MAX_DEGREE))

    def work(columns: slice) -> None:
        current = X[:, columns].astype(np.float32, order="C")
        following = np.zeros_like(current)
        for scale in [1 / half] + [2 / half] * (degree - 1):
            single = np.float32(scale), np.float32(centre)
            recurrence_step(A.indptr, A.indices, A.data, *single, current, following)
            current, following = following, current
        X[:, columns] = current

    map_blocks(work, X.shape[1], PANEL)
