"""Depths reconstructed from calibrated images, at given positions only.

Where a scene has cameras but no measured surface, the depth of a feature can be
found from the images themselves: slide a point along the feature's ray, and at
the right depth the neighbouring views show the same small patch (plane sweep:
Collins, A space-sweep approach to true multi-image matching, CVPR 1996).

Only images and cameras are used. Neither descriptors nor matches enter, not
even for the range of depths, so that what is reconstructed here can judge
matches without having learnt from them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import cv2
import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.progress import bar
from nmfsync.truth.views import RADIUS, choose_views, depth_range, spread, usefulness
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.camera import Camera

Image = NDArray[np.uint8]

T = TypeVar("T")

STEP = 1.0  # pixels a hypothesis moves in the view where it moves most

DISTINCT = 3.0  # pixels beyond which another depth is a different depth

MODES = 4  # the best depths that are looked at more closely

AGREEING = 3  # so many views must show the patch

MIN_CORRELATION = 0.85  # in each of them, for the small patch

MIN_LEAD = 0.03  # of the best score over that of every different depth, for the large patch

SAME = 0.5  # pixels that the best depths of the small and of the large patch may be apart

MIN_CONTRAST = 2.0  # standard deviation of a patch that can be recognised, in grey levels

_BLOCK = 6_000_000  # pixels of patches read at a time, 24 MB

_ROWS = 30_000  # OpenCV's maps have at most 32767


def _window(radius: int, stride: int) -> FloatArray:
    """Offsets (2, p) of a patch's pixels from its centre."""
    side = np.arange(-radius, radius + 1, stride, dtype=np.float64)
    return np.stack([a.ravel() for a in np.meshgrid(side, side)])


# The sweep itself can do with every other pixel of the large patch.
_WINDOWS = {
    "coarse": _window(RADIUS, 2),
    "small": _window(3, 1),
    "large": _window(RADIUS, 1),
}

# The views that fit best count fully, others help to tell depths apart.
_WEIGHTS = np.array([1, 1, 1, 1 / 2, 1 / 4, 1 / 8], dtype=np.float32) / 3

# Relative change of inverse depth along x and y, times the focal length.
_SLANTS = np.array([(a, b) for a in (-0.8, 0, 0.8) for b in (-0.8, 0, 0.8)])

_NO_SLANT = np.zeros(2)

_SHIFTS = np.arange(-3, 4) / 2  # in steps of the sweep


def reconstruct_depths(
    images: Sequence[Image],
    cameras: Sequence[Camera],
    xy: Sequence[AnyArray],
    bounds: FloatArray | None = None,
    progress: bool = True,
) -> list[FloatArray]:
    """Find the depths of positions in every image by plane sweep.

    Depths along a position's ray are compared by the normalised correlation of
    the patch around it with the patches that the neighbouring views show there.
    The `AGREEING` largest correlations make up most of a depth's score, for a
    point may be hidden in other views. The best few depths are refined, with
    slanted patches as well, once with a small and once with a large patch: large
    ones are more distinct, but near an edge in depth they follow the foreground.

    A depth is kept if `AGREEING` views show the small patch there, if every
    different depth scores clearly less for the large one, and if the two
    patches find the same depth.

    Parameters
    ----------
    images : sequence of (h, w, 3) uint8 arrays of RGB or (h, w) of grey
        Taken one at a time; a lazy sequence will do.
    cameras : sequence of Camera
        One for every image, of the image's size.
    xy : sequence of (n_i, 2) arrays
        Pixels; the centre of the top-left pixel is (0, 0).
    bounds : (2, 3) float64 array, optional
        Smallest and largest coordinates of the scene. Without them, the depths
        tried are all those that `AGREEING` views see under a useful angle.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    list of (n_i,) float64 arrays
        Depths along the optical axis in the cameras' unit, NaN where not
        reconstructed. A scene of fewer than `AGREEING` + 1 images has none.

    Raises
    ------
    NmfsyncError
        If there is not one camera and one array of positions for every image,
        or a camera is for an image of another size.
    """
    check_lengths(images, cameras, xy)
    gray = gray_images(images, cameras)

    def depths(i: int) -> FloatArray:
        if not len(xy[i]):
            return np.empty(0)
        views = choose_views(i, cameras, bounds)
        return Sweep(i, views, cameras, gray, xy[i], bounds).depths()

    return for_every_image(depths, len(cameras), progress)


def check_lengths(
    images: Sequence[Image], cameras: Sequence[Camera], xy: Sequence[AnyArray]
) -> None:
    """Raise NmfsyncError if there is not one camera and one set of features for every image."""
    if not len(images) == len(cameras) == len(xy):
        raise NmfsyncError(
            f"{len(images)} images, {len(cameras)} cameras and features of {len(xy)} images"
        )


def gray_images(
    images: Sequence[Image], cameras: Sequence[Camera]
) -> Callable[[int], NDArray[np.float32]]:
    """Read images in grey when asked for; neighbours ask for the same few."""
    return lru_cache(maxsize=16)(lambda i: _gray(images[i], cameras[i], i))


def for_every_image(compute: Callable[[int], T], k: int, progress: bool) -> list[T]:
    """Call compute(i) for all k images, several at a time; results in the order of images."""
    # Threads do, for nearly all time goes into NumPy and OpenCV, which let others run.
    # Products with three columns only lose time to threads of their own.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(joblib.cpu_count()) as pool:
        results = []
        with bar(k, "Depths", "image", progress) as shown:
            for result in pool.map(compute, range(k)):
                results.append(result)
                shown.update()
        return results


def _gray(image: Image, camera: Camera, i: int) -> NDArray[np.float32]:
    height, width = image.shape[:2]
    if (width, height) != camera.size:
        raise NmfsyncError(
            f"image {i + 1} has {width} × {height} pixels, but its camera is for "
            f"{camera.size[0]} × {camera.size[1]}: scale the camera to the image"
        )
    if image.ndim == 3:
        image = np.asarray(cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY))
    return image.astype(np.float32)


@dataclass(frozen=True)
class _Peaks:
    """The best depth of every position (n,)."""

    place: FloatArray  # among the depths tried
    correlation: NDArray[np.float32]  # smallest of the `agreeing` largest
    lead: NDArray[np.float32]  # of its score over that of the best different depth


class Sweep:
    """The plane sweep of one image; a point must be shown by `agreeing` of the views."""

    def __init__(
        self,
        i: int,
        views: NDArray[np.int64],
        cameras: Sequence[Camera],
        gray: Callable[[int], NDArray[np.float32]],
        xy: AnyArray,
        bounds: FloatArray | None,
        agreeing: int = AGREEING,
    ) -> None:
        self.camera = cameras[i]
        self.agreeing = agreeing
        self.xy = np.asarray(xy, dtype=np.float64).reshape(-1, 2)
        self.range = depth_range(i, cameras, self.xy, bounds)
        axes = np.broadcast_to(np.eye(2), (len(self.xy), 2, 2))
        image = gray(i)
        self.views = [(cameras[j], gray(j)) for j in views]
        whole = _sample(image, self.xy, axes, _WINDOWS["large"])
        self.plain = whole.std(axis=1) < MIN_CONTRAST
        self.patches = {
            name: _normalise(_sample(image, self.xy, axes, window))
            for name, window in _WINDOWS.items()
        }

    def depths(self) -> FloatArray:
        """Depths (n,), NaN where not reconstructed."""
        result = np.full(len(self.xy), np.nan)
        if len(self.views) < self.agreeing or not len(self.xy):
            return result
        tried = self.hypotheses()
        if tried.shape[1] < 2:
            return result
        use = np.flatnonzero(~self.plain & np.isfinite(tried[:, 1]))
        sizes = (
            tried.shape[1] * _WINDOWS["coarse"].size,
            MODES * _SHIFTS.size * _WINDOWS["large"].size,
        )
        block = max(1, 2 * _BLOCK // max(sizes))  # windows have two coordinates a pixel
        for start in range(0, len(use), block):
            rows = use[start : start + block]
            result[rows] = self.search(rows, tried[rows])
        return result

    def hypotheses(self) -> FloatArray:
        """Depths to try (n, h), NaN at the ends of rows that have fewer.

        From one to the next a position moves by STEP pixels in the view where it
        moves most. Depths that too few views see are left out.
        """
        count = 96
        grid = spread(*self.range, count)
        points = self.camera.back_project(np.repeat(self.xy, count, axis=0), grid.ravel())
        motion = np.zeros((len(grid), count - 1))
        seen_by = np.zeros((len(grid), count - 1), dtype=int)
        for view, _ in self.views:
            xy, useful = usefulness(self.camera, view, points)
            seen = useful.reshape(grid.shape) > 0
            both = seen[:, 1:] & seen[:, :-1]
            moved = np.linalg.norm(np.diff(xy.reshape(*grid.shape, 2), axis=1), axis=2)
            motion = np.maximum(motion, np.where(both, moved, 0))
            seen_by += both
        motion[seen_by < self.agreeing] = 0
        path = np.pad(np.cumsum(motion, axis=1), ((0, 0), (1, 0)))
        moved_by = np.arange(0, path[:, -1].max() + STEP, STEP)
        rows = zip(path, grid, strict=True)
        return np.array([np.interp(moved_by, p, depth, right=np.nan) for p, depth in rows])

    def search(self, rows: NDArray[np.intp], tried: FloatArray) -> FloatArray:
        """Depths of the positions `rows`, of `tried` (n, h) and between; NaN where unsure."""
        score, _ = self.scores(rows, tried, _NO_SLANT, "coarse")
        modes = _modes(score, int(np.ceil(DISTINCT / STEP)))
        places = np.clip(modes[:, :, None] + _SHIFTS, 0, tried.shape[1] - 1)
        small = self.refine(rows, tried, places, "small")
        large = self.refine(rows, tried, places, "large")
        good = small.correlation >= MIN_CORRELATION
        good &= large.lead >= MIN_LEAD
        good &= np.abs(small.place - large.place) * STEP <= SAME
        return np.where(good, _between(tried, small.place[:, None])[:, 0], np.nan)

    def refine(
        self, rows: NDArray[np.intp], tried: FloatArray, places: FloatArray, window: str
    ) -> "_Peaks":
        """Find the best of `places` (n, modes, shifts) between the depths `tried`, over slants."""
        n = len(rows)
        closer = _between(tried, places.reshape(n, -1))
        found = [self.scores(rows, closer, slant, window) for slant in _SLANTS]
        score, correlation = (
            np.stack(arrays, axis=1).reshape(n, len(_SLANTS), *places.shape[1:])
            for arrays in zip(*found, strict=True)
        )
        of_mode = score.max(axis=(1, 3))
        mode = of_mode.argmax(axis=1)
        row = np.arange(n)
        slant = score[row, :, mode].max(axis=2).argmax(axis=1)
        line = score[row, slant, mode]
        top = line.argmax(axis=1)
        place = places[row, mode, top] + _vertex(line, top) * (_SHIFTS[1] - _SHIFTS[0])
        return _Peaks(
            place=np.clip(place, 0, tried.shape[1] - 1),
            correlation=correlation[row, slant, mode, top],
            lead=of_mode[row, mode] - np.partition(of_mode, -2, axis=1)[:, -2],
        )

    def scores(
        self, rows: NDArray[np.intp], depths: FloatArray, slant: FloatArray, window: str
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Score depths (n, h) of the positions `rows` (n,).

        Returns the scores (n, h), and the smallest of the `agreeing` largest correlations.
        """
        count = depths.shape[1]
        xy = np.repeat(self.xy[rows], count, axis=0)
        flat = depths.ravel()
        # Inverse depth is linear over the picture of a plane.
        nearer = flat / (1 + slant[:, None] / self.camera.K[0, 0])
        points = self.camera.back_project(xy, flat)
        right = self.camera.back_project(xy + np.array([1, 0]), nearer[0])
        below = self.camera.back_project(xy + np.array([0, 1]), nearer[1])
        correlation = np.full((len(self.views), len(flat)), -1, dtype=np.float32)
        for out, (view, image) in zip(correlation, self.views, strict=True):
            at, useful = usefulness(self.camera, view, points)
            seen = np.flatnonzero(useful > 0)
            at = at[seen]
            axes = np.stack([view.project(p[seen])[0] - at for p in (right, below)], axis=2)
            patches = _sample(image, at, axes, _WINDOWS[window])
            out[seen] = _correlate(patches, self.patches[window][rows[seen // count]])
        largest = np.sort(correlation, axis=0)[::-1]
        # Not by BLAS, whose rounding could depend on the number of threads.
        score = np.einsum("v,vn->n", _WEIGHTS[: len(largest)], np.maximum(largest, 0))
        return score.reshape(depths.shape), largest[self.agreeing - 1].reshape(depths.shape)


def _sample(
    image: NDArray[np.float32], centre: FloatArray, axes: FloatArray, window: FloatArray
) -> NDArray[np.float32]:
    """Read patches (n, p): pixels centre (n, 2) + axes (n, 2, 2) · window (2, p)."""
    at = (np.einsum("ncd,dp->cnp", axes, window) + centre.T[:, :, None]).astype(np.float32)
    patches = np.empty(at.shape[1:], dtype=np.float32)
    for start in range(0, len(patches), _ROWS):
        part = slice(start, start + _ROWS)
        patches[part] = cv2.remap(
            image, at[0, part], at[1, part], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
    return patches


def _normalise(patches: NDArray[np.float32]) -> NDArray[np.float32]:
    """Patches (n, p) less their means, and of length 1 unless there is too little in them."""
    patches = patches - patches.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("np,np->n", patches, patches))
    enough = np.float32(MIN_CONTRAST / 2 * np.sqrt(patches.shape[1]))
    return np.asarray(patches / np.maximum(length, enough)[:, None])


def _correlate(
    patches: NDArray[np.float32], normalised: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Normalised correlation (n,) of patches (n, p) with patches normalised already."""
    return np.asarray(np.einsum("np,np->n", _normalise(patches), normalised))


def _modes(scores: NDArray[np.float32], apart: int) -> NDArray[np.intp]:
    """Places (n, MODES) of the largest scores, each more than `apart` from the others."""
    scores = scores.copy()
    place = np.arange(scores.shape[1])
    modes = np.empty((len(scores), MODES), dtype=np.intp)
    for k in range(MODES):
        modes[:, k] = scores.argmax(axis=1)
        scores[np.abs(place - modes[:, k, None]) <= apart] = -1
    return modes


def _between(values: FloatArray, places: FloatArray) -> FloatArray:
    """Interpolate rows of values (n, h) at fractional places (n, q)."""
    below = np.minimum(places.astype(int), values.shape[1] - 2)
    low = np.take_along_axis(values, below, axis=1)
    high = np.take_along_axis(values, below + 1, axis=1)
    return np.asarray(low + (places - below) * (high - low))


def _vertex(line: FloatArray, top: NDArray[np.intp]) -> FloatArray:
    """Offset (n,) of the top of the parabola through the maximum and its two neighbours."""
    row = np.arange(len(line))
    middle = np.clip(top, 1, line.shape[1] - 2)
    a, b, c = (line[row, middle + k] for k in (-1, 0, 1))
    curve = a - 2 * b + c
    inner = (middle == top) & (curve < 0)
    return np.where(inner, 0.5 * (a - c) / np.where(inner, curve, 1), 0.0)
