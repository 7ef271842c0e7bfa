"""How good depths from a plane sweep are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmfsync.truth.plane_sweep import (
    AGREEING,
    Image,
    Sweep,
    check_lengths,
    for_every_image,
    gray_images,
)
from nmfsync.truth.views import in_image, neighbouring_views
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.camera import Camera

_WITHIN = 2.0  # pixels by which a reprojection may be wrong and yet count as right


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


def held_out_quality(
    images: Sequence[Image],
    cameras: Sequence[Camera],
    xy: Sequence[AnyArray],
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
    check_lengths(images, cameras, xy)
    gray = gray_images(images, cameras)
    views = neighbouring_views(cameras, bounds)
    held_out = [v[[i % len(v)]] if len(v) > AGREEING else v[:0] for i, v in enumerate(views)]

    def depths(i: int) -> tuple[FloatArray, FloatArray]:
        if not len(xy[i]) or not len(held_out[i]):
            return np.full(len(xy[i]), np.nan), np.full(len(xy[i]), np.nan)
        others = views[i][views[i] != held_out[i]]
        usual = Sweep(i, others, cameras, gray, xy[i], bounds)
        alone = Sweep(i, held_out[i], cameras, gray, xy[i], bounds, agreeing=1)
        return usual.depths(), alone.depths()

    pairs = for_every_image(depths, len(cameras), progress)
    usual, alone = [a for a, _ in pairs], [b for _, b in pairs]
    return depth_quality(xy, usual, alone, cameras, held_out)


def depth_quality(
    xy: Sequence[AnyArray],
    reconstructed: Sequence[AnyArray],
    true: Sequence[AnyArray],
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
    camera: Camera, views: Sequence[Camera], xy: AnyArray, found: AnyArray, true: AnyArray
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
        seen = (depth > 0) & in_image(view, expected, 0)
        column[seen] = distance[seen]
    return apart
