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

from nmfsync.cameras import Camera
from nmfsync.errors import NmfsyncError
from nmfsync.progress import bar

FloatArray = NDArray[np.float64]
Image = NDArray[np.uint8]
T = TypeVar("T")

# Angles, in degrees, between the two rays to a point under which a view can help:
# below, depth is uncertain; above, a patch looks too different.
ANGLES = (4.0, 50.0)
BEST_ANGLES = (8.0, 25.0)
SCALES = (0.5, 2.0)  # size of a patch in the view, relative to its size in the image
VIEWS = 6  # at most so many neighbouring views for an image
COVER = 4  # so many of them are wanted for every point

STEP = 1.0  # pixels a hypothesis moves in the view where it moves most
DISTINCT = 3.0  # pixels beyond which another depth is a different depth
MODES = 4  # the best depths that are looked at more closely

AGREEING = 3  # so many views must show the patch
MIN_CORRELATION = 0.85  # in each of them, for the small patch
MIN_LEAD = 0.03  # of the best score over that of every different depth, for the large patch
SAME = 0.5  # pixels that the best depths of the small and of the large patch may be apart
MIN_CONTRAST = 2.0  # standard deviation of a patch that can be recognised, in grey levels

_WITHIN = 2.0  # pixels by which a reprojection may be wrong and yet count as right
_MARGIN = 0.05  # bounds are meant tightly, and surfaces lie on them
_BLOCK = 6_000_000  # pixels of patches read at a time, 24 MB
_ROWS = 30_000  # OpenCV's maps have at most 32767


def _window(radius: int, stride: int) -> FloatArray:
    """Offsets (2, p) of a patch's pixels from its centre."""
    side = np.arange(-radius, radius + 1, stride, dtype=np.float64)
    return np.stack([a.ravel() for a in np.meshgrid(side, side)])


_RADIUS = 5  # of the large patch, in pixels
# The sweep itself can do with every other pixel of the large patch.
_WINDOWS = {
    "coarse": _window(_RADIUS, 2),
    "small": _window(3, 1),
    "large": _window(_RADIUS, 1),
}
# The views that fit best count fully, others help to tell depths apart.
_WEIGHTS = np.array([1, 1, 1, 1 / 2, 1 / 4, 1 / 8], dtype=np.float32) / 3
# Relative change of inverse depth along x and y, times the focal length.
_SLANTS = np.array([(a, b) for a in (-0.8, 0, 0.8) for b in (-0.8, 0, 0.8)])
_NO_SLANT = np.zeros(2)
_SHIFTS = np.arange(-3, 4) / 2  # in steps of the sweep


@dataclass(frozen=True)
class DepthQuality:
    """How good reconstructed depths are, where the true ones are known.

    Attributes
    ----------
    judged : int
        Features with a true depth that some neighbouring view sees.
    reconstructed : float
        Share of these that have a reconstructed depth.
    within : float
        Share of their reprojections, into every neighbouring view that sees the
        true point, that lie at most 2 pixels from the one by the true depth.
    within_in_all : float
        Share of the reconstructed features for which this holds in all these views.
    median : float
        Median distance in pixels of these reprojections.
    """

    judged: int
    reconstructed: float
    within: float
    within_in_all: float
    median: float


def reconstruct_depths(
    images: Sequence[Image],
    cameras: Sequence[Camera],
    xy: Sequence[NDArray],
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
    _check_lengths(images, cameras, xy)
    gray = _gray_images(images, cameras)

    def depths(i: int) -> FloatArray:
        if not len(xy[i]):
            return np.empty(0)
        views = _choose_views(i, cameras, bounds)
        return _Sweep(i, views, cameras, gray, xy[i], bounds).depths()

    return _for_every_image(depths, len(cameras), progress)


def held_out_quality(
    images: Sequence[Image],
    cameras: Sequence[Camera],
    xy: Sequence[NDArray],
    bounds: FloatArray | None = None,
    progress: bool = True,
) -> DepthQuality:
    """Check reconstructed depths on the scene itself, where no true ones are known.

    Of every image's neighbouring views one is held out. Depths are found from
    the others by the usual rules, and from the one that is held out alone; what
    it shows takes the place of the truth in `depth_quality`, and distances are
    those in this view. Held out is another of them from image to image.

    Both share the image itself and the calibration, whose errors do not show;
    and only what both find can be compared, which is what is easy to find.

    Parameters
    ----------
    images, cameras, xy, bounds, progress
        As in `reconstruct_depths`.

    Returns
    -------
    DepthQuality
        Nothing is judged if no image has `AGREEING` + 1 neighbouring views.

    Raises
    ------
    NmfsyncError
        As `reconstruct_depths`.
    """
    _check_lengths(images, cameras, xy)
    gray = _gray_images(images, cameras)
    views = neighbouring_views(cameras, bounds)
    held_out = [v[[i % len(v)]] if len(v) > AGREEING else v[:0] for i, v in enumerate(views)]

    def depths(i: int) -> tuple[FloatArray, FloatArray]:
        if not len(xy[i]) or not len(held_out[i]):
            return np.full(len(xy[i]), np.nan), np.full(len(xy[i]), np.nan)
        others = views[i][views[i] != held_out[i]]
        usual = _Sweep(i, others, cameras, gray, xy[i], bounds)
        alone = _Sweep(i, held_out[i], cameras, gray, xy[i], bounds, agreeing=1)
        return usual.depths(), alone.depths()

    pairs = _for_every_image(depths, len(cameras), progress)
    usual, alone = [a for a, _ in pairs], [b for _, b in pairs]
    return depth_quality(xy, usual, alone, cameras, held_out)


def _check_lengths(
    images: Sequence[Image], cameras: Sequence[Camera], xy: Sequence[NDArray]
) -> None:
    if not len(images) == len(cameras) == len(xy):
        raise NmfsyncError(
            f"{len(images)} images, {len(cameras)} cameras and features of {len(xy)} images"
        )


def _gray_images(
    images: Sequence[Image], cameras: Sequence[Camera]
) -> Callable[[int], NDArray[np.float32]]:
    """Read images in grey when asked for; neighbours ask for the same few."""
    return lru_cache(maxsize=16)(lambda i: _gray(images[i], cameras[i], i))


def _for_every_image(compute: Callable[[int], T], k: int, progress: bool) -> list[T]:
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


def neighbouring_views(
    cameras: Sequence[Camera], bounds: FloatArray | None = None
) -> list[NDArray[np.int64]]:
    """Choose, for every image, the other views in which to look for its points.

    Points are spread over the image and over the possible depths. Views are
    added one by one, each time the one that sees, under the best angles, most
    points that fewer than `COVER` chosen views see.

    Parameters
    ----------
    cameras : sequence of Camera
    bounds : (2, 3) float64 array, optional
        As in `reconstruct_depths`.

    Returns
    -------
    list of (v_i,) int64 arrays
        At most `VIEWS` for every image, in the order of choice.
    """
    return [_choose_views(i, cameras, bounds) for i in range(len(cameras))]


def depth_quality(
    xy: Sequence[NDArray],
    reconstructed: Sequence[NDArray],
    true: Sequence[NDArray],
    cameras: Sequence[Camera],
    neighbours: Sequence[NDArray[np.int64]],
) -> DepthQuality:
    """Compare reconstructed depths with true ones by where they lead in other views.

    Parameters
    ----------
    xy : sequence of (n_i, 2) arrays
        Pixels; the centre of the top-left pixel is (0, 0).
    reconstructed, true : sequences of (n_i,) arrays
        Depths along the optical axis; NaN where there is none.
    cameras : sequence of Camera
    neighbours : sequence of (v_i,) int64 arrays
        The views to compare in, as from `neighbouring_views`.

    Returns
    -------
    DepthQuality
        Shares and median are NaN where there is nothing to take them of.
    """
    tables = [
        _distances(cameras[i], [cameras[j] for j in neighbours[i]], *arrays)
        for i, arrays in enumerate(zip(xy, reconstructed, true, strict=True))
    ]
    views = max((table.shape[1] for table in tables), default=0)
    apart = np.concatenate(
        [np.empty((0, views))]
        + [np.pad(t, ((0, 0), (0, views - t.shape[1])), constant_values=np.nan) for t in tables]
    )
    judged = apart[~np.isnan(apart).all(axis=1)]
    kept = judged[~np.isinf(judged).any(axis=1)]
    far = kept > _WITHIN
    return DepthQuality(
        judged=len(judged),
        reconstructed=_ratio(len(kept), len(judged)),
        within=1 - _ratio(far.sum(), np.isfinite(kept).sum()),
        within_in_all=1 - _ratio(far.any(axis=1).sum(), len(kept)),
        median=float(np.nanmedian(kept)) if len(kept) else np.nan,
    )


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else np.nan


def _distances(
    camera: Camera, views: Sequence[Camera], xy: NDArray, found: NDArray, true: NDArray
) -> FloatArray:
    """Pixels (n, v) between the reprojections into the views.

    NaN where a view does not see the true point, infinite where no depth was found.
    """
    apart = np.full((len(xy), len(views)), np.nan)
    for column, view in zip(apart.T, views, strict=True):
        expected, depth = view.project(camera.back_project(xy, true))
        reached, _ = view.project(camera.back_project(xy, found))
        distance = np.linalg.norm(reached - expected, axis=1)
        distance[np.isnan(found)] = np.inf
        seen = (depth > 0) & _inside(view, expected, 0)
        column[seen] = distance[seen]
    return apart


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


def _inside(camera: Camera, xy: FloatArray, margin: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        inside = (xy >= margin - 0.5) & (xy <= np.array(camera.size) - 0.5 - margin)
    return np.asarray(inside.all(axis=1))


def _useful(camera: Camera, view: Camera, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where points (n, 3) lie in a view, and how useful it is there.

    Usefulness is 1 under the best angles, falls to 0.1 at the least useful, and
    is 0 where the view does not see the point at all.
    """
    xy, depth = view.project(points)
    to_camera, to_view = points - camera.centre, points - view.centre
    lengths = np.linalg.norm(to_camera, axis=1), np.linalg.norm(to_view, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = np.einsum("nc,nc->n", to_camera, to_view) / (lengths[0] * lengths[1])
        scale = lengths[0] / lengths[1] * view.K[0, 0] / camera.K[0, 0]
        angle = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
        seen = (depth > 0) & _inside(view, xy, _RADIUS) & (scale > SCALES[0]) & (scale < SCALES[1])
    seen &= (angle > ANGLES[0]) & (angle < ANGLES[1])
    marks = ANGLES[0], *BEST_ANGLES, ANGLES[1]
    return xy, np.where(seen, np.interp(angle, marks, (0.1, 1.0, 1.0, 0.1)), 0.0)


def _depth_range(
    i: int, cameras: Sequence[Camera], xy: NDArray, bounds: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest depths (n,) worth trying at pixels (n, 2); NaN if there are none."""
    centre = cameras[i].centre
    if bounds is not None:
        direction = cameras[i].back_project(xy, np.ones(len(xy))) - centre
        return _through_box(centre, direction, np.asarray(bounds, dtype=np.float64))
    centres = np.array([camera.centre for camera in cameras])
    away = np.linalg.norm(centres - centre, axis=1)
    away = away[away > 1e-9 * np.abs(centres).max()]
    if not len(away):  # from one place, nothing has a depth
        return np.full(len(xy), np.nan), np.full(len(xy), np.nan)
    # Nearer or farther than this, every angle is out of range.
    near = away.min() / 2
    far = away.max() / np.sin(np.radians(ANGLES[0]))
    return np.full(len(xy), near), np.full(len(xy), far)


def _through_box(
    centre: FloatArray, direction: FloatArray, bounds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where rays centre + t·direction enter and leave a box."""
    margin = _MARGIN * (bounds[1] - bounds[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = ((bounds + np.stack([-margin, margin]))[:, None] - centre) / direction
    near = np.nanmax(ends.min(axis=0), axis=1, initial=-np.inf)
    far = np.nanmin(ends.max(axis=0), axis=1, initial=np.inf)
    near = np.maximum(near, 0.01 * far)  # a camera may stand inside the box
    hit = (near < far) & (far > 0)
    return np.where(hit, near, np.nan), np.where(hit, far, np.nan)


def _spread(near: FloatArray, far: FloatArray, count: int) -> FloatArray:
    """Depths (n, count) from near to far, in equal ratios."""
    return near[:, None] * (far / near)[:, None] ** np.linspace(0, 1, count)


def _choose_views(
    i: int, cameras: Sequence[Camera], bounds: FloatArray | None
) -> NDArray[np.int64]:
    width, height = cameras[i].size
    x, y = np.meshgrid((np.arange(4) + 0.5) / 4 * width, (np.arange(3) + 0.5) / 3 * height)
    xy = np.column_stack([x.ravel(), y.ravel()]) - 0.5
    depths = _spread(*_depth_range(i, cameras, xy, bounds), 12)
    points = cameras[i].back_project(np.repeat(xy, 12, axis=0), depths.ravel())
    points = points[np.isfinite(points).all(axis=1)]
    useful = np.array([_useful(cameras[i], camera, points)[1] for camera in cameras])
    useful[i] = 0
    chosen: list[int] = []
    covered = np.zeros(len(points), dtype=int)
    while len(chosen) < VIEWS:
        gain = (useful * (covered < COVER)).sum(axis=1)
        best = int(np.argmax(gain))
        if gain[best] == 0:
            break
        chosen.append(best)
        covered += useful[best] > 0
        useful[best] = 0
    return np.array(chosen, dtype=np.int64)


@dataclass(frozen=True)
class _Peaks:
    """The best depth of every position (n,)."""

    place: FloatArray  # among the depths tried
    correlation: NDArray[np.float32]  # smallest of the `agreeing` largest
    lead: NDArray[np.float32]  # of its score over that of the best different depth


class _Sweep:
    """The plane sweep of one image; a point must be shown by `agreeing` of the views."""

    def __init__(
        self,
        i: int,
        views: NDArray[np.int64],
        cameras: Sequence[Camera],
        gray: Callable[[int], NDArray[np.float32]],
        xy: NDArray,
        bounds: FloatArray | None,
        agreeing: int = AGREEING,
    ) -> None:
        self.camera = cameras[i]
        self.agreeing = agreeing
        self.xy = np.asarray(xy, dtype=np.float64).reshape(-1, 2)
        self.range = _depth_range(i, cameras, self.xy, bounds)
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
        grid = _spread(*self.range, count)
        points = self.camera.back_project(np.repeat(self.xy, count, axis=0), grid.ravel())
        motion = np.zeros((len(grid), count - 1))
        seen_by = np.zeros((len(grid), count - 1), dtype=int)
        for view, _ in self.views:
            xy, useful = _useful(self.camera, view, points)
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
            at, useful = _useful(self.camera, view, points)
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
    return patches / np.maximum(length, enough)[:, None]


def _correlate(
    patches: NDArray[np.float32], normalised: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Normalised correlation (n,) of patches (n, p) with patches normalised already."""
    return np.einsum("np,np->n", _normalise(patches), normalised)


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
    return low + (places - below) * (high - low)


def _vertex(line: FloatArray, top: NDArray[np.intp]) -> FloatArray:
    """Offset (n,) of the top of the parabola through the maximum and its two neighbours."""
    row = np.arange(len(line))
    middle = np.clip(top, 1, line.shape[1] - 2)
    a, b, c = (line[row, middle + k] for k in (-1, 0, 1))
    curve = a - 2 * b + c
    inner = (middle == top) & (curve < 0)
    return np.where(inner, 0.5 * (a - c) / np.where(inner, curve, 1), 0.0)
