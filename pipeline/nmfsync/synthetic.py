"""Random multi-matching problems with a known solution, to test and compare methods."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from scipy import sparse

from nmfsync.errors import NmfsyncError
from nmfsync.types.arrays import BoolArray, IntArray

OUTLIER_MATCHED = 0.5  # probability that a feature of no point finds a match in another image


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
    _check_probabilities(rho=rho, sigma=sigma)
    rng = np.random.default_rng(seed)
    visible = [rng.permutation(d)[rng.random(d) < rho] for _ in range(k)]
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return _match_pairs(visible, pairs, d, partial(_shuffled, sigma=sigma, rng=rng))


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
    _check_probabilities(rho=rho, sigma=sigma)
    rng = np.random.default_rng(seed)
    first_view = rng.integers(k, size=d)
    point, step = np.nonzero(rng.random((d, views)) < rho)
    image = (first_view[point] + step) % k
    order = np.lexsort((rng.random(len(image)), image))
    ends = np.cumsum(np.bincount(image, minlength=k))
    visible = np.split(point[order], ends[:-1])
    pairs = [(i, int(j)) for i in range(k) for j in np.arange(i + 1, i + views) % k]
    return _match_pairs(visible, pairs, d, partial(_shuffled, sigma=sigma, rng=rng))


def hard(
    k: int,
    d: int,
    rho: float,
    sigma: float,
    seed: int = 0,
    *,
    spread: float = 0.0,
    zipf: float | None = None,
    outliers: float = 0.0,
    neighbours: int | None = None,
    closed: bool = False,
    matched: float = 1.0,
    aliases: float = 0.0,
    missing: float = 0.0,
    spurious: float = 0.0,
    random_pairs: float = 0.0,
) -> tuple[sparse.csr_array, sparse.csr_array, IntArray]:
    """Make a random problem that is hard in one way, or in several at once.

    Real matches differ from those of `generate`: points differ in how often they
    are seen, features belong to no point, not all images are matched, and wrong
    matches do not stay among the same rows. Every parameter after `seed` adds one
    of these difficulties; without them, only wrong associations remain.

    Parameters
    ----------
    k : int
        Number of images.
    d : int
        Universe size.
    rho : float
        Mean probability that an image sees a universe feature (a point), in [0, 1].
    sigma : float
        Probability that a match is wrong, in [0, 1]: its first feature is matched
        instead with a random one of those that are free in the other image.
    seed : int
    spread : float
        How unequal the points' visibility is, in [0, 1]: each is seen with a
        probability of its own, between (1 − spread) ρ and (1 + spread) ρ.
    zipf : float, optional
        Exponent s of the track lengths: a point is seen in ℓ of the k images with
        a probability in proportion to ℓ⁻ˢ, whatever ρ and `spread` are.
    outliers : float
        Features of no point in every image, relative to d. In every pair of
        images, each is matched with a random free feature with probability ½.
    neighbours : int, optional
        Only images that are at most so far apart in the sequence are matched.
    closed : bool
        Whether the sequence is a ring: the first image comes after the last.
    matched : float
        Probability that two images are matched at all, in [0, 1]: the view graph
        is a random graph (Erdős and Rényi).
    aliases : float
        Share of the points that look like one other point, in [0, 1]. Every second
        pair of images takes them for each other: the matches of both are random
        among the two.
    missing : float
        Probability that a match is missing, in [0, 1].
    spurious : float
        Probability that a feature without a match gets a random one, in [0, 1].
    random_pairs : float
        Probability that two images, of those matched, have random matches, in
        [0, 1].

    Returns
    -------
    W : scipy.sparse.csr_array of float64, shape (m, m)
        The noisy matches: symmetric, unit diagonal, at most one match of a feature
        in an image.
    W_gt : scipy.sparse.csr_array of float64, shape (m, m)
        All true matches, UUᵀ, between images that are not matched as well. (This
        is so in `generate` and `ring` too, where no others exist.)
    sizes : (k,) int64 array
        Number of features of every image.

    Raises
    ------
    NmfsyncError
        If a parameter is out of range.

    Examples
    --------
    A ring of four images, all of which see the same three points: of the six pairs
    of images, four are matched.

    >>> W, W_gt, sizes = hard(4, 3, rho=1.0, sigma=0.0, neighbours=1, closed=True)
    >>> sizes.tolist(), (W.nnz - 12) // 6, (W_gt.nnz - 12) // 6
    ([3, 3, 3, 3], 4, 6)
    """
    if k < 1 or d < 1:
        raise NmfsyncError(f"k and d must be at least 1, got {k} and {d}")
    if outliers < 0 or (zipf is not None and zipf < 0):
        raise NmfsyncError(f"outliers and zipf must not be negative, got {outliers} and {zipf}")
    if neighbours is not None and neighbours < 1:
        raise NmfsyncError(f"neighbours must be at least 1, got {neighbours}")
    _check_probabilities(
        rho=rho, sigma=sigma, spread=spread, matched=matched, aliases=aliases,
        missing=missing, spurious=spurious, random_pairs=random_pairs,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    sees = _visibility(k, d, rho, spread, rng) if zipf is None else _zipf(k, d, zipf, rng)
    extra = round(outliers * d)  # features of no point in an image: a number of its own for each
    visible = [
        rng.permutation(np.append(np.flatnonzero(sees[i]), d + i * extra + np.arange(extra)))
        for i in range(k)
    ]
    pairs = _pairs_of_images(k, k if neighbours is None else neighbours, closed)
    pairs = [pair for pair in pairs if rng.random() < matched]
    twin = _twins(d, aliases, rng)

    def disturbed(partner: IntArray, a: IntArray, b: IntArray) -> IntArray:
        n = len(partner)
        partner = _confused(partner, a, b, twin, rng)
        wrong = (partner >= 0) & (rng.random(n) < sigma)
        partner = _rematched(partner, wrong, len(b), rng)
        partner[rng.random(n) < missing] = -1
        chance = np.where(a < d, spurious, max(spurious, OUTLIER_MATCHED))
        partner = _rematched(partner, (partner < 0) & (rng.random(n) < chance), len(b), rng)
        return _anywhere(partner, len(b), rng) if rng.random() < random_pairs else partner

    return _match_pairs(visible, pairs, d + k * extra, disturbed)


def _pairs_of_images(k: int, apart: int, closed: bool) -> list[tuple[int, int]]:
    """List the images i < j at most `apart` from each other, in a sequence or in a ring."""
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return [(i, j) for i, j in pairs if j - i <= apart or (closed and k - (j - i) <= apart)]


def _visibility(k: int, d: int, rho: float, spread: float, rng: np.random.Generator) -> BoolArray:
    """(k, d) whether an image sees a point, with a probability of each point's own."""
    probability = rho * rng.uniform(1 - spread, 1 + spread, size=d)
    return rng.random((k, d)) < probability


def _zipf(k: int, d: int, exponent: float, rng: np.random.Generator) -> BoolArray:
    """(k, d) whether an image sees a point, for track lengths that follow Zipf's law."""
    weight = np.arange(1, k + 1) ** -float(exponent)
    length = 1 + rng.choice(k, size=d, p=weight / weight.sum())
    rank = rng.random((k, d)).argsort(axis=0).argsort(axis=0)  # of the images, for every point
    return rank < length


def _twins(d: int, share: float, rng: np.random.Generator) -> IntArray:
    """(d,) the point that each looks like; of a share of the points another one, else itself."""
    twin = np.arange(d)
    chosen = rng.permutation(d)[: 2 * min(round(share * d / 2), d // 2)].reshape(-1, 2)
    twin[chosen] = chosen[:, ::-1]
    return twin


def _confused(
    partner: IntArray, a: IntArray, b: IntArray, twin: IntArray, rng: np.random.Generator
) -> IntArray:
    """Match features of points that look alike at random among themselves, every second time.

    `a` and `b` are the points of the features of both images, and `twin[t]` the
    point that t looks like; there may be further points that look like none.
    """
    partner = partner.copy()
    for t in np.flatnonzero(twin > np.arange(len(twin))):  # every two points once
        rows, columns = (np.flatnonzero(np.isin(points, (t, twin[t]))) for points in (a, b))
        if rng.random() < 0.5:
            n = min(len(rows), len(columns))
            partner[rows] = -1
            partner[rng.permutation(rows)[:n]] = rng.permutation(columns)[:n]
    return partner


def _rematched(
    partner: IntArray, rows: BoolArray, columns: int, rng: np.random.Generator
) -> IntArray:
    """Match the chosen rows anew, with random columns of those that no other row has.

    If there are too few columns, some of these rows are left without a match.
    """
    partner = np.where(rows, -1, partner)
    free = np.setdiff1d(np.arange(columns), partner)
    n = min(len(free), rows.sum())
    partner[rng.permutation(np.flatnonzero(rows))[:n]] = rng.permutation(free)[:n]
    return partner


def _anywhere(partner: IntArray, columns: int, rng: np.random.Generator) -> IntArray:
    """Make as many matches between random rows and random columns."""
    column = rng.permutation(columns)
    result: IntArray = rng.permutation([column[c] if c >= 0 else -1 for c in partner])
    return result


def _check_probabilities(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise NmfsyncError(f"{name} must be between 0 and 1, got {value}")


def _match_pairs(
    visible: Sequence[IntArray],
    pairs: Iterable[tuple[int, int]],
    d: int,
    disturbed: Callable[[IntArray, IntArray, IntArray], IntArray],
) -> tuple[sparse.csr_array, sparse.csr_array, IntArray]:
    """Match pairs of images by the universe features that they see, with and without noise.

    `visible[i]` (m_i,) are the universe features that image i sees, numbers below
    d, in the order of its features. `disturbed` takes the partner (m_i,) of every
    feature of image i in image j, -1 for none, `visible[i]` and `visible[j]`, and
    returns the noisy partners. Returns W, W_gt and sizes.
    """
    sizes = np.array([len(features) for features in visible])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    noisy = []
    for i, j in pairs:
        partner = disturbed(_partners(visible[i], visible[j], d), visible[i], visible[j])
        noisy.append(_block_entries(partner, offsets[i], offsets[j]))
    return _symmetric(noisy, offsets[-1]), _truth(visible, d), sizes


def _truth(visible: Sequence[IntArray], d: int) -> sparse.csr_array:
    """UUᵀ, (m, m): which features show the same point."""
    point = np.concatenate(visible)
    U = sparse.coo_array((np.ones(len(point)), (np.arange(len(point)), point)), (len(point), d))
    W = sparse.csr_array(U @ U.T)
    W.sort_indices()
    return W


def _partners(a: IntArray, b: IntArray, d: int) -> IntArray:
    """Return the position in `b` of every entry of `a`, -1 where it is missing."""
    position = np.full(d, -1)
    position[b] = np.arange(len(b))
    return position[a]


def _shuffled(
    partner: IntArray, _a: IntArray, _b: IntArray, *, sigma: float, rng: np.random.Generator
) -> IntArray:
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
