"""The same matches on threads, in processes and on a cluster, whatever happens to its workers."""

import operator
import signal
import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest

from builders import wait_until
from nmfsync.errors import NmfsyncError
from nmfsync.runtime.engine import engine, stream
from nmfsync.runtime.threads import Threads, thread_count


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


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("nmfsync.runtime.engine.find_spec", lambda name: None)
    for name in ("dask", "ray"):
        with (
            pytest.raises(NmfsyncError, match=rf"pip install 'nmfsync\[{name}\]'"),
            engine(name, "x"),
        ):
            pass
