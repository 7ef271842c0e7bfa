"""The features of one image, and their form on disk."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError
from nmfsync.types.arrays import Float32Array
from nmfsync.types.notebook import html_facts

DESCRIPTOR = 128  # bytes

ARRAYS = ("xy", "descriptors", "scale", "orientation")  # of `Features`


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

    xy: Float32Array
    descriptors: NDArray[np.uint8]
    scale: Float32Array
    orientation: Float32Array
    image_size: tuple[int, int]
    keypoints: int
    positions: int

    def __post_init__(self) -> None:
        _check_arrays(self)

    def __len__(self) -> int:
        return len(self.xy)

    def rooted(self) -> "Features":
        """Return these features with RootSIFT descriptors, as COLMAP makes them.

        The square roots of the shares of a histogram, times 512: their Euclidean distance compares
        histograms better (Arandjelović, Zisserman, CVPR 2012).
        """
        values = self.descriptors.astype(np.float32)
        shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1)
        roots = np.minimum(np.rint(512 * np.sqrt(shares)), 255).astype(np.uint8)
        return replace(self, descriptors=roots)

    def loaded(self) -> "Features":
        """Return these features in memory, where these are; others may lie in a file."""
        return self

    def digest(self) -> bytes:
        """Digest of the arrays: equal features, equal digest."""
        hashed = hashlib.sha256()
        for name in ARRAYS:
            hashed.update(np.ascontiguousarray(getattr(self, name)).data)
        return hashed.digest()

    def __repr__(self) -> str:
        width, height = self.image_size
        return f"Features({len(self):,} of {self.keypoints:,} keypoints, {width} × {height} pixels)"

    def _repr_html_(self) -> str:
        width, height = self.image_size
        facts = {
            "features": len(self),
            "keypoints": self.keypoints,
            "positions": self.positions,
            "image": f"{width} × {height} pixels",
        }
        if len(self):
            facts["scale"] = f"{self.scale.min():.1f} to {self.scale.max():.1f} pixels"
        return html_facts("Features", facts)


def _check_arrays(features: Features) -> None:
    n = len(features.xy)
    contract = [
        (np.float32, (n, 2)),
        (np.uint8, (n, DESCRIPTOR)),
        (np.float32, (n,)),
        (np.float32, (n,)),
    ]
    for name, (dtype, shape) in zip(ARRAYS, contract, strict=True):
        array = getattr(features, name)
        if array.dtype != dtype or array.shape != shape:
            raise NmfsyncError(
                f"features: {name} must be {shape} {np.dtype(dtype)}, "
                f"not {array.shape} {array.dtype}"
            )
        if not np.isfinite(array).all():
            raise NmfsyncError(f"features: {name} holds NaN or infinite values")


def pack_features(features: Sequence[Features]) -> dict[str, NDArray[Any]]:
    """Turn the features of at least one image into plain named arrays, without loss.

    Returns
    -------
    dict of str to array
        xy, descriptors, scale and orientation of all images, one after the
        other; counts (k, 5): width, height, keypoints, positions and features.
    """
    counts = [(*f.image_size, f.keypoints, f.positions, len(f)) for f in features]
    arrays = {name: np.concatenate([getattr(f, name) for f in features]) for name in ARRAYS}
    return {"counts": np.array(counts, dtype=np.int64), **arrays}


def unpack_features(arrays: Mapping[str, NDArray[Any]]) -> list[Features]:
    """Inverse of `pack_features`."""
    counts = arrays["counts"].tolist()
    cuts = np.cumsum([row[-1] for row in counts])[:-1]
    parts = (np.split(arrays[name], cuts) for name in ARRAYS)
    return [
        Features(xy, descriptors, scale, orientation, (width, height), keypoints, positions)
        for xy, descriptors, scale, orientation, (width, height, keypoints, positions, _) in zip(
            *parts, counts, strict=True
        )
    ]


class DescriptorsOf(Sequence[NDArray[np.uint8]]):
    """The descriptors of every image, which are read from their features when they are needed."""

    def __init__(self, features: Sequence[Features]) -> None:
        self._features = features

    def __len__(self) -> int:
        return len(self._features)

    @overload
    def __getitem__(self, n: int) -> NDArray[np.uint8]: ...

    @overload
    def __getitem__(self, n: slice) -> "DescriptorsOf": ...

    def __getitem__(self, n: int | slice) -> "NDArray[np.uint8] | DescriptorsOf":
        if isinstance(n, slice):
            return DescriptorsOf(self._features[n])
        return self._features[n].descriptors
