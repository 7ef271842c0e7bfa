"""Successive block rotation (SBRA): turn eigenvectors into a near-indicator matrix."""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

FloatArray = NDArray[np.float64]


def flip_signs(X: FloatArray) -> FloatArray:
    """Give every column a sum that is not negative."""
    return X * np.where(X.sum(axis=0) < 0, -1.0, 1.0)


def successive_block_rotation(X: FloatArray, sizes: NDArray[np.int64]) -> FloatArray:
    """Rotate X so that its rows come close to rows of the identity.

    X ≈ UQᵀ for an unknown 0/1 matrix U and an unknown rotation Q. The features
    of one image are different universe features, so its rows can serve as the
    target C of an orthogonal Procrustes problem, max_Q ⟨XQ, C⟩; features that no
    used column explains yet become further columns, image after image (the
    paper, Algorithm 2).

    Parameters
    ----------
    X : (m, d) float64 array
    sizes : (k,) int array
        Number of features of every image.

    Returns
    -------
    R : (m, d) float64 array
        XQ for an orthogonal Q, with column sums that are not negative.
    """
    d = X.shape[1]
    image_of = np.repeat(np.arange(len(sizes)), sizes)
    # A zero row is orthogonal to everything: no rotation can explain it.
    length = np.linalg.norm(X, axis=1)
    explainable = length > 1e-9 * length.max(initial=0)

    # Row p of C has its one in column target[p], or none (-1).
    target = np.full(len(X), -1)
    candidates = np.flatnonzero(explainable)
    used = _open_columns(target, candidates, image_of, 0, d)
    threshold = None
    while True:
        seeds = np.flatnonzero(target >= 0)
        M = np.zeros((used, d))
        np.add.at(M, target[seeds], X[seeds])
        R = flip_signs(X @ _procrustes(M.T))
        if threshold is None:
            threshold = np.median(R[seeds, target[seeds]]) / 2
        best = R.argmax(axis=1)
        active = R[np.arange(len(R)), best] >= threshold
        candidates = np.flatnonzero(explainable & ~active)
        if used == d or len(candidates) == 0:
            return flip_signs(X @ _procrustes(M.T, complete=True))
        target = np.where(active, best, -1)
        used = _open_columns(target, candidates, image_of, used, d)


def _open_columns(
    target: NDArray[np.int64],
    candidates: NDArray[np.int64],
    image_of: NDArray[np.int64],
    used: int,
    d: int,
) -> int:
    """Give the candidates of the image with most of them columns of their own."""
    counts = np.bincount(image_of[candidates], minlength=1)
    rows = candidates[image_of[candidates] == counts.argmax()][: d - used]
    target[rows] = used + np.arange(len(rows))
    return used + len(rows)


def _procrustes(M: FloatArray, complete: bool = False) -> FloatArray:
    """Orthonormal columns Q that maximise ⟨Q, M⟩, completed to a square matrix if asked."""
    left, _, right = linalg.svd(M, full_matrices=complete, check_finite=False)
    n = M.shape[1]
    return np.hstack([left[:, :n] @ right, left[:, n:]])
