"""Products in pieces, against NumPy's."""

import numpy as np
from scipy import sparse

from nmfsync.runtime.threads import BLOCK
from nmfsync.synchronisation.numerics.products import (
    COLUMNS,
    gram,
    inner,
    product,
    recurrence_step,
    sparse_product,
)


def test_products_in_pieces_are_products():
    """In more than one piece, and the last one smaller."""
    rng = np.random.default_rng(0)
    A, B = rng.random((BLOCK + 3, COLUMNS + 2)), rng.random((COLUMNS + 2, 5))
    np.testing.assert_allclose(product(A, B), A @ B)
    np.testing.assert_allclose(inner(A, A + 1), A.T @ (A + 1))
    np.testing.assert_allclose(gram(A), A.T @ A)
    assert (gram(A) == gram(A).T).all()
    W = sparse.random_array((40, len(A)), density=0.2, format="csr", rng=rng)
    np.testing.assert_allclose(sparse_product(W, A), W @ A)


def test_the_step_of_a_recurrence():
    rng = np.random.default_rng(0)
    W = sparse.random_array((9, 9), density=0.3, format="csr", rng=rng)
    X, Y = rng.random((9, 4)), rng.random((9, 4))
    expected = 2 * (W @ X - 3 * X) - Y
    recurrence_step(W.indptr, W.indices, W.data, 2.0, 3.0, X, Y)
    np.testing.assert_allclose(Y, expected)
