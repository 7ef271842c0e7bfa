"""How good the depths of a plane sweep are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmfsync.truth.depths import in_image
from nmfsync.truth.plane_sweep import (
    AGREEING,
    Image,
    Sweep,
    check_lengths,
    for_every_image,
    gray_reader,
)
from nmfsync.truth.views import neighbouring_views
from nmfsync.types.arrays import AnyArray, FloatArray, IntArray
from nmfsync.types.camera import Camera

_MAX_ERROR = 2.0  # largest error in pixels of a correct reprojection


@dataclass(frozen=True)
class DepthQuality:
    """How good the depths of a plane sweep are, compared with true depths.

    Attributes
    ----------
    judged : int
        Features with a true depth that some neighbouring view sees.
    reconstructed : float
        Share of the judged features that have a depth from the plane sweep.
    within : float
        Share of the reprojections of these features, into every neighbouring
        view that sees the true point, that are at most 2 pixels from the
        reprojection by the true depth.
    within_in_all : float
        Share of these features whose reprojections are within 2 pixels in all
        these views.
    median : float
        Median distance in pixels of these reprojections.
    """

    judged: int
    reconstructed: float
    within: float
    within_in_all: float
    median: float


def held_out_quality(
    images: Sequence[Image],
    cameras: Sequence[Camera],
    xy: Sequence[AnyArray],
    bounds: FloatArray | None = None,
    progress: bool = True,
) -> DepthQuality:
    """Check the depths of a plane sweep on a scene without known true depths.

    One of the neighbouring views of every image is held out; from image to image
    it is another one. Depths from the other views are compared with depths from
    the held-out view alone, which take the place of the truth in
    `depth_quality`. Distances are measured in the held-out view.

    This overestimates the quality. Both sweeps use the same image and the same
    calibration, whose errors do not show, and only features that both find are
    compared, which are the easy ones.

    Parameters
    ----------
    images, cameras, xy, bounds, progress
        As for `sweep_depths`.

    Returns
    -------
    DepthQuality
        Nothing is judged if no image has `AGREEING` + 1 neighbouring views.

    Raises
    ------
    NmfsyncError
        As for `sweep_depths`.
    """
    check_lengths(images, cameras, xy)
    gray = gray_reader(images, cameras)
    views = neighbouring_views(cameras, bounds)
    held_out = [v[[i % len(v)]] if len(v) > AGREEING else v[:0] for i, v in enumerate(views)]

    def depths(i: int) -> tuple[FloatArray, FloatArray]:
        if not len(xy[i]) or not len(held_out[i]):
            return np.full(len(xy[i]), np.nan), np.full(len(xy[i]), np.nan)
        others = views[i][views[i] != held_out[i]]
        from_others = Sweep(i, others, cameras, gray, xy[i], bounds)
        from_held_out = Sweep(i, held_out[i], cameras, gray, xy[i], bounds, agreeing=1)
        return from_others.depths(), from_held_out.depths()

    pairs = for_every_image(depths, len(cameras), progress)
    swept, expected = [a for a, _ in pairs], [b for _, b in pairs]
    return depth_quality(xy, swept, expected, cameras, held_out)


def depth_quality(
    xy: Sequence[AnyArray],
    swept: Sequence[AnyArray],
    true: Sequence[AnyArray],
    cameras: Sequence[Camera],
    neighbours: Sequence[IntArray],
) -> DepthQuality:
    """Compare the depths of a plane sweep with true depths by reprojection into other views.

    Parameters
    ----------
    xy : sequence of (n_i, 2) arrays
        Pixels; the centre of the top-left pixel is (0, 0).
    swept, true : sequences of (n_i,) arrays
        Depths along the optical axis; NaN where there is none.
    cameras : sequence of Camera
    neighbours : sequence of (v_i,) int64 arrays
        The views of every image to compare in, see `neighbouring_views`.

    Returns
    -------
    DepthQuality
        Shares and median are NaN where there is nothing to compute them from.
    """
    tables = [
        _distances(cameras[i], [cameras[j] for j in neighbours[i]], *arrays)
        for i, arrays in enumerate(zip(xy, swept, true, strict=True))
    ]
    views = max((table.shape[1] for table in tables), default=0)
    distances = np.concatenate(
        [np.empty((0, views))]
        + [np.pad(t, ((0, 0), (0, views - t.shape[1])), constant_values=np.nan) for t in tables]
    )
    judged = distances[~np.isnan(distances).all(axis=1)]
    with_depth = judged[~np.isinf(judged).any(axis=1)]
    wrong = with_depth > _MAX_ERROR
    return DepthQuality(
        judged=len(judged),
        reconstructed=_ratio(len(with_depth), len(judged)),
        within=1 - _ratio(wrong.sum(), np.isfinite(with_depth).sum()),
        within_in_all=1 - _ratio(wrong.any(axis=1).sum(), len(with_depth)),
        median=float(np.nanmedian(with_depth)) if len(with_depth) else np.nan,
    )


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else np.nan


def _distances(
    camera: Camera, views: Sequence[Camera], xy: AnyArray, swept: AnyArray, true: AnyArray
) -> FloatArray:
    """Return the distances (n, v) in pixels between the reprojections by both depths.

    NaN where a view does not see the true point, infinite where the sweep has no depth.
    """
    distances = np.full((len(xy), len(views)), np.nan)
    for column, view in zip(distances.T, views, strict=True):
        expected, depth = view.project(camera.back_project(xy, true))
        reached, _ = view.project(camera.back_project(xy, swept))
        distance = np.linalg.norm(reached - expected, axis=1)
        distance[np.isnan(swept)] = np.inf
        seen = (depth > 0) & in_image(expected, view.size)
        column[seen] = distance[seen]
    return distances
