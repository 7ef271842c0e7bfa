"""Where the matches of two images move the places between them.

Around every match an affine map is fitted to it and its neighbours. It takes places that are
near the match to the other image, and its value at the match itself has less noise than the match.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from nmfsync.types.arrays import AnyArray, BoolArray, Float32Array, FloatArray, IntArray

_NEIGHBOURS = 12  # matches that a map is fitted to, at most, its own included
_WIDTH = 1.6  # of the bell of their weights, in typical distances of matches
_ROUNDS = 3  # of fits, each with less weight for what the one before does not explain
_TIE = 0.05  # weight of the map of the whole image in every local one, which may have no neighbours
# Places are moved if a match is this near, in typical distances of matches. On the fountain, 1.25
# gave a mapper 1.6 times the observations, at a reprojection error that was 14 % higher.
_REACH = 0.5
_EXACT = 0.01  # pixels, the same for positions that pairs share exactly
_USED = 3  # maps that move a place together
_SPREAD = 2.0  # σ of where they put it, at most
_LEAST_NOISE = 0.1  # pixels
_MOST = 4.0  # σ of the pair that a match counts with in the noise around it
_OUTLIER = 4.0  # matches this far, in σ, from where their neighbours say are wrong


class Moved(NamedTuple):
    """Places that a map moves.

    Attributes
    ----------
    rows : (v,) int64 array
        Which of the places are near enough to matches, and matches agree on.
    xy : (v, 2) float64 array
        Where they are in the other image.
    A : (v, 2, 2) float64 array
        By what a small step from a place is multiplied there.
    score, noise : (v,) float64 arrays
        Of the matches that moved them.
    """

    rows: IntArray
    xy: FloatArray
    A: FloatArray
    score: FloatArray
    noise: FloatArray


class LocalMap:
    """The map from one image of a pair to the other.

    Parameters
    ----------
    xy0, xy1 : (n, 2) float32 arrays
        Matched positions in pixels, n > 0.
    scores : (n,) float32 array
    exact : bool
        The positions are features that pairs share: a map is its match alone, and reaches nowhere.

    Attributes
    ----------
    xy : (n, 2) float64 array
        Where the maps put the first positions.
    noise : (n,) float64 array
        Estimated standard deviation of a coordinate of every match, in pixels of the second
        image: what its neighbours leave unexplained, be it noise or the shape of the scene.
    spacing : float
        Typical distance of a match to the others around it, in pixels of the first image.
    regular : (n,) bool array
        Which matches are where their neighbours say.
    """

    def __init__(
        self, xy0: Float32Array, xy1: Float32Array, scores: Float32Array, exact: bool = False
    ) -> None:
        self._source, target = xy0.astype(np.float64), xy1.astype(np.float64)
        self._scores = scores.astype(np.float64)
        self._tree = cKDTree(self._source)
        count = min(_NEIGHBOURS, len(xy0))
        distance, near = self._nearest(self._source, count)
        self.spacing = max(float(np.median(distance[:, min(3, count - 1)])), 1e-3)
        self._reach = _EXACT if exact else _REACH * self.spacing
        self.xy, self.noise = target, np.full(len(xy0), _LEAST_NOISE)
        self._A = np.zeros((len(xy0), 2, 2))
        self.regular: BoolArray = np.ones(len(xy0), bool)
        if not exact:
            self._fit(target, distance, near)

    def _nearest(
        self, places: AnyArray, count: int, reach: float = np.inf
    ) -> tuple[FloatArray, IntArray]:
        distance, near = self._tree.query(places, count, distance_upper_bound=reach)
        return distance.reshape(-1, count), near.reshape(-1, count)

    def _fit(self, target: FloatArray, distance: FloatArray, near: IntArray) -> None:
        X = np.ones((*near.shape, 3))
        X[..., 1:] = (self._source[near] - self._source[:, None]) / self.spacing
        Y, XT = target[near], np.swapaxes(X, 1, 2)
        tie = _TIE * np.diag([1e-6, 1.0, 1.0])
        tied = tie @ _affine(self._source, target, self.spacing)
        bell = np.exp(-0.5 * (distance / (_WIDTH * self.spacing)) ** 2) * self._scores[near]
        weights = bell
        for _ in range(_ROUNDS):
            XW = XT * weights[:, None]
            inverse = np.linalg.inv(XW @ X + tie)
            fit = inverse @ (XW @ Y + tied)  # (n, 3, 2): the value, its change with x, with y
            error = np.linalg.norm(Y - X @ fit, axis=2)
            leverage = np.minimum(weights[:, 0] * inverse[:, 0, 0], 0.99)
            own = error[:, 0] / np.sqrt(1 - leverage)
            known = own[leverage < 0.7]  # the others have too few neighbours to tell
            # Of a Rayleigh distribution, the median is 1.18 σ, and the mean 1.25 σ.
            typical = max(float(np.median(known)) / 1.18 if len(known) else 0.0, _LEAST_NOISE)
            local = np.average(np.minimum(own, _MOST * typical)[near], axis=1, weights=bell) / 1.25
            self.noise = np.maximum(local, typical)
            weights = bell / (1 + (error / (2 * self.noise[:, None])) ** 2)
        self.xy, self._A = fit[:, 0], np.swapaxes(fit[:, 1:], 1, 2) / self.spacing
        self.regular = error[:, 0] <= _OUTLIER * self.noise

    def move(self, places: FloatArray) -> Moved:
        """Move places (m, 2), in pixels of the first image."""
        distance, near = self._nearest(places, min(_USED, len(self.xy)), self._reach)
        rows = np.flatnonzero(np.isfinite(distance[:, 0]))
        distance, near = distance[rows], np.minimum(near[rows], len(self.xy) - 1)
        weights = np.exp(-0.5 * (distance / (0.5 * self.spacing)) ** 2) * self._scores[near]
        weights /= weights.sum(axis=1, keepdims=True)
        step = places[rows, None] - self._source[near]
        each = self.xy[near] + (self._A[near] @ step[..., None])[..., 0]
        xy = (weights[..., None] * each).sum(axis=1)
        noise = (weights * self.noise[near]).sum(axis=1)
        spread = np.sqrt((weights * ((each - xy[:, None]) ** 2).sum(axis=2)).sum(axis=1))
        one = np.flatnonzero(spread <= _SPREAD * noise)  # surface; else there is a depth edge
        A = (weights[..., None, None] * self._A[near]).sum(axis=1)
        score = (weights * self._scores[near]).sum(axis=1)
        return Moved(rows[one], xy[one], A[one], score[one], noise[one])


def _affine(source: FloatArray, target: FloatArray, unit: float) -> FloatArray:
    """Return the affine map of all matches, (3, 2); its value, which no match shares, is 0."""
    a, b = (source - np.median(source, axis=0)) / unit, target - np.median(target, axis=0)
    return np.vstack([np.zeros((1, 2)), np.linalg.lstsq(a, b, rcond=None)[0]])
