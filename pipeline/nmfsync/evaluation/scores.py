"""Scores of a matrix of matches against the true one."""

from typing import Any

import numpy as np
from scipy import sparse


def gt_error(W: Any, W_gt: Any) -> float:
    """‖W − W_gt‖_F over the ones of two sparse arrays, diagonal included."""
    found, true, common = _counts(W, W_gt)
    return float(np.sqrt(found + true - 2 * common))


def precision(W: Any, W_gt: Any) -> float:
    """Share of the ones of W that are ones of W_gt, diagonal included."""
    found, _, common = _counts(W, W_gt)
    return common / found if found else float("nan")


def recall(W: Any, W_gt: Any) -> float:
    """Share of the ones of W_gt that are ones of W, diagonal included."""
    _, true, common = _counts(W, W_gt)
    return common / true if true else float("nan")


def f_score(W: Any, W_gt: Any) -> float:
    """Harmonic mean of `precision` and `recall`."""
    found, true, common = _counts(W, W_gt)
    return 2 * common / (found + true) if found + true else float("nan")


def _counts(W: Any, W_gt: Any) -> tuple[int, int, int]:
    """Return the number of ones of W, of W_gt, and of both at once."""
    A, B = ones_of(W), ones_of(W_gt)
    return A.nnz, B.nnz, A.multiply(B).nnz


def ones_of(W: Any) -> sparse.csr_array:
    """1 wherever W is not 0."""
    A = sparse.csr_array(W, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    A.data = np.ones(len(A.data))
    return A
