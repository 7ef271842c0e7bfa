"""Processes that help this one with what threads cannot share: Python's own work."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import starmap
from multiprocessing import parent_process
from typing import Any, TypeVar

from nmfsync.runtime.threads import thread_count
from nmfsync.runtime.workers import ending_with_this_process, interrupts_ignored

T = TypeVar("T")

_IDLE = 60.0  # seconds after which a helper without work ends, and gives its memory back


def helpers_for(most: int) -> int:
    """Return how many helpers may work beside this process, at most so many.

    A process that works for another one has none: it has its share of the processor already.
    """
    return 0 if most < 1 or parent_process() else min(most, thread_count() - 1)


def with_helpers(
    function: Callable[..., T], tasks: Sequence[tuple[Any, ...]], helpers: int
) -> list[T]:
    """Call a function for every task, in this process and in others; return the results in order.

    The helpers, which take about a second to start, begin with the first task, and this process
    with the last one. If there can be no helpers, or one is killed, this process does the rest.

    Parameters
    ----------
    function : callable
        A function on the top level of a module. Its results must not depend on the process.
    tasks : sequence of tuples
        Arguments.
    helpers : int
        From `helpers_for`.

    Returns
    -------
    list
    """
    futures = _begun(function, tasks, helpers) if helpers > 0 else None
    if futures is None:
        return list(starmap(function, tasks))
    own: dict[int, T] = {}
    try:
        for n in reversed(range(len(tasks))):
            if futures[n].cancel():  # no helper has begun it
                own[n] = function(*tasks[n])
        return [
            own[n] if n in own else _result(future, function, tasks[n])
            for n, future in enumerate(futures)
        ]
    finally:
        for future in futures:
            future.cancel()


def _begun(
    function: Callable[..., T], tasks: Sequence[tuple[Any, ...]], helpers: int
) -> "list[Future[T]] | None":
    try:
        with interrupts_ignored():  # by the helpers, which end with this process
            return [_pool(helpers).submit(function, *task) for task in tasks]
    except (OSError, BrokenProcessPool):
        return None


def _result(future: "Future[T]", function: Callable[..., T], task: tuple[Any, ...]) -> T:
    try:
        return future.result()
    except BrokenProcessPool:
        return function(*task)


@cache
def _pool(helpers: int) -> Any:
    """Return the helpers, which stay for later tasks. No program need be ready for a copy of it."""
    from joblib.externals import loky  # which most processes do not need

    return loky.ProcessPoolExecutor(helpers, timeout=_IDLE, **ending_with_this_process())
