"""Files are written whole or not at all, and known by their hashes."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
