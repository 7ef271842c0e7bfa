"""Processes that work for another one, and end with it."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import psutil

from nmfsync.errors import NmfsyncError

_INTERVAL = 0.5  # seconds between two looks at the parent


def ending_with_this_process() -> dict[str, Any]:
    """Return options of joblib for workers that do not outlive this process, even if killed."""
    return {"initializer": _end_with_parent, "initargs": (os.getpid(),)}


@contextmanager
def losses_as_errors() -> Iterator[None]:
    """Raise NmfsyncError if a worker that the block waits for is killed."""
    try:
        yield
    except BrokenProcessPool:
        raise NmfsyncError(
            "a worker was killed, as the system does when memory is short; run again, with fewer "
            "at once (--jobs): what is finished stays"
        ) from None


def _end_with_parent(parent: int) -> None:
    """Let this process end as soon as the process `parent`, which started it, is gone."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while _lives(parent):
        time.sleep(_INTERVAL)
    os._exit(1)


def _lives(parent: int) -> bool:
    if os.name == "posix":
        return os.getppid() == parent  # orphans get another parent
    return psutil.pid_exists(parent)
