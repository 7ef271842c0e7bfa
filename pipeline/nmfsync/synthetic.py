"""Random multi-matching problems whose solution is known."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.errors import NmfsyncError


def generate(
    k: int, d: int, rho: float, sigma: float, seed: int = 0
) -> tuple[sparse.csr_array, sparse.csr_array, NDArray[np.int64]]:
    """Make a random partial multi-matching and a noisy version of it.

    Every image sees a random part of the universe in a random order; then, in
    every block of matches between two images, a share of the rows is shuffled
    (the paper, Sec. 5.1).

    Parameters
    ----------
    k : int
        Number of images.
    d : int
        Universe size.
    rho : float
        Probability that an image sees a universe feature, in [0, 1].
    sigma : float
        Share of the rows of every block that is shuffled, in [0, 1].
    seed : int

    Returns
    -------
    W : scipy.sparse.csr_array of float64, shape (m, m)
        The noisy matches: symmetric, unit diagonal.
    W_gt : scipy.sparse.csr_array of float64, shape (m, m)
        The true matches, UUᵀ.
    sizes : (k,) int array
        Number of features of every image.

    Raises
    ------
    NmfsyncError
        If a parameter is out of range.

    Examples
    --------
    >>> W, W_gt, sizes = generate(k=3, d=4, rho=1.0, sigma=0.0, seed=0)
    >>> W.shape, sizes.tolist(), bool((W != W_gt).nnz)
    ((12, 12), [4, 4, 4], False)
    """
    if k < 1 or d < 1:
        raise NmfsyncError(f"k and d must be at least 1, not {k} and {d}")
    _check_shares(rho, sigma)
    rng = np.random.default_rng(seed)
    shown = [rng.permutation(d)[rng.random(d) < rho] for _ in range(k)]
    sizes = np.array([len(features) for features in shown])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    true, noisy = [], []
    for i in range(k):
        for j in range(i + 1, k):
            partner = _matching(shown[i], shown[j], d)
            true.append(_block_entries(partner, offsets[i], offsets[j]))
            noisy.append(_block_entries(_shuffled(partner, sigma, rng), offsets[i], offsets[j]))
    return _symmetric(noisy, offsets[-1]), _symmetric(true, offsets[-1]), sizes


def ring(
    k: int, d: int, views: int, rho: float, sigma: float, seed: int = 0
) -> tuple[sparse.csr_array, sparse.csr_array, NDArray[np.int64]]:
    """Make a noisy multi-matching of images taken in a ring, as around an object.

    Every universe feature can be seen in `views` consecutive images, and only
    images less than `views` apart are matched. Visibility and shuffled rows
    are as in `generate`.

    Parameters
    ----------
    k : int
        Number of images in the ring.
    d : int
        Universe size.
    views : int
        Images that can see a universe feature, at most (k + 1) / 2.
    rho : float
        Probability that one of them does, in [0, 1].
    sigma : float
        Share of the rows of every block that is shuffled, in [0, 1].
    seed : int

    Returns
    -------
    W, W_gt : scipy.sparse.csr_array of float64, shape (m, m)
        The noisy and the true matches; m is about d · views · rho.
    sizes : (k,) int array

    Raises
    ------
    NmfsyncError
        If a parameter is out of range.
    """
    if d < 1 or not 1 <= views <= (k + 1) // 2:
        raise NmfsyncError(
            f"d must be at least 1 and views between 1 and (k + 1) / 2, not {d} and {views} of {k}"
        )
    _check_shares(rho, sigma)
    rng = np.random.default_rng(seed)
    first_view = rng.integers(k, size=d)
    point, step = np.nonzero(rng.random((d, views)) < rho)
    image = (first_view[point] + step) % k
    order = np.lexsort((rng.random(len(image)), image))
    sizes = np.bincount(image, minlength=k)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shown = np.split(point[order], offsets[1:-1])
    true, noisy = [], []
    for i in range(k):
        for j in np.arange(i + 1, i + views) % k:
            partner = _matching(shown[i], shown[j], d)
            true.append(_block_entries(partner, offsets[i], offsets[j]))
            noisy.append(_block_entries(_shuffled(partner, sigma, rng), offsets[i], offsets[j]))
    return _symmetric(noisy, offsets[-1]), _symmetric(true, offsets[-1]), sizes


def _check_shares(rho: float, sigma: float) -> None:
    if not (0 <= rho <= 1 and 0 <= sigma <= 1):
        raise NmfsyncError(f"rho and sigma must lie between 0 and 1, not {rho} and {sigma}")


def _matching(a: NDArray[np.int64], b: NDArray[np.int64], d: int) -> NDArray[np.int64]:
    """Position in `b` of every entry of `a`, -1 where it is missing."""
    position = np.full(d, -1)
    position[b] = np.arange(len(b))
    return position[a]


def _shuffled(
    partner: NDArray[np.int64], sigma: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Shuffle a share sigma of the rows, chosen at random, among themselves."""
    rows = rng.choice(len(partner), size=round(sigma * len(partner)), replace=False)
    result = partner.copy()
    result[rows] = partner[rng.permutation(rows)]
    return result


def _block_entries(partner: NDArray[np.int64], row: int, column: int) -> NDArray[np.int64]:
    """(n, 2) positions in W of the matches of one block."""
    matched = np.flatnonzero(partner >= 0)
    return np.column_stack([row + matched, column + partner[matched]])


def _symmetric(entries: list[NDArray[np.int64]], m: int) -> sparse.csr_array:
    """Place ones on the diagonal, at the entries, and at their transposes."""
    above = np.concatenate([*entries, np.empty((0, 2), dtype=np.int64)])
    p = np.concatenate([above[:, 0], above[:, 1], np.arange(m)])
    q = np.concatenate([above[:, 1], above[:, 0], np.arange(m)])
    return sparse.coo_array((np.ones(len(p)), (p, q)), shape=(m, m)).tocsr()
