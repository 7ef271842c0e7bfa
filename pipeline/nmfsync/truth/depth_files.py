"""Read depth maps that lie beside the images, as NPY, PFM, EXR or PNG files."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import ONE_PARSER, read_text, reading
from nmfsync.truth.depths import DepthMap, DepthMaps, check_map_size
from nmfsync.types.arrays import AnyArray
from nmfsync.types.camera import Camera


def depth_maps_beside(paths: Sequence[Path], cameras: Sequence[Camera]) -> DepthMaps | None:
    """Read the depth maps that lie beside the images.

    The depth map of `0001.jpg` is called `0001.jpg.depth` or `0001`, followed by the ending of
    its format: `.npy` (a float array), `.pfm`, `.exr` or `.png` (16 bits). With PNG files goes
    a file `depth_scale.txt` in the same folder, which contains one number: the depth that the
    value 1 stands for. Without this file `0001.png` is taken for a picture, not a depth map.
    A depth that is not positive and finite means that there is no surface.

    Parameters
    ----------
    paths : sequence of Path
        The image files.
    cameras : sequence of Camera
        The camera of every image, for the size of the image file.

    Returns
    -------
    DepthMaps or None
        None if no image has a depth map.

    Raises
    ------
    NmfsyncError
        If only some images have a depth map, or if one is damaged, not of the
        format that its name says, or of another size than its image.
    """
    candidates = [_depth_file(path, paths) for path in paths]
    files = [file for file in candidates if file is not None]
    if not files:
        return None
    if len(files) < len(paths):
        raise NmfsyncError(
            f"{paths[candidates.index(None)]}: has no depth map, though {len(files)} of the "
            f"{len(paths)} images have one; add the missing ones or remove the others"
        )
    maps = [_read(file, camera) for file, camera in zip(files, cameras, strict=False)]
    return DepthMaps(tuple(cameras), maps)


def depth_files_beside(paths: Sequence[Path]) -> list[Path]:
    """Return the files that `depth_maps_beside` reads."""
    files = [file for path in paths if (file := _depth_file(path, paths)) is not None]
    scales = {_scale_file(file) for file in files if file.suffix == ".png"}
    return files + sorted(scale for scale in scales if scale.exists())


def _depth_file(image: Path, images: Sequence[Path]) -> Path | None:
    """Find the depth map of an image; a file that is itself one of the images is none."""
    for suffix in _READERS:
        if (file := image.with_name(image.name + ".depth" + suffix)).exists():
            return file
        file = image.with_suffix(suffix)
        picture = file in images or (suffix == ".png" and not _scale_file(file).exists())
        if file.exists() and not picture:
            return file
    return None


def _read(file: Path, camera: Camera) -> DepthMap:
    """Read a depth map of any format: (h, w), NaN where there is no surface."""
    with reading(file, "is no readable depth map"):
        values = _READERS[file.suffix](file)
        check_map_size(values, camera, str(file))
        with np.errstate(over="ignore"):
            depth = values.astype(np.float32)
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(np.nan))


def _read_npy(file: Path) -> AnyArray:
    # Mapped, not read: a header can claim any size.
    with ONE_PARSER:
        values = np.lib.format.open_memmap(file, mode="r")
    return _check_array(values, file, np.floating)


def _read_pfm(file: Path) -> AnyArray:
    return _check_array(_decode(file), file, np.floating)


def _read_exr(file: Path) -> AnyArray:
    # OpenCV's EXR reader is switched off by default, and missing in some builds.
    os.environ.setdefault("OPENCV_IO_ENABLE_OPENEXR", "1")
    try:
        return _check_array(_decode(file), file, np.floating)
    except (ValueError, cv2.error):
        raise NmfsyncError(
            f"{file}: is damaged, or the installed OpenCV ({cv2.__version__}) cannot read EXR "
            "files; convert the depth maps to NPY or PFM"
        ) from None


def _read_png(file: Path) -> AnyArray:
    values = _check_array(_decode(file), file, np.uint16)
    scale_file = _scale_file(file)
    try:
        scale = float(read_text(scale_file)) if scale_file.exists() else np.nan
    except ValueError:
        scale = np.nan
    if not 0 < scale < np.inf:
        raise NmfsyncError(
            f"{scale_file}: must contain one positive number, the depth that the value 1 "
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


def _check_array(values: Any, file: Path, kind: type[np.generic]) -> AnyArray:
    """Return the values if they are an array (h, w) of this kind of numbers."""
    if values.ndim != 2 or not np.issubdtype(values.dtype, kind):
        wanted = "16-bit integers" if kind is np.uint16 else "floating-point numbers"
        shape = " × ".join(map(str, values.shape))
        raise NmfsyncError(
            f"{file}: contains {shape} values of type {values.dtype}; "
            f"a depth map has height × width {wanted}"
        )
    return np.asarray(values)
