"""Processes that help this one."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from builders import wait_until
from nmfsync.errors import NmfsyncError
from nmfsync.runtime import helpers
from nmfsync.runtime.files import read_hashed
from nmfsync.runtime.helpers import helpers_for, with_helpers


@pytest.fixture
def pool():
    """Helpers of this test only; those of others in this process, which stay a while, end."""
    pools = helpers._pool
    if pools.cache_info().currsize:
        pools(1).shutdown(wait=True, kill_workers=True)
    pools.cache_clear()
    yield
    pools(1).shutdown(wait=True, kill_workers=True)
    pools.cache_clear()


def own_helpers():
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "LokyProcess" in " ".join(child.cmdline())]


def test_results_come_in_order_whoever_made_them(pool):
    tasks = [(number, 3) for number in range(40)]
    assert with_helpers(divmod, tasks, 1) == with_helpers(divmod, tasks, 0)
    assert with_helpers(divmod, [], 1) == []


def test_both_processes_work(pool):
    others = own_helpers()  # of other pools in this process
    with_helpers(os.getpid, [()] * 2, 1)  # it may be that nothing is left for the helper
    wait_until(lambda: len({*own_helpers()} - {*others}) == 1)
    pids = set()

    def work():
        pids.update(with_helpers(pid_after, [(0.05,)] * 12, 1))
        return len(pids) == 2

    wait_until(work)
    assert os.getpid() in pids


def pid_after(seconds):
    time.sleep(seconds)
    return os.getpid()


def test_an_error_is_that_of_the_task(pool, tmp_path):
    tasks = [(tmp_path / "missing", None)] * 6
    for count in (0, 1):
        with pytest.raises(FileNotFoundError, match="missing"):
            with_helpers(read_hashed, tasks, count)
    (tmp_path / "changed").write_text("x")
    for count in (0, 1):
        with pytest.raises(NmfsyncError, match="changed"):
            with_helpers(read_hashed, [(tmp_path / "changed", "0" * 64)] * 6, count)


def end_unless(pid):
    """End like a process that the system kills, if it is another one."""
    if os.getpid() != pid:
        os.kill(os.getpid(), signal.SIGKILL)
    return "here"


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_what_a_killed_helper_left_is_done_here(pool):
    for _ in range(2):  # then there is no helper any more
        assert with_helpers(end_unless, [(os.getpid(),)] * 9, 1) == ["here"] * 9


def test_without_processes_all_is_done_here(pool, monkeypatch):
    def refuse(*_):
        raise OSError("no process left")

    monkeypatch.setattr(helpers, "_pool", refuse)
    assert with_helpers(divmod, [(7, 3), (9, 3)], 1) == [(2, 1), (3, 0)]


def test_no_more_helpers_than_threads_and_none_for_a_worker(monkeypatch):
    monkeypatch.setattr(helpers, "thread_count", lambda: 4)
    assert [helpers_for(most) for most in (-1, 0, 1, 3, 9)] == [0, 0, 1, 3, 3]
    monkeypatch.setattr(helpers, "thread_count", lambda: 1)
    assert helpers_for(9) == 0
    monkeypatch.setattr(helpers, "thread_count", lambda: 4)
    monkeypatch.setattr(helpers, "parent_process", lambda: "another")
    assert helpers_for(9) == 0


def test_a_worker_of_joblib_knows_that_it_works_for_another_process():
    joblib = pytest.importorskip("joblib")
    calls = [joblib.delayed(helpers_for)(5) for _ in range(2)]
    assert joblib.Parallel(n_jobs=2)(calls) == [0, 0]


PROGRAM = (
    "import time\n"
    "from nmfsync.runtime.helpers import with_helpers\n"
    "with_helpers(time.sleep, [(0.1,)] * 4, 1)\n"
    "print('ready', flush=True)\n"
    "{then}\n"
)


@pytest.mark.parametrize("killed", [False, True])
def test_helpers_end_with_the_process_they_help(killed):
    program = PROGRAM.format(then="time.sleep(60)" if killed else "")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as run:
        children = []

        def started():
            children[:] = psutil.Process(run.pid).children(recursive=True)
            return children

        wait_until(started)
        assert run.stdout.readline() == b"ready\n"
        if killed:
            run.kill()
    wait_until(lambda: not any(map(lives, children)), 5)


def lives(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
