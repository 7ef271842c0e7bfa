"""Processes that help this one with what threads cannot share: Python's own work."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import parent_process
from typing import Any, TypeVar

from nmfsync.runtime.threads import Threads, thread_count
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

    The helpers, which take about a second to start, begin with the first tasks, and this process
    with the last one; each takes another one when it has done one. If there can be no helpers, or
    one is killed, this process does the rest.

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
    left, results = deque(range(len(tasks))), dict[int, T]()

    def work(take: Callable[[], int], call: Callable[..., T]) -> None:
        """Do tasks until none is left, or one fails."""
        while left:
            try:
                n = take()
            except IndexError:  # another thread was faster
                return
            try:
                results[n] = call(*tasks[n])
            except BrokenProcessPool:
                left.append(n)
                return
            except BaseException:
                left.clear()
                raise

    pool = _started(helpers) if helpers > 0 and len(tasks) > 1 else None
    if pool is not None:

        def call_elsewhere(*task: Any) -> T:
            result: T = pool.submit(function, *task).result()
            return result

        with Threads(helpers) as threads:
            ends = [threads.begin(work, left.popleft, call_elsewhere) for _ in range(helpers)]
            work(left.pop, function)
            for end in ends:
                end()
    work(left.popleft, function)  # or what a killed helper left
    return [results[n] for n in range(len(tasks))]


def _started(helpers: int) -> Any:
    """Start the helpers if they do not run yet; return None if that is impossible."""
    try:
        with interrupts_ignored():  # by the helpers, which end with this process
            pool = _pool(helpers)
            pool.submit(int)  # which starts them
            return pool
    except (OSError, BrokenProcessPool):
        return None


@cache
def _pool(helpers: int) -> Any:
    """Return the helpers, which stay for later tasks."""
    from joblib.externals import loky  # which most processes do not need

    return loky.ProcessPoolExecutor(helpers, timeout=_IDLE, **ending_with_this_process())
