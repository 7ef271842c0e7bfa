"""Scores of a matrix of matches W against the true matrix W_gt.

In every function W and W_gt are sparse or dense arrays of shape (m, m). Entries
other than 0 count as ones, and the diagonal counts too, as in the paper.
"""

from typing import Any

import numpy as np
from scipy import sparse


def gt_error(W: Any, W_gt: Any) -> float:
    """Return ‖W − W_gt‖_F, the root of the number of entries in which both differ."""
    returned, true, common = _count_ones(W, W_gt)
    return float(np.sqrt(returned + true - 2 * common))


def precision(W: Any, W_gt: Any) -> float:
    """Return the share of the ones of W that are ones of W_gt; NaN if W has none."""
    returned, _, common = _count_ones(W, W_gt)
    return common / returned if returned else float("nan")


def recall(W: Any, W_gt: Any) -> float:
    """Return the share of the ones of W_gt that are ones of W; NaN if W_gt has none."""
    _, true, common = _count_ones(W, W_gt)
    return common / true if true else float("nan")


def f_score(W: Any, W_gt: Any) -> float:
    """Return the harmonic mean of `precision` and `recall`; NaN if neither matrix has ones."""
    returned, true, common = _count_ones(W, W_gt)
    return 2 * common / (returned + true) if returned + true else float("nan")


def ones_of(W: Any) -> sparse.csr_array:
    """Return a copy of W (m, m) with 1.0 in place of every entry that is not 0."""
    A = sparse.csr_array(W, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    A.data = np.ones(len(A.data))
    return A


def _count_ones(W: Any, W_gt: Any) -> tuple[int, int, int]:
    """Count the ones of W, of W_gt, and the common ones."""
    A, B = ones_of(W), ones_of(W_gt)
    return A.nnz, B.nnz, A.multiply(B).nnz
