"""Files that several processes are about to make: one of them does, and the others wait."""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

LONGEST = 120.0  # seconds to wait: then the other process is stuck, and everybody makes its own

_BETWEEN = 0.05  # seconds between two looks

_held: dict[Path, int] = {}


def claim(path: Path) -> bool:
    """Claim a file that this process makes, until `release`; False if another process has it.

    A claim ends with its process, however that ends. Where there are no locks, every process
    may have it.
    """
    if path in _held or sys.platform == "win32":
        return True
    import fcntl

    try:
        handle = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        return not isinstance(error, BlockingIOError)
    _held[path] = handle
    return True


def wait_for(path: Path) -> None:
    """Wait until no other process claims a file, and claim it."""
    end = time.monotonic() + LONGEST
    while not claim(path) and time.monotonic() < end:
        time.sleep(_BETWEEN)


def release(path: Path) -> None:
    """Give up the claim of a file, which is there now or cannot be made."""
    if (handle := _held.pop(path, None)) is not None:
        with suppress(OSError):
            _lock_of(path).unlink()
        os.close(handle)


def release_all() -> None:
    """Give up all claims."""
    for path in list(_held):
        release(path)


def _lock_of(path: Path) -> Path:
    return path.with_name(f".nmfsync-{path.name}.lock")
