"""Random multi-matching problems with a known solution, to test and compare methods."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

from nmfsync.errors import NmfsyncError
from nmfsync.types.arrays import IntArray


def generate(
    k: int, d: int, rho: float, sigma: float, seed: int = 0
) -> tuple[sparse.csr_array, sparse.csr_array, IntArray]:
    """Make a random partial multi-matching and a noisy version of it.

    Every image sees a random part of the universe in a random order. Then, in
    every block of matches between two images, some of the rows are shuffled
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
        Share of the rows of every block that are shuffled, in [0, 1].
    seed : int

    Returns
    -------
    W : scipy.sparse.csr_array of float64, shape (m, m)
        The noisy matches: symmetric, unit diagonal.
    W_gt : scipy.sparse.csr_array of float64, shape (m, m)
        The true matches, UUᵀ.
    sizes : (k,) int64 array
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
        raise NmfsyncError(f"k and d must be at least 1, got {k} and {d}")
    _check_probabilities(rho, sigma)
    rng = np.random.default_rng(seed)
    visible = [rng.permutation(d)[rng.random(d) < rho] for _ in range(k)]
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return _match_pairs(visible, pairs, d, sigma, rng)


def ring(
    k: int, d: int, views: int, rho: float, sigma: float, seed: int = 0
) -> tuple[sparse.csr_array, sparse.csr_array, IntArray]:
    """Make a noisy multi-matching of images that are taken in a ring around an object.

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
        Number of images that can see a universe feature, at most (k + 1) / 2.
    rho : float
        Probability that each of these images sees it, in [0, 1].
    sigma : float
        Share of the rows of every block that are shuffled, in [0, 1].
    seed : int

    Returns
    -------
    W, W_gt : scipy.sparse.csr_array of float64, shape (m, m)
        The noisy and the true matches; m is about d · views · rho.
    sizes : (k,) int64 array
        Number of features of every image.

    Raises
    ------
    NmfsyncError
        If a parameter is out of range.
    """
    if d < 1:
        raise NmfsyncError(f"d must be at least 1, got {d}")
    if not 1 <= views <= (k + 1) // 2:
        raise NmfsyncError(
            f"views must be between 1 and (k + 1) / 2, got {views} views of {k} images"
        )
    _check_probabilities(rho, sigma)
    rng = np.random.default_rng(seed)
    first_view = rng.integers(k, size=d)
    point, step = np.nonzero(rng.random((d, views)) < rho)
    image = (first_view[point] + step) % k
    order = np.lexsort((rng.random(len(image)), image))
    ends = np.cumsum(np.bincount(image, minlength=k))
    visible = np.split(point[order], ends[:-1])
    pairs = [(i, int(j)) for i in range(k) for j in np.arange(i + 1, i + views) % k]
    return _match_pairs(visible, pairs, d, sigma, rng)


def _check_probabilities(rho: float, sigma: float) -> None:
    if not (0 <= rho <= 1 and 0 <= sigma <= 1):
        raise NmfsyncError(f"rho and sigma must be between 0 and 1, got {rho} and {sigma}")


def _match_pairs(
    visible: Sequence[IntArray],
    pairs: Iterable[tuple[int, int]],
    d: int,
    sigma: float,
    rng: np.random.Generator,
) -> tuple[sparse.csr_array, sparse.csr_array, IntArray]:
    """Match pairs of images by the universe features that they see, with and without noise.

    `visible[i]` (m_i,) are the universe features that image i sees, in the
    order of its features. Returns W, W_gt and sizes.
    """
    sizes = np.array([len(features) for features in visible])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    noisy, true = [], []
    for i, j in pairs:
        partner = _partners(visible[i], visible[j], d)
        true.append(_block_entries(partner, offsets[i], offsets[j]))
        noisy.append(_block_entries(_shuffled(partner, sigma, rng), offsets[i], offsets[j]))
    return _symmetric(noisy, offsets[-1]), _symmetric(true, offsets[-1]), sizes


def _partners(a: IntArray, b: IntArray, d: int) -> IntArray:
    """Return the position in `b` of every entry of `a`, -1 where it is missing."""
    position = np.full(d, -1)
    position[b] = np.arange(len(b))
    return position[a]


def _shuffled(partner: IntArray, sigma: float, rng: np.random.Generator) -> IntArray:
    """Choose a share sigma of the rows at random, and shuffle them among themselves."""
    rows = rng.choice(len(partner), size=round(sigma * len(partner)), replace=False)
    result = partner.copy()
    result[rows] = partner[rng.permutation(rows)]
    return result


def _block_entries(partner: IntArray, row: int, column: int) -> IntArray:
    """Return the positions (n, 2) in W of the matches of one block, which starts at row, column."""
    matched = np.flatnonzero(partner >= 0)
    return np.column_stack([row + matched, column + partner[matched]])


def _symmetric(entries: list[IntArray], m: int) -> sparse.csr_array:
    """Return an (m, m) array with ones on the diagonal, at the entries and at their transposes."""
    matched = np.concatenate([*entries, np.empty((0, 2), dtype=np.int64)])
    p = np.concatenate([matched[:, 0], matched[:, 1], np.arange(m)])
    q = np.concatenate([matched[:, 1], matched[:, 0], np.arange(m)])
    return sparse.coo_array((np.ones(len(p)), (p, q)), shape=(m, m)).tocsr()
