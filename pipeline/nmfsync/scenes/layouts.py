"""Layouts of scene folders: from the files of a scene to a `Scene`.

Every layout has one reader. Positions are pixels everywhere, with the centre of
the top-left pixel at (0, 0). Camera files follow two conventions, each the
inverse of the other: an EPFL file contains the rotation from camera to world and
the camera's centre, a Middlebury file the rotation and translation from world to
camera.
"""

import os
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.errors import UNPRINTABLE, NmfsyncError, NmfsyncWarning, near_names, shown
from nmfsync.runtime.files import read_text, reading
from nmfsync.scenes.images import IMAGE_SUFFIXES, ImageFile, look_at
from nmfsync.scenes.listing import files_in, find_images, listing, summary, what_is_left_out
from nmfsync.scenes.scene import Scene
from nmfsync.types.arrays import FloatArray
from nmfsync.types.camera import Camera
from nmfsync.types.truth import Homographies

# Largest difference between R Rᵀ and the identity: some files round to three digits.
ROTATION_TOLERANCE = 5e-3

_LARGEST_SIDE = 10**6  # pixels

# What `float` accepts, without digits of other scripts and without _ between digits.
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.I
)


def read_folder(folder: Path) -> Scene:
    """Read a folder of images, with homographies or cameras if it contains any.

    Parameters
    ----------
    folder : Path
        Its images are those that `find_images` finds. A folder with H1to2p or
        H_1_2 is read by `read_homographies`, one with NNNN.jpg.camera by
        `read_epfl`, and one with X_par.txt by `read_middlebury`.

    Returns
    -------
    Scene
        Named by `name_of_folder`.

    Raises
    ------
    NmfsyncError
        If fewer than two images can be read, or homographies or cameras are invalid.

    Warns
    -----
    NmfsyncWarning
        If something is left out (`Scene.left_out`).
    """
    name = name_of_folder(folder)
    scene = _read_with_truth(name, folder) or _read_images(name, folder)
    if scene.left_out:
        warnings.warn(summary(scene.left_out), NmfsyncWarning, stacklevel=3)
    return replace(scene, folder=folder.resolve())


def name_of_folder(folder: Path) -> str:
    """Name the scene of a folder of images: "images/" and the folder's name.

    A folder that is called images itself, as in COLMAP's projects, has the name of the folder
    around it. What is not printable, and bytes that are not UTF-8, become "_".
    """
    folder = folder.resolve()
    if folder.name.lower() == "images" and folder.parent.name:
        folder = folder.parent
    name = (
        os.fsencode(folder.name)
        .decode("utf-8", "replace")
        .replace("\N{REPLACEMENT CHARACTER}", "_")
    )
    return f"images/{UNPRINTABLE.sub('_', name) or 'root'}"


def has_truth(folder: Path) -> bool:
    """Say whether a folder has homographies or cameras."""
    return _reader_of(folder) is not None


def _reader_of(folder: Path) -> Callable[[str, Path], Scene] | None:
    for pattern, reader in _READER_OF_FILE.items():
        if any(re.fullmatch(pattern, path.name) for path in files_in(folder)):
            return reader
    return None


def _read_with_truth(name: str, folder: Path) -> Scene | None:
    """Read a folder that has homographies or cameras; None if it has none."""
    reader = _reader_of(folder)
    if reader is None:
        return None
    scene = reader(name, folder)
    missing = "camera" if scene.cameras else "homography"
    left_out = what_is_left_out(folder, scene.paths, f"has no {missing}")
    return replace(scene, left_out=left_out, strict=scene.truth is not None)


def _read_images(name: str, folder: Path) -> Scene:
    images, left_out = find_images(folder)
    if len(images) < 2:
        count = "only one image" if images else "no images"
        fault = f" ({listing(left_out)})" if left_out else ""
        raise NmfsyncError(f"{folder}: {count} found{fault}; at least two are needed")
    return _scene(name, images, left_out=left_out, strict=False)


def _scene(name: str, images: Sequence[ImageFile], **known: Any) -> Scene:
    """Make a scene of the images as they are now, and of what is known about them."""
    paths, _, digests = zip(*images, strict=True)
    return Scene(name, paths, digests=digests, **known)


_IMAGE_FILE = re.compile(r"(?:img)?([1-9][0-9]*)(\.[^.]+)")


def read_homographies(name: str, folder: Path) -> Scene:
    """Read a planar scene in the Oxford or the HPatches layout: img1 … imgN, H1to2p … H1toNp.

    Parameters
    ----------
    name : str
        Name of the scene.
    folder : Path

    Returns
    -------
    Scene
        Its ground truth is a `Homographies`.

    Raises
    ------
    NmfsyncError
        If an image or a homography is missing or invalid.
    """
    paths = _numbered_images(folder)
    files = [homography_file(folder, number) for number in range(2, len(paths) + 1)]
    maps = [np.eye(3), *map(_read_homography, files)]
    images = [look_at(path) for path in paths]
    sizes = np.array([image.size for image in images])
    return _scene(name, images, truth=Homographies(np.array(maps), sizes))


def homography_file(folder: Path, number: int) -> Path:
    """Return the file with the homography from image 1 to another image, counted from 1."""
    files = [folder / f"H1to{number}p", folder / f"H_1_{number}"]
    return next((file for file in files if file.is_file()), files[0])


def _numbered_images(folder: Path) -> tuple[Path, ...]:
    numbered: dict[int, Path] = {}
    for path in files_in(folder):
        match = _IMAGE_FILE.fullmatch(path.name)
        if match and match[2].lower() in IMAGE_SUFFIXES:
            other = numbered.setdefault(int(match[1]), path)
            if other != path:
                raise NmfsyncError(
                    f"{folder}: {other.name} and {path.name} have the same number; remove one"
                )
    if len(numbered) < 2:
        raise NmfsyncError(
            f"{folder}: at least two images are needed, for instance img1.ppm and img2.ppm"
        )
    for number in range(1, len(numbered) + 1):
        if number not in numbered:
            raise NmfsyncError(f"{folder}: image {number} of {max(numbered)} is missing")
    return tuple(numbered[number] for number in range(1, len(numbered) + 1))


def _read_homography(path: Path) -> FloatArray:
    """Read nine numbers, on any number of lines, and scale them to H[2, 2] = 1."""
    if not path.exists():
        raise NmfsyncError(f"{path}: no such file, but its image exists")
    with reading(path, "is no homography"), np.errstate(all="ignore"):
        H = _numbers(_read_text(path), str(path))
        if H.size != 9:
            raise NmfsyncError(f"a homography must have 9 numbers, got {H.size}")
        H = H.reshape(3, 3)
        H = H / H[2, 2] if H[2, 2] else H
        try:
            Homographies(H[None], np.ones((1, 2), dtype=np.int64))
        except NmfsyncError:
            raise NmfsyncError("the homography must be finite and invertible") from None
        return H


def read_epfl(name: str, folder: Path) -> Scene:
    """Read a scene in the EPFL layout (Strecha et al., CVPR 2008): NNNN.png, NNNN.png.camera.

    A camera file contains 26 numbers: K (9), radial distortion k1, k2, k3, the
    rotation from camera to world (9), the camera's centre (3), and the width
    and height of the image that was calibrated. If the image has another size,
    the intrinsics are scaled. The camera file may be named after another kind of
    image (0000.jpg with 0000.png.camera).

    Parameters
    ----------
    name : str
        Name of the scene.
    folder : Path

    Returns
    -------
    Scene
        With cameras, without truth and bounds.

    Raises
    ------
    NmfsyncError
        If images and cameras do not belong together, or a camera is faulty.
    """
    images = _by_stem(_images_with_cameras(folder))
    cameras = _by_stem([path for path in files_in(folder) if path.suffix == ".camera"])
    count = f"{folder}: {len(images)} images but {len(cameras)} camera files"
    for stem, path in images.items():
        if stem not in cameras:
            raise NmfsyncError(f"{count}; {path.name}.camera is missing")
    for stem, path in cameras.items():
        if stem not in images:
            raise NmfsyncError(f"{count}; the image of {path.name} is missing")
    files = [look_at(path) for path in _at_least_two(images.values(), folder)]
    found = tuple(_read_epfl_camera(cameras[file.path.stem], file) for file in files)
    return _scene(name, files, cameras=found)


def _read_epfl_camera(path: Path, image: ImageFile) -> Camera:
    with reading(path, "is no camera"), np.errstate(all="ignore"):
        numbers = _numbers(_read_text(path), str(path))
        if numbers.size != 26:
            raise NmfsyncError(
                "a camera must have 26 numbers (K, distortion, R, centre, width and height), "
                f"got {numbers.size}"
            )
        K, (k1, k2, k3), R, centre, size = np.split(numbers, [9, 12, 21, 24])
        if (size < 1).any():
            raise NmfsyncError(
                f"the image size at the end must be positive, got {size[0]:g} × {size[1]:g}"
            )
        if not (size <= _LARGEST_SIDE).all():
            raise NmfsyncError(f"the image size {size[0]:g} × {size[1]:g} is impossible")
        width, height = size.astype(int).tolist()
        R = R.reshape(3, 3).T
        camera = Camera(K.reshape(3, 3), R, -R @ centre, (width, height), (k1, k2, 0.0, 0.0, k3))
        _check_camera(camera, str(path))
    actual = image.size
    if abs(actual[0] * height / (actual[1] * width) - 1) > 0.01:
        raise NmfsyncError(
            f"{path}: is for an image of {width} × {height} pixels, but {image.path.name} has "
            f"{actual[0]} × {actual[1]}; a calibrated image must not be rotated or cropped"
        )
    return camera.scaled_to(actual)


def read_middlebury(name: str, folder: Path) -> Scene:
    """Read a scene in the Middlebury multi-view layout (Seitz et al., CVPR 2006).

    The first line of X_par.txt is the number of images. Every other line is an
    image's file name and 21 numbers: K (9), the rotation (9) and the translation
    (3) from world to camera. The bounding box comes from README.txt, if that
    file exists.

    Parameters
    ----------
    name : str
        Name of the scene.
    folder : Path

    Returns
    -------
    Scene
        With cameras, without truth; with bounds if README.txt gives them.
        Images are in the order of X_par.txt.

    Raises
    ------
    NmfsyncError
        If images and cameras do not belong together, or a camera is faulty.
    """
    files = [path for path in files_in(folder) if path.name.endswith("_par.txt")]
    if len(files) != 1:
        found = " and ".join(path.name for path in files) or "none"
        raise NmfsyncError(f"{folder}: one camera file <name>_par.txt is needed, found {found}")
    rows = _read_par_rows(files[0])
    images = {path.name: path for path in _images_with_cameras(folder)}
    count = f"{folder}: {len(images)} images but {len(rows)} cameras in {files[0].name}"
    for image in rows:
        if image not in images:
            near = near_names(image, images)
            raise NmfsyncError(f"{count}; the image {shown(image)} is missing{near}")
    for image in images:
        if image not in rows:
            raise NmfsyncError(f"{count}; {image} has no camera")
    paths = _at_least_two([images[image] for image in rows], folder)
    looked_at = [look_at(path) for path in paths]
    cameras = []
    for file, (numbers, place) in zip(looked_at, rows.values(), strict=True):
        K, R, t = np.split(numbers, [9, 18])
        cameras.append(Camera(K.reshape(3, 3), R.reshape(3, 3), t, file.size))
        _check_camera(cameras[-1], place)
    bounds = _read_bounds(folder / "README.txt")
    return _scene(name, looked_at, cameras=tuple(cameras), bounds=bounds)


def _read_par_rows(path: Path) -> dict[str, tuple[FloatArray, str]]:
    """Read the 21 numbers of every image, and the file and line that they are in."""
    lines = [
        (words, f"{path}, line {number}")
        for number, line in enumerate(_read_text(path).splitlines(), start=1)
        if (words := line.split())
    ]
    if not lines or not re.fullmatch("[0-9]{1,9}", " ".join(lines[0][0])):
        raise NmfsyncError(f"{path}: the first line must be the number of images")
    rows: dict[str, tuple[FloatArray, str]] = {}
    for (image, *words), place in lines[1:]:
        numbers = _numbers(" ".join(words), place)
        if numbers.size != 21:
            raise NmfsyncError(
                f"{place}: a camera must have a file name and 21 numbers (K, R, t), "
                f"got {numbers.size} numbers"
            )
        if image in rows:
            raise NmfsyncError(f"{place}: {shown(image)} is listed twice")
        rows[image] = numbers, place
    if len(rows) != int(lines[0][0][0]):
        raise NmfsyncError(
            f"{path}: the first line says {lines[0][0][0]} cameras, but {len(rows)} follow"
        )
    return rows


_BOUNDS = re.compile(r"bounding box[^()]*\(([^()]*)\)\s*\(([^()]*)\)")


def _read_bounds(path: Path) -> FloatArray | None:
    """Read two opposite corners from the README, as (2, 3) minimum and maximum."""
    match = _BOUNDS.search(_read_text(path)) if path.exists() else None
    if match is None:
        return None
    corners = [_numbers(text, f"{path}, bounding box") for text in match.groups()]
    if any(corner.size != 3 or not np.isfinite(corner).all() for corner in corners):
        raise NmfsyncError(f"{path}: each corner of the bounding box must have 3 finite numbers")
    return np.sort(np.array(corners), axis=0)


def _check_camera(camera: Camera, place: str) -> None:
    K, R = camera.K, camera.R
    if not all(np.isfinite(part).all() for part in (K, R, camera.t, camera.distortion)):
        raise NmfsyncError(f"{place}: contains a number that is not finite")
    if K[0, 0] <= 0 or K[1, 1] <= 0:
        raise NmfsyncError(
            f"{place}: the focal lengths in K must be positive, got {K[0, 0]:g} and {K[1, 1]:g}"
        )
    if K[1, 0] or K[2].tolist() != [0, 0, 1]:
        raise NmfsyncError(f"{place}: K must be upper triangular with last row 0 0 1")
    with np.errstate(all="ignore"):
        deviation = np.abs(R @ R.T - np.eye(3)).max()
    if not deviation <= ROTATION_TOLERANCE:
        raise NmfsyncError(
            f"{place}: R is not a rotation (R Rᵀ differs from the identity by {deviation:.2g})"
        )
    if np.linalg.det(R) < 0:
        raise NmfsyncError(f"{place}: R is not a rotation but a reflection (determinant −1)")


def _images_with_cameras(folder: Path) -> list[Path]:
    """Return the images of a folder, without depth maps that are stored as images."""
    return [
        path
        for path in files_in(folder)
        if path.suffix.lower() in IMAGE_SUFFIXES and ".depth." not in path.name
    ]


def _by_stem(paths: Sequence[Path]) -> dict[str, Path]:
    """Map names without .camera and without the suffix of the image to files."""
    found: dict[str, Path] = {}
    for path in paths:
        image = Path(path.name.removesuffix(".camera"))
        stem = image.stem if image.suffix.lower() in IMAGE_SUFFIXES else image.name
        other = found.setdefault(stem, path)
        if other != path:
            raise NmfsyncError(
                f"{path.parent}: {other.name} and {path.name} belong to one camera; remove one"
            )
    return found


def _at_least_two(images: Collection[Path], folder: Path) -> tuple[Path, ...]:
    if len(images) < 2:
        raise NmfsyncError(f"{folder}: at least two images with cameras are needed")
    return tuple(images)


def _read_text(path: Path) -> str:
    """Read a text file whose comments may be in another encoding than UTF-8."""
    return read_text(path, errors="replace")


def _numbers(text: str, place: str) -> FloatArray:
    """Parse numbers separated by blanks or commas; # starts a comment."""
    words = re.sub(r"#.*", "", text).replace(",", " ").split()
    for word in words:
        if not _NUMBER.fullmatch(word):
            raise NmfsyncError(
                f"{place}: contains something that is not a number ('{shown(word)}')"
            )
    return np.array([float(word) for word in words])


# The format of a data set, and the function that reads a scene from its name and folder.
READERS: dict[str, Callable[[str, Path], Scene]] = {
    "homographies": read_homographies,
    "epfl": read_epfl,
    "middlebury": read_middlebury,
}

# A pattern of file names, and the reader of the folders that contain such a file.
_READER_OF_FILE: dict[str, Callable[[str, Path], Scene]] = {
    r"H1to[0-9]+p|H_1_[0-9]+": read_homographies,
    r".+\.camera": read_epfl,
    r".+_par\.txt": read_middlebury,
}
