"""Depths from a plane sweep over calibrated images, at given pixels only.

If a scene has cameras but no measured surface, the depth of a feature can be
found from the images themselves: move a point along the feature's ray, and at
the right depth the neighbouring views show the same small patch (plane sweep:
Collins, A space-sweep approach to true multi-image matching, CVPR 1996).

Only images and cameras are used. Descriptors and matches are not, not even for
the range of depths, so these depths are an independent judge of the matches.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from threading import Lock
from typing import TypeVar

import cv2
import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.progress import bar
from nmfsync.runtime.threads import map_blocks
from nmfsync.truth.patches import MIN_CONTRAST, correlate, normalise, square, upright_patches
from nmfsync.truth.views import RADIUS, choose_views, depth_range, spread, usefulness
from nmfsync.types.arrays import AnyArray, Float32Array, FloatArray, IntArray
from nmfsync.types.camera import Camera

Image = NDArray[np.uint8]

T = TypeVar("T")

STEP = 1.0  # pixels from one depth to the next, in the view where the point moves most

DISTINCT = 3.0  # two depths are different if they are more than this many pixels apart

MODES = 4  # number of the best different depths that are refined

AGREEING = 3  # number of views that must show the patch

MIN_CORRELATION = 0.85  # of the small patch in each of these views

MIN_LEAD = 0.03  # by which the best depth must outscore every different depth, large patch

MAX_DISAGREEMENT = 0.5  # largest distance in pixels of the depths that both patches find

_KEPT = 2**27  # bytes of grey images: 436 of 640 × 480 pixels, 16 of 8 million

_COARSE_DEPTHS = 96  # depths from which the motion in the views is measured

_POINTS = 1 << 13  # depths of pixels projected into the views at a time: these, too, fit the cache

# Every other pixel of the large patch is enough for the sweep itself.
_WINDOWS = {
    "coarse": square(RADIUS, 2),
    "small": square(3, 1),
    "large": square(RADIUS, 1),
}

# Weights of a depth's correlations, largest first. The best views count fully, the others help
# to choose between depths.
_WEIGHTS = np.array([1, 1, 1, 1 / 2, 1 / 4, 1 / 8], dtype=np.float32) / 3

# Slants of a patch along x and along y: relative change of inverse depth, times the focal length.
_SLANTS = (-0.8, 0.0, 0.8)

_NO_SLANT = (0.0,)

_SHIFTS = np.arange(-3, 4) / 2  # around a mode, in steps of the sweep


def sweep_depths(
    images: Sequence[Image],
    cameras: Sequence[Camera],
    xy: Sequence[AnyArray],
    bounds: FloatArray | None = None,
    progress: bool = True,
) -> list[FloatArray]:
    """Find the depths at pixels of every image by a plane sweep.

    A depth on the ray of a pixel is scored by the normalised correlations of the
    patch around the pixel with the patches that the neighbouring views show
    there. The `AGREEING` largest correlations make up most of the score, since a
    point may be occluded in other views. The `MODES` best depths are refined,
    over slanted patches too, once with a small and once with a large patch:
    large patches are more distinct, but near a depth edge they follow the
    foreground.

    A depth is kept if `AGREEING` views show the small patch there, if every
    different depth has a clearly lower score for the large patch, and if both
    patches find the same depth.

    Parameters
    ----------
    images : sequence of (h, w, 3) uint8 arrays of RGB or (h, w) of grey
        Read one at a time, so that a lazy sequence does not fill the memory.
    cameras : sequence of Camera
        One item for every image, for the image's size.
    xy : sequence of (n_i, 2) arrays
        Pixels; the centre of the top-left pixel is (0, 0).
    bounds : (2, 3) float64 array, optional
        Smallest and largest coordinates of the scene. Without bounds, the depths
        tried are all those that `AGREEING` views see at a useful angle.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    list of (n_i,) float64 arrays
        Depths along the optical axis in the cameras' unit, NaN where none is
        kept. A scene with fewer than `AGREEING` + 1 images has no depths.

    Raises
    ------
    NmfsyncError
        If there is not one camera and one array of pixels for every image, or a
        camera is for another image size.
    """
    check_lengths(images, cameras, xy)
    gray = gray_reader(images, cameras)

    def depths(i: int) -> FloatArray:
        if not len(xy[i]):
            return np.empty(0)
        views = choose_views(i, cameras, bounds)
        return Sweep(i, views, cameras, gray, xy[i], bounds).depths()

    return for_every_image(depths, len(cameras), progress)


def check_lengths(
    images: Sequence[Image], cameras: Sequence[Camera], xy: Sequence[AnyArray]
) -> None:
    """Raise NmfsyncError if there is not one camera and one array of pixels for every image."""
    if not len(images) == len(cameras) == len(xy):
        raise NmfsyncError(
            f"{len(images)} images, {len(cameras)} cameras and features of {len(xy)} images: "
            "the three numbers must be equal"
        )


def gray_reader(
    images: Sequence[Image], cameras: Sequence[Camera]
) -> Callable[[int], Float32Array]:
    """Return a function that reads image i in grey (h, w), and keeps the last ones read.

    Neighbouring images use the same few views, but their numbers may be far apart: to decode
    an image again takes much longer than the rest of its part in a sweep.
    """

    @cached(LRUCache(_KEPT, getsizeof=lambda image: image.nbytes), lock=Lock())
    def kept(i: int) -> Image:
        return _gray(images[i], cameras[i], i)

    return lambda i: kept(i).astype(np.float32)


def for_every_image(compute: Callable[[int], T], k: int, progress: bool) -> list[T]:
    """Call compute(i) for all k images, several at a time; results in the order of images."""
    # Threads are enough: nearly all time is spent in NumPy and OpenCV, without Python's lock.
    # BLAS gets one thread, since more slow down products of matrices with three columns.
    with threadpool_limits(1, "blas"), bar(k, "Depths", "image", progress) as progress_bar:
        return map_blocks(
            lambda image: compute(image.start),
            k,
            block=1,
            done=lambda _image: progress_bar.update(),
        )


class Sweep:
    """The plane sweep of one image.

    Parameters
    ----------
    i : int
        The image.
    views : (v,) int64 array
        The views in which its patches are looked for.
    cameras : sequence of Camera
    gray : callable
        See `gray_reader`.
    xy : (n, 2) array
        Pixels of the image.
    bounds : (2, 3) float64 array or None
        As for `sweep_depths`.
    agreeing : int
        Number of views that must show a patch.
    """

    def __init__(
        self,
        i: int,
        views: IntArray,
        cameras: Sequence[Camera],
        gray: Callable[[int], Float32Array],
        xy: AnyArray,
        bounds: FloatArray | None,
        agreeing: int = AGREEING,
    ) -> None:
        self.camera = cameras[i]
        self.agreeing = agreeing
        self.xy = np.asarray(xy, dtype=np.float64).reshape(-1, 2)
        self.range = depth_range(i, cameras, self.xy, bounds)
        image = gray(i)
        self.views = [(cameras[j], gray(j)) for j in views]
        own = {name: upright_patches(image, self.xy, w) for name, w in _WINDOWS.items()}
        self.textureless = own["large"].std(axis=1) < MIN_CONTRAST
        self.patches = {name: normalise(patches) for name, patches in own.items()}

    def depths(self) -> FloatArray:
        """Return the depths (n,), NaN where none is kept."""
        result = np.full(len(self.xy), np.nan)
        if len(self.views) < self.agreeing or not len(self.xy):
            return result
        tried = self._depths_to_try()
        if tried.shape[1] < 2:
            return result
        usable = np.flatnonzero(~self.textureless & np.isfinite(tried[:, 1]))
        block = max(1, _POINTS // max(tried.shape[1], MODES * len(_SHIFTS)))
        for start in range(0, len(usable), block):
            rows = usable[start : start + block]
            result[rows] = self._search(rows, tried[rows])
        return result

    def _depths_to_try(self) -> FloatArray:
        """Return the depths to try (n, h), with NaN at the end of rows that have fewer.

        From one depth to the next a point moves by STEP pixels in the view where
        it moves most. Depths that fewer than `agreeing` views see are left out.
        """
        count = _COARSE_DEPTHS
        grid = spread(*self.range, count)
        points = self.camera.back_project(np.repeat(self.xy, count, axis=0), grid.ravel())
        motion = np.zeros((len(grid), count - 1))
        seen_by = np.zeros((len(grid), count - 1), dtype=int)
        for view, _ in self.views:  # not all at once: those of all pixels fill the memory
            xy, useful = usefulness(self.camera, [view], points)
            seen = useful.reshape(grid.shape) > 0
            both = seen[:, 1:] & seen[:, :-1]
            moved = np.linalg.norm(np.diff(xy.reshape(*grid.shape, 2), axis=1), axis=2)
            motion = np.maximum(motion, np.where(both, moved, 0))
            seen_by += both
        motion[seen_by < self.agreeing] = 0
        path = np.pad(np.cumsum(motion, axis=1), ((0, 0), (1, 0)))
        steps = np.arange(0, path[:, -1].max() + STEP, STEP)
        rows = zip(path, grid, strict=True)
        return np.array([np.interp(steps, p, depth, right=np.nan) for p, depth in rows])

    def _search(self, rows: NDArray[np.intp], tried: FloatArray) -> FloatArray:
        """Return the best depths (r,) of the pixels `rows` (r,); NaN where uncertain.

        `tried` (r, h) are the depths to try. The result may be between two of them.
        """
        (score,), _ = self._scores(rows, tried, _NO_SLANT, "coarse")
        modes = _modes(score, int(np.ceil(DISTINCT / STEP)))
        places = np.clip(modes[:, :, None] + _SHIFTS, 0, tried.shape[1] - 1)
        small = self._refine(rows, tried, places, "small")
        # Large patches cost most. They are read only where the small ones agree: elsewhere
        # they cannot save the pixel.
        good = small.correlation >= MIN_CORRELATION
        large = self._refine(rows[good], tried[good], places[good], "large")
        apart = np.abs(small.place[good] - large.place) * STEP
        good[good] = (large.lead >= MIN_LEAD) & (apart <= MAX_DISAGREEMENT)
        return np.where(good, _interpolate(tried, small.place[:, None])[:, 0], np.nan)

    def _refine(
        self, rows: NDArray[np.intp], tried: FloatArray, places: FloatArray, window: str
    ) -> "_Peaks":
        """Find the best place for every pixel, over all slants.

        `places` (r, modes, shifts) are fractional columns of `tried` (r, h).
        """
        n = len(rows)
        depths = _interpolate(tried, places.reshape(n, MODES * len(_SHIFTS)))
        score, correlation = (
            array.swapaxes(0, 1).reshape(n, len(_SLANTS) ** 2, *places.shape[1:])
            for array in self._scores(rows, depths, _SLANTS, window)
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

    def _scores(
        self, rows: NDArray[np.intp], depths: FloatArray, slants: Sequence[float], window: str
    ) -> tuple[Float32Array, Float32Array]:
        """Score depths (r, h) of the pixels `rows` (r,) for patches of s² slants.

        `slants` (s,) are those along x, and those along y: every two are combined.
        Returns the scores (s², r, h), and the smallest of the `agreeing` largest
        correlations (s², r, h).
        """
        count = depths.shape[1]
        xy = np.repeat(self.xy[rows], count, axis=0)
        flat = depths.ravel()
        # The points at the pixel, and at its right and lower neighbours on the slanted patch.
        # Inverse depth is linear over the image of a plane. The slant along x moves only the
        # right neighbour, that along y only the lower one.
        neighbours = [flat / (1 + slant / self.camera.K[0, 0]) for slant in slants]
        points = self.camera.back_project(xy, flat)
        right = [self.camera.back_project(xy + np.array([1, 0]), depth) for depth in neighbours]
        below = [self.camera.back_project(xy + np.array([0, 1]), depth) for depth in neighbours]
        shape = len(slants) ** 2, *depths.shape
        known = self.patches[window]
        correlation = np.full((len(self.views), shape[0], len(flat)), -1, dtype=np.float32)
        places = usefulness(self.camera, [view for view, _ in self.views], points)
        for out, (view, image), at, useful in zip(correlation, self.views, *places, strict=True):
            seen = np.flatnonzero(useful > 0)
            centre, row = at[seen], rows[seen // count]
            steps = ([view.project(p[seen])[0] - centre for p in side] for side in (right, below))
            for of_slant, (step_right, step_below) in zip(out, product(*steps), strict=True):
                of_slant[seen] = correlate(
                    image, centre, step_right, step_below, _WINDOWS[window], known, row
                )
        largest = np.sort(correlation.reshape(len(correlation), -1), axis=0)[::-1]
        # Not by BLAS, whose rounding could depend on the number of threads.
        score = np.einsum("v,vn->n", _WEIGHTS[: len(largest)], np.maximum(largest, 0))
        return score.reshape(shape), largest[self.agreeing - 1].reshape(shape)


@dataclass(frozen=True)
class _Peaks:
    """The best depth of every pixel.

    Attributes
    ----------
    place : (n,) float64 array
        Fractional column among the depths tried.
    correlation : (n,) float32 array
        The smallest of the `agreeing` largest correlations there.
    lead : (n,) float32 array
        By how much the score exceeds that of the best different depth.
    """

    place: FloatArray
    correlation: Float32Array
    lead: Float32Array


def _gray(image: Image, camera: Camera, i: int) -> Image:
    """Convert image i to grey levels (h, w), and check its size."""
    height, width = image.shape[:2]
    if (width, height) != camera.size:
        raise NmfsyncError(
            f"image {i + 1} has {width} × {height} pixels, but its camera is for "
            f"{camera.size[0]} × {camera.size[1]}: scale the camera to the image"
        )
    if image.ndim == 3:
        image = np.asarray(cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY))
    return image


def _modes(scores: Float32Array, apart: int) -> NDArray[np.intp]:
    """Return the columns (n, MODES) of the largest scores, each more than `apart` from others."""
    scores = scores.copy()
    place = np.arange(scores.shape[1])
    modes = np.empty((len(scores), MODES), dtype=np.intp)
    for k in range(MODES):
        modes[:, k] = scores.argmax(axis=1)
        scores[np.abs(place - modes[:, k, None]) <= apart] = -1
    return modes


def _interpolate(values: FloatArray, places: FloatArray) -> FloatArray:
    """Interpolate rows of values (n, h) at fractional columns (n, q)."""
    below = np.minimum(places.astype(int), values.shape[1] - 2)
    low = np.take_along_axis(values, below, axis=1)
    high = np.take_along_axis(values, below + 1, axis=1)
    return np.asarray(low + (places - below) * (high - low))


def _vertex(line: FloatArray, top: NDArray[np.intp]) -> FloatArray:
    """Return the offset (n,) of the vertex of the parabola through a maximum and its neighbours."""
    row = np.arange(len(line))
    middle = np.clip(top, 1, line.shape[1] - 2)
    a, b, c = (line[row, middle + k] for k in (-1, 0, 1))
    curve = a - 2 * b + c
    inner = (middle == top) & (curve < 0)  # else there is no maximum between the neighbours
    return np.where(inner, 0.5 * (a - c) / np.where(inner, curve, 1), 0.0)
