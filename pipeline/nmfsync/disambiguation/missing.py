"""Missing correspondences: features that the other image should show as well, but does not.

Two photographs of look-alikes match where these are equal. What is beside them is
different: there, both have features that other photographs confirm, and none
matches (Zach, Irschara, Bischof, "What can missing correspondences tell us about 3D
structure and motion?", CVPR 2008; Heinly, Dunn, Frahm, "Correcting for duplicate
scene structure in sparse 3D reconstruction", ECCV 2014).
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from nmfsync.disambiguation.views import NEIGHBOURS, View
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray

# Of n neighbours, each matched with the probability of the matched places, none is:
# n is such that this happens by chance no more often.
_CHANCE = 0.02

# However many are matched: fewer neighbours than this are no place.
_LEAST_NEIGHBOURS = 4

# An affinity has six unknowns: with these matches it has ten observations to spare.
LEAST_MATCHES = 8

_MARGIN = 0.02  # of the size of an image: what is nearer to its border may have left it

# Matches whose residuals are averaged where a position is predicted.
_RESIDUALS = 5


class Motion(NamedTuple):
    """Where matches move the features of an image: an affinity, and the rest near by."""

    affinity: FloatArray  # (3, 2)
    tree: cKDTree
    rest: FloatArray
    error: float  # of the median match, without the rest

    @property
    def axes(self) -> FloatArray:
        """Axes of the ellipse to which the affinity maps a unit circle, the longer one first."""
        axes = np.linalg.svd(self.affinity[:2], compute_uv=False)
        return np.asarray(np.maximum(axes, 1e-9), np.float64)

    def __call__(self, xy: FloatArray) -> FloatArray:
        """Predict positions (n, 2) in the other image."""
        nearest = self.tree.query(xy, min(_RESIDUALS, len(self.rest)))[1]
        places = _with_ones(xy) @ self.affinity + self.rest[nearest].mean(axis=1)
        return np.asarray(places, np.float64)


def motion(p: FloatArray, q: FloatArray) -> Motion:
    """Estimate how matched positions p move to q, by iteratively reweighted least squares."""
    A, weights = _with_ones(p), np.ones((len(p), 1))
    for _ in range(3):
        solution = np.linalg.lstsq(A * weights, q * weights, rcond=None)[0]
        affinity = np.asarray(solution, np.float64)
        errors = np.linalg.norm(q - A @ affinity, axis=1)
        weights = 1 / np.sqrt(1 + (errors / (np.median(errors) + 1e-9)) ** 2)[:, None]
    return Motion(affinity, cKDTree(p), q - A @ affinity, float(np.median(errors)))


def _with_ones(xy: FloatArray) -> FloatArray:
    return np.column_stack([xy, np.ones(len(xy))])


class Side(NamedTuple):
    """What one image of a pair shows, and the other one should.

    Attributes
    ----------
    view : View
    expected : (n,) bools
        Features that move into the other image, and are in tracks that two images
        confirm, the other one of the pair not counted.
    shared : (n,) bools
        Features whose track the other image shows.
    """

    view: View
    expected: BoolArray
    shared: BoolArray


class Missing(NamedTuple):
    """What a pair of images should share, and does.

    Attributes
    ----------
    sides : tuple of Side
        First image, second image.
    expected : int
        Features that should be shared, in the image that has fewer.
    matched : float
        Share of them that is, in the image that has more of it: where one image shows
        more detail, the other one has features of few.
    conflict : float or None
        Share of the expected features in places where the images contradict each other:
        both have expected features there, and share none. The lower share of both
        images; None if too few are shared anywhere to tell.
    parallax : float
        How far the median match is from an affinity of the images, in diagonals.
    stretch : float
        Ratio of the axes of the affinity.
    """

    sides: tuple[Side, Side]
    expected: int
    matched: float
    conflict: float | None
    parallax: float
    stretch: float


def missing_correspondences(a: View, b: View, p: FloatArray, q: FloatArray) -> Missing | None:
    """Look for what two images should share.

    Parameters
    ----------
    a, b : View
        What the images show.
    p, q : (n, 2) arrays
        Matched positions in image a and in image b.

    Returns
    -------
    Missing or None
        None if there are too few matches or features to tell.
    """
    if len(p) < LEAST_MATCHES or min(len(a.xy), len(b.xy)) <= NEIGHBOURS:
        return None
    common = np.intersect1d(a.tracks, b.tracks)
    moves = motion(p, q), motion(q, p)
    places = moves[0](a.xy), moves[1](b.xy)
    sides = (_side(a, b, common, places[0]), _side(b, a, common, places[1]))
    axes = moves[0].axes
    return Missing(
        sides,
        int(min(side.expected.sum() for side in sides)),
        max(_share(side.shared, side.expected) for side in sides),
        _mutual_conflict(sides, places, moves),
        moves[0].error / float(np.hypot(*b.size)),
        float(axes[0] / axes[1]),
    )


def _side(view: View, other: View, common: IntArray, places: FloatArray) -> Side:
    shared = np.isin(view.tracks, common)
    inside = ((places > _MARGIN * other.size) & (places < (1 - _MARGIN) * other.size)).all(axis=1)
    return Side(view, inside & (view.lengths - shared >= 2), shared)


def _mutual_conflict(
    sides: tuple[Side, Side], places: tuple[FloatArray, FloatArray], moves: tuple[Motion, Motion]
) -> float | None:
    dead = [found for side in sides if (found := _dead(side)) is not None]
    if len(dead) < 2:
        return None
    shares = []
    for a, b in ((0, 1), (1, 0)):
        away, nearest = sides[b].view.tree.query(places[a])
        close = away < np.sqrt(moves[a].axes.prod()) * sides[a].view.reach
        shares.append(_share(dead[a] & dead[b][nearest] & close, sides[a].expected))
    return min(shares)


def _dead(side: Side) -> BoolArray | None:
    """Which expected features are in places that share nothing; None if it cannot be told."""
    nearest = side.view.nearest
    rank = np.cumsum(side.expected[nearest], axis=1)
    alive = (side.shared & side.expected)[nearest]
    first = np.where(alive, rank, NEIGHBOURS + 2).min(axis=1)
    matched = _share(side.shared, side.expected)
    # Places that share nothing do not count for how much the others share.
    for _ in range(3):
        n = _neighbours(matched)
        if n > NEIGHBOURS:
            return None
        matched = _share(side.shared, side.expected & (first <= n + 1))
    return np.asarray(side.expected & (first > n + 1) & (rank[:, -1] > n))


def _neighbours(matched: float) -> int:
    """Neighbours of which one at least is matched, except by chance."""
    if matched <= 0:
        return NEIGHBOURS + 1
    return max(int(np.ceil(np.log(_CHANCE) / np.log1p(-min(matched, 0.9)))), _LEAST_NEIGHBOURS)


def _share(some: BoolArray, of: BoolArray) -> float:
    return float((some & of).sum() / max(of.sum(), 1))
