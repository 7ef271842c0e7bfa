"""Clusters of Dask and of Ray: the same bits, whatever happens to workers; what is wrong is said.

Everything is on 127.0.0.1.
"""

import http.server
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from builders import bits, random_features, wait_until
from nmfsync.errors import NmfsyncError
from nmfsync.features.extract import extract_all
from nmfsync.matching import match as matching
from nmfsync.matching.match import match
from nmfsync.matching.verification import verify
from nmfsync.runtime import clusters
from nmfsync.runtime.engine import engine, stream

NEEDS = {"dask": "distributed", "ray": "ray"}


@dataclass(frozen=True)
class Cluster:
    """Two workers of one thread each: their engine, where it listens, and what started it."""

    engine: str
    address: str
    started: Any


def _title(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def _dask():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as started:
        yield Cluster("dask", started.scheduler_address, started)


@contextmanager
def _ray():
    """Start a Ray as documented, apart from any other one on this machine, and end it."""
    ports = {"port": _free_port(), "dashboard-agent-listen-port": _free_port()}
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        command = [
            str(Path(sys.executable).with_name("ray")),
            "start",
            "--head",
            "--block",
            "--node-ip-address=127.0.0.1",
        ]
        command += ["--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
        command += [f"--{name}={port}" for name, port in ports.items()]
        command += [f"--temp-dir={folder}", "--object-store-memory=100000000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
            try:
                said = ""
                while "Ray runtime started" not in said:
                    line = started.stdout.readline()
                    assert line, said
                    said += line
                yield Cluster("ray", f"127.0.0.1:{ports['port']}", started)
            finally:
                processes = psutil.Process(started.pid).children(recursive=True)
                started.terminate()
                started.communicate(timeout=60)
                for process in processes:
                    with suppress(psutil.Error):
                        process.kill()


def _need(name: str) -> None:
    pytest.importorskip(NEEDS[name], reason=f"needs nmfsync[{name}]")


@pytest.fixture(scope="module")
def dask_cluster():
    _need("dask")
    with _dask() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ray_cluster():
    _need("ray")
    with _ray() as cluster:
        yield cluster


@pytest.fixture(params=["dask", "ray"])
def cluster(request):
    return request.getfixturevalue(f"{request.param}_cluster")


@pytest.fixture
def collection(monkeypatch):
    """Images whose matching is cut into many tasks."""
    monkeypatch.setattr(matching, "BLOCK", 300)
    monkeypatch.setattr(matching, "TASK", 10**5)
    rng = np.random.default_rng(0)
    return [random_features(rng, n) for n in rng.integers(200, 400, 14)]


# The same work


def test_same_features_matches_and_verification(cluster, photographs):
    paths = sorted(photographs.iterdir())

    def work():
        features = extract_all(paths, 100)
        matches = match(features)
        positions = [found.xy for found in features]
        return features, matches, verify(matches, positions, "homography")

    with engine(cluster.engine, cluster.address):
        there = work()
    here = work()
    for a, b in zip(there[0], here[0], strict=True):
        assert a.descriptors.tobytes() == b.descriptors.tobytes()
        assert a.xy.tobytes() == b.xy.tobytes()
    assert [bits(matches) for matches in there[1:]] == [bits(matches) for matches in here[1:]]
    assert all(matches.W.nnz for matches in here[1:])


def test_nothing_is_lost_when_a_dask_worker_is_killed(
    dask_cluster, collection, tmp_path, monkeypatch
):
    expected = match(collection, weighted=True)
    workers = dask_cluster.started.workers
    killed = min(worker.pid for worker in workers.values())
    sent = 0

    def with_a_murder(tasks):
        nonlocal sent
        for sent, task in enumerate(tasks):
            if sent == 40:
                os.kill(killed, signal.SIGKILL)
            yield task

    original = stream
    monkeypatch.setattr(
        "nmfsync.runtime.tasks.stream", lambda f, tasks: original(f, with_a_murder(tasks))
    )
    with engine("dask", dask_cluster.address):
        survived = match(collection, weighted=True, cache=tmp_path)
    assert sent > 60  # many tasks came after it
    wait_until(lambda: killed not in {worker.pid for worker in workers.values()})
    assert bits(survived) == bits(expected)
    assert len(list(tmp_path.iterdir())) == len(collection) - 1  # every row is kept


@pytest.mark.benchmark  # not because it measures: it takes as long as a hundred other tests
def test_nothing_is_lost_when_a_ray_worker_is_killed(ray_cluster, collection):
    killed = []

    def murder():
        wait_until(lambda: at_work(ray_cluster))
        killed.append(min(at_work(ray_cluster), key=lambda process: process.pid))
        killed[0].kill()

    expected = match(collection, weighted=True)
    with engine("ray", ray_cluster.address):
        murderer = threading.Thread(target=murder)
        murderer.start()
        survived = match(collection, weighted=True)
        murderer.join()
    assert not killed[0].is_running()
    assert bits(survived) == bits(expected)


def at_work(cluster) -> list[psutil.Process]:
    """Return Ray's processes that do a task now: their first one imports for a second or more."""
    processes = psutil.Process(cluster.started.pid).children(recursive=True)
    return [process for process in processes if "run_batch" in _title(process)]


@pytest.mark.usefixtures("without_report")
def test_a_run_on_a_cluster_is_the_same_run(dask_cluster, nmfsync_command, tmp_path, photographs):
    options = ("--features", 60, "--methods", "unionfind", "--verify", "homography")
    there = ("--engine", "dask", "--address", dask_cluster.address)
    for out, engine_options in (("here", ()), ("there", there)):
        outcome = nmfsync_command(
            "run", photographs, *options, *engine_options, "--out", tmp_path / out
        )
        assert outcome.code == 0
    stages = [
        {path.relative_to(tmp_path / out) for path in (tmp_path / out).rglob("stages/*/*.npz")}
        for out in ("here", "there")
    ]
    assert stages[0] == stages[1]
    assert len(stages[0]) >= 7  # features of three images, and the rows of two, twice
    tracks = [next((tmp_path / out).rglob("tracks.csv")).read_bytes() for out in ("here", "there")]
    assert tracks[0] == tracks[1]


def test_workers_need_not_be_in_the_same_folder(dask_cluster, photographs, monkeypatch, tmp_path):
    """A relative path is one on the machine of the user."""
    monkeypatch.chdir(tmp_path)
    Path("photos").symlink_to(photographs)
    paths = sorted(Path("photos").iterdir())
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with engine("dask", dask_cluster.address):
        there = extract_all(paths, 50)
        with pytest.raises(NmfsyncError, match=r"^broken\.png: "):
            extract_all([Path("broken.png")])
    for a, b in zip(there, extract_all(paths, 50), strict=True):
        assert a.descriptors.tobytes() == b.descriptors.tobytes()


# Workers that cannot do the work


@contextmanager
def _on_one_worker(cluster: Cluster, text: str, undo: str):
    """Run text on one of two workers, and another one at the end; yield the worker's address."""
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2)
        worker = max(client.scheduler_info()["workers"])
        client.run(exec, text, workers=[worker])
        try:
            yield worker
        finally:
            client.run(exec, undo, workers=[worker])


CACHE = "import sys; import nmfsync.runtime.cache as cache; "


@pytest.mark.parametrize(
    ("text", "undo", "message"),
    [
        pytest.param(
            CACHE + "sys.kept = cache; sys.modules['nmfsync.runtime.cache'] = None",
            "import sys; sys.modules['nmfsync.runtime.cache'] = sys.kept",
            r"cannot use nmfsync \(import of nmfsync\.runtime\.cache halted; .*\)",
            id="missing",
        ),
        pytest.param(
            CACHE + "sys.kept = cache.identity; "
            "cache.identity = lambda *names: {**sys.kept(*names), 'numpy': '1.0'}",
            CACHE + "cache.identity = sys.kept",
            rf"has numpy 1\.0, and this machine {re.escape(np.__version__)}",
            id="library",
        ),
        pytest.param(
            CACHE + "sys.kept = cache.identity; "
            'cache.identity = lambda *names: {**sys.kept(*names), "nmfsync\'s source code": "0"}',
            CACHE + "cache.identity = sys.kept",
            r"has nmfsync's source code 0, and this machine [0-9a-f]{8}",
            id="source",
        ),
    ],
)
def test_a_worker_with_another_environment(dask_cluster, text, undo, message):
    with (
        _on_one_worker(dask_cluster, text, undo) as worker,
        pytest.raises(
            NmfsyncError,
            match=f"^worker {worker} {message}; install the same environment on all machines$",
        ),
        engine("dask", dask_cluster.address),
    ):
        pass


def test_a_worker_that_does_not_see_the_photographs(
    dask_cluster, nmfsync_command, photographs, tmp_path
):
    first = min(photographs.iterdir())
    hide = (
        "import os; os.kept = os.path.exists; "
        f"os.path.exists = lambda path: not str(path).startswith({str(first.parent)!r}) "
        "and os.kept(path)"
    )
    with _on_one_worker(dask_cluster, hide, "import os; os.path.exists = os.kept") as worker:
        outcome = nmfsync_command("run", photographs, "--engine", "dask", "--address",
                                  dask_cluster.address, "--out", tmp_path)  # fmt: skip
    assert outcome.code == 1
    assert f"Error: worker {worker} does not see {first.parent}" in outcome.err
    assert "under the same path" in outcome.err


def test_a_scheduler_that_is_gone(tmp_path):
    """The work ends in one line."""
    _need("dask")
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with _started(scheduler, r"tcp://\S+:\d+", tmp_path) as (head, address):
        # joblib gives a single thread no work, but does all of it here.
        worker = ["worker", address, "--nthreads", "2", "--no-nanny", "--no-dashboard"]
        with (
            _started(worker, "Registered to", tmp_path),
            pytest.raises(NmfsyncError, match=f"^the Dask scheduler at {address} is gone; run "),
            engine("dask", address),
        ):
            deque((head.kill() for _ in stream(time.sleep, [(0.1,)] * 50)), maxlen=0)


@contextmanager
def _started(arguments, until, folder):
    """Start a program of Dask; yield it and what it says when it is ready."""
    with subprocess.Popen(
        [str(Path(sys.executable).with_name("dask")), *arguments],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    ) as program:
        said = iter(program.stderr.readline, "")
        yield program, next(found[0] for line in said if (found := re.search(until, line)))
        program.kill()


def test_a_task_that_kills_every_worker():
    """As one does that needs more memory than they have."""
    _need("dask")
    with (
        _dask() as cluster,
        pytest.raises(NmfsyncError, match="the Dask workers that do a task are killed"),
        engine("dask", cluster.address),
    ):
        deque(stream(os._exit, [(1,)] * 4), maxlen=0)


def test_a_scheduler_without_workers(monkeypatch):
    _need("dask")
    from distributed import LocalCluster

    monkeypatch.setattr(clusters, "TIMEOUT", 1)
    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None) as empty,
        pytest.raises(NmfsyncError, match="has no workers; start one with `dask worker tcp://"),
        engine("dask", empty.scheduler_address),
    ):
        pass


def test_an_error_of_a_worker_arrives(cluster, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n")
    with (
        engine(cluster.engine, cluster.address),
        pytest.raises(NmfsyncError, match=r"broken\.png"),
    ):
        extract_all([broken])


# Wrong addresses


@pytest.fixture
def listener():
    """A server that accepts connections; what it says first is put into the list."""
    says = []

    def serve():
        with suppress(OSError):
            while True:
                connection = server.accept()[0]
                kept.append(connection)
                for greeting in says:
                    connection.sendall(greeting)

    kept = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], says
        server.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()


@pytest.fixture
def web():
    """Port of a server of pages."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def full():
    """Port of a server that takes no more connections: it drops the packets of new ones."""
    with socket.socket() as server, suppress(BlockingIOError):
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(server.getsockname())
        yield server.getsockname()[1]
        for connection in waiting:
            connection.close()


def _says(nmfsync_command, tmp_path, name, address) -> str:
    """Return the reason in the one line of a run whose address is wrong."""
    _need(name)
    outcome = nmfsync_command("run", "sample", "--engine", name, "--address", address,
                              "--out", tmp_path)  # fmt: skip
    assert outcome.code == 1
    what = {"dask": "Dask scheduler", "ray": "Ray cluster"}[name]
    program = {"dask": "dask scheduler", "ray": "ray start --head"}[name]
    line = rf"Error: no {what} answers at {re.escape(address)} \((.+)\); `{program}` prints "
    said = re.fullmatch(line + "the address\n", outcome.err)
    assert said, outcome.err
    assert list(tmp_path.iterdir()) == []
    return said[1]


@pytest.mark.parametrize("name", ["dask", "ray"])
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("127.0.0.1:99999", "there is no port 99999"),
        ("127.0.0.1:x", "invalid literal .* 'x'"),
        ("127.0.0.1", "port"),
        ("x", "port"),
        ("no.such.host.invalid:8786", ".*[Nn]ame.*"),
        ("http://127.0.0.1:1", "unknown address scheme 'http'|write HOST:PORT only"),
        ("ray://127.0.0.1:1", "unknown address scheme 'ray'|write HOST:PORT only"),
    ],
)
def test_nothing_is_at_the_address(nmfsync_command, tmp_path, name, address, reason):
    assert re.search(reason, _says(nmfsync_command, tmp_path, name, address))


@pytest.mark.parametrize("start", ["dask tcp://", "dask ", "dask tls://", "ray "])
@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", bytes(64)])
def test_something_else_is_at_the_address(
    nmfsync_command, tmp_path, monkeypatch, listener, start, greeting
):
    monkeypatch.setattr(clusters, "TIMEOUT", 0.5)
    port, says = listener
    says.append(greeting)
    name, scheme = start.split(" ")
    reason = _says(nmfsync_command, tmp_path, name, f"{scheme}127.0.0.1:{port}")
    assert re.search("TLS" if scheme == "tls://" else "timed out|what is there is no ", reason)


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_pages_or_nobody_are_at_the_address(
    nmfsync_command, tmp_path, monkeypatch, name, web, full
):
    monkeypatch.setattr(clusters, "TIMEOUT", 0.5)
    for port in web, full:
        reason = _says(nmfsync_command, tmp_path, name, f"127.0.0.1:{port}")
        assert re.search("timed out|what is there is no ", reason)


def test_a_search_for_a_name_that_never_ends(nmfsync_command, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "TIMEOUT", 0.2)
    forever = threading.Event()
    monkeypatch.setattr(socket, "create_connection", lambda *arguments: forever.wait())
    for name in NEEDS:
        if importlib.util.find_spec(NEEDS[name]):
            assert _says(nmfsync_command, tmp_path, name, "host:1") == "timed out"
    forever.set()


def test_the_address_of_a_dask_worker(nmfsync_command, tmp_path, dask_cluster):
    worker = next(iter(dask_cluster.started.scheduler_info["workers"]))
    assert _says(nmfsync_command, tmp_path, "dask", worker) == "a Dask worker is there"


def test_each_at_the_address_of_the_other(nmfsync_command, tmp_path, dask_cluster, ray_cluster):
    there = dask_cluster.address.removeprefix("tcp://")
    assert _says(nmfsync_command, tmp_path, "ray", there) == "what is there is no Ray"
    assert (
        _says(nmfsync_command, tmp_path, "dask", ray_cluster.address) == "what is there is no Dask"
    )
