"""Photographs and the features of a file of matches, as a new database wants them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.exchange.new_database import CameraPrior, NewImage
from nmfsync.exchange.photographs import find_photographs, fit, misfit
from nmfsync.scenes.images import exif_orientation, look_at
from nmfsync.types.matches import StoredKeypoints


def new_images(
    names: Sequence[str],
    keypoints: Sequence[StoredKeypoints],
    folder: Path,
    cameras: Mapping[str, CameraPrior] | None = None,
) -> list[NewImage]:
    """Find the photograph of every image, and check that the features are in it.

    Parameters
    ----------
    names : sequence of str
        As the file of matches has them.
    keypoints : sequence of StoredKeypoints
        Of these images.
    folder : Path
        Of the photographs.
    cameras : dict of str to CameraPrior, optional
        What is known of cameras, by name of the image.

    Returns
    -------
    list of NewImage
        Their names are those that a mapper finds below the folder.

    Raises
    ------
    NmfsyncError
        If a photograph is missing, or features were found in one of another size or turn.
    """
    files, missing = find_photographs(folder, tuple(names))
    if missing:
        raise NmfsyncError(missing)
    images = []
    for n, (name, stored) in enumerate(zip(names, keypoints, strict=True)):
        file = files[n]
        size = _size_of(file, stored)
        images.append(
            NewImage(
                file.relative_to(folder).as_posix(),
                size,
                (cameras or {}).get(name),
                stored._replace(image_size=size),
                photograph=file,
            )
        )
    return images


def _size_of(path: Path, positions: StoredKeypoints) -> tuple[int, int]:
    """Return width and height of a photograph as stored, which COLMAP takes."""
    file = look_at(path)
    turn, _ = fit(file.size, exif_orientation(path, file.sha256), positions) or (0, None)
    if turn == 0:
        raise NmfsyncError(
            f"{path}: {misfit(file.size, positions)}: were the matches made on photographs of "
            "another size? Scale their positions to this one"
        )
    if turn != 1:
        raise NmfsyncError(
            f"{path}: the positions are those of the photograph turned as its EXIF data ask, and "
            "COLMAP does not turn it; store the photograph upright and match again"
        )
    return file.size
