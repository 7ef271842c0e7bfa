"""A scene: the images, and where its points appear in each of them."""

import os
from dataclasses import dataclass
from pathlib import Path

from nmfsync.scenes.images import Images
from nmfsync.types.arrays import FloatArray
from nmfsync.types.camera import Camera
from nmfsync.types.truth import Truth


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
