"""Leading eigenpairs of a sparse match matrix, the same in every run.

W is block-diagonal over the connected components of the matches, and real W
has hundreds of small ones. Each component is solved on its own: this is exact,
keeps the repeated eigenvalues 2, 3, 4 … of the small ones (on which ARPACK
fails) apart, and settles ties by the order of the features.
"""

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.errors import NmfsyncWarning

FloatArray = NDArray[np.float64]
Order = Literal["algebraic", "magnitude"]

DENSE_SIZE = 1500  # components up to here are solved densely, at about 1 s and 50 MB
FILTER_DEGREE = 16
MAX_FILTERS = 40
TOLERANCE = 1e-6  # of the residual, relative to a bound of the largest eigenvalue


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
    chosen = np.lexsort((column_of, first, -np.round(size, 9)))[:count]
    vectors = np.zeros((m, count))
    for column, at in enumerate(chosen):
        rows, _, block_vectors = blocks[block_of[at]]
        vectors[rows, column] = block_vectors[:, column_of[at]]
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
) -> list[tuple[NDArray[np.int64], FloatArray, FloatArray]]:
    """Rows, eigenvalues and eigenvectors of every connected component."""
    _, label = connected_components(W, directed=False)
    order = np.argsort(label, kind="stable")
    components = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    by_size: dict[int, list[NDArray[np.int64]]] = {}
    for rows in components:
        by_size.setdefault(len(rows), []).append(rows)
    result = []
    for n, group in sorted(by_size.items()):
        # Beyond DENSE_SIZE, dense only where the basis itself is about as large.
        if n > max(DENSE_SIZE, 3 * count):
            for rows in group:
                pairs = _filtered_subspace(W[rows][:, rows], count, by, seed)
                result.append((rows, *pairs))
        else:
            values, vectors = _dense_eigenpairs(W, np.array(group))
            result.extend(zip(group, values, vectors, strict=True))
    return result


def _dense_eigenpairs(W: sparse.csr_array, group: NDArray[np.int64]) -> tuple[Any, Any]:
    """Solve all components of one size at once.

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

    Repeated eigenvalues do not trouble it, and it stops after a bounded number
    of rounds with the best pairs found (Zhou, Saad, Tiago & Chelikowsky 2006).
    """
    n = A.shape[0]
    width = min(n, count + max(10, count // 8))
    radius = float(np.abs(A).sum(axis=1).max())  # Gershgorin: no eigenvalue lies beyond
    X = np.random.default_rng(seed).standard_normal((n, width))
    for _ in range(MAX_FILTERS):
        X = linalg.qr(X, mode="economic", overwrite_a=True, check_finite=False)[0]
        values, rotation = np.linalg.eigh(X.T @ (A @ X))
        order = np.argsort(-np.abs(values) if by == "magnitude" else -values, kind="stable")
        values, X = values[order], X @ rotation[:, order]
        residual = np.linalg.norm(A @ X - X * values, axis=0)[:count].max()
        if residual <= TOLERANCE * radius:
            break
        cut = abs(values[-1])
        low = -cut if by == "magnitude" else min(2.0 - radius, cut - 1e-3)
        X = _chebyshev(A, X, low, cut if by == "magnitude" else values[-1])
    else:
        if residual > 1e-3 * radius:
            warnings.warn(
                f"the {count} leading eigenvectors of a component of {n} features "
                f"are exact only to {residual / radius:.0e}",
                NmfsyncWarning,
                stacklevel=2,
            )
    return values[:count], X[:, :count]


def _chebyshev(A: sparse.csr_array, X: FloatArray, low: float, high: float) -> FloatArray:
    """Damp the eigenvectors with eigenvalues in [low, high], amplify all others."""
    centre, half = (low + high) / 2, max((high - low) / 2, 1e-6)
    shifted = (A - centre * sparse.eye_array(A.shape[0])).tocsr() / half
    previous, current = X, shifted @ X
    for _ in range(FILTER_DEGREE - 1):
        following = shifted @ current
        following *= 2
        following -= previous
        previous, current = current, following
    return current
