"""SIFT features of many images, on the engine, kept in a cache."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features.options import CONTRAST, MAX_PIXELS, check_options
from nmfsync.features.sift import Image, extract_with_faults, name_of
from nmfsync.features.stored import StoredFeatures, pack, unpack
from nmfsync.runtime.cache import code_of, key_of, load, save
from nmfsync.runtime.clusters import require_files
from nmfsync.runtime.tasks import cached_tasks
from nmfsync.scenes.images import look_at
from nmfsync.types.features import Features

_Found = tuple[Features, list[str]]  # with what degraded them


def extract_all(
    images: Sequence[Image],
    features: int = 200,
    orientations: bool = False,
    contrast: float = CONTRAST,
    max_pixels: int = MAX_PIXELS,
    progress: bool = True,
    *,
    cache: Path | None = None,
    digests: Sequence[str | None] | None = None,
) -> list[Features]:
    """`extract` for many images, a few at a time, on the engine (see `runtime.engine`).

    Parameters
    ----------
    images : sequence of paths or arrays
    features, orientations, contrast, max_pixels
        As in `extract`.
    progress : bool
        Show a progress bar if stderr is a terminal.
    cache : Path, optional
        Folder that keeps the features of every image. Only what is not there is computed.
    digests : sequence of str, optional
        SHA-256 of every image file when it was looked at, as in `Scene.digests`. By
        default all files are looked at before any work starts.

    Returns
    -------
    list of Features
        One for every image, in their order.

    Warns
    -----
    NmfsyncWarning
        Once for everything that degrades images, see `extract`, with their names.

    Raises
    ------
    NmfsyncError
        If an image cannot be read, or has changed since it was looked at. An image that
        is damaged after its header is an error after all others are done.
    """
    found = extract_readable(
        images, features, orientations, contrast, max_pixels, progress, cache=cache, digests=digests
    )
    return [_raised(f) for f in found]


def _raised(found: Features | NmfsyncError) -> Features:
    if isinstance(found, NmfsyncError):
        raise found
    return found


def extract_readable(
    images: Sequence[Image],
    features: int = 200,
    orientations: bool = False,
    contrast: float = CONTRAST,
    max_pixels: int = MAX_PIXELS,
    progress: bool = True,
    *,
    cache: Path | None = None,
    digests: Sequence[str | None] | None = None,
) -> list[Features | NmfsyncError]:
    """`extract_all`, but with an error in place of the features of an image that is damaged."""
    options = (features, orientations, contrast, max_pixels)
    check_options(*options)
    digests = digests or [
        None if isinstance(image, np.ndarray) else look_at(image).sha256 for image in images
    ]
    store = None
    if cache:
        keys = [
            key_of(code_of("features", "scenes"), options, image if sha256 is None else sha256)
            for image, sha256 in zip(images, digests, strict=True)
        ]
        store = _Store(cache.absolute(), keys)  # workers may run in another folder
        cache.mkdir(parents=True, exist_ok=True)
    paths = [image for image in images if not isinstance(image, np.ndarray)]
    require_files([*paths, cache] if cache else paths)
    here = Path.cwd()
    found: dict[int, _Found | NmfsyncError] = {}
    for numbers, results in cached_tasks(
        _extract_task,
        len(images),
        lambda missing: np.split(missing, range(1, len(missing))) if len(missing) else [],
        lambda batch: (
            store and store.place(batch[0]),
            here,
            (images[batch[0]], *options, digests[batch[0]]),
        ),
        store,
        "Features",
        "image",
        progress,
    ):
        found.update(zip(numbers.tolist(), results, strict=True))
    read = [result for _, result in sorted(found.items())]
    _warn(
        [
            (name_of(image), result[1])
            for image, result in zip(images, read, strict=True)
            if not isinstance(result, NmfsyncError)
        ]
    )
    return [result if isinstance(result, NmfsyncError) else result[0] for result in read]


class _Store:
    """Entries that whoever extracts writes: only where they are comes back.

    An error is no entry, so that the next run tries again.
    """

    def __init__(self, folder: Path, keys: Sequence[str]) -> None:
        self._folder, self._keys = folder, keys

    def place(self, n: int) -> tuple[Path, str]:
        """Return the entry of image n, and its key."""
        return self._folder / f"{self._keys[n]}.npz", self._keys[n]

    def known(self) -> Iterator[tuple[NDArray[np.int64], list[_Found]]]:
        """Yield numbers of images that have an entry, and what it holds."""
        for n in range(len(self._keys)):
            if (stored := load(*self.place(n), unpack)) is not None:
                yield np.array([n]), [_stored(self.place(n), stored)]

    def add(self, n: int, result: Any) -> None:
        """Check that what was written elsewhere is here."""
        path, _ = self.place(n)
        if not isinstance(result, NmfsyncError) and not path.exists():
            raise NmfsyncError(
                f"{path.parent}: the workers of the cluster write to another folder of this path; "
                "choose one that all of them share"
            )

    def flush(self) -> None:
        """Do nothing: every image is written at once."""


def _stored(place: tuple[Path, str], found: _Found) -> _Found:
    features, faults = found
    return StoredFeatures(*place, features), faults


def _extract_task(
    task: tuple[tuple[Path, str] | None, Path, tuple[Any, ...]],
) -> list[_Found | NmfsyncError]:
    """Extract from an image, whose path is relative to a folder: another one may be open here."""
    place, folder, (image, *options) = task
    path = image if isinstance(image, np.ndarray) else folder / image
    try:
        found = extract_with_faults(path, *options)
    except NmfsyncError as error:
        return [type(error)(str(error).replace(name_of(path), name_of(image), 1))]
    if place is None:
        return [found]
    save(*place, pack(found))
    return [_stored(place, found)]


def _warn(faults: Sequence[tuple[str, list[str]]]) -> None:
    """Warn once of each fault, with the names of up to three images that have it."""
    names: dict[str, list[str]] = {}
    for name, own in faults:
        for fault in own:
            names.setdefault(fault, []).append(name)
    for fault, where in names.items():
        more = f" and {len(where) - 3} more" if len(where) > 3 else ""
        warnings.warn(f"{', '.join(where[:3])}{more}: {fault}", NmfsyncWarning, stacklevel=3)
