"""A scene: its images, and what is known about them."""

import os
from dataclasses import dataclass
from pathlib import Path

from nmfsync.errors import printable
from nmfsync.scenes.images import Images
from nmfsync.types.arrays import FloatArray
from nmfsync.types.camera import Camera
from nmfsync.types.truth import Truth


def scene_folder(out: Path, name: str) -> Path:
    """Return the folder for the output of a scene, by the scene's name."""
    return out / os.fsdecode(name.encode())  # the file system's encoding may lack its letters


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
        The ground truth: where points of one image appear in the others. None if unknown.
    cameras : tuple of Camera or None
        The calibrated camera of every image. None if unknown.
    bounds : (2, 3) float64 array or None
        Minimum and maximum corner of a box around the scene, in the world
        coordinates of the cameras. None if unknown.
    """

    name: str
    paths: tuple[Path, ...]
    truth: Truth | None = None
    cameras: tuple[Camera, ...] | None = None
    bounds: FloatArray | None = None

    @property
    def images(self) -> Images:
        """The images, each read from disk when it is used."""
        return Images(self.paths)

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the images relative to the folder that contains all of them, with slashes."""
        if not self.paths:
            return ()
        folder = Path(os.path.commonpath([path.parent for path in self.paths]))
        return tuple(printable(path.relative_to(folder).as_posix()) for path in self.paths)

    @property
    def labels(self) -> tuple[str, ...]:
        """Short names of the images, for pictures and tables."""
        return tuple(printable(path.stem) for path in self.paths)
