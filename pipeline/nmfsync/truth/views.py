"""Which other images show what an image shows, and where."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.camera import Camera

# Angles, in degrees, between the two rays to a point under which a view can help:
# below, depth is uncertain; above, a patch looks too different.
ANGLES = (4.0, 50.0)

BEST_ANGLES = (8.0, 25.0)

SCALES = (0.5, 2.0)  # size of a patch in the view, relative to its size in the image

VIEWS = 6  # at most so many neighbouring views for an image

COVER = 4  # so many of them are wanted for every point

_MARGIN = 0.05  # bounds are meant tightly, and surfaces lie on them

RADIUS = 5  # of the large patch, in pixels


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
    return [choose_views(i, cameras, bounds) for i in range(len(cameras))]


def in_image(camera: Camera, xy: FloatArray, margin: float) -> NDArray[np.bool_]:
    """Whether pixels lie inside the image, at least `margin` pixels from its border."""
    with np.errstate(invalid="ignore"):
        inside = (xy >= margin - 0.5) & (xy <= np.array(camera.size) - 0.5 - margin)
    return np.asarray(inside.all(axis=1))


def usefulness(camera: Camera, view: Camera, points: FloatArray) -> tuple[FloatArray, FloatArray]:
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
        seen = (depth > 0) & in_image(view, xy, RADIUS) & (scale > SCALES[0]) & (scale < SCALES[1])
    seen &= (angle > ANGLES[0]) & (angle < ANGLES[1])
    marks = ANGLES[0], *BEST_ANGLES, ANGLES[1]
    return xy, np.where(seen, np.interp(angle, marks, (0.1, 1.0, 1.0, 0.1)), 0.0)


def depth_range(
    i: int, cameras: Sequence[Camera], xy: AnyArray, bounds: FloatArray | None
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


def spread(near: FloatArray, far: FloatArray, count: int) -> FloatArray:
    """Depths (n, count) from near to far, in equal ratios."""
    return near[:, None] * (far / near)[:, None] ** np.linspace(0, 1, count)


def choose_views(i: int, cameras: Sequence[Camera], bounds: FloatArray | None) -> NDArray[np.int64]:
    """Numbers of the images that show best what image i shows, best first."""
    width, height = cameras[i].size
    x, y = np.meshgrid((np.arange(4) + 0.5) / 4 * width, (np.arange(3) + 0.5) / 3 * height)
    xy = np.column_stack([x.ravel(), y.ravel()]) - 0.5
    depths = spread(*depth_range(i, cameras, xy, bounds), 12)
    points = cameras[i].back_project(np.repeat(xy, 12, axis=0), depths.ravel())
    points = points[np.isfinite(points).all(axis=1)]
    useful = np.array([usefulness(cameras[i], camera, points)[1] for camera in cameras])
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
