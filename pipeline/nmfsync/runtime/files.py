"""Files are written whole or not at all, and known by their hashes."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nmfsync.errors import NmfsyncError

# What SQLite keeps beside a database.
SIDE_FILES = ("-wal", "-shm", "-journal")


def check_target(path: Path, inputs: Iterable[Path], overwrite: bool) -> None:
    """Raise NmfsyncError if `path` is an input, or exists and may not be overwritten."""
    if any(path.resolve() == given.resolve() for given in inputs):
        raise NmfsyncError(f"{path}: is the input itself; name another file")
    if path.is_dir():
        raise NmfsyncError(f"{path}: is a folder; name a file")
    if path.exists() and not overwrite:
        raise NmfsyncError(
            f"{path}: exists already; name another file, or overwrite it (--force, overwrite=True)"
        )


@contextmanager
def staging(path: Path) -> Iterator[Path]:
    """Make a folder beside `path` to prepare files in; it is gone afterwards, come what may."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".", suffix=".part") as folder:
        yield Path(folder)


def put(made: Path, path: Path) -> None:
    """Let a finished file take the place of `path` at once."""
    # Changes pending beside a database would be applied to the one that replaces it.
    for ending in SIDE_FILES:
        path.with_name(path.name + ending).unlink(missing_ok=True)
    os.replace(made, path)


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """Write to a temporary file beside `path` that takes its place on success.

    Whatever interrupts the writing (a full disk, an error, Ctrl-C) leaves the
    previous file as it was and no partial file behind.

    Parameters
    ----------
    path : Path or str
        The final place. Its folder is made if need be.

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
        # mkstemp makes private files; outputs get the usual permissions.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
