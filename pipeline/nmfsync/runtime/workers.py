"""Processes that work for another one, and end with it."""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil

from nmfsync.errors import NmfsyncError

if TYPE_CHECKING:
    from joblib import Parallel  # not every process that uses this module needs it

# What the tracker of joblib's resources says of those that it cleans up after an error.
_QUIET = "ignore:resource_tracker"

_INTERVAL = 0.5  # seconds between two looks at the parent


def ending_with_this_process() -> dict[str, Any]:
    """Return options of joblib for workers that do not outlive this process, even if killed."""
    if _QUIET not in sys.warnoptions:  # which Python hands to the tracker when it starts
        sys.warnoptions.append(_QUIET)
    return {"initializer": end_with_parent, "initargs": (os.getpid(),)}


@contextmanager
def results_of(parallel: "Parallel", calls: Iterable[Any]) -> Iterator[Generator[Any, None, None]]:
    """Let joblib do calls, and hand out its results; the rest is given up at the end of the block.

    Parameters
    ----------
    parallel : joblib.Parallel
        Returns a generator.
    calls : iterable
        What `joblib.delayed` makes.

    Yields
    ------
    generator
        Of the results.

    Raises
    ------
    NmfsyncError
        If a worker is killed.
    """
    with interrupts_ignored():  # by the workers, which end with this process
        results = parallel(calls)
    try:
        yield results
    except BrokenProcessPool:
        raise NmfsyncError(
            "a worker was killed, as the system does when memory is short; run again, with fewer "
            "at once (--jobs): what is finished stays"
        ) from None
    finally:
        with warnings.catch_warnings():  # about results that are not used
            warnings.simplefilter("ignore", UserWarning)
            results.close()


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C in the block, and for good in the processes that are started in it.

    One that is starting would answer with a traceback.
    """
    if threading.current_thread() is not threading.main_thread():  # only this one may set it
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def end_with_parent(parent: int) -> None:
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
