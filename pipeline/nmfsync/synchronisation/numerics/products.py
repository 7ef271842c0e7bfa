"""Matrix products in blocks, with the same bits for any number of threads."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.runtime.compiled import compiled
from nmfsync.runtime.threads import map_blocks

Real = TypeVar("Real", np.float32, np.float64)

COLUMNS = 128  # of a block of AᵀB; like the rows of a block (`BLOCK`): fast, and in the cache

PANEL = 64  # columns of a sparse product: the rows it gathers have to stay in the cache


def product(A: NDArray[Real], B: NDArray[Real]) -> NDArray[Real]:
    """Return AB for A of shape (m, r) and B of shape (r, s)."""
    result = np.empty((len(A), B.shape[1]), A.dtype)
    map_blocks(lambda rows: np.matmul(A[rows], B, out=result[rows]), len(A))
    return result


def inner(A: NDArray[Real], B: NDArray[Real]) -> NDArray[Real]:
    """Return AᵀB for A of shape (m, r) and B of shape (m, s)."""
    product = np.empty((A.shape[1], B.shape[1]), A.dtype)
    map_blocks(
        lambda columns: np.matmul(A[:, columns].T, B, out=product[columns]), len(product), COLUMNS
    )
    return product


def gram(A: NDArray[Real]) -> NDArray[Real]:
    """Return AᵀA, symmetric to the last bit, for A of shape (m, r)."""
    product = inner(A, A)
    return np.tril(product) + np.tril(product, -1).T


def sparse_product(W: sparse.csr_array, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return WX for a sparse W of shape (m, n) and X of shape (n, r)."""
    result = np.empty((W.shape[0], X.shape[1]))

    def work(columns: slice) -> None:
        panel = np.zeros((len(result), columns.stop - columns.start))
        recurrence_step(W.indptr, W.indices, W.data, 1.0, 0.0, X[:, columns].copy(), panel)
        result[:, columns] = panel

    map_blocks(work, X.shape[1], PANEL)
    return result


@compiled
def recurrence_step(indptr, indices, data, scale, centre, X, Y):
    """Set Y to scale · (W − centre) X − Y, with W in CSR form.

    The reference in the tests is the same line in SciPy.
    """
    row = np.empty(X.shape[1], X.dtype)
    for p in range(len(Y)):
        row[:] = -centre * X[p]
        for entry in range(indptr[p], indptr[p + 1]):
            q, weight = indices[entry], data[entry]
            for c in range(len(row)):
                row[c] += weight * X[q, c]
        for c in range(len(row)):
            Y[p, c] = scale * row[c] - Y[p, c]
