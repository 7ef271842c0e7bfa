"""Connected components of the matches, over which W and its factors are block-diagonal."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.runtime.compiled import compiled
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


@compiled
def join(root, p, q):
    """Join the components of p[n] and q[n], for all n.

    Parameters
    ----------
    root : (m,) int32 array
        A smaller feature of the component of every feature, or itself: at first
        0, 1, 2, …. Changed in place; see `components_of`.
    p, q : (n,) int64 arrays
    """
    for n in range(len(p)):
        a, b = find_root(root, p[n]), find_root(root, q[n])
        if a < b:
            root[b] = a
        elif b < a:
            root[a] = b


@compiled
def find_root(root, p):
    """Return the first feature of the component of p, and shorten the way to it."""
    while root[p] != p:
        root[p] = root[root[p]]
        p = root[p]
    return p


def components_of(root: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return numbers of the components (m,) that `join` made, in order of their first features."""
    while not np.array_equal(root, above := root[root]):
        root = above
    first = root == np.arange(len(root), dtype=np.int32)
    return np.asarray((np.cumsum(first, dtype=np.int32) - 1)[root])


def groups(label: IntArray) -> list[IntArray]:
    """Return the positions of every label (0, 1, …), ascending, in the order of the labels."""
    order = np.argsort(label, kind="stable")
    cuts = np.flatnonzero(np.diff(label[order], prepend=-1))
    return np.split(order, cuts)[1:]


def count_by_component(W: sparse.csr_array) -> tuple[IntArray, IntArray]:
    """Return the numbers of features and of entries of every component: two (c,) int arrays."""
    label = label_components(W)
    entries = np.bincount(label, weights=np.diff(W.indptr))
    return np.bincount(label), entries.astype(np.int64)


def diagonal_blocks(
    W: sparse.csr_array, label: IntArray
) -> Iterator[tuple[IntArray, sparse.csr_array]]:
    """Hand out the blocks of a block-diagonal W, in time linear in its entries.

    Parameters
    ----------
    W : sparse array, shape (m, m)
    label : (m,) int array
        The block of every row and column; no entry of W joins two blocks.

    Yields
    ------
    rows : (n,) int array
        The rows of W in the block, ascending; the blocks in the order of their labels.
    block : sparse array, shape (n, n)
    """
    rows = groups(label)
    order = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    permuted = W[order][:, order]
    permuted.sort_indices()
    start = 0
    for part in rows:
        stop = start + len(part)
        entries = slice(permuted.indptr[start], permuted.indptr[stop])
        indptr = permuted.indptr[start : stop + 1] - permuted.indptr[start]
        content = (permuted.data[entries], permuted.indices[entries] - start, indptr)
        yield part, sparse.csr_array(content, shape=(len(part), len(part)))
        start = stop


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
