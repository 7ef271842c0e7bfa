"""Engines: threads, processes or a cluster that do the work, all through joblib."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice, starmap
from typing import Any, TypeVar

import joblib
from joblib.parallel import get_active_backend

from nmfsync.errors import NmfsyncError
from nmfsync.runtime import clusters
from nmfsync.runtime.engines import DEFAULT_ENGINE, ENGINES
from nmfsync.runtime.threads import Threads, thread_count
from nmfsync.runtime.workers import ending_with_this_process, results_of

T = TypeVar("T")

_BATCH = 256  # tasks sent at a time to an engine that returns all results together


@contextmanager
def engine(name: str = DEFAULT_ENGINE, address: str | None = None) -> Iterator[None]:
    """Do the work inside the block on an engine.

    Threads share the descriptors, and nearly all of the work is compiled code
    that runs in parallel. Processes have to be started, and their input has to
    be sent to them. The workers of a cluster must have the same environment as this
    machine, and the image files under the same paths. Every engine returns the same bits.

    Parameters
    ----------
    name : str
        "threads" or "processes" on this machine, or a "dask" or "ray" cluster.
    address : str, optional
        Address of the cluster's scheduler: "tcp://10.0.0.1:8786" for Dask,
        "10.0.0.1:6379" for Ray. Without it, Ray uses a cluster on this machine.

    Raises
    ------
    NmfsyncError
        If there is no such engine, the cluster does not answer, or its workers are not as
        this machine is.
    """
    if name not in ENGINES:
        raise NmfsyncError(f"unknown engine {name!r}; known are {', '.join(ENGINES)}")
    package = ENGINES[name]
    if package is None:
        if address is not None:
            raise NmfsyncError(f"engine {name} runs on this machine and takes no address")
        if name == DEFAULT_ENGINE:  # that of `stream`
            yield
        else:
            options = ending_with_this_process()
            with joblib.parallel_config("loky", n_jobs=thread_count(), **options):
                yield
        return
    if find_spec(package) is None:
        raise NmfsyncError(f"engine {name} needs {package}; pip install 'nmfsync[{name}]'")
    with clusters.dask(address) if name == "dask" else clusters.ray(address):
        yield


def stream(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]
) -> Generator[T, None, None]:
    """Call a function for every task on the engine, and yield the results in order.

    Tasks are taken from their iterator shortly before they are done, so that
    they are never in memory all at once.

    Parameters
    ----------
    function : callable
        A function on the top level of a module, so that other processes can
        import it. It must not change its arguments.
    tasks : iterable of tuples
        Arguments. Put arrays into a tuple or list: on a cluster they are then
        sent with the task, and if a worker is lost, another one can repeat the
        task. A bare array is stored on one worker and lost with it.

    Yields
    ------
    result
        The return value of one call.
    """
    options = {"prefer": "threads", "batch_size": 1}  # and as many workers as the engine has
    backend, _ = get_active_backend(prefer="threads")
    if getattr(backend, "uses_threads", False):
        yield from _on_threads(function, tasks, backend.effective_n_jobs(thread_count()))
        return
    calls = (joblib.delayed(function)(*task) for task in tasks)
    if not backend.supports_return_generator:  # Ray's
        while batch := list(islice(calls, _BATCH)):
            yield from clusters.repeated_on_ray(lambda: joblib.Parallel(**options)(batch))
        return
    with results_of(joblib.Parallel(**options, return_as="generator"), calls) as results:
        for result in results:  # noqa: UP028 - "yield from" would close them before
            yield result


def _on_threads(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], threads: int
) -> Generator[T, None, None]:
    """Do the tasks, two a thread ahead of the result that is handed out.

    joblib does not wait for its threads when it is interrupted. If a thread is
    still in OpenCV when Python ends, the program crashes.
    """
    if threads <= 1:
        yield from starmap(function, tasks)
        return
    with Threads(threads) as pool:
        ahead: deque[Callable[[], T]] = deque()
        for task in tasks:
            ahead.append(pool.begin(function, *task))
            if len(ahead) >= 2 * threads:
                yield ahead.popleft()()
        while ahead:
            yield ahead.popleft()()
