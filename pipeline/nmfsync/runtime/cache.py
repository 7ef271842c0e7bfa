"""Results kept on disk under what they are made from.

An entry's name is a digest of the content, the settings and the code behind it,
so that a changed image is simply another entry. Entries appear whole or not at
all: an interrupted run leaves what it finished, and concurrent runs are safe and
share results. A damaged entry counts as missing. Nothing is ever deleted; the
folder may be, at any time.
"""

import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.files import atomic_write, sha256_of

T = TypeVar("T")
Arrays = Mapping[str, Any]

_DIGEST = 16  # bytes: two of 10¹² entries agree by chance with a probability of 10⁻¹⁵
_HOLD = 2.0  # seconds: rows are written again at most this often, and this much may be lost

LIBRARIES = ("numpy", "scipy", "opencv-python-headless")
# Both provide cv2, and either may be the one that is installed.
_OTHER_NAMES = {"opencv-python-headless": "opencv-python"}
_PACKAGE = Path(__file__).parents[1]


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


def key_of(*parts: Any) -> str:
    """Return `digest` in hexadecimal."""
    return digest(*parts).hex()


def save(path: Path, arrays: Arrays) -> None:
    """Write named arrays to an `.npz` file, whole or not at all."""
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def load(path: Path) -> dict[str, NDArray[Any]] | None:
    """Read what `save` wrote; None if the file is missing or damaged in any way."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception:  # whatever is wrong with the file, the remedy is to make it again
        return None


class ImageCache(Generic[T]):
    """A result for every image: a file each.

    Parameters
    ----------
    folder : Path
    keys : sequence of str
        For every image, the digest of all that its result depends on.
    pack, unpack : callable
        Turn a result into named arrays, and back.
    """

    def __init__(
        self,
        folder: Path,
        keys: Sequence[str],
        pack: Callable[[T], Arrays],
        unpack: Callable[[Arrays], T],
    ) -> None:
        self._paths = [folder / f"{key}.npz" for key in keys]
        self._pack, self._unpack = pack, unpack

    def known(self) -> Iterator[tuple[NDArray[np.int64], list[T]]]:
        """Yield numbers of images, and their results."""
        for n, path in enumerate(self._paths):
            if (arrays := load(path)) is not None:
                yield np.array([n]), [self._unpack(arrays)]

    def add(self, n: int, result: T) -> None:
        """Keep the result of image n."""
        save(self._paths[n], self._pack(result))

    def flush(self) -> None:
        """Do nothing: every image is written at once."""


class PairCache:
    """An array for every pair of images: a file for every image, with its pairs with later ones.

    Parameters
    ----------
    folder : Path
    digests : sequence of bytes
        For every image, the digest of all that its pairs depend on: content,
        settings, code.
    pairs : (n, 2) int array
        Different pairs of images i < j.
    entry : callable, optional
        Number of a pair -> the digest of all that its array depends on besides
        image i; by default that of image j.
    """

    def __init__(
        self,
        folder: Path,
        digests: Sequence[bytes],
        pairs: NDArray[np.int64],
        entry: Callable[[int], bytes] | None = None,
    ) -> None:
        self._folder, self._digests, self._pairs = folder, digests, pairs
        self._entry = entry or (lambda n: digests[pairs[n, 1]])
        self._held: dict[int, dict[bytes, NDArray[Any]]] = {}
        self._flushed = time.monotonic()

    def known(self) -> Iterator[tuple[NDArray[np.int64], list[NDArray[Any]]]]:
        """Yield numbers of pairs, and their arrays, image by image."""
        order = np.argsort(self._pairs[:, 0], kind="stable")
        for numbers in np.split(order, np.flatnonzero(np.diff(self._pairs[order, 0])) + 1):
            row = _read_row(self._path(self._pairs[numbers[0], 0])) if len(numbers) else {}
            found = [(n, row[key]) for n in numbers.tolist() if (key := self._entry(n)) in row]
            if found:
                yield np.array([n for n, _ in found]), [array for _, array in found]

    def add(self, n: int, array: NDArray[Any]) -> None:
        """Keep the array (rows, c) of pair n; all arrays have one type. Writes now and then."""
        self._held.setdefault(int(self._pairs[n, 0]), {})[self._entry(n)] = array
        if time.monotonic() - self._flushed > _HOLD:
            self.flush()

    def flush(self) -> None:
        """Write what is held; a file is written once for all results of its image."""
        for i in list(self._held):
            row = {**_read_row(self._path(i)), **self._held.pop(i)}
            save(
                self._path(i),
                {
                    "others": np.frombuffer(b"".join(row), np.uint8).reshape(-1, _DIGEST),
                    "counts": np.array([len(result) for result in row.values()]),
                    "results": np.concatenate(list(row.values())),
                },
            )
        self._flushed = time.monotonic()

    def _path(self, i: int) -> Path:
        return self._folder / f"{self._digests[i].hex()}.npz"


def _read_row(path: Path) -> dict[bytes, NDArray[Any]]:
    arrays = load(path)
    if arrays is None or set(arrays) != {"others", "counts", "results"}:
        return {}
    others, counts, results = arrays["others"], arrays["counts"], arrays["results"]
    parts = np.split(results, np.cumsum(counts)[:-1])
    return {other.tobytes(): part for other, part in zip(others, parts, strict=True)}


def versions() -> dict[str, str]:
    """Versions of Python, of this program, and of the libraries that results depend on."""
    names = ("nmfsync", *LIBRARIES)
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return version(_OTHER_NAMES[name])


@cache
def code_of(*folders: str) -> list[Any]:
    """Say, as JSON can hold it, which code makes results: a part of their keys.

    Parameters
    ----------
    *folders : str
        Folders of this package, for instance "features". `types` always counts.

    Returns
    -------
    list
        Versions of Python and of the libraries, and SHA-256 of the source.
    """
    sources = [path for name in ("types", *folders) for path in (_PACKAGE / name).rglob("*.py")]
    libraries = {name: _version(name) for name in LIBRARIES}
    return [platform.python_version(), libraries, key_of([sha256_of(p) for p in sorted(sources)])]


def code_behind(function: Callable[..., Any] | str) -> list[Any]:
    """Say, as JSON can hold it, which code a function runs.

    Parameters
    ----------
    function : callable or str
        "nmfsync.folder.module:name" for a function of this package.
    """
    if isinstance(function, str):
        return code_of(function.split(".")[1])
    return [*code_of(), _source_digest(function)]


@cache
def _source_digest(function: Callable[..., Any]) -> str:
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
