"""Reading files, writing them completely or not at all, and their hashes."""

import hashlib
import os
import platform
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path

import psutil

from nmfsync.errors import ChangedError, NmfsyncError, shown

# Endings of the files that SQLite keeps beside a database.
SIDE_FILES = ("-wal", "-shm", "-journal")

# Names of temporary files and folders say who made them: host and process.
_TEMPORARY = re.compile(r"\.nmfsync-(?P<host>\w+)-(?P<pid>[0-9]{1,9})-\w{8}.*")

# The header of a stored array is a Python literal. Python 3.11 may call it wrong if two threads
# parse literals at once (python/cpython issue 106905); whoever reads arrays holds this meanwhile.
ONE_PARSER = threading.Lock()

# Seconds by which the clock of a file server may be behind.
_CLOCKS_DIFFER = 3600


def check_target(path: Path, inputs: Iterable[Path], overwrite: bool) -> None:
    """Raise NmfsyncError if `path` is an input file, or exists and must not be overwritten."""
    if any(os.path.realpath(path) == os.path.realpath(source) for source in inputs):
        raise NmfsyncError(f"{path}: is an input file; name another file")
    if path.is_dir():
        raise NmfsyncError(f"{path}: is a folder; name a file")
    if path.exists() and not path.is_file():
        raise NmfsyncError(f"{path}: is a pipe or a device; name a file")
    if os.path.lexists(path) and not overwrite:
        raise NmfsyncError(
            f"{path}: exists already; name another file, or overwrite it (--force, overwrite=True)"
        )


@contextmanager
def staging(path: Path) -> Iterator[Path]:
    """Make a temporary folder beside `path`; it is removed at the end, after an error too."""
    prefix = _temporary_prefix(path.parent)
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    prefix = _temporary_prefix(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=path.suffix)
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


def read_hashed(path: Path, sha256: str | None = None) -> tuple[bytes, str]:
    """Read a file in one go, so that what is used is what was hashed.

    Parameters
    ----------
    path : Path
    sha256 : str, optional
        That of the file when it was looked at before.

    Returns
    -------
    bytes, str
        What is in the file, and its SHA-256 in hexadecimal.

    Raises
    ------
    ChangedError
        If the file is another one than `sha256` says.
    """
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if sha256 not in (None, found):
        raise ChangedError(f"{path}: has changed while it was used; run again")
    return data, found


def _temporary_prefix(folder: Path) -> str:
    """Make a folder ready for temporary files; return what their names begin with."""
    folder.mkdir(parents=True, exist_ok=True)
    _sweep_once(folder.absolute())
    return f".nmfsync-{_host()}-{os.getpid()}-"


@lru_cache(maxsize=1000)
def _sweep_once(folder: Path) -> None:
    _sweep(folder.glob(".nmfsync-*"))


def sweep_below(folder: Path) -> None:
    """Remove what processes that were killed left in a folder and its subfolders."""
    _sweep(folder.rglob(".nmfsync-*"))


def is_temporary(path: Path) -> bool:
    """Say whether a file or folder is a temporary one of this program."""
    return _TEMPORARY.fullmatch(path.name) is not None


def _sweep(candidates: Iterable[Path]) -> None:
    """Remove the temporary files and folders whose process is dead.

    Those of other hosts stay: nobody here knows whether their process lives.
    """
    with suppress(OSError):  # a folder is gone by now, or cannot be read
        for path in list(candidates):
            made_by = _TEMPORARY.fullmatch(path.name)
            if made_by and made_by["host"] == _host():
                _remove_stray(path, int(made_by["pid"]))


def _remove_stray(path: Path, pid: int) -> None:
    with suppress(OSError):  # it is gone by now, or not ours to remove
        if not _lives(pid, path.lstat().st_mtime):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _lives(pid: int, time: float) -> bool:
    """Say whether a process runs that was there at a time (seconds); numbers are used again."""
    try:
        process = psutil.Process(pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        return not ended and process.create_time() < time + _CLOCKS_DIFFER
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


@cache
def _host() -> str:
    """Name the host and, on Linux, the container: numbers of processes are unique in it."""
    place = platform.node()
    with suppress(OSError):  # there is no such link elsewhere
        place += os.readlink("/proc/self/ns/pid")
    return re.sub(r"[^A-Za-z0-9]+", "_", place)[:60]


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder; it is made if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, ValueError):
        return False
    return True


@cache
def private_folder() -> Path | None:
    """Return a folder among the temporary ones that nobody else can write to, or None.

    It keeps what users without a home would make again in every run.
    """
    if os.name != "posix":  # where every user has a home and temporary files of their own
        return None
    try:
        folder = Path(tempfile.gettempdir()) / f"nmfsync-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()  # another user may have made it, or put a link there
    except OSError:
        return None
    mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return folder if mine and not status.st_mode & 0o077 else None


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

    def say(error: Exception) -> str:
        if isinstance(error, OSError) and error.strerror:
            return f"cannot be read ({shown(error.strerror, 200)})"
        return f"{fault} ({_reason(error)})"

    with _named(path, say):
        _check_regular(Path(path))
        yield


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn whatever a library raises in a block that writes a file into one NmfsyncError."""
    with _named(path, lambda error: f"cannot be written ({_reason(error)})"):
        yield


@contextmanager
def _named(path: Path | str, say: Callable[[Exception], str]) -> Iterator[None]:
    """Turn errors of a block into an NmfsyncError that names the file; `say` words the others."""
    try:
        yield
    except MemoryError:
        raise
    except NmfsyncError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from None
    except Exception as error:
        raise NmfsyncError(f"{path}: {say(error)}") from None


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
