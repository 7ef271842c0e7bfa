"""Ground truth from depths: points are moved through space from one calibrated image to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray
from nmfsync.types.camera import Camera

if TYPE_CHECKING:  # depth maps do without
    from scipy.spatial import cKDTree

DepthMap = NDArray[np.float32]

# Largest relative difference between the depths of four neighbouring pixels. With more there is
# a depth edge, or a surface so oblique that the depth between the pixels is unknown.
_EDGE = 0.02

# A point is occluded if a feature at most this many pixels from it is nearer to the camera by
# this share: on a surface seen at 60 degrees the depth changes by about 1 % in 3 pixels.
_OCCLUDER_RADIUS = 3.0

_OCCLUDER_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class DepthMaps:
    """Truth from the depth of every pixel of every image.

    The depth of a point is interpolated between the four pixels around it: bilinearly in
    inverse depth, which is exact on planes, and without those pixels that have no surface. A
    point without a depth cannot be judged. It has none if the nearest pixel has no surface, or
    if the depths of the four pixels differ by more than 2 %: it is next to a depth edge, on an
    unknown side.

    Image j sees a point if the point's distance agrees with the depth of image j at the pixel
    where the point is projected, within `tolerance`. Next to a depth edge the depth of the
    nearest pixel counts. If image j has no surface there, its depth map has a hole and the point
    cannot be judged either.

    If the maps are exact, the test for occlusion is always right farther than two pixels from
    depth edges, and nearer for about nine in ten of the points that have a depth.

    Attributes
    ----------
    cameras : tuple of Camera
    maps : sequence of (h, w) float32 arrays
        Distance along the optical axis at the centre of every pixel of an image, in
        the unit of the cameras; NaN where there is no surface.
    kind : str
        What the depths come from, as written in `evaluation.json`.
    tolerance : float
        Largest relative difference between two depths of one point. 1 % is well above the
        errors of laser scans, of their registration and of the interpolation (all about
        0.1 %), and below the distance between most surfaces and what is behind them.

    Raises
    ------
    NmfsyncError
        If there is not one map for every camera, of the size of its image.
    """

    cameras: tuple[Camera, ...]
    maps: Sequence[DepthMap]
    kind: str = "depths (laser)"
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if len(self.cameras) != len(self.maps):
            raise NmfsyncError(f"{len(self.maps)} depth maps for {len(self.cameras)} cameras")
        for i, (camera, depth) in enumerate(zip(self.cameras, self.maps, strict=True)):
            check_map_size(depth, camera, f"the depth map of image {i + 1}")

    def transfer(self, i: int, j: int, xy: AnyArray) -> tuple[FloatArray, BoolArray]:
        """Move points of image i to image j; valid where image j sees them (see `Truth`)."""
        depth = _DepthSample(self.maps[i], xy).interpolated
        moved, reached, valid = _move(self.cameras[i], self.cameras[j], xy, depth)
        target = _DepthSample(self.maps[j], moved[valid])
        surface = np.where(np.isfinite(target.interpolated), target.interpolated, target.nearest)
        valid[valid] = np.abs(reached[valid] - surface) <= self.tolerance * surface
        return moved, valid

    def points(self, i: int, xy: AnyArray) -> FloatArray:
        """Return the points (n, 3) of the world at pixels (n, 2); NaN without depth."""
        return self.cameras[i].back_project(xy, _DepthSample(self.maps[i], xy).interpolated)


@dataclass(frozen=True, eq=False)
class FeatureDepths:
    """Truth from depths that are known at the features only.

    A point cannot be judged if it is none of the features of image i, or if its feature has no
    depth. It is occluded in image j if a feature of image j, at most 3 pixels from the pixel
    where the point is projected, is nearer to the camera by more than 5 %. So most occlusions
    remain unnoticed if the features are sparse.

    Attributes
    ----------
    cameras : tuple of Camera
    xy : sequence of (n_i, 2) arrays
        Features of every image, in pixels.
    depth : sequence of (n_i,) float arrays
        Distances of the features along the optical axis, in the unit of the cameras; NaN
        where unknown.
    kind : str
        As written in `evaluation.json`.

    Raises
    ------
    NmfsyncError
        If the numbers of cameras, features and depths do not agree.
    """

    cameras: tuple[Camera, ...]
    xy: Sequence[AnyArray]
    depth: Sequence[AnyArray]
    kind: ClassVar[str] = "depths (reconstructed)"

    def __post_init__(self) -> None:
        if not len(self.cameras) == len(self.xy) == len(self.depth):
            raise NmfsyncError(
                f"{len(self.cameras)} cameras, but features of {len(self.xy)} images "
                f"and depths of {len(self.depth)}"
            )
        for i, (xy, depth) in enumerate(zip(self.xy, self.depth, strict=True)):
            if len(xy) != len(depth):
                raise NmfsyncError(f"image {i + 1} has {len(xy)} features, but {len(depth)} depths")

    def transfer(self, i: int, j: int, xy: AnyArray) -> tuple[FloatArray, BoolArray]:
        """Move features of image i to image j; valid where not occluded (see `Truth`)."""
        moved, reached, valid = _move(self.cameras[i], self.cameras[j], xy, self._depth_at(i, xy))
        valid[valid] = ~self._occluded(j, moved[valid], reached[valid])
        return moved, valid

    def points(self, i: int, xy: AnyArray) -> FloatArray:
        """Return the points (n, 3) of the world of features (n, 2); NaN without depth."""
        return self.cameras[i].back_project(xy, self._depth_at(i, xy))

    def _depth_at(self, i: int, xy: AnyArray) -> FloatArray:
        """Look up the depths (n,) of features (n, 2); NaN for pixels that are no feature."""
        # The tree returns the number of features if none is within the bound.
        _, feature = self._trees[i].query(xy, distance_upper_bound=1e-3)
        return np.asarray(np.append(self.depth[i], np.nan)[feature])

    @cached_property
    def _trees(self) -> tuple["cKDTree", ...]:
        from scipy.spatial import cKDTree

        return tuple(cKDTree(np.reshape(xy, (-1, 2))) for xy in self.xy)

    def _occluded(self, j: int, xy: FloatArray, depth: FloatArray) -> BoolArray:
        """Return which points, at pixels (n, 2) and depths (n,) of image j, features occlude."""
        from scipy.spatial import cKDTree

        close = cKDTree(xy).sparse_distance_matrix(
            self._trees[j], _OCCLUDER_RADIUS, output_type="ndarray"
        )
        in_front = self.depth[j][close["j"]] < depth[close["i"]] * (1 - _OCCLUDER_SHARE)
        occluded = np.zeros(len(xy), dtype=bool)
        occluded[close["i"][in_front]] = True
        return occluded


def check_map_size(depth: AnyArray, camera: Camera, name: str) -> None:
    """Raise NmfsyncError if a depth map and its image differ in size."""
    if depth.shape[::-1] != camera.size:
        has = " × ".join(map(str, depth.shape[::-1]))
        raise NmfsyncError(
            f"{name}: has {has} pixels, but its image {camera.size[0]} × {camera.size[1]}; "
            "give both the same size"
        )


def in_image(xy: AnyArray, size: tuple[int, int], margin: float = 0.0) -> BoolArray:
    """Return which pixels (n, 2) are inside an image, at least `margin` pixels from its border."""
    with np.errstate(invalid="ignore"):
        inside = (xy >= margin - 0.5) & (xy <= np.array(size) - 0.5 - margin)
    return inside[:, 0] & inside[:, 1]


def _move(
    source: Camera, target: Camera, xy: AnyArray, depth: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return pixels (n, 2) and depths (n,) in the target, and which are inside its image."""
    moved, reached = target.project(source.back_project(xy, depth))
    return moved, reached, np.isfinite(depth) & (reached > 0) & in_image(moved, target.size)


class _DepthSample:
    """The values of a depth map at any pixels (n, 2).

    Attributes
    ----------
    nearest : (n,) float64 array
        Depth of the nearest pixel; NaN outside the image and where there is no surface.
    interpolated : (n,) float64 array
        Depth interpolated between four pixels; NaN also next to a depth edge.
    """

    def __init__(self, depth: DepthMap, xy: AnyArray) -> None:
        last = np.array(depth.shape[::-1]) - 1
        inside = in_image(xy, depth.shape[::-1])
        place = np.clip(np.where(inside[:, None], xy, 0), 0, last)
        low = np.floor(place).astype(np.int64)
        (x0, y0), (x1, y1) = low.T, np.minimum(low + 1, last).T
        around = depth[[y0, y0, y1, y1], [x0, x1, x0, x1]].astype(np.float64)
        fx, fy = (place - low).T
        weights = np.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy])
        nearest = around[weights.argmax(axis=0), np.arange(len(place))]
        # Pixels without a surface do not count, nor do pixels with weight 0.
        weights = np.where(np.isfinite(around), weights, 0)
        around = np.where(weights > 0, around, nearest)
        continuous = around.max(axis=0) <= around.min(axis=0) * (1 + _EDGE)
        self.nearest = np.where(inside, nearest, np.nan)
        self.interpolated = np.where(
            inside & continuous, weights.sum(axis=0) / (weights / around).sum(axis=0), np.nan
        )
