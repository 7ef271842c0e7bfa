"""JPEG files that lack their end."""

import io
import re

import numpy as np
from PIL import Image

_END = b"\xff\xd9"

# Largest share of pixels that may be lost with the end of the file.
_LOST = 0.01


def with_end(data: bytes) -> bytes | None:
    """Give a JPEG file that was cut off its end marker; None if it lost more than its last bits.

    Other bytes in place of those that are missing change the pixels that depend on
    them, and no others.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    bytes or None
    """
    data = data.rstrip(b"\0\xff")  # the end of an incomplete copy is often empty
    try:
        ended = data + _END
        picture, other = (_decode(d) for d in (ended, data + b"\x55" * len(data) + _END))
        complete = _has_every_scan(data)
    except (OSError, IndexError, SyntaxError, ValueError):
        return None
    lost = (picture != other).reshape(*picture.shape[:2], -1).any(axis=2).mean()
    return ended if complete and lost <= _LOST else None


def _decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
        return np.asarray(image)


def _has_every_scan(data: bytes) -> bool:
    """Whether a progressive file has the last bit of every coefficient; True of any other file."""
    place, components = 2, 0
    while data[place + 1] != 0xDA:  # the first scan
        if data[place + 1] == 0xC2:  # the header of a progressive file
            components = data[place + 9]
        place += 2 + int.from_bytes(data[place + 2 : place + 4])
    final = set()
    for scan in re.finditer(rb"\xff\xda..([\x01-\x04])", data[place:], re.DOTALL):
        body = data[place + scan.end() :]
        names, (first, last, bits) = body[: 2 * scan[1][0] : 2], body[2 * scan[1][0] :][:3]
        if bits % 16 == 0:
            final |= {(name, k) for name in names for k in range(first, last + 1)}
    return not components or len(final) == 64 * components
