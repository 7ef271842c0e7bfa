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
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import cv2
import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import read_hashed
from nmfsync.scenes.jpeg import with_end
from nmfsync.scenes.levels import to_8_bit
from nmfsync.types.arrays import AnyArray

IMAGE_SUFFIXES: frozenset[str] = frozenset(
    {
        ".bmp", ".gif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png",
        ".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp",
    }
)  # fmt: skip

# Of these files the content is not what an image viewer shows: the sensor's values, or a preview.
_RAW = (
    ".3fr", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2",
    ".sr2", ".srw", ".x3f",
)  # fmt: skip

_NOT_READ = {
    **dict.fromkeys(_RAW, "a raw image of a camera"),
    **dict.fromkeys((".heic", ".heif", ".hif"), "a HEIC image"),
    ".avif": "an AVIF image",
    ".dcm": "a DICOM image",
    ".dds": "a DDS image",
    ".exr": "an OpenEXR image",
    ".fit": "a FITS image",
    ".fits": "a FITS image",
    ".hdr": "a Radiance image",
    ".ico": "an icon",
    ".jxl": "a JPEG XL image",
    ".jxr": "a JPEG XR image",
    ".pcx": "a PCX image",
    ".psd": "a Photoshop file",
    ".svg": "an SVG drawing",
    ".xcf": "a GIMP file",
}

# Suffixes of files that are meant to be images, whether they can be read or not.
KNOWN_SUFFIXES = IMAGE_SUFFIXES | set(_NOT_READ)

# Formats of Pillow, which has many more; some of them start other programs.
_FORMATS = ("BMP", "DIB", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")

# The formats of these that Pillow decodes: OpenCV does not, or not in every version.
_BY_PILLOW = ("GIF", "TGA")

# Pillow warns about large images; a large photograph is not an attack. Its hard
# limit, at twice the size it warns about, stays: it raises an error.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

# A damaged file raises an error here, so the warnings of the decoders are not needed.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
logging.getLogger("tifffile").addHandler(logging.NullHandler())

_KEPT = 2**27  # bytes of decoded images: 140 of 640 × 480 pixels, 5 of 8 million

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # TIFF and BigTIFF, in both byte orders

_JPEG_MAGIC = b"\xff\xd8"

# How files start that are not taken for images by chance; besides, WEBP and HEIC.
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"\0\0\0\x0cjP  ", *_TIFF_MAGIC)

_NO_END = "the file is incomplete: its end and at most 1 % of the pixels are missing; copy it again"

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
            with _open(data, path.suffix) as image:
                size = image.size
        return ImageFile(path, size, sha256)


def exif_orientation(path: Path | str, sha256: str | None = None) -> int:
    """Return how an image file asks to be turned when it is shown, which no other function does.

    Parameters
    ----------
    path, sha256
        As for `read_image`.

    Returns
    -------
    int
        From 1 to 8, as EXIF numbers them; 1, not at all, if it does not say.

    Raises
    ------
    NmfsyncError
        If the file is missing or is not an image.
    """
    path = Path(path)
    with _file_errors(path):
        data, _ = read_hashed(path, sha256)
        if _is_tiff(data):  # Pillow cannot open every one of these
            return 1
        with _open(data, path.suffix) as image:
            asked = _exif(image).get(ExifTags.Base.Orientation, 1)
    return asked if asked in range(1, 9) else 1


def _exif(image: Image.Image) -> Mapping[int, Any]:
    try:
        return image.getexif()
    except Exception:  # damaged entries raise errors of many kinds, and the image can be read
        return {}


def read_image(path: Path | str, sha256: str | None = None) -> NDArray[np.uint8]:
    """Read an image file in colour.

    Values of more than 8 bits (16 bits, 32 bits, floating point) are mapped
    linearly so that the smallest value in the image becomes 0 and the largest
    255: the image keeps its contrast whatever part of the range the camera
    uses. Three kinds of values do not count for the smallest and the largest:

    - NaN, infinite values, and the nodata value that a TIFF file declares
      (tag GDAL_NODATA). They become 0.
    - A value that stands for missing data: the smallest or the largest, in more than
      0.1 % of the pixels, and at least half the range of the others away from them.
      Where the others are noise, it must also fill 5 % of the image or of its
      outermost pixels, or be at most −9999 or at least 1e20.
    - Defects such as hot pixels: at most 0.1 % of the values at either end, farther
      from the rest than the rest is wide. Where the rest is noise, as behind stars,
      only 3 values or 0.002 % are defects. Noise is what pixels have whose correlation
      with their next but one is at most 0.5.

    Values outside the range become 0 or 255. `extract` warns of what does not
    count. Grey is repeated in all three channels, CMYK and palettes are
    converted, 1 bit becomes 0 and 255. Alpha is dropped: the colours are those
    stored, as if every pixel were opaque; to those of a transparent border, the
    rule for missing data applies. Of more than four channels the first three are
    red, green and blue. Of a file with several pages or frames the first is read.
    A JPEG file that lost its end, and with it at most 1 % of its pixels, is read,
    and `extract` warns of it.

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
        has complex numbers, or is another one than `sha256` says.
    """
    pixels, _ = _decode(Path(path), sha256)
    code = cv2.COLOR_GRAY2RGB if pixels.ndim == 2 else cv2.COLOR_BGR2RGB
    return _colour(pixels, code)


def read_stored(path: Path | str, sha256: str | None = None) -> NDArray[np.uint8]:
    """Read an image file in grey or colour, as it is stored.

    Parameters
    ----------
    path, sha256
        As for `read_image`.

    Returns
    -------
    (h, w) uint8 array
        If it is grey; else (h, w, 3), in the order blue, green, red. It must not be written to.

    Raises
    ------
    NmfsyncError
        As `read_image`.
    """
    return _decode(Path(path), sha256)[0]


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
    return read_gray_with_faults(path, sha256)[0]


def read_gray_with_faults(
    path: Path | str, sha256: str | None = None
) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Read an image file as `read_gray` does, and return what degraded it: texts of warnings."""
    pixels, faults = _decode(Path(path), sha256)
    gray = pixels.copy() if pixels.ndim == 2 else _colour(pixels, cv2.COLOR_BGR2GRAY)
    return gray, faults


def _open(data: bytes, suffix: str) -> Image.Image:
    # TGA files have no mark that tells them from others.
    formats = ("TGA",) if suffix.lower() == ".tga" else ()
    return Image.open(BytesIO(data), formats=_FORMATS + formats)


def starts_like_an_image(path: Path) -> bool:
    """Whether the first bytes of a file are those of an image, whatever its name."""
    try:
        _check_kind(path)
        with path.open("rb") as file:
            start = file.read(12)
    except (NmfsyncError, OSError):
        return False
    return start.startswith(_MAGIC) or start[8:] == b"WEBP" or start[4:8] == b"ftyp"


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Raise whatever goes wrong in the block as one line about the file."""
    try:
        _check_kind(path)
        yield
    except (NmfsyncError, MemoryError):
        raise
    except FileNotFoundError:
        fault = "is a link to a file that does not exist" if path.is_symlink() else "no such file"
        raise NmfsyncError(f"{path}: {fault}") from None
    except PermissionError:
        raise NmfsyncError(f"{path}: cannot be read; check its permissions") from None
    except UnidentifiedImageError:
        raise NmfsyncError(f"{path}: {_why_unidentified(path)}") from None
    except Image.DecompressionBombError:
        limit = _largest_image() // 10**6
        raise NmfsyncError(
            f"{path}: has more than {limit} million pixels; reduce the image first"
        ) from None
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            raise NmfsyncError(f"{path}: cannot be read ({error.strerror})") from None
        reason = " ".join(str(error).split())
        raise NmfsyncError(
            f"{path}: is damaged or incomplete ({reason}); replace or remove the file"
        ) from None


def _check_kind(path: Path) -> None:
    """Raise NmfsyncError for what must not be opened, or not as an image."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise NmfsyncError(f"{path}: is a folder, not an image")
    if not stat.S_ISREG(mode):  # to open it may wait for ever
        raise NmfsyncError(f"{path}: is a pipe, socket or device, not a file")
    if path.suffix.lower() in _RAW:
        with path.open("rb") as file:
            if _is_tiff(file.read(4)):
                raise NmfsyncError(f"{path}: {_not_read(path.suffix)}")


def _not_read(suffix: str) -> str:
    return f"is {_NOT_READ[suffix.lower()]}, which is not read; convert it to JPEG, PNG or TIFF"


def _why_unidentified(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(12)
    if not start:
        return "is empty; replace or remove the file"
    if start[4:8] == b"ftyp":  # photographs of telephones are often named .jpg
        return _not_read(".avif" if start[8:11] == b"avi" else ".heic")
    if path.suffix.lower() in _NOT_READ:
        return _not_read(path.suffix)
    return "is not an image of a known kind; replace or remove the file"


def _largest_image() -> int:
    """Return the number of pixels above which Pillow refuses an image."""
    return 2 * (Image.MAX_IMAGE_PIXELS or 0)


def _decode(path: Path, sha256: str | None) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Pixels as (h, w) grey or (h, w, 3) BGR, not to be written to, and what degraded them."""
    with _file_errors(path):
        return _decode_once(path, *read_hashed(path, sha256))


# Several stages of a run look at an image.
@cached(
    LRUCache(_KEPT, getsizeof=lambda decoded: decoded[0].nbytes),
    key=lambda *call: call[-1],  # the hash
    lock=Lock(),
)
def _decode_once(
    path: Path, data: bytes, _sha256: str
) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    faults: tuple[str, ...] = ()
    tiff = _is_tiff(data)
    pixels = _decode_tiff(path, data) if tiff else None
    if pixels is None:
        pixels, faults = _decode_with_opencv(data, path.suffix)
    if pixels.dtype.kind == "c":
        raise NmfsyncError(f"{path}: has complex numbers; save their magnitude as an image")
    nodata = _nodata(data) if tiff and pixels.dtype != np.uint8 else None
    levels, found = to_8_bit(np.ascontiguousarray(pixels), nodata)
    return levels, faults + found


def _decode_with_opencv(data: bytes, suffix: str) -> tuple[AnyArray, tuple[str, ...]]:
    """Pixels of any type, as (h, w) grey or (h, w, 3) BGR, and what degraded them."""
    try:
        return _decode_bytes(data, suffix), ()
    except OSError:
        whole = with_end(data) if data.startswith(_JPEG_MAGIC) else None
        if whole is None:
            raise
        return _decode_bytes(whole, suffix), (_NO_END,)


def _decode_bytes(data: bytes, suffix: str) -> AnyArray:
    """Pixels of any type, as (h, w) grey or (h, w, 3) BGR.

    OpenCV keeps 16 bits and floating point, which Pillow does not in colour;
    but of a file that is cut off it returns half a picture without an error.
    """
    with _open(data, suffix) as image:
        image.load()
        if image.mode == "CMYK" or image.format in _BY_PILLOW:
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


def _nodata(data: bytes) -> float | None:
    """Return the value that a TIFF file declares to stand for missing data."""
    with _first_page(data) as page:
        tag = page.tags.get("GDAL_NODATA")
    try:
        return float(tag.value) if tag is not None else None
    except (TypeError, ValueError):
        return None


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
