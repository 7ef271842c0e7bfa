"""Leading eigenpairs of a sparse match matrix, the same in every run.

W is block-diagonal over the connected components of the matches, and real W
has hundreds of small ones. Each component is solved on its own: this is exact,
keeps the repeated eigenvalues 2, 3, 4 … of the small ones (on which ARPACK
fails) apart, and settles ties by the order of the features.
"""

import warnings
from typing import Any, Literal

import numpy as np
from scipy import linalg, sparse

from nmfsync.errors import NmfsyncWarning
from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.components import groups, label_components
from nmfsync.synchronisation.numerics.products import (
    PANEL,
    gram,
    inner,
    recurrence_step,
    sparse_product,
)
from nmfsync.types.arrays import FloatArray, IntArray

Order = Literal["algebraic", "magnitude"]

DENSE_SIZE = 1500  # components up to here are solved densely, at about 1 s and 50 MB

# Larger ones are, too, up to this multiple of the number of eigenvectors: their basis alone is
# then about as large as the dense matrix, and most of the spectrum is wanted.
DENSE_RATIO = 3

DIGITS = 9  # after the point, by which eigenvalues differ; the later ones are rounding errors

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

# The least half width of the damped interval, and relative distance of the largest eigenvalue
# from it: the filter divides by both.
LEAST_HALF, LEAST_DISTANCE = 1e-6, 1e-6


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
    m = W.shape[0]
    count = min(count, m)
    blocks = _component_eigenpairs(W, count, by, seed)
    values = np.concatenate([v for _, v, _ in blocks])
    block_of = np.repeat(np.arange(len(blocks)), [len(v) for _, v, _ in blocks])
    column_of = np.concatenate([np.arange(len(v)) for _, v, _ in blocks])
    # Equal eigenvalues differ by rounding: the first feature decides among them.
    first = np.array([rows[0] for rows, _, _ in blocks])[block_of]
    size = np.abs(values) if by == "magnitude" else values
    chosen = np.lexsort((column_of, first, -np.round(size, DIGITS)))[:count]
    vectors = np.zeros((m, count))
    for number in np.unique(block_of[chosen]):
        rows, _, block_vectors = blocks[number]
        columns = np.flatnonzero(block_of[chosen] == number)
        vectors[rows[:, None], columns] = block_vectors[:, column_of[chosen[columns]]]
    _warn_if_truncated(W, vectors)
    return values[chosen], vectors


def _warn_if_truncated(W: sparse.csr_array, vectors: FloatArray) -> None:
    matched = np.diff(W.indptr) > 1
    lost = int((matched & ~vectors.any(axis=1)).sum())
    if lost:
        warnings.warn(
            f"universe size {vectors.shape[1]} is too small: {lost} of {matched.sum()} matched "
            "features cannot be represented and lose their matches",
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
            f"are exact only to {worst / radius:.0e}",
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
    centre, half = (low + high) / 2, max((high - low) / 2, LEAST_HALF)
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
