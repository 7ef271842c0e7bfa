"""Successive block rotation (SBRA): turn eigenvectors into a near-indicator matrix."""

import numpy as np
from scipy import linalg

from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.components import independent_blocks
from nmfsync.synchronisation.numerics.products import gram, product
from nmfsync.types.arrays import FloatArray, IntArray

NOISE = 1e-6  # relative to the largest: what is smaller may be an error of the eigenvectors


def flip_signs(X: FloatArray) -> FloatArray:
    """Give every column of X a sum that is not negative.

    If the sum is zero but for rounding errors, the first entry decides that is
    not zero.
    """
    sums = X.sum(axis=0)
    size = np.maximum(X.max(axis=0), -X.min(axis=0))
    balanced = np.flatnonzero(np.abs(sums) <= NOISE * size)
    first = (np.abs(X[:, balanced]) > NOISE * size[balanced]).argmax(axis=0)
    sums[balanced] = X[first, balanced]
    return X * np.where(sums < 0, -1.0, 1.0)


def successive_block_rotation(X: FloatArray, sizes: IntArray, component_of: IntArray) -> FloatArray:
    """Rotate X so that its rows come close to rows of the identity.

    X ≈ UQᵀ for an unknown 0/1 matrix U and an unknown rotation Q. The features
    of one image are different universe features, so its rows can serve as the
    target C of an orthogonal Procrustes problem, max_Q ⟨XQ, C⟩; features that no
    used column explains yet become further columns, image after image (the
    paper, Algorithm 2). Over the components of the matches X is block-diagonal:
    each has a Procrustes problem of its own.

    Where the paper leaves the outcome to rounding errors, it is settled here: a
    row that is zero but for errors opens no column, no row opens a second one,
    what ⟨XQ, C⟩ does not depend on is not part of Q, and the directions that are
    left at the end become the columns that are left, longest first.

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
        XQ with column sums that are not negative. A component has as many
        columns as in X, or as its rows opened if these are more.
    """
    d = X.shape[1]
    image_of = np.repeat(np.arange(len(sizes)), sizes)
    blocks = [_Block(X, *block) for block in independent_blocks(component_of, X)]

    # Row p of C has its one in column target[p], or none (-1).
    target = np.full(len(X), -1)
    best, value = target.copy(), np.zeros(len(X))
    length = np.linalg.norm(X, axis=1)
    free = length > NOISE * length.max()  # to open a column
    rows = _largest_image(np.flatnonzero(free), image_of)[:d]
    used, threshold = 0, None
    with phase(d, "Rotating", "column") as bar:
        while len(rows):
            target[rows] = used + np.arange(len(rows))
            free[rows] = False
            used += len(rows)
            for block in blocks:
                if block.rotate(target[block.rows]):
                    best[block.rows], value[block.rows] = block.row_maxima()
            if threshold is None:
                threshold = np.median(np.concatenate([block.fit for block in blocks])) / 2
            active = value >= threshold
            target = np.where(active, best, -1)
            candidates = np.flatnonzero(~active & free)
            bar.update(len(rows))
            rows = _largest_image(candidates, image_of)[: d - used]
        return _assemble(blocks, len(X))


def _largest_image(candidates: IntArray, image_of: IntArray) -> IntArray:
    """Those candidates that are in the image with most of them."""
    counts = np.bincount(image_of[candidates], minlength=1)
    return np.asarray(candidates[image_of[candidates] == counts.argmax()])


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
        """Return column and value of the largest entry in every row of R; -1 and 0 if empty."""
        if not len(self.columns):
            return np.full(len(self.X), -1), np.zeros(len(self.X))

        def work(rows: slice) -> tuple[IntArray, FloatArray]:
            R = self.X[rows] @ self.Q
            return self.columns[R.argmax(axis=1)], R.max(axis=1)

        best, value = zip(*map_blocks(work, len(self.X)), strict=True)
        return np.concatenate(best), np.concatenate(value)

    def rest(self) -> FloatArray:
        """Return what Q leaves of X, on its principal axes, for the columns that are left."""
        left, values, _ = linalg.svd(self.Q)
        rest = product(self.X, left[:, np.count_nonzero(values > 0.5) :])
        _, axes = np.linalg.eigh(gram(rest))
        count = max(0, self.X.shape[1] - len(self.columns))
        return flip_signs(product(rest, axes[:, ::-1][:, :count]))


def _procrustes(M: FloatArray) -> FloatArray:
    """Return the smallest Q, of those that lengthen nothing, that maximises ⟨Q, M⟩."""
    left, values, right = linalg.svd(M, full_matrices=False, check_finite=False)
    kept = values > NOISE * values.max(initial=0)
    return np.asarray(left[:, kept] @ right[kept])


def _assemble(blocks: list[_Block], m: int) -> FloatArray:
    """Put the rotated blocks together; first the columns opened, in their order."""
    rests = [block.rest() for block in blocks]
    columns = np.sort(np.concatenate([block.columns for block in blocks]))
    stop = len(columns)
    R = np.zeros((m, stop + sum(rest.shape[1] for rest in rests)))
    for block, rest in zip(blocks, rests, strict=True):
        place = np.searchsorted(columns, block.columns)
        R[np.ix_(block.rows, place)] = product(block.X, block.Q)
        R[block.rows, stop : stop + rest.shape[1]] = rest
        stop += rest.shape[1]
    return R
