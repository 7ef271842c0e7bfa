"""Successive block rotation (SBRA): turn eigenvectors into a near-indicator matrix."""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from nmfsync.synchronisation.components import independent_blocks
from nmfsync.synchronisation.parallel import map_blocks, product

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# Relative to the largest: smaller singular values are errors of the eigenvectors.
RANK_TOLERANCE = 1e-6


def flip_signs(X: FloatArray) -> FloatArray:
    """Give every column a sum that is not negative."""
    return X * np.where(X.sum(axis=0) < 0, -1.0, 1.0)


def successive_block_rotation(X: FloatArray, sizes: IntArray, component_of: IntArray) -> FloatArray:
    """Rotate X so that its rows come close to rows of the identity.

    X ≈ UQᵀ for an unknown 0/1 matrix U and an unknown rotation Q. The features
    of one image are different universe features, so its rows can serve as the
    target C of an orthogonal Procrustes problem, max_Q ⟨XQ, C⟩; features that no
    used column explains yet become further columns, image after image (the
    paper, Algorithm 2). Over the components of the matches X is block-diagonal:
    each has a Procrustes problem of its own.

    Where the paper leaves the outcome to rounding errors, it is settled here: a
    row that is too short to be explained ever opens no column, no row opens a
    second one, and Q keeps to the directions on which ⟨XQ, C⟩ depends.

    Parameters
    ----------
    X : (m, d) float64 array
    sizes : (k,) int array
        Number of features of every image.
    component_of : (m,) int array
        The component of every feature, numbered from 0 without gaps.

    Returns
    -------
    R : (m, c) float64 array
        XQ with column sums that are not negative. The c ≤ d columns are those
        that some row supports.
    """
    d = X.shape[1]
    image_of = np.repeat(np.arange(len(sizes)), sizes)
    blocks = [_Block(X, *block) for block in independent_blocks(component_of, X)]

    # Row p of C has its one in column target[p], or none (-1).
    target = np.full(len(X), -1)
    best, value = target.copy(), np.zeros(len(X))
    length = np.linalg.norm(X, axis=1)
    rows = _largest_image(np.flatnonzero(length), image_of)
    rows = rows[length[rows] >= np.median(length[rows]) / 2][:d]
    opened = np.zeros(len(X), dtype=bool)
    used, threshold = 0, None
    while len(rows):
        target[rows] = used + np.arange(len(rows))
        opened[rows] = True
        used += len(rows)
        for block in blocks:
            if block.rotate(target[block.rows]):
                best[block.rows], value[block.rows] = block.row_maxima()
        if threshold is None:
            threshold = np.median(np.concatenate([block.fit for block in blocks])) / 2
        active = value >= threshold
        target = np.where(active, best, -1)
        candidates = np.flatnonzero(~active & ~opened & (length >= threshold))
        rows = _largest_image(candidates, image_of)[: d - used]
    return _assemble(blocks, len(X))


def _largest_image(candidates: IntArray, image_of: IntArray) -> IntArray:
    """Those candidates that are in the image with most of them."""
    counts = np.bincount(image_of[candidates], minlength=1)
    return candidates[image_of[candidates] == counts.argmax()]


class _Block:
    """Rows and columns of X that have nothing to do with the others, and their rotation."""

    def __init__(self, X: FloatArray, rows: IntArray, columns: IntArray) -> None:
        self.rows = rows
        self.X = X[np.ix_(rows, columns)]
        self.sums = self.X.sum(axis=0)
        self.target = np.full(len(rows), -1)
        self.columns = np.empty(0, dtype=np.int64)  # of R, that Q leads to
        self.Q = np.empty((len(columns), 0))
        self.fit = np.empty(0)  # R where C has its ones

    def rotate(self, target: IntArray) -> bool:
        """Solve the Procrustes problem with the rows of C that `target` describes, if it is new."""
        if np.array_equal(target, self.target):
            return False
        self.target = target
        seeds = np.flatnonzero(target >= 0)
        seeds = seeds[np.argsort(target[seeds], kind="stable")]
        self.columns, first, count = np.unique(target[seeds], return_index=True, return_counts=True)
        Q = _procrustes(np.add.reduceat(self.X[seeds], first, axis=0).T)
        self.Q = Q * np.where(self.sums @ Q < 0, -1.0, 1.0)
        column = np.repeat(np.arange(len(first)), count)
        self.fit = np.einsum("sj,js->s", self.X[seeds], self.Q[:, column])
        return True

    def row_maxima(self) -> tuple[IntArray, FloatArray]:
        """Column and value of the largest entry in every row of R."""

        def work(rows: slice) -> tuple[IntArray, FloatArray]:
            R = self.X[rows] @ self.Q
            return self.columns[R.argmax(axis=1)], R.max(axis=1)

        best, value = zip(*map_blocks(work, len(self.X)), strict=True)
        return np.concatenate(best), np.concatenate(value)


def _procrustes(M: FloatArray) -> FloatArray:
    """The Q that maximises ⟨Q, M⟩ among those that lengthen nothing, and the smallest such."""
    left, values, right = linalg.svd(M, full_matrices=False, check_finite=False)
    kept = values > RANK_TOLERANCE * values[0]
    return left[:, kept] @ right[kept]


def _assemble(blocks: list[_Block], m: int) -> FloatArray:
    """R, with the columns in the order in which they were opened."""
    columns = np.sort(np.concatenate([block.columns for block in blocks]))
    R = np.zeros((m, len(columns)))
    for block in blocks:
        R[np.ix_(block.rows, np.searchsorted(columns, block.columns))] = product(block.X, block.Q)
    return R
