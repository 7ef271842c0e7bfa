"""Scores against a known truth, by hand."""

import numpy as np
import pytest

from nmfsync import evaluation


def test_gt_error_precision_recall_f_score():
    """W has 4 ones, W_gt has 5, 3 of them common: 1 wrong, 2 missing."""
    W = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0]])
    W_gt = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    assert evaluation.gt_error(W, W_gt) == pytest.approx(np.sqrt(3))
    assert evaluation.precision(W, W_gt) == 3 / 4
    assert evaluation.recall(W, W_gt) == 3 / 5
    assert evaluation.f_score(W, W_gt) == pytest.approx(6 / 9)
