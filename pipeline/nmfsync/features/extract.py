"""SIFT features of images (Lowe 2004), detected with OpenCV."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.errors import NmfsyncWarning
from nmfsync.features.sift import CONTRAST, MAX_PIXELS, Image, extract_with_faults, name_of
from nmfsync.runtime.cache import digest, load, made_by, save
from nmfsync.runtime.engine import stream
from nmfsync.runtime.files import sha256_of
from nmfsync.runtime.progress import bar
from nmfsync.scenes.images import image_size
from nmfsync.types.features import Features, pack_features, unpack_features


def extract_all(
    images: Sequence[Image],
    limit: int = 200,
    siblings: bool = False,
    contrast: float = CONTRAST,
    max_pixels: int = MAX_PIXELS,
    progress: bool = True,
    *,
    cache: Path | None = None,
) -> list[Features]:
    """`extract` for many images, a few at a time, on the engine (see `engine.engine`).

    Parameters
    ----------
    images : sequence of paths or arrays
    limit, siblings, contrast, max_pixels
        As in `extract`.
    progress : bool
        Show a progress bar if stderr is a terminal.
    cache : Path, optional
        Folder that keeps the features of every image. Only what is not there is computed.

    Returns
    -------
    list of Features
        One for every image, in their order.

    Warns
    -----
    NmfsyncWarning
        Once for all images without features, once for all reduced images.

    Raises
    ------
    NmfsyncError
        If an image cannot be read. Headers are looked at before any work starts.
    """
    for image in images:
        if not isinstance(image, np.ndarray):
            image_size(image)
    options = (limit, siblings, contrast, max_pixels)
    files = _files(images, options, cache)
    found = {n: stored for n, file in enumerate(files) if (stored := _stored(file))}
    missing = [n for n in range(len(images)) if n not in found]
    results = stream(_extract_task, (((images[n], *options),) for n in missing))
    known = len(images) - len(missing)
    with bar(len(images), "Features", "image", progress, known) as shown:
        for n, result in zip(missing, results, strict=True):
            found[n] = result
            _store(files[n], *result)
            shown.update()
    names: dict[str, list[str]] = {}
    for n, image in enumerate(images):
        for fault in found[n][1]:
            names.setdefault(fault, []).append(name_of(image))
    for fault, where in names.items():
        more = f" and {len(where) - 3} more" if len(where) > 3 else ""
        warnings.warn(f"{', '.join(where[:3])}{more}: {fault}", NmfsyncWarning, stacklevel=2)
    return [found[n][0] for n in range(len(images))]


def _files(images: Sequence[Image], options: tuple, cache: Path | None) -> list[Path | None]:
    """Where the cache keeps the features of every image."""
    if cache is None:
        return [None] * len(images)
    code = made_by()
    contents = (i if isinstance(i, np.ndarray) else sha256_of(Path(i)) for i in images)
    return [cache / f"{digest(code, options, content).hex()}.npz" for content in contents]


def _stored(file: Path | None) -> tuple[Features, list[str]] | None:
    arrays = load(file) if file else None
    if arrays is None:
        return None
    return unpack_features(arrays)[0], arrays["faults"].tolist()


def _store(file: Path | None, features: Features, faults: list[str]) -> None:
    if file:
        save(file, {"faults": np.array(faults, dtype=str), **pack_features([features])})


def _extract_task(arguments: tuple[Any, ...]) -> tuple[Features, list[str]]:
    return extract_with_faults(*arguments)
