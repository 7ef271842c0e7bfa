"""QuickMatch: tracks as clusters of descriptors around the modes of their density."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.numerics.effort import Effort
from nmfsync.types.arrays import Float32Array, FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, PairwiseMatches

BLOCK = 2**20  # distances at a time: 8 MB an array

# Bandwidths, as squares, of features with a twin in their own image are 0. Different directions
# of bytes are at least 1e-14 apart, as squares: to a bandwidth of this, any of them is far.
LEAST = 1e-30

PAIR = 1.8e-8  # seconds for two features


def quickmatch(matches: PairwiseMatches, rho_density: float, rho_edge: float) -> MultiMatching:
    """Match by clustering the descriptors of all images, without the matches of pairs.

    A cluster is a set of features that gather around a mode of the density of
    descriptors, with at most one of every image. With x_p the descriptor of
    feature p at unit length, d(p, q) = ‖x_p − x_q‖ and the *distinctiveness* ::

        σ_p = min d(p, q)   over the other features q of the image of p,

    the procedure, which is greedy and has no objective, is

    1. The density at every feature is a sum over all features of all images, ::

           D(p) = Σ_q exp(−½ (d(p, q) / (ρ_density σ_q))²).

    2. The parent of p is the nearest of the features of other images that have a
       higher density. This makes a forest.
    3. Edges p – parent of p are taken in order of increasing length. One joins
       the clusters A and B at its ends if no image has features in both, and ::

           d(p, parent of p) < ρ_edge · min σ_q   over   q in A and B.

    Of equal densities, that of the first feature counts as higher; of equally
    near parents, the densest is taken; of equally long edges, that of the densest
    feature comes first. A descriptor of zeros describes nothing: its feature
    stays alone. A feature that is alone in its image has σ = ∞.

    Parameters
    ----------
    matches : PairwiseMatches
        With `descriptors`. Their W is not used, so neither are the choice of
        pairs, a ratio test or a geometric verification.
    rho_density : float
        ρ_density, greater than 0: bandwidth of the kernel, as a share of σ.
    rho_edge : float
        ρ_edge, at least 0: larger joins more. Twice as far as the nearest other
        feature of an image is certainly too far.

    Returns
    -------
    MultiMatching

    Raises
    ------
    NmfsyncError
        If ρ_density or ρ_edge is out of range.

    Notes
    -----
    It costs O(m²) time and O(m) memory for m features. Products of bytes are whole
    numbers below 2²⁴, which single precision holds exactly, so that distances do
    not depend on how BLAS adds up.

    The Gaussian kernel and ρ_density = 0.25 are chosen here because the authors'
    published examples use them. With their ρ_edge, from 0.67 to 0.75, the method
    is surer but finds fewer matches than others; the default of 0.9 was chosen on
    Graffiti, so that its figures on these photographs are favourable ones.

    References
    ----------
    Tron, Zhou, Esteves, Daniilidis: Fast multi-image matching via density-based
    clustering. ICCV 2017, Sec. 4.
    """
    if not rho_density > 0:
        raise NmfsyncError(f"rho_density must be greater than 0, got {rho_density}")
    if not rho_edge >= 0:
        raise NmfsyncError(f"rho_edge must not be negative, got {rho_edge}")
    universe = np.arange(len(matches.image_of))
    points = _points(matches)
    sigma = _distinctiveness(points)
    density = _densities(points, rho_density * sigma)
    order = np.lexsort((points.feature, -density))  # the densest first
    points, sigma = points.take(order), sigma[order]
    parent, length = _parents(points)
    universe[points.feature] = points.feature[_join(parent, length, sigma, points, rho_edge)]
    return MultiMatching(universe, matches.sizes)


def effort(matches: PairwiseMatches, _settings: Mapping[str, Any]) -> Effort:
    """Estimate what the method will take: it compares every feature with all others."""
    m = float(matches.sizes.sum())
    return Effort(PAIR * m**2, 1_000 * m + 80 * BLOCK, f"{m:,.0f} features")


class _Points(NamedTuple):
    """Features that have a descriptor."""

    feature: IntArray  # (n,): its number in all images
    image: IntArray  # (n,)
    descriptor: Float32Array  # (n, 128): whole numbers
    square: FloatArray  # (n,): squared length of the descriptor

    def take(self, order: IntArray) -> "_Points":
        return _Points(
            self.feature[order], self.image[order], self.descriptor[order], self.square[order]
        )

    def distances(self, rows: slice, columns: slice) -> FloatArray:
        """Squared distances of descriptors at unit length: 2 − 2 ⟨a, b⟩ / (|a||b|)."""
        lengths = np.sqrt(np.multiply.outer(self.square[rows], self.square[columns]))
        squared = (self.descriptor[rows] @ self.descriptor[columns].T) / lengths
        squared *= -2
        squared += 2
        return np.maximum(squared, 0, out=squared)


def _points(matches: PairwiseMatches) -> _Points:
    descriptor = np.concatenate(matches.descriptors or ()).astype(np.float32)
    square = np.einsum("ij,ij->i", descriptor, descriptor).astype(np.float64)
    feature = np.flatnonzero(square)
    return _Points(np.arange(len(square)), matches.image_of, descriptor, square).take(feature)


def _distinctiveness(points: _Points) -> FloatArray:
    """Distance of every feature to the nearest other one of its image: (n,)."""
    sigma = np.full(len(points.image), np.inf)
    cuts = np.flatnonzero(np.diff(points.image, prepend=-1, append=-1))
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        for rows in _blocks(first, last, last - first):
            squared = points.distances(rows, slice(first, last))
            np.fill_diagonal(squared[:, rows.start - first :], np.inf)  # itself
            sigma[rows] = np.sqrt(squared.min(axis=1))
    return sigma


def _densities(points: _Points, bandwidth: FloatArray) -> FloatArray:
    """Sum of the kernels of all features at every feature: (n,)."""
    n = len(bandwidth)
    density = np.empty(n)
    factor = -0.5 / np.maximum(bandwidth**2, LEAST)
    with phase(n, "Densities", "feature") as bar:
        for rows in _blocks(0, n, n):
            exponents = points.distances(rows, slice(n))
            exponents *= factor
            density[rows] = np.exp(exponents, out=exponents).sum(axis=1)
            bar.update(rows.stop - rows.start)
    return density


def _parents(points: _Points) -> tuple[IntArray, FloatArray]:
    """Nearest earlier feature of another image, and its distance; infinite if there is none."""
    n = len(points.image)
    parent, length = np.zeros(n, np.int64), np.empty(n)
    with phase(n, "Parents", "feature") as bar:
        for rows in _blocks(0, n, n):
            squared = points.distances(rows, slice(rows.stop))
            squared[points.image[rows, None] == points.image[: rows.stop]] = np.inf
            squared[:, rows][np.triu_indices(rows.stop - rows.start)] = np.inf  # not earlier
            parent[rows] = squared.argmin(axis=1)
            length[rows] = np.sqrt(squared.min(axis=1))
            bar.update(rows.stop - rows.start)
    return parent, length


def _join(
    parent: IntArray, length: FloatArray, sigma: FloatArray, points: _Points, rho_edge: float
) -> IntArray:
    """Join clusters along edges, the shortest first; return a member for every cluster: (n,)."""
    up = list(range(len(parent)))
    images = [{image} for image in points.image.tolist()]  # of the cluster with this root
    least = sigma.tolist()

    def root_of(p: int) -> int:
        while up[p] != p:
            up[p] = up[up[p]]
            p = up[p]
        return p

    for child in np.argsort(length, kind="stable").tolist():
        a, b = root_of(child), root_of(int(parent[child]))
        smallest = min(least[a], least[b])
        if length[child] < rho_edge * smallest and images[a].isdisjoint(images[b]):
            up[a], least[b] = b, smallest
            images[b] |= images[a]
    return np.array([root_of(p) for p in up], dtype=np.int64)


def _blocks(first: int, last: int, width: int) -> Iterator[slice]:
    """Rows from first to last in blocks of about `BLOCK` entries."""
    step = max(1, BLOCK // max(1, width))
    return (slice(start, min(start + step, last)) for start in range(first, last, step))
