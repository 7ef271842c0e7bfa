"""A command that is killed loses nothing: the same command again finishes as if undisturbed."""

import json
import time

import pytest

from faults.commands import (
    COMMANDS,
    PATIENCE,
    kill_and_run_again,
    left_by,
    long_form,
    moments,
    start,
)

# One that threads are at work in; `run` is killed at its file operations, below. Benchmarks kill
# the others, and all more often.
SOME = "synchronise, COLMAP"


@pytest.mark.parametrize("command", [SOME, *(long_form(c) for c in COMMANDS if c != SOME)])
def test_killed_at_any_moment(command, inputs, undisturbed, tmp_path):
    expected, seconds = undisturbed(command)
    [(number, after)] = moments(command, 1, seconds)
    faults = kill_and_run_again(command, inputs, tmp_path / "out", expected, number, after)
    assert faults == {}


ALL = 1000
# Before it, another one has left its results in the folder.
BEFORE = {"run": ("--features", "30"), "synchronise": ("--theta", "0.9")}


@pytest.mark.parametrize(
    ("command", "count"),
    [("run", 1), ("synchronise, npz", 3),
     *(long_form(c, ALL) for c in COMMANDS if c == "run" or c.startswith("synchronise"))],
)  # fmt: skip
def test_killed_at_a_file_operation(command, count, inputs, tmp_path):
    """Old and new results never stand together, and the next run finishes."""
    out = tmp_path / "out"
    other = json.dumps(BEFORE[command.split(",")[0]])
    program = ("-c", "from faults.operations import main; main()", "OUT", str(count), other)
    ended = start((*program, *COMMANDS[command][2:]), inputs, out).wait(count * PATIENCE)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == {}


def is_worker(process) -> bool:
    return "loky.backend.popen" in " ".join(process.cmdline())


@pytest.mark.parametrize(
    "command",
    ["run --jobs 2", long_form("run --engine processes"), long_form("study")],
)
def test_a_worker_is_killed(command, inputs, undisturbed, tmp_path):
    """As the system does when memory is short: one line, or the result after all."""
    run = start(command, inputs, tmp_path / "out")
    deadline = time.monotonic() + PATIENCE
    while not (workers := [p for p in run.processes() if is_worker(p)]):
        assert run.process.poll() is None, "there was no worker"
        assert time.monotonic() < deadline
    workers[0].kill()
    ended = run.wait()
    left = run.end_all()
    if ended.code:
        ended.one_line()
    else:
        assert left_by(tmp_path / "out") == undisturbed(command)[0]
    assert left == []


@pytest.mark.benchmark
def test_several_jobs_change_nothing(undisturbed):
    """Each of two scenes at once is as it is alone."""
    both, alone = undisturbed("run --jobs 2")[0], undisturbed("run")[0]
    assert {name: both.get(name) for name in alone} == alone
