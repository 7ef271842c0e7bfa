"""Results for images and for pairs of images, kept on disk under what they are made from.

An entry's name is a digest of the content and the settings behind it, so that a
changed image is simply another one. Entries appear whole or not at all: an
interrupted run leaves what it finished, and two runs at once can only spare each
other work. A damaged entry counts as missing. Nothing is ever deleted; the folder
may be, at any time.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.files import atomic_write, sha256_of

Arrays = Mapping[str, Any]

_DIGEST = 16  # bytes: two of 10¹² entries agree by chance with a probability of 10⁻¹⁵


def digest(*parts: Any) -> bytes:
    """Digest of arrays, bytes and what JSON can hold: equal parts, equal digest."""
    hashed = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            hashed.update(f"{part.dtype}{part.shape}".encode())
            hashed.update(np.ascontiguousarray(part).data)
        else:
            data = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
            hashed.update(f"{len(data)}:".encode() + data)
    return hashed.digest()[:_DIGEST]


def save(path: Path, arrays: Arrays) -> None:
    """Write named arrays to an `.npz` file, whole or not at all."""
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def load(path: Path) -> dict[str, NDArray] | None:
    """Read what `save` wrote; None if the file is missing or damaged in any way."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception:  # whatever is wrong with the file, the remedy is to make it again
        return None


class PairCache:
    """Results for pairs of images: one file for every image, with its pairs with later ones.

    Parameters
    ----------
    folder : Path
    digests : sequence of bytes
        For every image, the digest of all that its pairs depend on: content,
        settings, versions.
    """

    def __init__(self, folder: Path, digests: Sequence[bytes]) -> None:
        self._folder, self._digests = folder, digests
        self._held: dict[int, dict[int, NDArray]] = {}

    def get(self, i: int, others: Iterable[int]) -> list[NDArray | None]:
        """Return the results for image i and others; None where there is none."""
        row = _read_row(self._path(i))
        return [row.get(self._digests[j]) for j in others]

    def add(self, i: int, found: Mapping[int, NDArray]) -> None:
        """Keep the results for image i and some others: (n, c) arrays of one type."""
        row = _read_row(self._path(i))
        row.update({self._digests[j]: result for j, result in found.items()})
        save(
            self._path(i),
            {
                "others": np.frombuffer(b"".join(row), np.uint8).reshape(-1, _DIGEST),
                "counts": np.array([len(result) for result in row.values()]),
                "results": np.concatenate(list(row.values())),
            },
        )

    def hold(self, i: int, j: int, result: NDArray) -> None:
        """Keep the result for images i and j at the next `flush`."""
        self._held.setdefault(i, {})[j] = result

    def flush(self) -> None:
        """Keep what is held; a file is written once for all results of its image."""
        for i in list(self._held):
            self.add(i, self._held.pop(i))

    def _path(self, i: int) -> Path:
        return self._folder / f"{self._digests[i].hex()}.npz"


def _read_row(path: Path) -> dict[bytes, NDArray]:
    arrays = load(path)
    if arrays is None or set(arrays) != {"others", "counts", "results"}:
        return {}
    others, counts, results = arrays["others"], arrays["counts"], arrays["results"]
    parts = np.split(results, np.cumsum(counts)[:-1])
    return {other.tobytes(): part for other, part in zip(others, parts, strict=True)}


LIBRARIES = ("nmfsync", "numpy", "scipy", "opencv-python-headless")


def key_of(*parts: Any) -> str:
    """Digest of arrays and of anything that JSON can hold: equal parts, equal key."""
    return digest(*parts).hex()


@cache
def source_digest(function: Callable[..., Any]) -> str:
    """SHA-256 of the source code of the package, or the module, that a function comes from.

    What was made by other code must not be taken for a result of this one.
    """
    name = (getattr(function, "__module__", None) or "").partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return ""
    path = Path(file)
    sources = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return key_of([sha256_of(source) for source in sources])


def made_by() -> list[Any]:
    """Versions and source code behind all results, as JSON can hold them."""
    return [versions(), source_digest(made_by)]


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
