"""Ground truth: where points of one image appear in another."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError
from nmfsync.types.arrays import AnyArray, FloatArray


class Truth(Protocol):
    """Where points of one image appear in another."""

    @property
    def kind(self) -> str:
        """What the truth comes from, as written in `evaluation.json`."""
        ...

    def transfer(self, i: int, j: int, xy: AnyArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Move points of image i to image j.

        Parameters
        ----------
        i, j : int
            Images, counted from 0.
        xy : (n, 2) array
            Pixels, x to the right and y down; the centre of the top-left pixel is (0, 0).

        Returns
        -------
        xy : (n, 2) float64 array
            Pixels of image j.
        valid : (n,) bool array
            False where the point cannot be judged, for instance outside image j.
        """
        ...


@dataclass(frozen=True)
class Homographies:
    """Truth of a planar scene: one homography from image 0 to every image.

    Attributes
    ----------
    maps : (k, 3, 3) float64 array
        maps[i] takes homogeneous pixels of image 0 to image i; maps[0] is the identity.
    image_sizes : (k, 2) int array
        Width and height of every image, in pixels.

    Raises
    ------
    NmfsyncError
        If a homography is singular or not finite.
    """

    maps: FloatArray
    image_sizes: NDArray[np.int64]
    kind: ClassVar[str] = "homographies"

    def __repr__(self) -> str:
        return f"Homographies({len(self.maps)} images)"

    def __post_init__(self) -> None:
        for i, H in enumerate(self.maps):
            if not np.isfinite(H).all() or np.linalg.cond(H) > 1e12:
                raise NmfsyncError(f"the homography from image 1 to image {i + 1} is singular")

    def transfer(self, i: int, j: int, xy: AnyArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Move points of image i to image j; valid where they land inside it (see `Truth`)."""
        H = self.maps[j] @ np.linalg.inv(self.maps[i])
        points = np.column_stack([xy, np.ones(len(xy))]).astype(np.float64) @ H.T
        # Points in front of the plane's horizon share the sign of the image centre's.
        centre = H @ [*(self.image_sizes[i] - 1) / 2, 1.0]
        front = points[:, 2] * np.sign(centre[2]) > 0
        moved = points[:, :2] / np.where(front, points[:, 2], np.nan)[:, None]
        with np.errstate(invalid="ignore"):
            inside = (moved >= -0.5) & (moved <= self.image_sizes[j] - 0.5)
        return moved, front & inside.all(axis=1)
