"""Truth from depths: through space from one calibrated image to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from nmfsync.errors import NmfsyncError
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.camera import Camera

DepthMap = NDArray[np.float32]

# Four pixels whose depths differ by more than this show a depth edge, or a surface
# seen so obliquely that its depth between the pixels is anybody's guess.
_EDGE = 0.02

# Features of image j at most this many pixels from a point can tell that it is hidden,
# if they are nearer to the camera by this share: on a surface seen at 60 degrees the
# depth changes by about 1 % in 3 pixels.
_HIDING_RADIUS = 3.0

_HIDING_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class DepthMaps:
    """Truth from the depth of every pixel of every image.

    Between pixels the inverse depth is interpolated bilinearly, which is exact on planes, from
    those of the four pixels around that have a surface. A point cannot be judged, since its
    position in space is not known, if the nearest pixel has no surface, or if the depths of the
    four differ by more than 2 %: it lies beside a depth edge, on this or that side.

    Whether image j sees a point is told by the depth of image j at the place where the point
    lands (beside a depth edge: of the nearest pixel). Where both agree within `tolerance`, it
    does. Where image j has no surface its depth map has a hole, and nobody knows what hides
    there: such a point cannot be judged either.

    Nearer than two pixels to a depth edge the test for hidden points is right for about nine in
    ten of the points that have a depth, elsewhere always, if the maps are exact.

    Attributes
    ----------
    cameras : tuple of Camera
    maps : sequence of (h, w) float32 arrays
        Distance along the optical axis at the centre of every pixel of the image,
        NaN where there is no surface.
    kind : str
        What the depths come from, as written in `evaluation.json`.
    tolerance : float
        Largest relative difference between two depths of one point. 1 % is well above the
        errors of laser scans, of their registration and of the interpolation (all about
        0.1 %) and below the distance between most things and what is behind them.

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

    def transfer(self, i: int, j: int, xy: AnyArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Move points of image i to image j; valid where image j sees them (see `Truth`)."""
        depth = _Sample(self.maps[i], xy).between
        moved, reached, valid = _move(self.cameras[i], self.cameras[j], xy, depth)
        there = _Sample(self.maps[j], moved[valid])
        seen = np.where(np.isfinite(there.between), there.between, there.nearest)
        valid[valid] = np.abs(reached[valid] - seen) <= self.tolerance * seen
        return moved, valid

    def points(self, i: int, xy: AnyArray) -> FloatArray:
        """Points (n, 3) of the world at pixels (n, 2) of image i, NaN where there is no depth."""
        return self.cameras[i].back_project(xy, _Sample(self.maps[i], xy).between)


@dataclass(frozen=True, eq=False)
class FeatureDepths:
    """Truth from depths that are known at the features only.

    A point is looked up among the features of image i; it cannot be judged if it is none of
    them, or if its feature has no depth. It is hidden in image j if a feature of image j
    within 3 pixels of the place where it lands is nearer to the camera by more than 5 %. Most
    of what is hidden thus goes unnoticed if the features are sparse.

    Attributes
    ----------
    cameras : tuple of Camera
    xy : sequence of (n_i, 2) arrays
        Features of every image, in pixels.
    depth : sequence of (n_i,) float arrays
        Their distances along the optical axis, NaN where unknown.

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

    def transfer(self, i: int, j: int, xy: AnyArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Move features of image i to image j; valid where nothing hides them (see `Truth`)."""
        moved, reached, valid = _move(self.cameras[i], self.cameras[j], xy, self._depth_at(i, xy))
        valid[valid] = ~self._hidden(j, moved[valid], reached[valid])
        return moved, valid

    def points(self, i: int, xy: AnyArray) -> FloatArray:
        """Points (n, 3) of the world at features (n, 2) of image i, NaN where there is no depth."""
        return self.cameras[i].back_project(xy, self._depth_at(i, xy))

    def _depth_at(self, i: int, xy: AnyArray) -> FloatArray:
        # The tree returns the number of features where it finds none.
        _, feature = self._trees[i].query(xy, distance_upper_bound=1e-3)
        return np.asarray(np.append(self.depth[i], np.nan)[feature])

    @cached_property
    def _trees(self) -> tuple[cKDTree, ...]:
        return tuple(cKDTree(np.reshape(xy, (-1, 2))) for xy in self.xy)

    def _hidden(self, j: int, xy: FloatArray, depth: FloatArray) -> NDArray[np.bool_]:
        near = cKDTree(xy).sparse_distance_matrix(
            self._trees[j], _HIDING_RADIUS, output_type="ndarray"
        )
        in_front = self.depth[j][near["j"]] < depth[near["i"]] * (1 - _HIDING_SHARE)
        hidden = np.zeros(len(xy), dtype=bool)
        hidden[near["i"][in_front]] = True
        return hidden


def _move(
    source: Camera, target: Camera, xy: AnyArray, depth: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Pixels and depths in the target, and whether the points lie inside its image."""
    moved, reached = target.project(source.back_project(xy, depth))
    return moved, reached, np.isfinite(depth) & (reached > 0) & _inside(moved, target.size)


def _inside(xy: AnyArray, size: tuple[int, int]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        inside = (xy >= -0.5) & (xy <= np.array(size) - 0.5)
    return inside[:, 0] & inside[:, 1]


class _Sample:
    """A depth map at any pixels (n, 2).

    Attributes
    ----------
    nearest : (n,) float64 array
        Depth of the nearest pixel; NaN outside the image and without surface.
    between : (n,) float64 array
        Depth interpolated between four pixels; NaN also beside a depth edge.
    """

    def __init__(self, depth: DepthMap, xy: AnyArray) -> None:
        last = np.array(depth.shape[::-1]) - 1
        inside = _inside(xy, depth.shape[::-1])
        place = np.clip(np.where(inside[:, None], xy, 0), 0, last)
        low = np.floor(place).astype(np.int64)
        (x0, y0), (x1, y1) = low.T, np.minimum(low + 1, last).T
        around = depth[[y0, y0, y1, y1], [x0, x1, x0, x1]].astype(np.float64)
        fx, fy = (place - low).T
        weights = np.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy])
        nearest = around[weights.argmax(axis=0), np.arange(len(place))]
        # A hole, and a pixel that lies exactly beside the point, count for nothing.
        weights = np.where(np.isfinite(around), weights, 0)
        around = np.where(weights > 0, around, nearest)
        flat = around.max(axis=0) <= around.min(axis=0) * (1 + _EDGE)
        self.nearest = np.where(inside, nearest, np.nan)
        self.between = np.where(
            inside & flat, weights.sum(axis=0) / (weights / around).sum(axis=0), np.nan
        )


def check_map_size(depth: AnyArray, camera: Camera, name: str) -> None:
    """Raise NmfsyncError if a depth map and its image differ in size."""
    if depth.shape[::-1] != camera.size:
        has = " × ".join(map(str, depth.shape[::-1]))
        raise NmfsyncError(
            f"{name}: has {has} pixels, but its image {camera.size[0]} × {camera.size[1]}; "
            "give both the same size"
        )
