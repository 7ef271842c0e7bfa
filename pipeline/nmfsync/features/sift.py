"""SIFT features of one image (Lowe 2004), detected with OpenCV."""

import warnings
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features.options import CONTRAST, MAX_PIXELS, check_options
from nmfsync.scenes.images import read_gray_with_faults
from nmfsync.types.features import Features

Image = NDArray[np.uint8] | Path | str

# OpenCV doubles the image, which moves pixel x to 2x + 1/2, but halves positions as
# if x were at 2x (opencv/opencv#23123). So all positions are 1/4 pixel too large.
_OPENCV_SHIFT = 0.25

_NO_FEATURES = (
    "no features found, so this image will have no matches; leave it out, or lower --contrast"
)

_FLAT = (
    "no features found (all its pixels are equal), so this image will have no matches; leave it out"
)

_REDUCED = (
    "more than {:g} million pixels, so SIFT saw the image reduced; positions are those of the full "
    "image, and nothing needs to be done unless fine detail matters"
)


def extract(
    image: Image,
    features: int = 200,
    orientations: bool = False,
    contrast: float = CONTRAST,
    max_pixels: int = MAX_PIXELS,
) -> Features:
    """Detect and describe the SIFT features of one image.

    Features are ranked by response, ties by y, x and scale; the first
    `features` are kept. SIFT describes a position once for every dominant
    orientation. These features have equal responses, and two of them in one image
    would compete for one match, so by default only one of them is kept: the one
    after the largest gap between the orientations. This choice rotates with the image.

    Positions are OpenCV's minus its constant shift of 1/4 pixel. OpenCV's own
    remedy, `enable_precise_upscale`, would find different features.

    Parameters
    ----------
    image : path, (h, w) uint8 array of grey or (h, w, 3) uint8 array of RGB
    features : int
        At most this many features; fewer where SIFT finds fewer.
    orientations : bool
        Keep all orientations of a position, each as a feature of its own, also in
        the ratio test of `match`.
    contrast : float
        SIFT's contrast threshold: a lower one finds more, weaker features.
    max_pixels : int
        A larger image is reduced before the detection. Positions and scales
        are in pixels of the full image all the same.

    Returns
    -------
    Features

    Warns
    -----
    NmfsyncWarning
        If there are no features, if the image was reduced, or if values of the file
        are missing, clipped or cut off (see `read_image`).

    Raises
    ------
    NmfsyncError
        If the image cannot be read.
    """
    check_options(features, orientations, contrast, max_pixels)
    found, faults = extract_with_faults(image, features, orientations, contrast, max_pixels)
    for fault in faults:
        warnings.warn(f"{name_of(image)}: {fault}", NmfsyncWarning, stacklevel=2)
    return found


def name_of(image: Image) -> str:
    """Return the name of an image in messages."""
    return "image" if isinstance(image, np.ndarray) else str(image)


def extract_with_faults(
    image: Image,
    limit: int,
    orientations: bool,
    contrast: float,
    max_pixels: int,
    sha256: str | None = None,
) -> tuple[Features, list[str]]:
    """Extract at most `limit` features as `extract` does, but return the texts of warnings.

    With `sha256`, a file that is another one is an error, see `read_gray`.
    """
    full, faults = _gray(image, sha256)
    height, width = full.shape
    pixels = _reduce(full, max_pixels)
    if pixels is not full:
        faults.append(_REDUCED.format(max_pixels / 1e6))
    table, descriptors = _detect(pixels, contrast, name_of(image))
    ranked, positions = _rank(table, orientations)
    kept = ranked[:limit]
    if not len(kept):
        faults.append(_FLAT if full.min() == full.max() else _NO_FEATURES)
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


def _gray(image: Image, sha256: str | None) -> tuple[NDArray[np.uint8], list[str]]:
    """Read or convert an image: (h, w) grey levels, and what degraded them."""
    if not isinstance(image, np.ndarray):
        pixels, faults = read_gray_with_faults(image, sha256)
        return pixels, list(faults)
    if image.dtype != np.uint8 or not (image.ndim == 2 or image.shape[2:] == (3,)):
        raise NmfsyncError(
            f"image: must be a (h, w) or (h, w, 3) uint8 array, got {image.shape} {image.dtype}"
        )
    if 0 in image.shape:
        raise NmfsyncError("image: has no pixels")
    image = np.ascontiguousarray(image)  # OpenCV rejects negative strides
    if image.ndim == 2:
        return image, []
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), dtype=np.uint8), []


def _reduce(pixels: NDArray[np.uint8], max_pixels: int) -> NDArray[np.uint8]:
    """Shrink an image that is too large, by averaging; return any other one unchanged."""
    factor = np.sqrt(max_pixels / pixels.size)
    if factor >= 1:
        return pixels
    height, width = (max(1, int(side * factor)) for side in pixels.shape)
    reduced = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(reduced, dtype=np.uint8)


def _detect(
    pixels: NDArray[np.uint8], contrast: float, name: str
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Detect all keypoints: rows (x, y, scale, orientation, response); and their descriptors."""
    try:
        # Not with nfeatures: OpenCV's own limit keeps ties and counts every orientation.
        keypoints, descriptors = cv2.SIFT.create(contrastThreshold=contrast).detectAndCompute(
            pixels, None
        )
    except cv2.error as error:
        reason = " ".join(str(error).split())
        raise NmfsyncError(f"{name}: SIFT failed ({reason}); reduce the image") from None
    rows = [(*point.pt, point.size, point.angle, point.response) for point in keypoints]
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    table[:, :2] -= _OPENCV_SHIFT
    if descriptors is None:
        return table, np.empty((0, 128), np.uint8)
    return table, descriptors.astype(np.uint8)


def _rank(table: NDArray[np.float64], orientations: bool) -> tuple[NDArray[np.intp], int]:
    """Rank the rows of `_detect`, and count the different positions.

    Only one row of every position is returned, unless `orientations` keeps all.
    """
    x, y, scale, angle, response = table.T
    _, position = np.unique(table[:, :2], axis=0, return_inverse=True)
    gap = _gap_before(position, angle)
    ranked = np.lexsort((angle, -gap, scale, x, y, -response))
    _, first = np.unique(position[ranked], return_index=True)
    return (ranked if orientations else ranked[np.sort(first)]), len(first)


def _gap_before(position: NDArray[np.intp], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the degrees (n,) from the previous orientation at the same position.

    Before the first orientation of a position comes its last, a turn earlier.
    """
    order = np.lexsort((angle, position))
    starts = np.flatnonzero(np.diff(position[order], prepend=-1))
    ends = np.append(starts, len(order))[1:] - 1
    previous = np.roll(angle[order], 1)
    previous[starts] = angle[order[ends]] - 360
    gap = np.empty(len(angle))
    gap[order] = angle[order] - previous
    return gap
