"""Patches of images, read at any places and compared by normalised correlation."""

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.compiled import compiled
from nmfsync.types.arrays import AnyArray, Float32Array, FloatArray

MIN_CONTRAST = 2.0  # least standard deviation of a recognisable patch, in grey levels

# Pixels of patches read and compared at a time: with their places half a megabyte, which fits
# the cache. OpenCV reads so few on one thread: the images are shared between threads already.
_PIXELS = 1 << 15


def square(radius: int, stride: int) -> FloatArray:
    """Return the offsets (2, p) of a patch's pixels from its centre."""
    side = np.arange(-radius, radius + 1, stride, dtype=np.float64)
    return np.stack([a.ravel() for a in np.meshgrid(side, side)])


def upright_patches(image: Float32Array, centre: FloatArray, window: FloatArray) -> Float32Array:
    """Read the patches (n, p) around pixels (n, 2) of an image."""
    right, below = (np.tile(axis, (len(centre), 1)) for axis in np.eye(2))
    patches = np.empty((len(centre), window.shape[1]), dtype=np.float32)
    for part in _blocks(patches.shape):
        patches[part] = _read(image, centre[part], right[part], below[part], window)
    return patches


def normalise(patches: Float32Array) -> Float32Array:
    """Subtract the means of patches (n, p) and scale them to length 1, unless they are too flat."""
    patches = patches - patches.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("np,np->n", patches, patches))
    least = np.float32(MIN_CONTRAST / 2 * np.sqrt(patches.shape[1]))
    patches /= np.maximum(length, least)[:, None]
    return patches


def correlate(
    image: Float32Array,
    centre: FloatArray,
    right: FloatArray,
    below: FloatArray,
    window: FloatArray,
    known: Float32Array,
    which: NDArray[np.intp],
) -> Float32Array:
    """Return the correlations (n,) of patches of an image with known patches.

    Parameters
    ----------
    image : (h, w) float32 array
    centre : (n, 2) array
        Pixels of the image.
    right, below : (n, 2) arrays
        Where a step of one pixel to the right and one downwards in the patch lead in the image.
    window : (2, p) array
        Offsets of a patch's pixels from its centre.
    known : (k, p) float32 array
        Normalised patches.
    which : (n,) int array
        With which of them every patch is compared.
    """
    result = np.empty(len(centre), dtype=np.float32)
    for part in _blocks((len(centre), window.shape[1])):
        patches = normalise(_read(image, centre[part], right[part], below[part], window))
        np.einsum("np,np->n", patches, known[which[part]], out=result[part])
    return result


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of patches (n, p) that are few enough to be read at a time."""
    count, pixels = shape
    block = _PIXELS // pixels
    return (slice(start, start + block) for start in range(0, count, block))


def _read(
    image: Float32Array,
    centre: FloatArray,
    right: FloatArray,
    below: FloatArray,
    window: FloatArray,
) -> Float32Array:
    """Read patches (n, p) of an image, interpolated bilinearly; arguments as for `correlate`."""
    x, y = _places(centre, right, below, window)
    patches = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(patches, dtype=np.float32)


@compiled
def _places(centre: AnyArray, right: AnyArray, below: AnyArray, window: AnyArray) -> Float32Array:
    """Return the places x, y (2, n, p) of patches' pixels in an image."""
    places = np.empty((2, len(centre), window.shape[1]), dtype=np.float32)
    for n in range(len(centre)):
        for c in range(2):
            for p in range(window.shape[1]):
                offset = right[n, c] * window[0, p] + below[n, c] * window[1, p]
                places[c, n, p] = offset + centre[n, c]
    return places
