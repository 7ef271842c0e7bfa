"""Reading image files.

Pixels come back as they are stored. The EXIF orientation is ignored everywhere,
as in COLMAP: positions, image sizes and camera calibrations all refer to the
stored pixels.

A file is read in one go, and what is decoded are the bytes that were hashed: a
reader that names the SHA-256 it expects gets that image, or an error.

Three libraries decode. OpenCV reads most files. Pillow notices a file that is cut
off, of which OpenCV returns half a picture, and converts CMYK. tifffile, the TIFF
reader of scikit-image, reads TIFF files, many of which the other two refuse or misread.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import cv2
import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import read_hashed
from nmfsync.types.arrays import AnyArray

IMAGE_SUFFIXES: frozenset[str] = frozenset(
    {".bmp", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)

# Pillow warns about large images; a large photograph is not an attack. Its hard
# limit, at twice the size it warns about, stays: it raises an error.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

# A damaged file raises an error here, so the warnings of the decoders are not needed.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
logging.getLogger("tifffile").addHandler(logging.NullHandler())

_KEPT = 2**27  # bytes of decoded images: 140 of 640 × 480 pixels, 5 of 8 million

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # TIFF and BigTIFF, in both byte orders

# Compressions without loss that tifffile decodes without another package.
_DECOMPRESSED = ("NONE", "ADOBE_DEFLATE", "DEFLATE", "LZMA", "PACKBITS")


class ImageFile(NamedTuple):
    """An image file as it was when it was looked at.

    Attributes
    ----------
    path : Path
    size : tuple of int
        Width and height in pixels, as stored: EXIF orientation is ignored.
    sha256 : str
        Of the file, in hexadecimal.
    """

    path: Path
    size: tuple[int, int]
    sha256: str


def look_at(path: Path | str) -> ImageFile:
    """Read the header of an image file, and hash the file.

    Raises
    ------
    NmfsyncError
        If the file is missing or is not an image. A file that is cut off
        after its header raises no error here, but it does in `read_image`.
    """
    path = Path(path)
    with _file_errors(path):
        data, sha256 = read_hashed(path)
        if _is_tiff(data):
            with _first_page(data) as page:
                size = int(page.imagewidth), int(page.imagelength)
        else:
            with Image.open(BytesIO(data)) as image:
                size = image.size
        return ImageFile(path, size, sha256)


def read_image(path: Path | str, sha256: str | None = None) -> NDArray[np.uint8]:
    """Read an image file in colour.

    Values of more than 8 bits (16 bits, 32 bits, floating point) are mapped
    linearly so that the smallest value in the image becomes 0 and the largest
    255: the image keeps its contrast whatever part of the range the camera
    uses. NaN and infinite values become 0. Grey is repeated in all three
    channels, CMYK and palettes are converted, 1 bit becomes 0 and 255. Alpha is
    dropped: the colours are those stored, as if every pixel were opaque. Of
    more than four channels the first three are red, green and blue. Of a file
    with several pages the first is read.

    Parameters
    ----------
    path : Path or str
        Any file of a kind in `IMAGE_SUFFIXES`. The content decides how it is
        read, not the name.
    sha256 : str, optional
        That of the file when it was looked at. None takes the file as it is.

    Returns
    -------
    (h, w, 3) uint8 array
        RGB, as stored: EXIF orientation is ignored.

    Raises
    ------
    NmfsyncError
        If the file is missing, is not an image, is cut off or too large, or
        is another one than `sha256` says.
    """
    pixels = _decode(Path(path), sha256)
    code = cv2.COLOR_GRAY2RGB if pixels.ndim == 2 else cv2.COLOR_BGR2RGB
    return _colour(pixels, code)


def read_gray(path: Path | str, sha256: str | None = None) -> NDArray[np.uint8]:
    """Read an image file in grey: 0.299 R + 0.587 G + 0.114 B of `read_image`.

    Parameters
    ----------
    path, sha256
        As for `read_image`.

    Returns
    -------
    (h, w) uint8 array

    Raises
    ------
    NmfsyncError
        As `read_image`.
    """
    pixels = _decode(Path(path), sha256)
    return pixels.copy() if pixels.ndim == 2 else _colour(pixels, cv2.COLOR_BGR2GRAY)


def image_size(path: Path | str) -> tuple[int, int]:
    """Return width and height of an image file in pixels: `look_at(path).size`."""
    return look_at(path).size


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Raise whatever goes wrong in the block as one line about the file."""
    if path.is_dir():
        raise NmfsyncError(f"{path}: is a folder, not an image")
    try:
        yield
    except NmfsyncError:
        raise
    except FileNotFoundError:
        raise NmfsyncError(f"{path}: no such file") from None
    except PermissionError:
        raise NmfsyncError(f"{path}: cannot be read; check its permissions") from None
    except UnidentifiedImageError:
        empty = path.stat().st_size == 0
        fault = "is empty" if empty else "is not an image of a known kind"
        raise NmfsyncError(f"{path}: {fault}; replace or remove the file") from None
    except Image.DecompressionBombError:
        limit = _largest_image() // 10**6
        raise NmfsyncError(
            f"{path}: has more than {limit} million pixels; reduce the image first"
        ) from None
    except Exception as error:
        reason = " ".join(str(error).split())
        raise NmfsyncError(
            f"{path}: is damaged or incomplete ({reason}); replace or remove the file"
        ) from None


def _largest_image() -> int:
    """Return the number of pixels above which Pillow refuses an image."""
    return 2 * (Image.MAX_IMAGE_PIXELS or 0)


def _decode(path: Path, sha256: str | None) -> NDArray[np.uint8]:
    """Pixels as (h, w) grey or (h, w, 3) BGR; not to be written to."""
    with _file_errors(path):
        return _decode_once(path, *read_hashed(path, sha256))


# Several stages of a run look at an image.
@cached(
    LRUCache(_KEPT, getsizeof=lambda pixels: pixels.nbytes),
    key=lambda *call: call[-1],  # the hash
    lock=Lock(),
)
def _decode_once(path: Path, data: bytes, _sha256: str) -> NDArray[np.uint8]:
    pixels = _decode_tiff(path, data) if _is_tiff(data) else None
    if pixels is None:
        pixels = _decode_with_opencv(data)
    return _to_8_bit(np.ascontiguousarray(pixels))


def _decode_with_opencv(data: bytes) -> AnyArray:
    """Pixels of any type, as (h, w) grey or (h, w, 3) BGR.

    OpenCV keeps 16 bits and floating point, which Pillow does not in colour;
    but of a file that is cut off it returns half a picture without an error.
    """
    with Image.open(BytesIO(data)) as image:
        image.load()
        if image.mode == "CMYK":
            return _colour(np.asarray(image.convert("RGB")), cv2.COLOR_RGB2BGR)
        pixels = _imdecode(data)
        if image.format == "TIFF" and image.mode == "RGBA" and pixels.dtype == np.uint8:
            # OpenCV has multiplied these colours with their alpha.
            pixels = np.asarray(image)[:, :, 2::-1]
    if pixels.ndim == 3 and pixels.shape[2] != 3:
        pixels = pixels[:, :, :3] if pixels.shape[2] == 4 else pixels[:, :, 0]
    return pixels


def _imdecode(data: bytes) -> AnyArray:
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise ValueError("OpenCV cannot decode it")
    return np.asarray(pixels)


def _is_tiff(data: bytes) -> bool:
    return data[:4] in _TIFF_MAGIC


@contextmanager
def _first_page(data: bytes) -> Iterator[Any]:
    """Open the first page of a TIFF file with tifffile."""
    import tifffile  # most images are not TIFF files

    with tifffile.TiffFile(BytesIO(data)) as file:
        page = file.pages.first
        if page.imagewidth * page.imagelength > _largest_image():
            raise Image.DecompressionBombError
        yield page


def _decode_tiff(path: Path, data: bytes) -> AnyArray | None:
    """Pixels of any type, as (h, w) grey or (h, w, 3) BGR; None if they need a conversion.

    OpenCV and Pillow refuse five channels and most numbers of more than 16
    bits, and OpenCV mixes up channels of 16 bits that are stored one after the
    other. They are left palettes, CMYK, 1 bit, and what tifffile cannot decompress.
    """
    with _first_page(data) as page:
        channels, bits = page.samplesperpixel, page.bitspersample
        compression = page.compression.name
        if getattr(page.photometric, "name", "") not in ("MINISBLACK", "RGB") or bits < 8:
            return None
        if compression not in _DECOMPRESSED or page.predictor not in (1, 2):
            interleaved = page.planarconfig == 1
            if channels == 1 or (bits == 8 and channels <= 4):
                return None
            if channels in (3, 4) and interleaved:
                # Pillow refuses more than 16 bits; of compressed TIFF files OpenCV
                # notices damage itself.
                return _imdecode(data)[:, :, :3]
            raise NmfsyncError(
                f"{path}: cannot read {channels} channels of {bits} bits with {compression} "
                "compression; save the image without compression"
            )
        # Separate planes, slices of a volume, rows, columns, interleaved channels.
        planes = page.asarray(maxworkers=1).reshape(page.shaped)[:, 0]
    pixels = np.moveaxis(planes[..., 0], 0, -1) if len(planes) > 1 else planes[0]
    return np.asarray(pixels[:, :, 2::-1] if channels >= 3 else pixels[:, :, 0])


def _colour(pixels: NDArray[np.uint8], code: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.cvtColor(pixels, code), dtype=np.uint8)


def _to_8_bit(pixels: AnyArray) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    from skimage.exposure import rescale_intensity  # most images have 8 bits

    values = pixels.astype(np.result_type(pixels, np.float32))
    finite = np.isfinite(values)
    low = values.min(where=finite, initial=np.inf)
    high = values.max(where=finite, initial=-np.inf)
    if not low < high:
        return np.zeros(pixels.shape, np.uint8)
    values[~finite] = low
    stretched = rescale_intensity(values, in_range=(low, high), out_range=(0.0, 255.0))
    return np.asarray(np.rint(stretched).astype(np.uint8))


class Images(Sequence[NDArray[np.uint8]]):
    """The images of a scene as (h, w, 3) uint8 RGB arrays, each read from disk when it is used.

    Parameters
    ----------
    paths : sequence of Path
    digests : sequence of str, optional
        SHA-256 of every file: an image that is another one by now is an error.
    """

    def __init__(self, paths: Sequence[Path], digests: Sequence[str] | None = None) -> None:
        self.paths, self.digests = tuple(paths), digests

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> NDArray[np.uint8]:  # type: ignore[override]
        return read_image(self.paths[i], self.digests[i] if self.digests else None)
