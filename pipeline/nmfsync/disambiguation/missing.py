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

# A track that is this far (in diagonals) from where the matches move it is not shared: look-alikes
# can stand in both images, one beside the other.
_ELSEWHERE = 0.06

_NONE = np.empty(0, np.int64)


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
        Features whose track the other image shows where their matches move them: what is
        beside a look-alike may be in both images, but then somewhere else.
    common : (n,) bools
        Features whose track the other image shows, wherever.
    """

    view: View
    expected: BoolArray
    shared: BoolArray
    common: BoolArray


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
    dead : tuple of (n,) int arrays
        The tracks of these features, in the first image and in the second one.
    parallax : float
        How far the median match is from an affinity of the images, in diagonals.
    stretch : float
        Ratio of the axes of the affinity.
    """

    sides: tuple[Side, Side]
    expected: int
    matched: float
    conflict: float | None
    dead: tuple[IntArray, IntArray]
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
    moves = motion(p, q), motion(q, p)
    places = moves[0](a.xy), moves[1](b.xy)
    sides = (_side(a, b, places[0]), _side(b, a, places[1]))
    axes = moves[0].axes
    contradict = _contradict(sides, places, moves)
    return Missing(
        sides,
        int(min(side.expected.sum() for side in sides)),
        max(_share(side.shared, side.expected) for side in sides),
        None if contradict is None else min(map(_share_of_expected, contradict, sides)),
        (_NONE, _NONE) if contradict is None else _tracks_of(contradict, sides),
        moves[0].error / float(np.hypot(*b.size)),
        float(axes[0] / axes[1]),
    )


def _share_of_expected(contradict: BoolArray, side: Side) -> float:
    return _share(contradict, side.expected)


def _tracks_of(
    contradict: tuple[BoolArray, BoolArray], sides: tuple[Side, Side]
) -> tuple[IntArray, IntArray]:
    return sides[0].view.tracks[contradict[0]], sides[1].view.tracks[contradict[1]]


def _side(view: View, other: View, places: FloatArray) -> Side:
    _, here, there = np.intersect1d(view.tracks, other.tracks, return_indices=True)
    common, shared = np.zeros((2, len(places)), bool)
    common[here] = True
    away = np.linalg.norm(places[here] - other.xy[there], axis=1)
    shared[here] = away < _ELSEWHERE * np.hypot(*other.size)
    inside = ((places > _MARGIN * other.size) & (places < (1 - _MARGIN) * other.size)).all(axis=1)
    return Side(view, inside & (view.lengths - common >= 2), shared, common)


def _contradict(
    sides: tuple[Side, Side], places: tuple[FloatArray, FloatArray], moves: tuple[Motion, Motion]
) -> tuple[BoolArray, BoolArray] | None:
    """Which features of both images are in places where both have some, and share none."""
    first, second = _dead(sides[0]), _dead(sides[1])
    if first is None or second is None:
        return None
    return (
        first & _near(second, sides[1], sides[0], places[0], moves[0]),
        second & _near(first, sides[0], sides[1], places[1], moves[1]),
    )


def _near(dead: BoolArray, to: Side, side: Side, places: FloatArray, moves: Motion) -> BoolArray:
    """Which features of a side move near to a dead one of the other image."""
    away, nearest = to.view.tree.query(places)
    return np.asarray(dead[nearest] & (away < np.sqrt(moves.axes.prod()) * side.view.reach))


def _dead(side: Side) -> BoolArray | None:
    """Which expected features are in places that share nothing; None if it cannot be told."""
    nearest = side.view.nearest
    rank = np.cumsum(side.expected[nearest], axis=1)
    alive = (side.common & side.expected)[nearest]
    first = np.where(alive, rank, NEIGHBOURS + 2).min(axis=1)
    matched = _share(side.common, side.expected)
    # Places that share nothing do not count for how much the others share.
    for _ in range(3):
        n = _neighbours(matched)
        if n > NEIGHBOURS:
            return None
        matched = _share(side.common, side.expected & (first <= n + 1))
    return np.asarray(side.expected & (first > n + 1) & (rank[:, -1] > n))


def _neighbours(matched: float) -> int:
    """Neighbours of which one at least is matched, except by chance."""
    if matched <= 0:
        return NEIGHBOURS + 1
    return max(int(np.ceil(np.log(_CHANCE) / np.log1p(-min(matched, 0.9)))), _LEAST_NEIGHBOURS)


def _share(some: BoolArray, of: BoolArray) -> float:
    return float((some & of).sum() / max(of.sum(), 1))
