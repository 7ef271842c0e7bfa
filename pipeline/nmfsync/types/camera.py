"""Calibrated cameras: from points in space to pixels and back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from nmfsync.types.arrays import AnyArray, FloatArray


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera with lens distortion.

    Attributes
    ----------
    K : (3, 3) float64 array
        Intrinsics in pixels; the centre of the top-left pixel is (0, 0).
    R : (3, 3) float64 array
        Rotation from world to camera: x right, y down, z along the line of sight.
    t : (3,) float64 array
        Translation: a point X of the world lies at RX + t in the camera's frame.
    size : tuple of int
        Width and height of the image in pixels.
    distortion : tuple of float
        k1, k2, p1, p2, k3 of OpenCV's model.
    """

    K: FloatArray
    R: FloatArray
    t: FloatArray
    size: tuple[int, int]
    distortion: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)

    def __repr__(self) -> str:
        width, height = self.size
        centre = ", ".join(f"{x:.4g}" for x in self.centre)
        focal = f"{self.K[0, 0]:.4g}"
        return f"Camera({width} × {height} pixels, focal length {focal}, at ({centre}))"

    @property
    def centre(self) -> FloatArray:
        """(3,) float64 array: where the camera stands in the world."""
        return -self.R.T @ self.t

    def project(self, points: AnyArray) -> tuple[FloatArray, FloatArray]:
        """Return pixels (n, 2) and depths (n,) of points (n, 3) of the world.

        The depth is the distance along the optical axis; where it is not
        positive, the pixel means nothing.
        """
        local = np.asarray(points, dtype=np.float64) @ self.R.T + self.t
        depth = local[:, 2]
        plane = np.divide(
            local, depth[:, None], out=np.full_like(local, np.nan), where=depth[:, None] != 0
        )
        if any(self.distortion) and len(plane):
            flat, _ = cv2.projectPoints(
                np.nan_to_num(plane)[:, None], np.zeros(3), np.zeros(3), self.K,
                np.array(self.distortion),
            )  # fmt: skip
            return np.asarray(flat[:, 0], dtype=np.float64), depth
        return (plane @ self.K.T)[:, :2], depth

    def back_project(self, xy: AnyArray, depth: AnyArray) -> FloatArray:
        """Return the points (n, 3) of the world seen at pixels (n, 2) at given depths (n,)."""
        xy = np.asarray(xy, dtype=np.float64)
        if any(self.distortion) and len(xy):
            xy = cv2.undistortPoints(xy[:, None], self.K, np.array(self.distortion), P=self.K)[:, 0]
        rays = np.column_stack([xy, np.ones(len(xy))]) @ np.linalg.inv(self.K).T
        return np.asarray((rays * np.asarray(depth)[:, None] - self.t) @ self.R)

    def scaled_to(self, size: tuple[int, int]) -> "Camera":
        """Return the same camera for an image of another size (x' = (x + ½)s − ½)."""
        s = np.array(size) / self.size
        shift = np.array([[s[0], 0, (s[0] - 1) / 2], [0, s[1], (s[1] - 1) / 2], [0, 0, 1]])
        return replace(self, K=shift @ self.K, size=size)


def poses_of(cameras: Sequence[Camera]) -> list[Any]:
    """Everything that a camera is, as JSON can hold it."""
    return [[c.K.tolist(), c.R.tolist(), c.t.tolist(), c.size, c.distortion] for c in cameras]
