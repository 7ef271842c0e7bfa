"""Processes that work for another one, and end with it."""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import psutil

from nmfsync.errors import NmfsyncError

# What the tracker of joblib's resources says of those that it cleans up after an error.
_QUIET = "ignore:resource_tracker"

_INTERVAL = 0.5  # seconds between two looks at the parent


def ending_with_this_process() -> dict[str, Any]:
    """Return options of joblib for workers that do not outlive this process, even if killed."""
    if _QUIET not in sys.warnoptions:  # which Python hands to the tracker when it starts
        sys.warnoptions.append(_QUIET)
    return {"initializer": _end_with_parent, "initargs": (os.getpid(),)}


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C in the block, and for good in the processes that are started in it.

    They end with this process; a Ctrl-C that reaches them while they start only makes noise.
    """
    if threading.current_thread() is not threading.main_thread():  # which may not say so
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


@contextmanager
def closing_quietly(results: Generator[Any, None, None]) -> Iterator[None]:
    """Close a generator of joblib at the end, without its warning about results not used."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            results.close()


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
