"""A scene: the images, and where its points appear in each of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from nmfsync.cameras import Camera
from nmfsync.errors import NmfsyncError
from nmfsync.images import read_image

FloatArray = NDArray[np.float64]


class Truth(Protocol):
    """Where points of one image appear in another."""

    @property
    def kind(self) -> str:
        """What the truth comes from, as written in `evaluation.json`."""
        ...

    def transfer(self, i: int, j: int, xy: NDArray) -> tuple[FloatArray, NDArray[np.bool_]]:
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

    def __post_init__(self) -> None:
        for i, H in enumerate(self.maps):
            if not np.isfinite(H).all() or np.linalg.cond(H) > 1e12:
                raise NmfsyncError(f"the homography from image 1 to image {i + 1} is singular")

    def transfer(self, i: int, j: int, xy: NDArray) -> tuple[FloatArray, NDArray[np.bool_]]:
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


class Images(Sequence[NDArray[np.uint8]]):
    """The images of a scene, read from disk when they are asked for: (h, w, 3) uint8 RGB."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> NDArray[np.uint8]:  # type: ignore[override]
        return read_image(self.paths[i])


@dataclass(frozen=True)
class Scene:
    """A set of images of one scene.

    Attributes
    ----------
    name : str
        Data set and scene, for instance "graffiti/graf".
    paths : tuple of Path
        The image files.
    truth : Truth or None
        Where points appear in each image, if it is known.
    cameras : tuple of Camera or None
        The calibrated camera of every image, if they are known.
    bounds : (2, 3) float64 array or None
        Minimum and maximum corner of a box that holds the scene, in the
        cameras' world, if it is known.
    """

    name: str
    paths: tuple[Path, ...]
    truth: Truth | None = None
    cameras: tuple[Camera, ...] | None = None
    bounds: FloatArray | None = None

    @property
    def images(self) -> Images:
        """The images, loaded when they are asked for."""
        return Images(self.paths)

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the images from the folder that holds them all, with slashes."""
        if not self.paths:
            return ()
        folder = Path(os.path.commonpath([path.parent for path in self.paths]))
        return tuple(path.relative_to(folder).as_posix() for path in self.paths)

    @property
    def labels(self) -> tuple[str, ...]:
        """Short names of the images, for pictures and tables."""
        return tuple(path.stem for path in self.paths)
