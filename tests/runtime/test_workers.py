"""What commands leave behind when they are killed, or asked to end."""

import subprocess
import sys
import time

import cv2
import numpy as np
import psutil
import pytest

from builders import wait_until

COMMANDS = {
    "jobs": ("run", "a", "b", "c", "--jobs", "2", "--methods", "matchals"),
    "processes": ("run", "a", "--engine", "processes", "--methods", "unionfind"),
    "study": ("study", "synthetic", "--jobs", "2"),
}


@pytest.fixture
def folders(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (600, 800)).astype(np.uint8)
    for name in "abc":
        (tmp_path / name).mkdir()
        for n in range(12):
            cv2.imwrite(str(tmp_path / name / f"{n}.png"), np.roll(noise, n, axis=1))
    return tmp_path


def start(folder, *arguments):
    command = [sys.executable, "-m", "nmfsync", *arguments]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def workers_of(run):
    """The processes that work for a command, as soon as at least two do."""
    found: list[psutil.Process] = []

    def working():
        found[:] = psutil.Process(run.pid).children(recursive=True)
        return sum(process.cpu_times().user > 0.5 for process in found) >= 2

    wait_until(working)
    return found


def are_gone(processes):
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_workers_end_when_their_parent_is_killed(folders, command):
    with start(folders, *command) as run:
        workers = workers_of(run)
        run.kill()
    wait_until(lambda: are_gone(workers), 5)


def test_sigterm_ends_a_command_as_ctrl_c_does(folders):
    with start(folders, *COMMANDS["jobs"]) as run:
        workers = workers_of(run)
        asked = time.monotonic()
        run.terminate()
        _, errors = run.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert run.returncode == 143
    assert errors == "Interrupted; the same command continues after the last finished step\n"
    wait_until(lambda: are_gone(workers), 5)
