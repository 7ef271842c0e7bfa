"""New COLMAP databases: images, cameras, features and matches that did not come from one."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError, shown
from nmfsync.exchange.colmap import change_database, checkpoint
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import check_space, check_target, put, staging, writing
from nmfsync.types.arrays import Float32Array
from nmfsync.types.camera import Camera
from nmfsync.types.matches import Matches, StoredKeypoints


@dataclass(frozen=True)
class CameraPrior:
    """A camera whose focal length is known, in COLMAP's words.

    Attributes
    ----------
    model : str
        One of COLMAP's models, for instance "PINHOLE".
    parameters : tuple of float
        As COLMAP orders them, in pixels; the centre of the top-left pixel is (0.5, 0.5).
    """

    model: str
    parameters: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class NewImage:
    """An image for a new database or new files of hloc.

    Attributes
    ----------
    name : str
        Its path below the folder of the photographs, with slashes.
    size : tuple of int
        Width and height in pixels, as stored: EXIF orientation is ignored.
    camera : CameraPrior or None
        None if it is not known: then COLMAP guesses it, from the photograph if there is one.
    keypoints : StoredKeypoints
    descriptors : (n, 128) uint8 array or None
        RootSIFT, which COLMAP stores, see `Features.rooted`.
    photograph : Path or None
        The file, whose EXIF data tell its focal length.
    """

    name: str
    size: tuple[int, int]
    camera: CameraPrior | None
    keypoints: StoredKeypoints
    descriptors: NDArray[np.uint8] | None = None
    photograph: Path | None = None


def write_new_database(
    path: Path | str,
    images: Sequence[NewImage],
    matches: Matches,
    verified: bool = True,
    overwrite: bool = False,
) -> None:
    """Write a COLMAP database that COLMAP's mappers read at once.

    Cameras that are not known are those that COLMAP would take: SIMPLE_RADIAL, with the focal
    length of the EXIF data, or else 1.2 times the longer side; photographs of one camera model,
    focal length and size share one. Needs `pip install 'nmfsync[colmap]'`.

    Parameters
    ----------
    path : Path or str
        Its folder is made if it does not exist.
    images : sequence of NewImage
        In the order of the matches; image i gets the id i + 1.
    matches : PairwiseMatches or MultiMatching
    verified : bool
        The matches are right as they are: every pair of images gets a two-view geometry with all
        of them and with the relative pose that COLMAP estimates from them, with a fixed seed.
        Otherwise COLMAP verifies them, with a fixed seed.
    overwrite : bool
        Replace `path` if it exists.

    Raises
    ------
    NmfsyncError
        If images and matches do not belong together, or `path` cannot be written.
    """
    path = Path(path)
    check_target(path, [image.photograph for image in images if image.photograph], overwrite)
    check_images(images, matches)
    optional("pycolmap", "colmap")
    blocks = list(matches.by_image_pair())
    with staging(path) as folder, writing(path):
        database = folder / "database.db"
        values = sum(len(image.keypoints.xy) * (24 + 128) for image in images)
        check_space(folder, 2 * values + 64 * matches.match_count)
        ids = range(1, len(images) + 1)
        change_database(database, ids, blocks, not verified, _arrays(images))
        checkpoint(database)
        put(database, path)


def check_images(images: Sequence[NewImage], matches: Matches) -> None:
    """Raise NmfsyncError if images have no names of their own, or are not those of the matches."""
    for name, count in Counter(image.name for image in images).items():
        if count > 1:
            raise NmfsyncError(f"{count} images have the name {shown(name)}")
    sizes = [len(image.keypoints.xy) for image in images]
    if sizes != matches.sizes.tolist():
        raise NmfsyncError("the images have other features than the matches")


def pinhole(camera: Camera) -> CameraPrior:
    """Say a calibrated camera in COLMAP's words: PINHOLE, or OPENCV for a lens with distortion."""
    K = camera.K
    parameters = (K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5)
    distortion = camera.distortion[:4]
    lens = any(distortion)
    return CameraPrior(
        "OPENCV" if lens else "PINHOLE", tuple(map(float, parameters + distortion * lens))
    )


def _arrays(images: Sequence[NewImage]) -> dict[str, Any]:
    """Return what the process that writes the database needs to know of the images."""
    said = [
        {
            "name": image.name,
            "size": image.size,
            "camera": image.camera and [image.camera.model, image.camera.parameters],
            "photograph": image.photograph and str(image.photograph.absolute()),
            "described": image.descriptors is not None,
        }
        for image in images
    ]
    described = [image.descriptors for image in images if image.descriptors is not None]
    return {
        "images": np.array(json.dumps(said)),
        "sizes": np.array([len(image.keypoints.xy) for image in images], np.int64),
        "keypoints": np.concatenate([_keypoints(image.keypoints) for image in images]),
        "descriptors": np.concatenate([np.empty((0, 128), np.uint8), *described]),
    }


def _keypoints(keypoints: StoredKeypoints) -> Float32Array:
    """Return (n, 4): x and y as COLMAP counts, SIFT's σ and radians; 1 and 0 if not known."""
    sigma = np.where(keypoints.scale > 0, keypoints.scale / 2, 1)
    radians = np.nan_to_num(np.deg2rad(keypoints.orientation))
    columns = [keypoints.xy + np.float32(0.5), sigma[:, None], radians[:, None]]
    return np.hstack(columns).astype(np.float32)
