"""Compiled kernels: plain loops over arrays, where NumPy would need large temporary arrays.

The machine code is kept on disk, a file for every kernel and the types of its
arguments, and nothing that happens to the disk stops the program: a file that is
damaged, or of other sources or libraries, counts as missing and is written
again, and where no folder is writable, every process compiles for itself.
"""

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import event
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.runtime import claims, compiling
from nmfsync.runtime.files import atomic_write, is_writable, private_folder

_HASH = hashlib.sha256

SHARED = ("ascending.py", "heap.py")  # modules whose kernels those of every folder may call


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function at its first call, and keep the machine code on disk if possible.

    The compiled function releases the GIL.
    """
    # Without the wrapper for callers in C: there are none, and it takes a tenth of the time.
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}
    kernel: Callable[..., Any] = numba.njit(**options)(function)
    kernel._cache = _MachineCode(function)  # type: ignore[attr-defined]  # in place of numba's
    return kernel


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function as a part of the kernels that call it.

    Each array that a call hands over costs two atomic steps on its reference count, which is
    more than a short function takes.
    """
    return compiled(function, inline="always")


def csr_arrays(A: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return where every row (m + 1,) begins, and the columns (n,) of all entries.

    Always of these types, whatever made the array: else kernels are compiled for each.
    """
    return np.asarray(A.indptr, np.int64), np.asarray(A.indices, np.int32)


class _MachineCode(NullCache):  # type: ignore[misc]  # numba has no types
    """The machine code of a kernel: what numba asks for it, and hands over to be kept.

    numba's own cache raises an error where no folder is writable or a file is
    damaged, loads code that was changed, and does not notice that a kernel that
    was inlined is another one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        self._sources = Path(code.co_filename).parent
        python = sys.implementation.cache_tag
        self._kernel = function.__name__
        self._name = f"{Path(code.co_filename).stem}.{function.__qualname__}.{python}"

    @property
    def cache_path(self) -> str | None:
        folder = _folder_of(self._sources)
        return str(folder) if folder else None

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the code for these types of arguments; None to have it compiled.

        If another process compiles it at the moment, wait for that.
        """
        target.refresh()
        try:
            file = self._file(signature, target.codegen())
        except OSError:  # no folder
            return None
        known = self._load(file, target)
        if known is None and not claims.claim(file):
            with compiling.counted(self._kernel, has_folder):
                claims.wait_for(file)
            known = self._load(file, target)
        if known is not None:
            claims.release(file)
        return known

    def _load(self, file: Path, target: Any) -> Any:
        """Return the code in a file; None if it is missing, or not what it should be."""
        try:
            if code := _code_in(file, self._sources):
                return CompileResult._rebuild(target, *pickle.loads(code))
        except Exception:  # whatever is wrong with the file, the remedy is to make it again
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep the code, if there is a place for it."""
        with suppress(Exception):  # a full disk, a folder that is gone
            file = self._file(signature, result.codegen)
            try:
                if not result.library.has_dynamic_globals:  # addresses of this process
                    code = dumps(result._reduce())
                    with atomic_write(file) as temporary:
                        temporary.write_bytes(_seal(self._sources, code) + code)
            finally:
                claims.release(file)

    def is_kept(self) -> bool:
        """Whether the code for any types of arguments is kept."""
        folder = _folder_of(self._sources)
        files = folder.glob(f"{self._name}.*.nbc") if folder else ()
        return any(_code_in(file, self._sources) for file in files)

    def _file(self, signature: Any, codegen: Any) -> Path:
        folder = _folder_of(self._sources)
        if folder is None:
            raise FileNotFoundError
        key = _HASH(repr((signature, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return folder / f"{self._name}.{key}.nbc"


def is_kept(kernel: Any) -> bool:
    """Whether the machine code of a kernel is kept, or cannot be."""
    return not has_folder() or bool(kernel._cache.is_kept())


def _code_in(file: Path, sources: Path) -> bytes | None:
    """Return the machine code in a file; None if it is damaged or was made from other sources."""
    try:
        kept = file.read_bytes()
    except OSError:
        return None
    made_from, code = kept[: _HASH().digest_size], kept[_HASH().digest_size :]
    return code if made_from == _seal(sources, code) else None


def _seal(sources: Path, code: bytes) -> bytes:
    """Digest of machine code and of what it was made from."""
    return _HASH(_digest_of_sources(sources) + code).digest()


@cache
def _digest_of_sources(folder: Path) -> bytes:
    """Digest of the compiler, and of the modules whose kernels those of a folder may call."""
    digest = _HASH(f"{numba.__version__} {llvmlite.__version__}".encode())
    shared = (Path(__file__).with_name(name) for name in SHARED)
    for file in (*sorted(folder.glob("*.py")), *shared):
        digest.update(_HASH(file.read_bytes()).digest())
    return digest.digest()


@cache
def _folder_of(sources: Path) -> Path | None:
    """Return the folder for the machine code of the kernels in a folder of modules, or None."""
    return next(filter(is_writable, _folders(sources)), None)


def _folders(sources: Path) -> Iterator[Path]:
    """Yield the places that numba takes too, and one that users without a home have."""
    own = f"{sources.name}_{_HASH(os.fsencode(sources)).hexdigest()[:16]}"
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR).absolute() / own
    yield sources / "__pycache__"
    home = Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)
    if home.is_absolute():  # else there is no home, and this is a folder named ~
        yield home / own
    # Only in a folder of our own: code is run that is read from it.
    if temporary := private_folder():
        yield temporary / own


class _Listener(event.Listener):  # type: ignore[misc]  # numba has no types
    """Hears of every kernel that is compiled. numba compiles on one thread at a time."""

    def on_start(self, event: Any) -> None:
        compiling.start(event.data["dispatcher"].py_func.__name__, has_folder)

    def on_end(self, event: Any) -> None:
        compiling.end()
        if event.is_failed:
            claims.release_all()


event.register("numba:compile", _Listener())  # numba's name of the event


def has_folder() -> bool:
    """Whether there is a folder to keep the code of this package's kernels in."""
    return _folder_of(Path(__file__).parent) is not None
