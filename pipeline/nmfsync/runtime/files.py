"""Reading files, writing them completely or not at all, and their hashes."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from nmfsync.errors import NmfsyncError, shown

# Endings of the files that SQLite keeps beside a database.
SIDE_FILES = ("-wal", "-shm", "-journal")


def check_target(path: Path, inputs: Iterable[Path], overwrite: bool) -> None:
    """Raise NmfsyncError if `path` is an input file, or exists and must not be overwritten."""
    if any(path.resolve() == source.resolve() for source in inputs):
        raise NmfsyncError(f"{path}: is an input file; name another file")
    if path.is_dir():
        raise NmfsyncError(f"{path}: is a folder; name a file")
    if path.exists() and not overwrite:
        raise NmfsyncError(
            f"{path}: exists already; name another file, or overwrite it (--force, overwrite=True)"
        )


@contextmanager
def staging(path: Path) -> Iterator[Path]:
    """Make a temporary folder beside `path`; it is removed at the end, after an error too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".", suffix=".part") as folder:
        yield Path(folder)


def put(finished: Path, path: Path) -> None:
    """Replace `path` by a finished file in one step."""
    # SQLite would apply the pending changes of the old database to the new one.
    for ending in SIDE_FILES:
        path.with_name(path.name + ending).unlink(missing_ok=True)
    os.replace(finished, path)


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """Write to a temporary file beside `path` that replaces it on success.

    After an interruption (a full disk, an error, Ctrl-C) the previous file is
    unchanged and no partial file is left.

    Parameters
    ----------
    path : Path or str
        The final place. Its folder is made if it does not exist.

    Yields
    ------
    Path
        The temporary file, with the same ending as `path`.

    Raises
    ------
    OSError
        If the folder or the file cannot be written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        # mkstemp makes private files; give the output the usual permissions.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def reading(path: Path | str, fault: str) -> Iterator[None]:
    """Turn whatever goes wrong in a block that reads a file into one NmfsyncError.

    Libraries raise errors of many kinds for damaged files, so none are listed. An
    NmfsyncError of the block need not name the file.

    Parameters
    ----------
    path : Path or str
        Must be a regular file: opening a pipe would wait for ever.
    fault : str
        What an error of an unknown kind means, for instance "is no readable mesh".
    """
    try:
        _check_regular(Path(path))
        yield
    except MemoryError:
        raise
    except NmfsyncError as error:
        raise _naming(path, error) from None
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:
            raise NmfsyncError(f"{path}: cannot be read ({shown(error.strerror, 200)})") from None
        raise NmfsyncError(f"{path}: {fault} ({_reason(error)})") from None


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn whatever a library raises in a block that writes a file into one NmfsyncError."""
    try:
        yield
    except MemoryError:
        raise
    except NmfsyncError as error:
        raise _naming(path, error) from None
    except Exception as error:
        raise NmfsyncError(f"{path}: cannot be written ({_reason(error)})") from None


def _naming(path: Path | str, error: NmfsyncError) -> NmfsyncError:
    """Return an error whose message names the file."""
    return error if str(path) in str(error) else type(error)(f"{path}: {error}")


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    return shown(f"{type(error).__name__}: {text}" if text else type(error).__name__, 200)


def _check_regular(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise NmfsyncError("no such file") from None
    if stat.S_ISDIR(mode):
        raise NmfsyncError("is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise NmfsyncError("is a pipe or a device, not a file")


def read_text(path: Path | str, errors: str = "strict") -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Parameters
    ----------
    path : Path or str
    errors : str
        As for `bytes.decode`: what to do with bytes that are not UTF-8.

    Raises
    ------
    NmfsyncError
        If the file cannot be read, or is no text.
    """
    with reading(path, "cannot be read"):
        content = Path(path).read_bytes()
        try:
            text = content.decode("utf-8-sig", errors)
        except UnicodeDecodeError:
            raise NmfsyncError("not a text file in UTF-8") from None
        if "\0" in text:
            raise NmfsyncError("not a text file in UTF-8: contains the character 0")
    return text


def check_memory(size: int) -> None:
    """Raise NmfsyncError if so many bytes do not fit in the memory that is free."""
    if size > 2**28 and size > (free := psutil.virtual_memory().available):
        raise NmfsyncError(
            f"its content needs {size / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free"
        )


def check_space(folder: Path, size: int) -> None:
    """Raise NmfsyncError if so many bytes do not fit in a folder."""
    if size > (free := shutil.disk_usage(folder).free):
        raise NmfsyncError(
            f"{folder}: not enough space: {size / 1e6:,.1f} MB are needed, "
            f"{free / 1e6:,.1f} MB are free"
        )
