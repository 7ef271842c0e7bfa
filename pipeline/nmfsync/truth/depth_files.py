"""Depth maps beside the images."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from nmfsync.errors import NmfsyncError
from nmfsync.truth.depths import DepthMap, DepthMaps, check_map_size
from nmfsync.types.arrays import AnyArray
from nmfsync.types.camera import Camera


def depth_maps_beside(paths: Sequence[Path], cameras: Sequence[Camera]) -> DepthMaps | None:
    """Read the depth maps that lie beside the images.

    The depth map of `0001.jpg` is called `0001.jpg.depth` or `0001`, followed by `.npy` (float
    array), `.pfm`, `.exr` or `.png` (16 bits; one number in `depth_scale.txt` in the same
    folder is the depth that the value 1 stands for; without that file `0001.png` is taken for a
    picture). Depths that are not positive and finite mean that there is no surface.

    Parameters
    ----------
    paths : sequence of Path
        The image files.
    cameras : sequence of Camera
        Theirs, for the images in the size they have.

    Returns
    -------
    DepthMaps or None
        None if no image has a depth map.

    Raises
    ------
    NmfsyncError
        If only some images have one, or if one is damaged, not of the kind its name
        says, or of another size than its image.
    """
    files = [_depth_file(path, paths) for path in paths]
    found = [file for file in files if file is not None]
    if not found:
        return None
    if len(found) < len(files):
        raise NmfsyncError(
            f"{paths[files.index(None)]}: has no depth map, though {len(found)} of the "
            f"{len(files)} images have one; add those that are missing or remove the others"
        )
    maps = [_read(file) for file in found]
    for depth, camera, file in zip(maps, cameras, found, strict=False):
        check_map_size(depth, camera, str(file))
    return DepthMaps(tuple(cameras), maps)


def _depth_file(image: Path, images: Sequence[Path]) -> Path | None:
    for suffix in _READERS:
        if (file := image.with_name(image.name + ".depth" + suffix)).is_file():
            return file
        file = image.with_suffix(suffix)
        picture = file in images or (suffix == ".png" and not _scale_file(file).is_file())
        if file.is_file() and not picture:
            return file
    return None


def _read(file: Path) -> DepthMap:
    """Read a depth map of any kind; NaN where there is no surface."""
    try:
        depth = _READERS[file.suffix](file).astype(np.float32)
    except NmfsyncError:
        raise
    except (OSError, ValueError, EOFError, cv2.error) as error:
        reason = " ".join(str(error).split())
        raise NmfsyncError(f"{file}: is not a depth map that can be read ({reason})") from None
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(np.nan))


def _read_npy(file: Path) -> AnyArray:
    with file.open("rb") as stream:
        values = np.lib.format.read_array(stream, allow_pickle=False)
    return _check(values, file, np.floating)


def _read_pfm(file: Path) -> AnyArray:
    return _check(_decode(file), file, np.floating)


def _read_exr(file: Path) -> AnyArray:
    # OpenCV leaves its EXR reader switched off, where it has one at all.
    os.environ.setdefault("OPENCV_IO_ENABLE_OPENEXR", "1")
    try:
        return _check(_decode(file), file, np.floating)
    except (ValueError, cv2.error):
        raise NmfsyncError(
            f"{file}: is damaged, or the OpenCV installed ({cv2.__version__}) cannot read EXR "
            "files; convert the depth maps to NPY or PFM"
        ) from None


def _read_png(file: Path) -> AnyArray:
    values = _check(_decode(file), file, np.uint16)
    note = _scale_file(file)
    try:
        scale = float(note.read_text())
    except (FileNotFoundError, ValueError):
        scale = np.nan
    if not 0 < scale < np.inf:
        raise NmfsyncError(
            f"{note}: must hold one positive number, the depth that the value 1 "
            f"of {file.name} stands for"
        )
    return values * scale


_READERS: dict[str, Callable[[Path], AnyArray]] = {
    ".npy": _read_npy, ".pfm": _read_pfm, ".exr": _read_exr, ".png": _read_png,
}  # fmt: skip


def _scale_file(file: Path) -> Path:
    return file.with_name("depth_scale.txt")


def _decode(file: Path) -> AnyArray:
    values = cv2.imdecode(np.fromfile(file, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if values is None:
        raise ValueError(f"not a {file.suffix} file, or damaged")
    return np.asarray(values)


def _check(values: Any, file: Path, kind: type[np.generic]) -> AnyArray:
    if values.ndim != 2 or not np.issubdtype(values.dtype, kind):
        wanted = "16-bit integers" if kind is np.uint16 else "floating-point numbers"
        shape = " × ".join(map(str, values.shape))
        raise NmfsyncError(
            f"{file}: holds {shape} values of type {values.dtype}; "
            f"a depth map has height × width {wanted}"
        )
    return np.asarray(values)
