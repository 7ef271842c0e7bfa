"""A scene: its images, and what is known about them."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmfsync.errors import printable
from nmfsync.scenes.images import Images
from nmfsync.types.arrays import FloatArray
from nmfsync.types.camera import Camera
from nmfsync.types.notebook import html_facts
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
    folder : Path or None
        The folder of images that the user named, without links. None for a scene of the
        catalogue.
    digests : tuple of str or None
        SHA-256 of every image file when the scene was loaded, in hexadecimal. A file
        that is another one when it is used is an error. None: files are used as they are.
    left_out : dict of str to str
        What is in the folder of the images and is not read: path -> reason.
    strict : bool
        Whether an image that cannot be decoded is an error; otherwise a run leaves it out.
    """

    name: str
    paths: tuple[Path, ...]
    truth: Truth | None = None
    cameras: tuple[Camera, ...] | None = None
    bounds: FloatArray | None = None
    folder: Path | None = None
    digests: tuple[str, ...] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict, hash=False)
    strict: bool = True

    def __repr__(self) -> str:
        truth = self.truth.kind if self.truth else "none"
        cameras = ", cameras" if self.cameras else ""
        return f"Scene({self.name!r}, {len(self.paths):,} images, truth {truth}{cameras})"

    def _repr_html_(self) -> str:
        names = [*self.names[:3], *(["…"] if len(self.names) > 3 else [])]
        facts = {
            "images": len(self.paths),
            "names": ", ".join(names),
            "ground truth": self.truth.kind if self.truth else "none",
            "cameras": "known" if self.cameras else "none",
        }
        return html_facts(f"Scene {self.name}", facts)

    @property
    def images(self) -> Images:
        """The images, each read from disk when it is used."""
        return Images(self.paths, self.digests)

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the images relative to the folder that contains all of them, with slashes."""
        if not self.paths:
            return ()
        folder = Path(os.path.commonpath([path.parent for path in self.paths]))
        return tuple(printable(path.relative_to(folder).as_posix()) for path in self.paths)

    @property
    def labels(self) -> tuple[str, ...]:
        """Short names of the images, for pictures and tables, each another one.

        The file's name without its ending; with it where two would be the same; with the
        folder where two still would be.
        """
        longer = (
            [printable(path.stem) for path in self.paths],
            [printable(path.name) for path in self.paths],
            self.names,
        )
        level = [0] * len(self.paths)
        for _ in range(2):
            names = Counter(longer[n][i] for i, n in enumerate(level))
            level = [n + (names[longer[n][i]] > 1) for i, n in enumerate(level)]
        return tuple(longer[n][i] for i, n in enumerate(level))

    def without(self, reasons: Mapping[str, str]) -> "Scene":
        """Leave images out of a scene without truth: their paths, and why."""
        kept = [i for i, path in enumerate(self.paths) if str(path) not in reasons]
        return replace(
            self,
            paths=tuple(self.paths[i] for i in kept),
            cameras=tuple(self.cameras[i] for i in kept) if self.cameras else None,
            digests=tuple(self.digests[i] for i in kept) if self.digests else None,
            left_out={**self.left_out, **reasons},
        )
