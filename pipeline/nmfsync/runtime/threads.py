"""Work on threads, with the same bits for any number of them.

The linear algebra of the methods runs on one BLAS thread. Large work is cut into
blocks here, and one thread computes each block: NumPy's products and the compiled
kernels release the GIL. The blocks do not depend on the number of threads.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

BLOCK = 512  # rows: enough for fast products, few enough for the cache

_here = threading.local()  # `pool`: the `Threads` that the present thread belongs to


def thread_count() -> int:
    """Return the number of threads to use: numba's limit, which joblib lowers in its workers."""
    import numba  # not every process that uses this module needs it

    return int(numba.get_num_threads())


class Threads(ThreadPoolExecutor):
    """Up to so many threads: fewer, or only the caller's, if the system gives no more.

    It limits threads by their number (ulimit -u, containers) and by the memory
    of their stacks (ulimit -v).

    The end of a `with` block waits for all threads. If it ends by an error or Ctrl-C, nothing else
    begins: no work that waits for a thread, and no `map_blocks` in the work of a thread.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(threads, initializer=lambda: setattr(_here, "pool", self))
        self.given_up = False

    def __exit__(self, kind: type[BaseException] | None, *_details: object) -> None:
        self.given_up = kind is not None
        self.shutdown(cancel_futures=self.given_up)

    def begin(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
        """Begin some work; return what to call for its result."""
        if self._max_workers:
            try:
                return self.submit(work, *args, **kwargs).result
            except RuntimeError:  # not even one thread
                if self._threads:
                    raise
                self._max_workers = 0
        return partial(work, *args, **kwargs)

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            self._max_workers = len(self._threads)
            if not self._threads:
                raise


def block_length(length: int, blocks: int, least: int = 1) -> int:
    """Return the length of blocks of which at most `blocks` cover range(length)."""
    return max(-(-length // blocks), least)


def map_blocks(
    work: Callable[[slice], T],
    length: int,
    block: int = BLOCK,
    done: Callable[[slice], Any] = lambda _piece: None,
) -> list[T]:
    """Call `work` for consecutive slices of range(length).

    Parameters
    ----------
    work : callable
        Takes a slice. It must not write what another slice reads or writes.
    length : int
    block : int
        Length of the slices; the last one may be shorter.
    done : callable
        Called with each slice that is done, in order, in the thread of the caller.

    Returns
    -------
    list
        The return values of `work`, in the order of the slices.

    Raises
    ------
    CancelledError
        In the thread of a pool whose `with` block ended by an error.
    """
    pool = getattr(_here, "pool", None)
    if pool is not None and pool.given_up:
        raise CancelledError
    slices = [slice(i, min(i + block, length)) for i in range(0, length, block)]
    threads = min(thread_count(), len(slices))
    if threads <= 1:
        return _collect(map(work, slices), slices, done)
    with Threads(threads) as pool:
        begun = [pool.begin(work, piece) for piece in slices]
        return _collect((result() for result in begun), slices, done)


def _collect(results: Iterable[T], slices: list[slice], done: Callable[[slice], Any]) -> list[T]:
    collected = []
    for piece, result in zip(slices, results, strict=True):
        collected.append(result)
        done(piece)
    return collected
