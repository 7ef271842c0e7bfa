"""The same matches on threads, in processes and on a cluster, whatever happens to its workers."""

import operator
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from contextlib import suppress

import cv2
import numpy as np
import pytest

from builders import bits, random_features, wait_until
from nmfsync.errors import NmfsyncError
from nmfsync.features.extract import extract_all
from nmfsync.matching import match as matching
from nmfsync.matching.match import match
from nmfsync.runtime.engine import engine, stream
from nmfsync.runtime.threads import Threads, thread_count


@pytest.fixture(scope="module")
def cluster():
    """Two workers of one thread each, and where their scheduler listens."""
    distributed = pytest.importorskip("distributed", reason="needs nmfsync[dask]")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture
def collection(monkeypatch):
    """Images whose matching is cut into many tasks."""
    monkeypatch.setattr(matching, "BLOCK", 300)
    monkeypatch.setattr(matching, "TASK", 10**5)
    rng = np.random.default_rng(0)
    return [random_features(rng, n) for n in rng.integers(200, 400, 14)]


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_results_come_in_order(name):
    with engine(name):
        assert list(stream(operator.mul, ((n, n) for n in range(50)))) == [n * n for n in range(50)]


def test_tasks_are_taken_as_they_are_needed():
    """No task ends before every thread has one, by when all would have been taken at once."""
    taken, done, ahead = [], [], []
    all_have_one = threading.Barrier(thread_count())

    def tasks():
        for n in range(200):
            taken.append(n)
            ahead.append(len(taken) - len(done))
            yield (n,)

    def work(n):
        if n < thread_count():
            all_have_one.wait(120)
        done.append(n)
        return n

    assert list(stream(work, tasks())) == list(range(200))
    assert max(ahead) <= 4 * thread_count()


def test_who_stops_early_hears_nothing(recwarn):
    results = stream(operator.add, ((n, 1) for n in range(1000)))
    assert next(results) == 1
    results.close()
    assert not recwarn.list


def test_no_thread_works_on_when_the_results_are_closed(monkeypatch):
    """Closing waits for those that are inside, and lets no task begin after that."""
    inside, started, go_on = [], [], threading.Event()
    before = set(threading.enumerate())

    class Closed(Threads):
        def shutdown(self, **options):
            go_on.set()  # no sooner may those that are inside go on
            super().shutdown(**options)

    monkeypatch.setattr("nmfsync.runtime.engine.Threads", Closed)

    def work(n):
        started.append(n)
        inside.append(n)
        if n > 0:
            go_on.wait(120)
        inside.remove(n)
        return n

    results = stream(work, ((n,) for n in range(500)))
    assert next(results) == 0
    wait_until(lambda: inside)
    results.close()
    assert go_on.is_set()
    assert inside == []
    count = len(started)
    wait_until(lambda: set(threading.enumerate()) <= before)  # the pool is gone
    assert len(started) == count < 100


def test_ctrl_c_while_threads_are_in_opencv(photographs, tmp_path):
    """The program ends with its one line, and not with an abort of the C++ library."""
    images = tmp_path / "images"
    images.mkdir()
    large = cv2.resize(cv2.imread(str(photographs / "view0.png"), 0), (1200, 1000))
    for n in range(12):
        cv2.imwrite(str(images / f"{n}.pgm"), large + np.uint8(n))
    command = [sys.executable, "-m", "nmfsync", "run", "images", "--methods", "unionfind"]
    features = tmp_path / "outputs/images" / tmp_path.name / "stages/features"
    finished = "[0-9a-f]*.npz"  # a file that is being written begins with a dot
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:
        wait_until(lambda: run.poll() is not None or list(features.glob(finished)))
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=120)
    assert run.returncode == 130
    assert errors == "Interrupted; the same command continues after the last finished step\n"
    assert 0 < len(list(features.glob(finished))) < 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("thread",), "unknown engine 'thread'; known are threads, processes, dask, ray"),
        (("threads", "tcp://127.0.0.1:1"), "takes no address"),
        (("processes", "tcp://127.0.0.1:1"), "takes no address"),
        (("dask",), "needs the address of a scheduler"),
    ],
)
def test_engines_that_are_none_are_an_error(arguments, message):
    with pytest.raises(NmfsyncError, match=message), engine(*arguments):
        pass


def test_a_cluster_that_does_not_answer_is_an_error(monkeypatch):
    pytest.importorskip("distributed", reason="needs nmfsync[dask]")
    monkeypatch.setattr("nmfsync.runtime.engine.TIMEOUT", 0.5)
    with (
        pytest.raises(NmfsyncError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1 "),
        engine("dask", "tcp://127.0.0.1:1"),
    ):
        pass
    with pytest.raises(NmfsyncError, match="no Dask scheduler"), engine("dask", "nowhere:x"):
        pass


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
def ray(monkeypatch):
    """A stand-in for Ray; the list of addresses that it was to connect to."""
    asked = []

    def init(address, **options):
        asked.append(address)
        raise ConnectionError("a stand-in")

    ray = types.ModuleType("ray")
    ray.init = init
    ray.util = types.ModuleType("ray.util")
    ray.util.joblib = types.ModuleType("ray.util.joblib")
    ray.util.joblib.register_ray = lambda: None
    for module in (ray, ray.util, ray.util.joblib):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("nmfsync.runtime.engine.find_spec", lambda name: True)
    monkeypatch.setattr("nmfsync.runtime.engine.TIMEOUT", 0.3)
    return asked


@pytest.mark.parametrize("start", ["", "ray://"])
def test_ray_is_not_asked_where_nothing_answers(ray, listener, start):
    port, says = listener
    for address in ("127.0.0.1:1", f"127.0.0.1:{port}", "x", "127.0.0.1:x", "127.0.0.1:99999"):
        with (
            pytest.raises(NmfsyncError, match=f"no Ray cluster answers at {start}{address} "),
            engine("ray", f"{start}{address}"),
        ):
            pass
    assert ray == []
    says.append(b"x")
    with pytest.raises(NmfsyncError, match="a stand-in"), engine("ray", f"{start}127.0.0.1:{port}"):
        pass
    assert ray == [f"{start}127.0.0.1:{port}"]


def test_a_dask_scheduler_that_says_nothing_is_an_error(listener, monkeypatch):
    pytest.importorskip("distributed", reason="needs nmfsync[dask]")
    monkeypatch.setattr("nmfsync.runtime.engine.TIMEOUT", 0.3)
    with (
        pytest.raises(NmfsyncError, match="timed out"),
        engine("dask", f"tcp://127.0.0.1:{listener[0]}"),
    ):
        pass


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("nmfsync.runtime.engine.find_spec", lambda name: None)
    for name in ("dask", "ray"):
        with (
            pytest.raises(NmfsyncError, match=rf"pip install 'nmfsync\[{name}\]'"),
            engine(name, "x"),
        ):
            pass


def test_same_features_and_matches_on_a_cluster(cluster, collection, photographs):
    with engine("dask", cluster.scheduler_address):
        there = match(collection, weighted=True)
        features = extract_all(sorted(photographs.iterdir()), 100)
    assert bits(there) == bits(match(collection, weighted=True))
    here = extract_all(sorted(photographs.iterdir()), 100)
    for a, b in zip(features, here, strict=True):
        assert a.descriptors.tobytes() == b.descriptors.tobytes()


def test_an_error_of_a_worker_arrives(cluster, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n")
    with (
        engine("dask", cluster.scheduler_address),
        pytest.raises(NmfsyncError, match=r"broken\.png"),
    ):
        extract_all([broken])


def test_nothing_is_lost_when_a_worker_is_killed(cluster, collection, tmp_path, monkeypatch):
    expected = match(collection, weighted=True)
    worker = min(worker.pid for worker in cluster.workers.values())
    sent = 0

    def with_a_murder(tasks):
        nonlocal sent
        for sent, task in enumerate(tasks):
            if sent == 40:
                os.kill(worker, signal.SIGKILL)
            yield task

    original = stream
    monkeypatch.setattr(
        "nmfsync.runtime.tasks.stream", lambda f, tasks: original(f, with_a_murder(tasks))
    )
    with engine("dask", cluster.scheduler_address):
        survived = match(collection, weighted=True, cache=tmp_path)
    assert sent > 60  # many tasks came after it
    wait_until(lambda: worker not in {worker.pid for worker in cluster.workers.values()})
    assert bits(survived) == bits(expected)
    assert len(list(tmp_path.iterdir())) == len(collection) - 1  # every row is kept


@pytest.mark.usefixtures("without_report")
def test_a_run_on_a_cluster_is_the_same_run(cluster, nmfsync_command, tmp_path, photographs):
    options = ("--features", 60, "--methods", "unionfind", "--verify", "homography")
    there = ("--engine", "dask", "--address", cluster.scheduler_address)
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
