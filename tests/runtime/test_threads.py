"""Work in blocks, on threads."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from builders import wait_until
from nmfsync.runtime import threads
from nmfsync.runtime.threads import Threads, map_blocks


@pytest.fixture
def limit_threads(monkeypatch):
    """Let no more than so many threads start."""

    def limit(most):
        started = []
        start = threading.Thread.start

        def start_if_allowed(thread):
            if len(started) == most:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_if_allowed)
        monkeypatch.setattr(threads, "thread_count", lambda: 4)
        return started

    return limit


def test_pieces_come_back_in_order():
    assert map_blocks(lambda rows: (rows.start, rows.stop), 8, 3) == [(0, 3), (3, 6), (6, 8)]


@pytest.mark.parametrize("most", [0, 1, 3, 4])
def test_fewer_threads_do_the_same_work_once(limit_threads, most):
    started, done = limit_threads(most), []

    def work(rows):
        done.append(rows.start)
        return rows.start

    assert map_blocks(work, 90, 1) == list(range(90))
    assert sorted(done) == list(range(90))
    assert len(started) <= most


@pytest.mark.parametrize("most", [0, 1])
def test_tasks_are_done_by_fewer_threads_too(limit_threads, most):
    limit_threads(most)
    with Threads(4) as pool:
        results = [pool.begin(pow, n, 2) for n in range(50)]
        assert [result() for result in results] == [n * n for n in range(50)]


def test_an_error_of_the_work_is_not_taken_for_a_lack_of_threads():
    def fail(rows):
        raise RuntimeError("of the work")

    with pytest.raises(RuntimeError, match="of the work"):
        map_blocks(fail, 9, 1)


def test_after_an_error_no_other_block_begins(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    begun = []

    def work(rows):
        begun.append(rows.start)
        if rows.start == 0:
            raise ValueError("of the first block")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="of the first block"):
        map_blocks(work, 1000, 1)
    assert len(begun) < 500


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_after_an_error_no_thread_begins_blocks(error):
    inside, results = threading.Event(), []

    def work(pool):
        assert map_blocks(lambda rows: rows.start, 2, 1) == [0, 1]
        inside.set()
        wait_until(lambda: pool.given_up)
        map_blocks(lambda rows: rows.start, 2, 1)

    def give_up():
        with Threads(1) as pool:
            results.append(pool.begin(work, pool))
            inside.wait(60)
            raise error

    with pytest.raises(error):
        give_up()
    with pytest.raises(CancelledError):
        results[0]()
    assert map_blocks(lambda rows: rows.start, 2, 1) == [0, 1]
