"""Writing files completely or not at all, and their hashes."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from nmfsync.errors import NmfsyncError

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
