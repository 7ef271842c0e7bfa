"""The same matches on threads, in processes and on a cluster, whatever happens to its workers."""

import operator
import os
import signal
import subprocess
import sys
import threading
import time

import cv2
import numpy as np
import pytest

from nmfsync.errors import NmfsyncError
from nmfsync.features.extract import extract_all
from nmfsync.matching import match as matching
from nmfsync.matching.match import match
from nmfsync.runtime.engine import engine, stream
from nmfsync.runtime.threads import thread_count
from nmfsync.types.features import Features


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
    features = []
    for n in rng.integers(200, 400, 14):
        zeros = np.zeros(n, np.float32)
        xy, descriptors = np.zeros((n, 2), np.float32), rng.integers(0, 256, (n, 128))
        features.append(Features(xy, descriptors.astype(np.uint8), zeros, zeros, (9, 9), n, n))
    return features


def bits(matches):
    return matches.W.data.tobytes(), matches.W.indices.tobytes(), matches.W.indptr.tobytes()


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_results_come_in_order(name):
    with engine(name):
        assert list(stream(operator.mul, ((n, n) for n in range(50)))) == [n * n for n in range(50)]


def test_tasks_are_taken_as_they_are_needed():
    taken, results, go_on = [], [], threading.Event()

    def tasks():
        for n in range(200):
            taken.append(n)
            yield (n,)

    def work(n):
        go_on.wait(60)
        return n

    consumer = threading.Thread(target=lambda: results.extend(stream(work, tasks())))
    consumer.start()
    while len(taken) < 2:
        time.sleep(0.01)
    time.sleep(0.2)
    assert len(taken) <= 4 * thread_count()
    go_on.set()
    consumer.join()
    assert results == list(range(200))


def test_who_stops_early_hears_nothing(recwarn):
    results = stream(operator.add, ((n, 1) for n in range(1000)))
    assert next(results) == 1
    results.close()
    assert not recwarn.list


def test_no_thread_works_on_when_the_results_are_closed():
    inside, started = [], []

    def work(n):
        started.append(n)
        inside.append(n)
        time.sleep(0.05)
        inside.remove(n)
        return n

    results = stream(work, ((n,) for n in range(500)))
    assert next(results) == 0
    results.close()
    assert inside == []
    count = len(started)
    time.sleep(0.2)
    assert len(started) == count < 100


def test_ctrl_c_while_threads_are_in_opencv(photographs, tmp_path):
    """The program ends with its one line, and not with an abort of the C++ library."""
    images = tmp_path / "images"
    images.mkdir()
    large = cv2.resize(cv2.imread(str(photographs / "view0.png")), (2200, 2000))
    for n in range(12):
        cv2.imwrite(str(images / f"{n}.png"), large + np.uint8(n))
    command = [sys.executable, "-m", "nmfsync", "run", "images", "--methods", "unionfind"]
    features = tmp_path / "outputs/images/images/stages/features"
    finished = "[0-9a-f]*.npz"  # a file that is being written begins with a dot
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run:
        while run.poll() is None and not list(features.glob(finished)):
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert errors == "Interrupted; the same command continues after the last finished step\n"
    assert 0 < len(list(features.glob(finished))) < 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("thread",), "unknown engine 'thread'; there are threads, processes, dask, ray"),
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
    assert worker not in {worker.pid for worker in cluster.workers.values()}
    assert bits(survived) == bits(expected)
    assert len(list(tmp_path.iterdir())) == len(collection) - 1  # every row is kept


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
