"""Connected components of the matches, over which W and its factors are block-diagonal."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.types.arrays import IntArray


def label_components(W: sparse.csr_array) -> IntArray:
    """Return the number of the connected component of every feature.

    Parameters
    ----------
    W : sparse array, shape (m, m)

    Returns
    -------
    (m,) int array
    """
    return np.asarray(connected_components(W, directed=False)[1], dtype=np.int64)


def groups(label: IntArray) -> list[IntArray]:
    """Return the positions of every label, ascending, in the order of the labels."""
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def independent_blocks(
    component_of: IntArray, X: NDArray[np.float64]
) -> list[tuple[IntArray, IntArray]]:
    """Return the blocks of X: all of it that is not zero, and no two share a row or column.

    Components are in one block if a column of X has entries in both.

    Parameters
    ----------
    component_of : (m,) int array
        The component of every feature, numbered from 0 without gaps.
    X : (m, d) float64 array

    Returns
    -------
    list of (rows, columns)
        Ascending ints. Components without a column are left out, and so are
        columns of zeros.
    """
    nonzero = X != 0
    touched = np.stack([nonzero[rows].any(axis=0) for rows in groups(component_of)])
    count, d = touched.shape
    pattern = sparse.coo_array(touched)
    joined = sparse.coo_array(
        (pattern.data, (pattern.row, count + pattern.col)), shape=(count + d, count + d)
    )
    block = label_components(joined.tocsr())
    nodes = groups(np.concatenate([block[component_of], block[count:]]))
    m = len(component_of)
    split = [(part[part < m], part[part >= m] - m) for part in nodes]
    return [(rows, columns) for rows, columns in split if len(rows) and len(columns)]
