"""Blocks of a block-diagonal problem."""

import numpy as np

from nmfsync.synchronisation.numerics.components import independent_blocks


def test_blocks_share_no_row_and_no_column():
    X = np.zeros((6, 4))
    X[1, 2] = X[2, 0] = X[4, 0] = 1.0  # column 0 joins the components 1 and 2
    blocks = independent_blocks(np.array([0, 0, 1, 2, 2, 3]), X)
    assert [(rows.tolist(), columns.tolist()) for rows, columns in blocks] == [
        ([0, 1], [2]),
        ([2, 3, 4], [0]),
    ]
