"""Features that lie in a cache: what travels is where they are, and how many."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from cachetools import LRUCache

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.cache import Arrays, digest, load
from nmfsync.types.features import ARRAYS, Features, pack_features, unpack_features

# Bytes of features that a process keeps in memory once it has read them.
KEPT = 2**29

_Found = tuple[Features, list[str]]  # with what degraded them


class StoredFeatures(Features):
    """The features of one image in an entry of the cache, read when they are needed.

    They are used like others. To another process goes only where they are; it has to
    see the folder under the same path. What was read last stays in memory, up to
    `KEPT` bytes a process.

    Parameters
    ----------
    path : Path
        The entry.
    key : str
        Its key.
    features : Features
        What it holds.
    """

    _path: Path
    _key: str
    _count: int
    _digest: bytes
    _is_rooted: bool

    def __init__(self, path: Path, key: str, features: Features) -> None:
        vars(self).update(
            _path=path,
            _key=key,
            _count=len(features),
            _digest=features.digest(),
            _is_rooted=False,
            image_size=features.image_size,
            keypoints=features.keypoints,
            positions=features.positions,
        )
        self._keep(features)

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        if name in ARRAYS:  # the others are attributes
            return getattr(self.loaded(), name)
        raise AttributeError(name)

    def loaded(self) -> Features:
        """Return these features in memory.

        Raises
        ------
        NmfsyncError
            If the entry is gone or damaged since it was written.
        """
        with _lock:
            found = _recent.get(self._place)
        if found is None:
            found = self._read()
            self._keep(found)
        return found

    @property
    def _place(self) -> tuple[str, bool]:
        return self._key, self._is_rooted

    def _keep(self, features: Features) -> None:
        with _lock, suppress(ValueError):  # of features that are larger than all that is kept
            _recent[self._place] = features

    def _read(self) -> Features:
        stored = load(self._path, self._key, unpack)
        if stored is None:
            raise NmfsyncError(
                f"{self._path}: the features kept here are gone, damaged or out of sight; all "
                "processes must see this folder under this path; run again"
            )
        return stored[0].rooted() if self._is_rooted else stored[0]

    def rooted(self) -> "StoredFeatures":
        """Return these features with RootSIFT descriptors, see `Features.rooted`."""
        other = object.__new__(StoredFeatures)
        vars(other).update(vars(self))
        vars(other).update(_digest=digest(self._digest, "rooted"), _is_rooted=True)
        return other

    def digest(self) -> bytes:
        """Digest of their arrays, or of those that the rooted ones are made from."""
        return self._digest


def pack(found: _Found) -> Arrays:
    """Turn features, and what degraded them, into named arrays."""
    features, faults = found
    return {"faults": np.array(faults, dtype=str), **pack_features([features])}


def unpack(arrays: Arrays) -> _Found:
    """Inverse of `pack`."""
    return unpack_features(arrays)[0], arrays["faults"].tolist()


def _bytes_of(features: Features) -> int:
    return int(sum(getattr(features, name).nbytes for name in ARRAYS))


_recent: LRUCache[tuple[str, bool], Features] = LRUCache(KEPT, _bytes_of)

_lock = threading.Lock()
