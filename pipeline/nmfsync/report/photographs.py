"""The photographs of a page: small JPEG files that together stay below a limit."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import ChangedError, NmfsyncError
from nmfsync.report.sampling import spread
from nmfsync.runtime.threads import map_blocks

MOST_BYTES = 9_000_000  # of all photographs of a page; base64 needs a third more

# Of one photograph, so that pages with few images are small, too.
_MOST_BYTES_EACH = 200_000

_LONGEST, _SHORTEST = 1200, 320  # pixels of the longer side

_QUALITY, _LOWER_QUALITIES = 80, (65, 50, 35)

# Smaller photographs would not show anything.
_MOST_PHOTOGRAPHS = 1500

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ViewerImage:
    """An image as the viewer shows it.

    Attributes
    ----------
    name, label : str
        The file's name, and a short form of it.
    size : tuple of int
        Width and height, in pixels.
    read : callable or None
        Returns the photograph, an (h, w) grey or (h, w, 3) BGR array, with the pixels that the
        positions of the features refer to. None where there is no photograph.
    """

    name: str
    label: str
    size: tuple[int, int]
    read: Callable[[], Pixels] | None = None


def photographs(images: Sequence[ViewerImage], most: int = MOST_BYTES) -> list[str]:
    """Encode the photographs of a page as JPEG, the smaller the more there are.

    Parameters
    ----------
    images : sequence of ViewerImage
    most : int
        The bytes that all files together may have.

    Returns
    -------
    list of str
        A data URL for every image; "" where there is no photograph or it cannot be read.
    """
    with_file = [i for i, image in enumerate(images) if image.read is not None]
    if len(with_file) > _MOST_PHOTOGRAPHS:
        with_file = [with_file[n] for n in spread(len(with_file), _MOST_PHOTOGRAPHS)]
    each = min(_MOST_BYTES_EACH, most // max(len(with_file), 1))
    sources = [""] * len(images)

    def encode(place: slice) -> None:
        i = with_file[place.start]
        sources[i] = _source(images[i], each)

    map_blocks(encode, len(with_file), 1)
    return sources


def _source(image: ViewerImage, most: int) -> str:
    assert image.read is not None
    try:
        data = _jpeg_within(image.read(), most)
    except ChangedError:  # the features are those of another photograph
        raise
    except (NmfsyncError, OSError):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


def _jpeg_within(pixels: Pixels, most: int) -> bytes:
    """Encode a photograph in so many bytes, if its longer side need not be too small for it."""
    side = min(max(pixels.shape[:2]), _LONGEST)
    data = _jpeg(pixels, side, _QUALITY)
    while len(data) > most and side > _SHORTEST:
        # The bytes are about proportional to the area.
        side = max(_SHORTEST, int(0.97 * side * (most / len(data)) ** 0.5))
        data = _jpeg(pixels, side, _QUALITY)
    for quality in _LOWER_QUALITIES:
        if len(data) > most:
            data = _jpeg(pixels, side, quality)
    return data


def _jpeg(pixels: Pixels, side: int, quality: int) -> bytes:
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    if scale < 1:
        size = max(1, round(scale * width)), max(1, round(scale * height))
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    _, data = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return bytes(data)
