"""Where work is done: threads, processes or a cluster, all through joblib's interface."""

import socket
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from threading import Condition
from typing import Any, TypeVar

import joblib
from joblib.parallel import get_active_backend

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.threads import thread_count

T = TypeVar("T")

TIMEOUT = 10  # seconds to wait for a cluster

_BATCH = 256  # tasks sent at a time where results can only be had all together

ENGINES = ("threads", "processes", "dask", "ray")

_CLUSTERS = {"dask": "distributed", "ray": "ray"}  # and the package that speaks to each


@contextmanager
def engine(name: str = "threads", address: str | None = None) -> Iterator[None]:
    """Let the work inside the block be done by an engine.

    Threads share the descriptors, and nearly all of the work is compiled code
    that runs beside others; processes have to be started and sent all they
    need. The workers of a cluster need this package and the images' paths.
    Results are the same bits wherever they are made.

    Parameters
    ----------
    name : str
        "threads" or "processes" of this machine, or a "dask" or "ray" cluster.
    address : str, optional
        Where the cluster's scheduler listens: "tcp://10.0.0.1:8786" for Dask,
        "10.0.0.1:6379" for Ray, which finds one on this machine by itself.

    Raises
    ------
    NmfsyncError
        If there is no such engine, or the cluster does not answer.
    """
    if name not in ENGINES:
        raise NmfsyncError(f"unknown engine {name!r}; there are {', '.join(ENGINES)}")
    if name not in _CLUSTERS:
        if address is not None:
            raise NmfsyncError(f"engine {name} works on this machine and takes no address")
        if name == "threads":  # which `stream` takes unless told otherwise
            yield
        else:
            with joblib.parallel_config("loky", n_jobs=thread_count()):
                yield
        return
    if find_spec(_CLUSTERS[name]) is None:
        raise NmfsyncError(f"engine {name} needs {_CLUSTERS[name]}; pip install 'nmfsync[{name}]'")
    with _dask(address) if name == "dask" else _ray(address):
        yield


@contextmanager
def _dask(address: str | None) -> Iterator[None]:
    from distributed import Client
    from distributed.comm import get_address_host_port

    if address is None:
        raise NmfsyncError("engine dask needs the address of a scheduler, for instance "
                           "tcp://127.0.0.1:8786")  # fmt: skip
    try:
        # Asked before there is a client: one that failed would close itself at any later time,
        # and wait for ever if another one is starting then.
        socket.create_connection(get_address_host_port(address), TIMEOUT).close()
        client = Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise NmfsyncError(f"no Dask scheduler answers at {address} ({error})") from None
    with client, joblib.parallel_config("dask", client=client):
        yield


@contextmanager
def _ray(address: str | None) -> Iterator[None]:
    import ray
    from ray.util.joblib import register_ray

    try:
        ray.init(address or "auto", log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        where = f" at {address}" if address else ""
        raise NmfsyncError(f"no Ray cluster answers{where} ({error})") from None
    try:
        register_ray()
        with joblib.parallel_config("ray"):
            yield
    finally:
        ray.shutdown()


def stream(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]
) -> Generator[T, None, None]:
    """Call a function for every task on the engine, and yield the results in order.

    Tasks are taken from their iterator as they are needed, a few ahead of the
    work, so that all of them are never in memory at once.

    Parameters
    ----------
    function : callable
        A function of a module, which other processes can import. It must not
        change its arguments.
    tasks : iterable of tuples
        Arguments. On a cluster, what lies in a tuple or list travels with its
        task, which another worker can therefore repeat; a bare array stays
        with one worker, and would be lost with it.

    Yields
    ------
    result
        What the function returned.
    """
    options = {"n_jobs": thread_count(), "prefer": "threads", "batch_size": 1}
    backend, _ = get_active_backend(prefer="threads")
    watched = _Watched(function) if getattr(backend, "uses_threads", False) else None
    calls = (joblib.delayed(watched or function)(*task) for task in tasks)
    if not backend.supports_return_generator:  # Ray's
        while batch := list(islice(calls, _BATCH)):
            yield from joblib.Parallel(**options)(batch)
        return
    results = joblib.Parallel(**options, return_as="generator")(calls)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close them before
            yield result
    finally:
        with warnings.catch_warnings():  # about work that nobody waits for any more
            warnings.simplefilter("ignore", UserWarning)
            results.close()
        if watched:
            watched.stop()


class _Watched:
    """A function that threads call, which can be stopped: then no thread is inside any more.

    joblib leaves its threads where they are when it is interrupted. One that is
    still in OpenCV when Python ends would bring the program down.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._inside, self._stopped = 0, False
        self._changed = Condition()

    def __call__(self, *task: Any) -> Any:
        with self._changed:
            if self._stopped:
                return None
            self._inside += 1
        try:
            return self._function(*task)
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.wait_for(lambda: self._inside == 0)
