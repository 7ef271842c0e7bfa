"""Shared keypoints and tracks from matches whose positions belong to pairs of images.

A detector-free matcher finds other places of an image for every pair. Here a place of
an image is taken as it is and followed to the other images: the matches around it say
where it is there. What several pairs of images say must agree: an image in which
most disagree is left out of the track, so that a track has one place of an image.
Positions are refined within the track, and matches that lie on it begin no other one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from nmfsync.matching.local_maps import LocalMap
from nmfsync.matching.verification import verify_pair
from nmfsync.runtime.progress import bar
from nmfsync.types.arrays import BoolArray, Float32Array, FloatArray, IntArray
from nmfsync.types.positions import PositionPair

# Two ways to a place agree if they end this near: in σ of a match, and in pixels.
_TOLERANCE, _LEAST_TOLERANCE = 2.5, 0.75

# Places nearer than this are one: in σ of a match, and in the typical distance of the matches of
# a pair. Nearer ones give a mapper more observations of the same matches, which cost it time.
_NOISE_SHARE, _SPACING_SHARE = 2.0, 0.5

_SWEEPS = 3  # of the refinement

_TRIES = 2  # places of an image for a track

_EXACT_RADIUS = 0.01  # pixels, for positions that pairs share exactly


@dataclass(frozen=True, eq=False)
class Merged:
    """Keypoints that pairs of images share, and their tracks.

    Attributes
    ----------
    xy : list of (n, 2) float32 arrays
        The keypoints of every image, in pixels.
    track : list of (n,) int64 arrays
        The track of every keypoint; one has at most one keypoint of an image.
    rows : dict of (int, int) to (n, 2) int64 array
        Matches of images i < j, keypoints counted from 0 in each image.
    scores : dict of (int, int) to (n,) float64 array
        Of these matches: those of the matches around them.
    radius : float
        Places nearer than this are one keypoint, in pixels.
    contradictions : int
        Places that were left out of tracks, as most matches that lead there end elsewhere.
    """

    xy: list[Float32Array]
    track: list[IntArray]
    rows: dict[tuple[int, int], IntArray]
    scores: dict[tuple[int, int], FloatArray]
    radius: float
    contradictions: int


def verify_positions(
    pairs: Sequence[PositionPair], geometry: str = "fundamental"
) -> list[PositionPair]:
    """Keep the matches that agree with their neighbours and with one geometry of their images.

    Parameters
    ----------
    pairs : sequence of PositionPair
    geometry : str
        As for `verify`. The positions that are verified have less noise than the matches: what
        their neighbours say counts.
    """
    kept, exact = [], are_shared(pairs)
    for pair in pairs:
        local = LocalMap(pair.xy0, pair.xy1, pair.scores, exact)
        good = verify_pair(pair.xy0, local.xy.astype(np.float32), geometry) & local.regular
        if good.any():
            kept.append(pair._replace(**{
                name: getattr(pair, name)[good] for name in ("xy0", "xy1", "scores")
            }))  # fmt: skip
    return kept


def are_shared(pairs: Sequence[PositionPair]) -> bool:
    """Whether most positions are those of features: exactly the same in several pairs."""
    positions = defaultdict(list)
    for pair in pairs:
        positions[pair.i].append(np.unique(pair.xy0, axis=0))
        positions[pair.j].append(np.unique(pair.xy1, axis=0))
    once = 0
    total = 0
    for parts in positions.values():
        if len(parts) > 1:
            _, counts = np.unique(np.concatenate(parts), axis=0, return_counts=True)
            once, total = once + int((counts == 1).sum()), total + len(counts)
    return 2 * once < total


def merge(
    pairs: Sequence[PositionPair],
    image_count: int,
    radius: float | None = None,
    progress: bool = False,
) -> Merged:
    """Merge positions that belong to pairs into keypoints and tracks.

    Parameters
    ----------
    pairs : sequence of PositionPair
        Each pair of images once; better verified.
    image_count : int
    radius : float, optional
        Places nearer than this are one keypoint, in pixels. By default what the noise of the
        matches cannot tell apart, and at least a share of their distance; for positions
        that pairs share exactly (`are_shared`), nothing but the same.
    progress : bool
        Show a progress bar if stderr is a terminal.
    """
    exact, maps = are_shared(pairs), {}
    for pair in pairs:
        maps[pair.i, pair.j] = LocalMap(pair.xy0, pair.xy1, pair.scores, exact)
        maps[pair.j, pair.i] = LocalMap(pair.xy1, pair.xy0, pair.scores, exact)
    if radius is None:
        radius = _radius_of(maps.values()) if maps and not exact else _EXACT_RADIUS
    merger = _Merger(pairs, maps, image_count, radius)
    with bar(image_count, "Merging", "image", progress) as shown:
        for image in range(image_count):
            merger.add_tracks_from(image)
            shown.update()
    return merger.merged()


def _radius_of(maps: Iterable[LocalMap]) -> float:
    noise, spacing = np.median([(np.median(m.noise), m.spacing) for m in maps], axis=0)
    return max(_NOISE_SHARE * float(noise), _SPACING_SHARE * float(spacing))


class _Merger:
    """Tracks from one image after the other, of what those before have left."""

    def __init__(
        self,
        pairs: Sequence[PositionPair],
        maps: Mapping[tuple[int, int], LocalMap],
        image_count: int,
        radius: float,
    ) -> None:
        self.maps, self.neighbours = maps, defaultdict[int, list[int]](list)
        for i, j in maps:
            self.neighbours[i].append(j)
        self._pairs = {(pair.i, pair.j): pair for pair in pairs}
        # Matches that no track has yet.
        self._free = {(i, j): maps[i, j].regular & maps[j, i].regular for i, j in self._pairs}
        self._radius, self._contradictions, self._tracks = radius, 0, 0
        self._keypoints: list[_Parts] = [[] for _ in range(image_count)]
        self._matches = defaultdict[tuple[int, int], _Parts](list)

    def add_tracks_from(self, image: int) -> None:
        """Add the tracks of all places of an image that have none."""
        places = self._free_places(image)
        if len(places):
            growth = _Growth(self.maps, self.neighbours, image, places)
            growth.grow()
            self._add(growth)

    def _free_places(self, image: int) -> FloatArray:
        xy, scores = [np.empty((0, 2))], [np.empty(0)]
        for other in self.neighbours[image]:
            key = min(image, other), max(image, other)
            pair, free = self._pairs[key], self._free[key]
            xy.append((pair.xy0 if image == pair.i else pair.xy1)[free].astype(np.float64))
            scores.append(pair.scores[free].astype(np.float64))
        return _apart(np.concatenate(xy), np.concatenate(scores), self._radius)

    def _add(self, growth: "_Growth") -> None:
        known, ways, k = growth.known, growth.ways, len(growth.images)
        known &= (known.sum(axis=1) > 1)[:, None]
        rows = np.flatnonzero(known[:, 0])
        number = np.full(len(known), -1)
        number[rows] = self._tracks + np.arange(len(rows))
        self._tracks += len(rows)
        self._contradictions += growth.contradictions
        for n, image in enumerate(growth.images):
            own = np.flatnonzero(known[:, n])
            self._keypoints[image].append((number[own], growth.xy[own, n]))
        for (a, i), (b, j) in permutations(enumerate(growth.images), 2):
            both = known[:, a] & known[:, b]
            if (i, j) in self._pairs and both.any():
                self._take(i, j, growth.xy[both, a], growth.xy[both, b])
        right = growth.right & known[ways.track, ways.start] & known[ways.track, ways.end]
        code = ways.start * k + ways.end
        order = np.flatnonzero(right)
        order = order[np.argsort(code[order], kind="stable")]
        for part in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            if len(part):
                a, b = divmod(int(code[part[0]]), k)
                i, j, t = growth.images[a], growth.images[b], ways.track[part]
                self._matches[min(i, j), max(i, j)].append((number[t], ways.score[part]))

    def _take(self, i: int, j: int, xy0: FloatArray, xy1: FloatArray) -> None:
        """Take the matches of a pair that begin or end on tracks, whose places are xy0 and xy1.

        A match that does one and not the other contradicts a track, and begins no other one.
        """
        pair, free = self._pairs[i, j], np.flatnonzero(self._free[i, j])
        for xy, places in ((pair.xy0, xy0), (pair.xy1, xy1)):
            distance, _ = cKDTree(places).query(xy[free], distance_upper_bound=self._radius)
            self._free[i, j][free[np.isfinite(distance)]] = False

    def merged(self) -> Merged:
        """Return all that was added."""
        xy, track, index = [], [], []
        for parts in self._keypoints:
            numbers, positions = _joined(parts, (0, 2))
            xy.append(positions.astype(np.float32))
            track.append(numbers)
            place = np.full(self._tracks, -1)
            place[numbers] = np.arange(len(numbers))
            index.append(place)
        rows, scores = {}, {}
        for (i, j), parts in sorted(self._matches.items()):
            numbers, values = _joined(parts, (0,))
            single, first = np.unique(numbers, return_index=True)  # both ways of a match agree
            rows[i, j] = np.column_stack([index[i][single], index[j][single]])
            scores[i, j] = values[first]
        return Merged(xy, track, rows, scores, self._radius, self._contradictions)


_Parts = list[tuple[IntArray, FloatArray]]  # numbers of tracks, and a value of each


def _joined(parts: _Parts, empty: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
    numbers = np.concatenate([np.empty(0, np.int64), *(n for n, _ in parts)])
    return numbers, np.concatenate([np.empty(empty), *(v for _, v in parts)])


class _Ways(NamedTuple):
    """Ways from places of tracks to other images: a row of every array is a way.

    Attributes
    ----------
    track, start, end : (w,) int64 arrays
        Start and end are numbers of images in `_Growth.images`.
    origin, goal : (w, 2) float64 arrays
        Where a way started when it was found, and where it ended then.
    A : (w, 2, 2) float64 array
        By what a small step of the start is multiplied at the end.
    score, weight, tolerance : (w,) float64 arrays
        Of its matches; 1/σ²; and how far from its end a place agrees with it, in pixels.
    """

    track: IntArray
    start: IntArray
    end: IntArray
    origin: FloatArray
    goal: FloatArray
    A: FloatArray
    score: FloatArray
    weight: FloatArray
    tolerance: FloatArray


def _no_ways() -> _Ways:
    """Return an empty one."""
    number, value, place = np.empty(0, np.int64), np.empty(0), np.empty((0, 2))
    A = np.empty((0, 2, 2))
    return _Ways(number, number, number, place, place, A, value, value, value)


class _Growth:
    """Places of one image, followed to the others.

    Attributes
    ----------
    images : list of int
        Those that a track has reached or asked, the first one first.
    xy : (n, len(images), 2) float64 array
        The place of every track in every image.
    known : (n, len(images)) bool array
        Which of them are there.
    ways : _Ways
    right : (w,) bool array
        Which ways have both places, and end at the second.
    contradictions : int
    """

    def __init__(
        self,
        maps: Mapping[tuple[int, int], LocalMap],
        neighbours: Mapping[int, Sequence[int]],
        image: int,
        places: FloatArray,
    ) -> None:
        self._maps, self._neighbours = maps, neighbours
        self.images, self._number = [image], {image: 0}
        self.xy = places[:, None].copy()
        self.known = np.ones((len(places), 1), bool)
        self._asked = np.zeros((len(places), 1), bool)
        self._refused = np.zeros((len(places), 1), np.int64)
        self.ways, self.right = _no_ways(), np.empty(0, bool)
        self._spent = np.empty(0, bool)  # ways that ended at places which were refused
        self._gone = np.empty(0, bool)  # and that started there
        self.contradictions = 0

    def grow(self) -> None:
        """Go on until tracks reach no other image."""
        changed = np.ones(len(self.xy), bool)
        while changed.any():
            self._ask()
            self._judge(changed)
            self._refine(changed)
            changed = self._enter(changed)

    def _ask(self) -> None:
        """Find the ways that start at places which are new."""
        found = [self.ways]
        new = self.known & ~self._asked
        self._asked |= new
        for n in np.flatnonzero(new.any(axis=0)).tolist():
            rows = np.flatnonzero(new[:, n])
            for other in self._neighbours[self.images[n]]:
                local = self._maps[self.images[n], other]
                moved = local.move(self.xy[rows, n])
                t, w = rows[moved.rows], len(moved.rows)
                tolerance = np.maximum(_TOLERANCE * moved.noise, _LEAST_TOLERANCE)
                found.append(_Ways(
                    t, np.full(w, n), np.full(w, self._number_of(other)), self.xy[t, n], moved.xy,
                    moved.A, moved.score, moved.noise**-2, tolerance,
                ))  # fmt: skip
        self.ways = _Ways(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        more = np.zeros(len(self.ways.track) - len(self.right), bool)
        self.right, self._spent, self._gone = (
            np.concatenate([flags, more]) for flags in (self.right, self._spent, self._gone)
        )

    def _number_of(self, image: int) -> int:
        if image not in self._number:
            self._number[image] = len(self.images)
            self.images.append(image)
            column = np.zeros((len(self.xy), 1), bool)
            self.xy = np.concatenate([self.xy, np.zeros((len(self.xy), 1, 2))], axis=1)
            self.known = np.hstack([self.known, column])
            self._asked = np.hstack([self._asked, column])
            self._refused = np.hstack([self._refused, column])
        return self._number[image]

    def _ends(self, rows: IntArray) -> FloatArray:
        """Where ways end, from where their start is now."""
        w = self.ways
        step = self.xy[w.track[rows], w.start[rows]] - w.origin[rows]
        A = w.A[rows]
        return w.goal[rows] + A[:, :, 0] * step[:, :1] + A[:, :, 1] * step[:, 1:]

    def _enter(self, tracks: BoolArray) -> BoolArray:
        """Enter images that are new to some tracks, and return which tracks have any.

        The place is where the way with the best score ends: the mean of those that agree with it.
        """
        w, k = self.ways, len(self.images)
        rows = np.flatnonzero(tracks[w.track] & ~self._spent)
        track, end = w.track[rows], w.end[rows]
        new = self.known[track, w.start[rows]] & ~self.known[track, end]
        rows = rows[new & (self._refused[track, end] < _TRIES)]
        rows = rows[np.lexsort((-w.score[rows], w.track[rows] * k + w.end[rows]))]
        place, best, which = np.unique(
            w.track[rows] * k + w.end[rows], return_index=True, return_inverse=True
        )
        ends = self._ends(rows)
        near = np.linalg.norm(ends - ends[best][which], axis=1) <= w.tolerance[rows]
        self.xy.reshape(-1, 2)[place] = _means(which, ends, w.weight[rows] * near, len(place))
        self.known.reshape(-1)[place] = True
        entered = np.zeros(len(self.xy), bool)
        entered[place // k] = True
        return entered

    def _judge(self, tracks: BoolArray) -> None:
        """Refuse, one after the other, the place of a track from or to which most ways disagree."""
        w, k, open_ = self.ways, len(self.images), tracks
        while open_.any():
            own = np.flatnonzero(open_[w.track] & ~self._gone)
            self.right[own] = False
            track = w.track[own]
            rows = own[self.known[track, w.start[own]] & self.known[track, w.end[own]]]
            apart = np.linalg.norm(self._ends(rows) - self.xy[w.track[rows], w.end[rows]], axis=1)
            right = apart <= w.tolerance[rows]
            self.right[rows] = right
            votes, size = np.where(right, 1.0, -1.0), self.known.size
            balance = np.bincount(w.track[rows] * k + w.start[rows], votes, size)
            balance += np.bincount(w.track[rows] * k + w.end[rows], votes, size)
            balance = np.where(self.known, balance.reshape(-1, k), 0)
            balance[:, 0] = 0  # where the track comes from
            worst = balance.argmin(axis=1)
            bad = np.flatnonzero(balance[np.arange(len(worst)), worst] < 0)
            self._refuse(bad, worst[bad])
            open_ = np.zeros(len(self.xy), bool)
            open_[bad] = True

    def _refuse(self, track: IntArray, image: IntArray) -> None:
        """Take places out of tracks; other ways may enter these images elsewhere."""
        refused = np.zeros(self.known.shape, bool)
        refused[track, image] = True
        self.known &= ~refused
        self._asked &= ~refused
        self._refused += refused
        self.contradictions += len(track)
        w = self.ways
        self._spent |= self.right & refused[w.track, w.end]
        self._gone |= refused[w.track, w.start]
        self._spent |= self._gone
        self.right &= ~self._gone

    def _refine(self, tracks: BoolArray) -> None:
        """Move places to the mean of the right ways that end there."""
        w, k = self.ways, len(self.images)
        rows = np.flatnonzero(self.right & (w.end != 0) & tracks[w.track])
        place, which = np.unique(w.track[rows] * k + w.end[rows], return_inverse=True)
        for _ in range(_SWEEPS):
            means = _means(which, self._ends(rows), w.weight[rows], len(place))
            self.xy.reshape(-1, 2)[place] = means


def _means(which: IntArray, xy: FloatArray, weights: FloatArray, count: int) -> FloatArray:
    """Weighted means (count, 2) of groups of positions."""
    sums = [np.bincount(which, weights * values, count) for values in xy.T]
    return np.column_stack(sums) / np.bincount(which, weights, count)[:, None]


def _apart(xy: FloatArray, scores: FloatArray, radius: float) -> FloatArray:
    """Return places (n, 2) of which none is within the radius of a better one that stays."""
    xy, first = np.unique(xy[np.argsort(-scores, kind="stable")], axis=0, return_index=True)
    best_first = xy[np.argsort(first)]
    near = cKDTree(best_first).query_pairs(radius, output_type="ndarray")
    stays, gone = np.zeros((2, len(xy)), bool)
    while len(near):
        hindered = np.zeros(len(xy), bool)
        hindered[near[:, 1]] = True  # by a better one of which nothing is known yet
        stays |= ~hindered & ~gone
        gone[near[stays[near[:, 0]], 1]] = True
        near = near[~(stays | gone)[near[:, 1]] & ~gone[near[:, 0]]]
    return best_first[~gone]
