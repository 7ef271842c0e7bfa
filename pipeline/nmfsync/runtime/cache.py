"""Results kept on disk under what they are made from.

An entry's name is a digest of the content, the settings and the code behind it,
so that a changed image is simply another entry. Entries appear whole or not at
all: an interrupted run leaves what it finished, and concurrent runs are safe and
share results. Every entry ends with a seal, a digest of its key and its bytes:
one that is damaged, or that lies under the name of another, counts as missing,
and is made again. Nothing is ever deleted; the folder may be, at any time.
"""

import hashlib
import json
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.files import ONE_PARSER, atomic_write, sha256_of

T = TypeVar("T")
Arrays = Mapping[str, Any]

_DIGEST = 16  # bytes: two of 10¹² entries agree by chance with a probability of 10⁻¹⁵
_SEAL = 32  # bytes: SHA-256
_CHUNK = 2**20  # bytes read at a time
_HOLD = 2.0  # seconds: rows are written again at most this often, and this much may be lost

LIBRARIES = ("numpy", "scipy", "opencv-python-headless")
# Both provide cv2, and either may be the one that is installed.
_OTHER_NAMES = {"opencv-python-headless": "opencv-python"}
_PACKAGE = Path(__file__).parents[1]
_SOURCES = (".py", ".html", ".css", ".js")


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


def save(path: Path, key: str, arrays: Arrays) -> None:
    """Write named arrays under a key, whole or not at all: an `.npz` file and its seal.

    Parameters
    ----------
    path : Path
    key : str
        Digest of all that the arrays depend on; only `load` with the same key finds them.
    arrays : mapping of str to array

    Raises
    ------
    OSError
        If the file cannot be written or replaced. It names the file.
    """
    try:
        if path.is_dir() and not path.is_symlink():  # which no file can replace
            shutil.rmtree(path)
        with atomic_write(path) as temporary, temporary.open("w+b") as file:
            np.savez(file, **arrays)
            size = file.tell()
            file.write(_seal(file, size, key))
    except OSError as error:  # which names the temporary file, if any
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def load(path: Path, key: str, unpack: Callable[[dict[str, NDArray[Any]]], T]) -> T | None:
    """Read what `save` wrote under this key, and unpack it.

    Nothing of a file is interpreted before its seal is checked.

    Parameters
    ----------
    path : Path
    key : str
    unpack : callable
        Turns the named arrays into a result. An error in it means that they are not one.

    Returns
    -------
    result or None
        None if the entry is missing, damaged in any way, or that of another key.
    """
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        with path.open("rb") as file:
            if _seal(file, file.seek(0, SEEK_END) - _SEAL, key) != file.read():
                return None
            file.seek(0)
            with ONE_PARSER, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            return unpack(arrays)
    except Exception:  # whatever is wrong with the file, the remedy is to make it again
        return None


def _seal(file: BinaryIO, size: int, key: str) -> bytes:
    """Digest a key and the first bytes of a file; the file then stands behind them."""
    hashed = hashlib.sha256(f"{key}:{size}:".encode())
    file.seek(0)
    while chunk := file.read(min(_CHUNK, size - file.tell())):
        hashed.update(chunk)
    return hashed.digest()


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
            row = self._row(self._pairs[numbers[0], 0]) if len(numbers) else {}
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
            row = {**self._row(i), **self._held.pop(i)}
            save(
                *self._place(i),
                {
                    "others": np.frombuffer(b"".join(row), np.uint8).reshape(-1, _DIGEST),
                    "counts": np.array([len(result) for result in row.values()]),
                    "results": np.concatenate(list(row.values())),
                },
            )
        self._flushed = time.monotonic()

    def _row(self, i: int) -> dict[bytes, NDArray[Any]]:
        """Read the arrays of an image's pairs that are known, by the digest of the pair."""
        return load(*self._place(i), _unpack_row) or {}

    def _place(self, i: int) -> tuple[Path, str]:
        key = self._digests[i].hex()
        return self._folder / f"{key}.npz", key


def _unpack_row(arrays: Arrays) -> dict[bytes, NDArray[Any]]:
    others, counts, results = arrays["others"], arrays["counts"], arrays["results"]
    parts = np.split(results, np.cumsum(counts)[:-1])
    return {other.tobytes(): part for other, part in zip(others, parts, strict=True)}


def versions() -> dict[str, str]:
    """Versions of Python, of this program, and of the libraries that results depend on."""
    names = ("nmfsync", *LIBRARIES)
    return {"python": platform.python_version(), **{name: _version(name) for name in names}}


@cache
def identity(*libraries: str) -> dict[str, str]:
    """Return what must be equal on two machines for them to compute the same bits.

    Parameters
    ----------
    *libraries : str
        Packages whose versions are compared beside those of `versions`.

    Returns
    -------
    dict of str to str
        Versions by name, and the first digits of a digest of this package's source.
    """
    sources = sorted(_PACKAGE.rglob("*.py"))
    source = {"nmfsync's source code": key_of([sha256_of(path) for path in sources])[:8]}
    return {**versions(), **{name: _version(name) for name in libraries}, **source}


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
    return _code(sources, LIBRARIES)


@cache
def code_of_pages() -> list[Any]:
    """Say, as JSON can hold it, which code makes results, figures and pages."""
    sources = [path for path in _PACKAGE.rglob("*.*") if path.suffix in _SOURCES]
    return _code(sources, (*LIBRARIES, "matplotlib", "jinja2"))


def _code(sources: Sequence[Path], libraries: Sequence[str]) -> list[Any]:
    versions = {name: _version(name) for name in libraries}
    return [platform.python_version(), versions, key_of([sha256_of(p) for p in sorted(sources)])]


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
