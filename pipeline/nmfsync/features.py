"""SIFT features of images (Lowe 2004), detected with OpenCV."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from nmfsync.cache import digest, load, save
from nmfsync.engine import stream
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.files import sha256_of
from nmfsync.images import image_size, read_gray
from nmfsync.progress import bar
from nmfsync.stages import made_by

FloatArray = NDArray[np.float32]
Image = NDArray[np.uint8] | Path | str

# SIFT takes about 235 bytes a pixel (it doubles the image and holds its scale
# space in floating point): 1.9 GB at this many pixels.
MAX_PIXELS = 8_000_000

# OpenCV doubles the image so that pixel x comes to lie at 2x + 1/2, but halves
# positions as if it lay at 2x (opencv/opencv#23123): all are 1/4 pixel too large.
_OPENCV_SHIFT = 0.25

_ARRAYS = ("xy", "descriptors", "scale", "orientation")
CONTRAST = 0.04  # OpenCV's contrast threshold

_NO_FEATURES = "no features found, so this image will have no matches"
_REDUCED = "more than {:g} million pixels, so SIFT saw the image reduced"


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one image, strongest first.

    Attributes
    ----------
    xy : (n, 2) float32 array
        Pixels, x to the right and y down; the centre of the top-left pixel is (0, 0).
    descriptors : (n, 128) uint8 array
        SIFT histograms, which are whole numbers from 0 to 255.
    scale : (n,) float32 array
        Diameter of the blob in pixels, twice SIFT's σ (OpenCV's `KeyPoint.size`).
    orientation : (n,) float32 array
        Degrees from 0 to 360, clockwise as the image is seen.
    image_size : tuple of int
        Width and height of the image in pixels.
    keypoints : int
        What SIFT found before any choice was made: a position counts once for
        each of its dominant orientations.
    positions : int
        Different positions among these.

    Raises
    ------
    NmfsyncError
        If the shapes or types are not these. No features: (0, 2) and (0, 128).
    """

    xy: FloatArray
    descriptors: NDArray[np.uint8]
    scale: FloatArray
    orientation: FloatArray
    image_size: tuple[int, int]
    keypoints: int
    positions: int

    def __post_init__(self) -> None:
        _check_arrays(self)

    def __len__(self) -> int:
        return len(self.xy)


def _check_arrays(features: Features) -> None:
    n = len(features.xy)
    contract = [(np.float32, (n, 2)), (np.uint8, (n, 128)), (np.float32, (n,)), (np.float32, (n,))]
    for name, (dtype, shape) in zip(_ARRAYS, contract, strict=True):
        array = getattr(features, name)
        if array.dtype != dtype or array.shape != shape:
            raise NmfsyncError(
                f"features: {name} must be {shape} {np.dtype(dtype)}, "
                f"not {array.shape} {array.dtype}"
            )
        if not np.isfinite(array).all():
            raise NmfsyncError(f"features: {name} holds NaN or infinite values")


def extract(
    image: Image,
    limit: int = 200,
    siblings: bool = False,
    contrast: float = CONTRAST,
    max_pixels: int = MAX_PIXELS,
) -> Features:
    """Detect and describe the SIFT features of one image.

    Features are ranked by response, ties by y, x and scale; the first `limit`
    stay. SIFT describes a position once for every dominant orientation. These
    siblings have equal responses, and two of them in one image would compete
    for one match, so by default one stays: the one that follows the largest
    gap between orientations, a choice that turns with the image.

    Positions are OpenCV's less its constant shift of 1/4 pixel, which keeps
    OpenCV's usual features; its other remedy, `enable_precise_upscale`, finds
    different ones.

    Parameters
    ----------
    image : path, (h, w) uint8 array of grey or (h, w, 3) uint8 array of RGB
    limit : int
        At most this many features; fewer where SIFT finds fewer.
    siblings : bool
        Keep all orientations of a position, each as a feature of its own.
    contrast : float
        SIFT's contrast threshold: a lower one finds more, weaker features.
    max_pixels : int
        A larger image is reduced by averaging before SIFT sees it. Positions
        and scales are those of the full image all the same.

    Returns
    -------
    Features

    Warns
    -----
    NmfsyncWarning
        If there are no features, or if the image was reduced.

    Raises
    ------
    NmfsyncError
        If the image cannot be read.
    """
    features, faults = _extract(image, limit, siblings, contrast, max_pixels)
    for fault in faults:
        warnings.warn(f"{_name(image)}: {fault}", NmfsyncWarning, stacklevel=2)
    return features


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
            names.setdefault(fault, []).append(_name(image))
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
    return _extract(*arguments)


def _name(image: Image) -> str:
    return "image" if isinstance(image, np.ndarray) else str(image)


def _extract(
    image: Image, limit: int, siblings: bool, contrast: float, max_pixels: int
) -> tuple[Features, list[str]]:
    """Extract the features, and say what degraded them."""
    if not 0 <= contrast < 1:
        raise NmfsyncError(f"the contrast threshold must lie between 0 and 1, not {contrast}")
    if limit < 1 or max_pixels < 1:
        raise NmfsyncError("the limits on features and on pixels must be at least 1")
    full = _gray(image)
    height, width = full.shape
    pixels = _reduce(full, max_pixels)
    faults = [] if pixels is full else [_REDUCED.format(max_pixels / 1e6)]
    table, descriptors = _detect(pixels, contrast, _name(image))
    kept, positions = _choose(table, siblings)
    kept = kept[:limit]
    if not len(kept):
        faults.append(_NO_FEATURES)
    factor = np.array([width / pixels.shape[1], height / pixels.shape[0]])
    features = Features(
        xy=((table[kept, :2] + 0.5) * factor - 0.5).astype(np.float32),
        descriptors=descriptors[kept],
        scale=(table[kept, 2] * np.sqrt(factor.prod())).astype(np.float32),
        orientation=table[kept, 3].astype(np.float32),
        image_size=(width, height),
        keypoints=len(table),
        positions=positions,
    )
    return features, faults


def _gray(image: Image) -> NDArray[np.uint8]:
    if not isinstance(image, np.ndarray):
        return read_gray(image)
    if image.dtype != np.uint8 or not (image.ndim == 2 or image.shape[2:] == (3,)):
        raise NmfsyncError(
            f"image: must be a (h, w) or (h, w, 3) uint8 array, not {image.shape} {image.dtype}"
        )
    if 0 in image.shape:
        raise NmfsyncError("image: has no pixels")
    image = np.ascontiguousarray(image)  # OpenCV refuses mirrored views
    if image.ndim == 2:
        return image
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), dtype=np.uint8)


def _reduce(pixels: NDArray[np.uint8], max_pixels: int) -> NDArray[np.uint8]:
    factor = np.sqrt(max_pixels / pixels.size)
    if factor >= 1:
        return pixels
    height, width = (max(1, int(side * factor)) for side in pixels.shape)
    reduced = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(reduced, dtype=np.uint8)


def _detect(
    pixels: NDArray[np.uint8], contrast: float, name: str
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """All of SIFT's keypoints: rows (x, y, scale, orientation, response); descriptors."""
    try:
        # Without nfeatures: OpenCV's own limit lets ties through and counts siblings.
        found, descriptors = cv2.SIFT.create(contrastThreshold=contrast).detectAndCompute(
            pixels, None
        )
    except cv2.error as error:
        reason = " ".join(str(error).split())
        raise NmfsyncError(f"{name}: SIFT failed ({reason}); reduce the image") from None
    rows = [(*point.pt, point.size, point.angle, point.response) for point in found]
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    table[:, :2] -= _OPENCV_SHIFT
    if descriptors is None:
        return table, np.empty((0, 128), np.uint8)
    return table, descriptors.astype(np.uint8)


def _choose(table: NDArray[np.float64], siblings: bool) -> tuple[NDArray[np.intp], int]:
    """Rank the rows, one for every position unless siblings stay; number of positions."""
    x, y, scale, angle, response = table.T
    _, position = np.unique(table[:, :2], axis=0, return_inverse=True)
    gap = _gap_before(position, angle)
    ranked = np.lexsort((angle, -gap, scale, x, y, -response))
    _, first = np.unique(position[ranked], return_index=True)
    return (ranked if siblings else ranked[np.sort(first)]), len(first)


def _gap_before(position: NDArray[np.intp], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Degrees from the previous orientation at the same position, all the way round."""
    order = np.lexsort((angle, position))
    starts = np.flatnonzero(np.diff(position[order], prepend=-1))
    ends = np.append(starts, len(order))[1:] - 1
    previous = np.roll(angle[order], 1)
    previous[starts] = angle[order[ends]] - 360
    gap = np.empty(len(angle))
    gap[order] = angle[order] - previous
    return gap


def pack_features(features: Sequence[Features]) -> dict[str, NDArray]:
    """Turn the features of at least one image into plain named arrays, without loss.

    Returns
    -------
    dict of str to array
        xy, descriptors, scale and orientation of all images, one after the
        other; counts (k, 5): width, height, keypoints, positions and features.
    """
    counts = [(*f.image_size, f.keypoints, f.positions, len(f)) for f in features]
    arrays = {name: np.concatenate([getattr(f, name) for f in features]) for name in _ARRAYS}
    return {"counts": np.array(counts, dtype=np.int64), **arrays}


def unpack_features(arrays: Mapping[str, NDArray]) -> list[Features]:
    """Inverse of `pack_features`."""
    counts = arrays["counts"].tolist()
    cuts = np.cumsum([row[-1] for row in counts])[:-1]
    parts = (np.split(arrays[name], cuts) for name in _ARRAYS)
    return [
        Features(xy, descriptors, scale, orientation, (width, height), keypoints, positions)
        for xy, descriptors, scale, orientation, (width, height, keypoints, positions, _) in zip(
            *parts, counts, strict=True
        )
    ]
