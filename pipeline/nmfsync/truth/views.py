"""Which other images see the same points as an image, and how well."""

from collections.abc import Sequence

import numpy as np

from nmfsync.truth.depths import in_image
from nmfsync.types.arrays import AnyArray, FloatArray, IntArray
from nmfsync.types.camera import Camera

# Angles, in degrees, between the two rays to a point at which a view is useful. With a smaller
# angle the depth is uncertain; with a larger one a patch looks too different.
ANGLES = (4.0, 50.0)

BEST_ANGLES = (8.0, 25.0)

SCALES = (0.5, 2.0)  # useful sizes of a patch in the view, relative to its size in the image

VIEWS = 6  # largest number of neighbouring views of an image

COVER = 4  # number of views that should see every point

RADIUS = 5  # of the large patch of the plane sweep, in pixels; all of it must be in the view

# Points of an image at which its views are chosen: columns and rows of pixels, and depths.
_GRID, _DEPTHS = (4, 3), 12

# Share by which the bounds of a scene are enlarged: they are tight, and surfaces lie on them.
_MARGIN = 0.05


def neighbouring_views(
    cameras: Sequence[Camera], bounds: FloatArray | None = None
) -> list[IntArray]:
    """Choose, for every image, the other images in which to look for its points.

    Parameters
    ----------
    cameras : sequence of Camera
    bounds : (2, 3) float64 array, optional
        As for `sweep_depths`.

    Returns
    -------
    list of (v_i,) int64 arrays
        Numbers of at most `VIEWS` images for every image, in the order of choice.
    """
    return [choose_views(i, cameras, bounds) for i in range(len(cameras))]


def choose_views(i: int, cameras: Sequence[Camera], bounds: FloatArray | None) -> IntArray:
    """Choose the neighbouring views of image i.

    Points are spread over the image and over the possible depths. Views are added one by one:
    next comes the view that sees, at the best angles, most of the points that fewer than
    `COVER` chosen views see.
    """
    width, height = cameras[i].size
    columns, rows = _GRID
    x, y = np.meshgrid(
        (np.arange(columns) + 0.5) / columns * width, (np.arange(rows) + 0.5) / rows * height
    )
    xy = np.column_stack([x.ravel(), y.ravel()]) - 0.5
    depths = spread(*depth_range(i, cameras, xy, bounds), _DEPTHS)
    points = cameras[i].back_project(np.repeat(xy, _DEPTHS, axis=0), depths.ravel())
    points = points[np.isfinite(points).all(axis=1)]
    useful = np.zeros((len(cameras), len(points)))
    seeing = _at_useful_angles(cameras[i].centre, [c.centre for c in cameras], points)
    useful[seeing] = usefulness(cameras[i], [cameras[j] for j in seeing], points)[1]
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


def _at_useful_angles(
    centre: FloatArray, centres: Sequence[FloatArray], points: FloatArray
) -> IntArray:
    """Return the numbers of the `centres` (3,) that see any point (n, 3) at a useful angle.

    Most cameras of a large scene do not; to find that for all at once costs little. The limits
    are wider by more than the rounding, so that `usefulness` decides.
    """
    largest, smallest = np.cos(np.radians(ANGLES))
    _, _, cosine = _rays(centre, centres, points)
    return np.flatnonzero(((cosine < largest + 1e-6) & (cosine > smallest - 1e-6)).any(axis=1))


def usefulness(
    camera: Camera, views: Sequence[Camera], points: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Project points (n, 3) into v views: pixels (v, n, 2), and how useful the views are (v, n).

    The usefulness for a point is 1 at the best angles and decreases to 0.1 at the limits of
    `ANGLES`. It is 0 where the view does not see the point.
    """
    xy = np.empty((len(views), len(points), 2))
    seen = np.empty((len(views), len(points)), dtype=bool)
    for v, view in enumerate(views):
        xy[v], depth = view.project(points)
        seen[v] = (depth > 0) & in_image(xy[v], view.size, RADIUS)
    lengths, to_views, cosine = _rays(camera.centre, [view.centre for view in views], points)
    focal = np.array([view.K[0, 0] for view in views])[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = lengths / to_views * focal / camera.K[0, 0]
        angle = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
    seen &= (scale > SCALES[0]) & (scale < SCALES[1])
    seen &= (angle > ANGLES[0]) & (angle < ANGLES[1])
    marks = ANGLES[0], *BEST_ANGLES, ANGLES[1]
    return xy, np.where(seen, np.interp(angle, marks, (0.1, 1.0, 1.0, 0.1)), 0.0)


def _rays(
    centre: FloatArray, centres: Sequence[FloatArray], points: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Measure the rays from a centre (3,) and from v others to points (n, 3).

    Returns their lengths (n,) and (v, n), and the cosines (v, n) of the angles between them.
    """
    one, others = points - centre, points - np.reshape(centres, (-1, 1, 3))
    lengths, to_others = np.linalg.norm(one, axis=1), np.linalg.norm(others, axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return lengths, to_others, np.einsum("nc,vnc->vn", one, others) / (lengths * to_others)


def depth_range(
    i: int, cameras: Sequence[Camera], xy: AnyArray, bounds: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest depths (n,) to try at pixels (n, 2); NaN if there are none.

    Without `bounds`, they are the depths at which some camera is at a useful angle.
    """
    centre = cameras[i].centre
    if bounds is not None:
        direction = cameras[i].back_project(xy, np.ones(len(xy))) - centre
        return _through_box(centre, direction, np.asarray(bounds, dtype=np.float64))
    centres = np.array([camera.centre for camera in cameras])
    baselines = np.linalg.norm(centres - centre, axis=1)
    baselines = baselines[baselines > 1e-9 * np.abs(centres).max()]
    if not len(baselines):  # without a baseline nothing has a depth
        return np.full(len(xy), np.nan), np.full(len(xy), np.nan)
    # Nearer or farther than this, every angle is outside ANGLES.
    near = baselines.min() / 2
    far = baselines.max() / np.sin(np.radians(ANGLES[0]))
    return np.full(len(xy), near), np.full(len(xy), far)


def spread(near: FloatArray, far: FloatArray, count: int) -> FloatArray:
    """Return depths (n, count) from near (n,) to far (n,) in geometric progression."""
    return near[:, None] * (far / near)[:, None] ** np.linspace(0, 1, count)


def _through_box(
    centre: FloatArray, direction: FloatArray, bounds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the t (n,), (n,) at which rays centre + t · direction (n, 3) enter and leave a box."""
    margin = _MARGIN * (bounds[1] - bounds[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = ((bounds + np.stack([-margin, margin]))[:, None] - centre) / direction
    near = np.nanmax(ends.min(axis=0), axis=1, initial=-np.inf)
    far = np.nanmin(ends.max(axis=0), axis=1, initial=np.inf)
    near = np.maximum(near, 0.01 * far)  # positive although a camera may be inside the box
    hit = (near < far) & (far > 0)
    return np.where(hit, near, np.nan), np.where(hit, far, np.nan)
