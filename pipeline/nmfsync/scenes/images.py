"""Reading image files.

Pixels come back as they are stored. In particular the EXIF orientation is
ignored everywhere, so that positions, image sizes and camera calibrations all
speak of the same, stored, pixels (COLMAP does likewise).
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from nmfsync.errors import NmfsyncError

IMAGE_SUFFIXES: frozenset[str] = frozenset(
    {".bmp", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)

# Pillow warns about large images; a large photograph is no attack. Its hard
# limit, at twice the size it warns about, stays: it raises an error.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

# Where Pillow warns of a damaged file, an error of ours says so.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def read_image(path: Path | str) -> NDArray[np.uint8]:
    """Read an image file in colour.

    Values of more than 8 bits (16 bits, 32 bits, floating point) are mapped
    linearly so that the smallest value in the image becomes 0 and the largest
    255: whatever part of the range a camera uses, all of it is kept. NaN and
    infinite values become 0. Grey is repeated in all three channels, CMYK and
    palettes are converted, 1 bit becomes 0 and 255, and alpha is dropped: the
    colours are those stored, as if every pixel were opaque.

    Parameters
    ----------
    path : Path or str
        Any file of a kind in `IMAGE_SUFFIXES`; what is inside decides, not the name.

    Returns
    -------
    (h, w, 3) uint8 array
        RGB, as stored: EXIF orientation is ignored.

    Raises
    ------
    NmfsyncError
        If the file is missing, is not an image, is cut off or too large.
    """
    pixels = _decode(Path(path))
    code = cv2.COLOR_GRAY2RGB if pixels.ndim == 2 else cv2.COLOR_BGR2RGB
    return _colour(pixels, code)


def read_gray(path: Path | str) -> NDArray[np.uint8]:
    """Read an image file in grey: 0.299 R + 0.587 G + 0.114 B of `read_image`.

    Parameters
    ----------
    path : Path or str

    Returns
    -------
    (h, w) uint8 array

    Raises
    ------
    NmfsyncError
        As `read_image`.
    """
    pixels = _decode(Path(path))
    return pixels if pixels.ndim == 2 else _colour(pixels, cv2.COLOR_BGR2GRAY)


def image_size(path: Path | str) -> tuple[int, int]:
    """Width and height of an image file in pixels, from its header alone.

    Parameters
    ----------
    path : Path or str

    Returns
    -------
    (width, height) : tuple of int
        As stored: EXIF orientation is ignored.

    Raises
    ------
    NmfsyncError
        If the file is missing or is not an image. A file that is cut off
        after its header goes unnoticed here; `read_image` notices.
    """
    with _opened(Path(path)) as image:
        return image.size


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open with Pillow; whatever goes wrong in the block is a fault of the file."""
    if path.is_dir():
        raise NmfsyncError(f"{path}: is a folder, not an image")
    try:
        with Image.open(path) as image:
            yield image
    except FileNotFoundError:
        raise NmfsyncError(f"{path}: no such file") from None
    except PermissionError:
        raise NmfsyncError(f"{path}: may not be read; check its permissions") from None
    except UnidentifiedImageError:
        empty = path.stat().st_size == 0
        fault = "is empty" if empty else "is not an image of a known kind"
        raise NmfsyncError(f"{path}: {fault}; replace or remove the file") from None
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0) // 10**6
        raise NmfsyncError(
            f"{path}: has more than {limit} million pixels; reduce the image first"
        ) from None
    except Exception as error:
        reason = " ".join(str(error).split())
        raise NmfsyncError(
            f"{path}: is damaged or incomplete ({reason}); replace or remove the file"
        ) from None


def _decode(path: Path) -> NDArray[np.uint8]:
    """Pixels as (h, w) grey or (h, w, 3) BGR.

    OpenCV keeps 16 bits and floating point, which Pillow does not in colour;
    but it returns half a picture without a word where Pillow finds the file cut off.
    """
    with _opened(path) as image:
        image.load()
        if image.mode == "CMYK":
            return _colour(np.asarray(image.convert("RGB")), cv2.COLOR_RGB2BGR)
        # Bytes, not the name: OpenCV cannot open names outside ASCII on every system.
        pixels = cv2.imdecode(np.fromfile(path, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
        if pixels is None:
            raise ValueError("OpenCV cannot decode it")
    if pixels.ndim == 3 and pixels.shape[2] != 3:
        pixels = pixels[:, :, :3] if pixels.shape[2] == 4 else pixels[:, :, 0]
    return _to_8_bit(np.ascontiguousarray(pixels))


def _colour(pixels: NDArray, code: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(pixels, code), dtype=np.uint8)


def _to_8_bit(pixels: NDArray) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    values = pixels.astype(np.result_type(pixels, np.float32))
    finite = np.isfinite(values)
    low = values.min(where=finite, initial=np.inf)
    high = values.max(where=finite, initial=-np.inf)
    if not low < high:
        return np.zeros(pixels.shape, np.uint8)
    values[~finite] = low
    return np.rint((values - low) * (255.0 / (high - low))).astype(np.uint8)


class Images(Sequence[NDArray[np.uint8]]):
    """The images of a scene, read from disk when they are asked for: (h, w, 3) uint8 RGB."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> NDArray[np.uint8]:  # type: ignore[override]
        return read_image(self.paths[i])
