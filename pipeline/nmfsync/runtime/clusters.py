"""Clusters of Dask and Ray: connecting to one, and checking that it can do the work.

Their own clients wait minutes for an address where nothing answers, or end in a
traceback. So what is there is found out first, within a few seconds.
"""

import asyncio
import logging
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import joblib

from nmfsync.errors import NmfsyncError, reason_of
from nmfsync.runtime.cache import identity

T = TypeVar("T")

TIMEOUT = 5  # seconds to wait for a cluster

_CHECK = 60  # seconds for the workers to import nmfsync, perhaps from a slow disk

_REPEATS = 3  # of work whose workers are killed

# What Ray's servers answer to: HTTP/2's preface, and settings that set nothing. Their own
# settings come first in the answer: a frame of type 4 of stream 0, after 3 bytes of length.
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS, _FRAME = 4, 9

# Text in place of a function: it needs neither nmfsync nor the same Python to arrive.
_IDENTITY = "__import__('nmfsync.runtime.cache', fromlist=['identity']).identity({!r})"
_MISSING = "[p for p in {!r} if not __import__('os').path.exists(p)]"

# Evaluates text on every worker: its result, or the error, by the name of the worker.
_Ask = Callable[[str], Mapping[str, Any]]

_ask: ContextVar[_Ask | None] = ContextVar("ask", default=None)


@contextmanager
def dask(address: str | None) -> Iterator[None]:
    """Do the work inside the block on the Dask cluster of the scheduler at an address.

    Raises
    ------
    NmfsyncError
        If no scheduler answers there, it has no workers, or these are not as this machine is.
    """
    from distributed import CancelledError, Client, KilledWorker

    if address is None:
        raise NmfsyncError("engine dask needs the address of a scheduler, for instance "
                           "tcp://127.0.0.1:8786")  # fmt: skip
    start = "`dask scheduler` prints the address"
    try:
        # A client that cannot connect hangs, or closes itself with a traceback.
        kind = _within(TIMEOUT, _kind_of_dask_server, address)
        if kind != "Scheduler":
            raise ValueError(f"a Dask {kind.lower()} is there")
        with warnings.catch_warnings():  # about versions, which are checked below
            warnings.simplefilter("ignore")
            client = Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise _no_answer("Dask scheduler", f" at {address}", error, start) from None
    with client, _silent("distributed.client"):  # which logs a traceback for what is said here
        try:
            client.wait_for_workers(1, timeout=TIMEOUT)
        except TimeoutError:
            raise NmfsyncError(
                f"the Dask scheduler at {address} has no workers; start one with "
                f"`dask worker {address}`"
            ) from None

        def ask(text: str) -> Mapping[str, Any]:
            answers: dict[str, Any] = client.run(eval, text, on_error="return")
            # A worker that is ending just now is no loss: another one does its work.
            return {w: a for w, a in answers.items() if not isinstance(a, OSError)}

        with _checked(ask, "distributed"), joblib.parallel_config(_backend(client)):
            try:
                yield
            except CancelledError:
                raise NmfsyncError(
                    f"the Dask scheduler at {address} is gone; run again with another one: what "
                    "is finished stays"
                ) from None
            except KilledWorker as error:
                raise NmfsyncError(
                    "the Dask workers that do a task are killed, the last one at "
                    f"{error.last_worker.address}; give them more memory (--memory-limit), "
                    "and run again: what is finished stays"
                ) from None


def _backend(client: Any) -> Any:
    """Return joblib's backend for Dask, with an end for tasks whose workers were all killed.

    joblib's own one never hears of these, and waits for ever.
    """
    from joblib._dask import DaskDistributedBackend

    class Backend(DaskDistributedBackend):  # type: ignore[misc]
        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)
            future.add_done_callback(lambda f: f.exception() and callback(f))
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, Future):
                out.result()  # which raises the error
            return super().retrieve_result_callback(out)

    return Backend(client=client)


def _kind_of_dask_server(address: str) -> str:
    """Return "Scheduler", "Worker" or "Nanny"; raise an error if none of them answers."""
    from distributed.comm import get_address_host_port
    from distributed.core import rpc
    from distributed.security import Security

    socket.create_connection(_checked_port(*get_address_host_port(address)), TIMEOUT).close()

    async def ask() -> str:
        arguments = Security().get_connection_args("client")
        async with rpc(address, timeout=TIMEOUT, connection_args=arguments) as server:
            found: str = (await asyncio.wait_for(server.identity(), TIMEOUT))["type"]
            return found

    try:
        return asyncio.run(ask())
    except (TimeoutError, TypeError):  # the latter if there are no certificates for TLS
        raise
    except Exception:  # what something else says may be taken for anything
        raise ValueError("what is there is no Dask") from None


@contextmanager
def ray(address: str | None) -> Iterator[None]:
    """Do the work inside the block on a Ray cluster, by default that of this machine.

    Raises
    ------
    NmfsyncError
        If no Ray answers there, it has no processors, or its nodes are not as this machine is.
    """
    # Read when Ray is imported: how often, every second, it asks what only seems to be a Ray.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", str(TIMEOUT - 1))
    import ray
    from ray.util.joblib import register_ray

    where = f" at {address}" if address else ""
    try:
        if address is not None:
            if "://" in address:  # a proxy, which joblib's backend does not know
                raise ValueError("write HOST:PORT only, with the port of `ray start --head`")
            _within(TIMEOUT, _hear_from_ray, address)
        ray.init(address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, OverflowError, RuntimeError) as error:
        start = "`ray start --head` prints the address"
        raise _no_answer("Ray cluster", where, error, start) from None
    try:
        if ray.cluster_resources().get("CPU", 0) < 1:
            raise NmfsyncError(f"the Ray cluster{where} has no processors; add some with "
                               "`ray start --address=HOST:PORT`")  # fmt: skip
        register_ray()
        with _checked(_ask_ray, "ray"), joblib.parallel_config("ray", n_jobs=-1):
            yield
    except ray.exceptions.RayError as error:
        raise NmfsyncError(
            f"the Ray cluster does no more work ({reason_of(error)}); run again: what is "
            "finished stays"
        ) from None
    finally:
        ray.shutdown()


def repeated_on_ray(work: Callable[[], T]) -> T:
    """Do work on a Ray cluster; if one of its workers is killed, do it again with new ones."""
    from ray.exceptions import RayActorError

    for _ in range(_REPEATS):
        with suppress(RayActorError):
            return work()
    return work()


def _hear_from_ray(address: str) -> None:
    """Raise an error if nothing answers there that speaks as Ray's servers do."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError("there is no port in it")
    with socket.create_connection(_checked_port(host, int(port)), TIMEOUT) as connection:
        connection.sendall(_HTTP2)
        start = b""
        while len(start) < _FRAME:
            got = connection.recv(_FRAME - len(start))
            if not got:
                break
            start += got
    if len(start) < _FRAME or start[3] != _SETTINGS or any(start[5:]):
        raise ValueError("what is there is no Ray")


def _ask_ray(text: str) -> Mapping[str, Any]:
    """Evaluate text on every node of the cluster that has processors."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def evaluate(text: str) -> Any:  # inside a function, so that it is sent with its code
        return eval(text)

    asked = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, scheduling_strategy=place)(evaluate)
            asked[node["NodeManagerAddress"]] = task.remote(text)
    answers: dict[str, Any] = {}
    for node, answer in asked.items():
        try:
            answers[node] = ray.get(answer, timeout=_CHECK)
        except ray.exceptions.RayTaskError as error:
            answers[node] = error.cause
    return answers


@contextmanager
def _checked(ask: _Ask, library: str) -> Iterator[None]:
    """Compare the workers with this machine; let `require_files` ask them inside the block."""
    here = identity(library)
    for worker, there in ask(_IDENTITY.format(library)).items():
        if isinstance(there, BaseException):
            raise NmfsyncError(
                f"worker {worker} cannot use nmfsync ({reason_of(there)}); install the same "
                "environment on all machines"
            )
        for name, version in here.items():
            if there.get(name) != version:
                raise NmfsyncError(
                    f"worker {worker} has {name} {there.get(name)}, and this machine {version}; "
                    "install the same environment on all machines"
                )
    token = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(token)


def require_files(paths: Iterable[Path | str]) -> None:
    """Raise an error if a worker of the cluster does not see files; do nothing without a cluster.

    Of the files in a folder, one stands for all.

    Parameters
    ----------
    paths : iterable of paths

    Raises
    ------
    NmfsyncError
    """
    ask = _ask.get()
    if ask is None:
        return
    one_of_each = {path.parent: str(path) for path in (Path(p).absolute() for p in paths)}
    for worker, missing in ask(_MISSING.format(list(one_of_each.values()))).items():
        if isinstance(missing, BaseException) or missing:
            what = reason_of(missing) if isinstance(missing, BaseException) else missing[0]
            raise NmfsyncError(
                f"worker {worker} does not see {what}; put photographs and output folder on "
                "storage that all machines share, under the same path"
            )


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Let a logger say nothing inside the block."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _checked_port(host: str, port: int) -> tuple[str, int]:
    """Return a place to connect to; the system itself takes ports modulo 65536."""
    if not 0 < port < 2**16:
        raise ValueError(f"there is no port {port}")
    return host, port


def _no_answer(what: str, where: str, error: Exception, start: str) -> NmfsyncError:
    own = error.strerror if isinstance(error, OSError) else None
    reason = "timed out" if isinstance(error, TimeoutError) else own or reason_of(error)
    return NmfsyncError(f"no {what} answers{where} ({reason}); {start}")


def _within(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function; raise TimeoutError if it takes too long, and leave it to itself.

    Nothing else ends the search for a name, and a thread of our own may have its own loop
    of events where a notebook's runs already.
    """
    result: Future[T] = Future()

    def call() -> None:
        try:
            result.set_result(function(*arguments))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return result.result(seconds)
