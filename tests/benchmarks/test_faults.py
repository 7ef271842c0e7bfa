"""The table of faults in docs/faults.md, made again: kills, damages, full disks, several at once.

python -m pytest -m benchmark tests/benchmarks/test_faults.py -s

It takes about an hour. NMFSYNC_FAULTS_TRIALS is the number of trials of a kind, 30 by default.
The other long forms are among the tests themselves: python -m pytest -m benchmark tests/faults
"""

import os
import random
from pathlib import Path

import pytest

from faults.commands import (
    COMMANDS,
    each_folder_is_one_of,
    kill_and_run_again,
    left_by,
    moments,
    results_of,
    start,
)
from faults.conftest import inputs, undisturbed  # noqa: F401  fixtures
from faults.test_at_once import OTHER
from faults.test_damage import DAMAGES, KINDS, finished, run_after  # noqa: F401

pytestmark = pytest.mark.benchmark

TRIALS = int(os.environ.get("NMFSYNC_FAULTS_TRIALS", "30"))
PAGE = Path(__file__).parents[2] / "docs/faults.md"


@pytest.fixture(scope="module")
def table():
    """Collect rows: what was done to what, how often, and how often it went right."""
    rows: list[tuple[str, str, int, int]] = []
    yield rows
    text = "| fault | of | trials | right |\n|---|---|---|---|\n"
    text += "".join(f"| {what} | {of} | {trials} | {right} |\n" for what, of, trials, right in rows)
    print("\n" + text)
    if len(rows) < 2 * len(COMMANDS) + len(KINDS) + len(OTHER):
        return  # a choice of the tests is no reason to change the page
    begin, end = "<!-- figures -->\n", "<!-- end of the figures -->\n"
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    page = f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"
    PAGE.write_text(page, encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_kills(command, inputs, undisturbed, tmp_path, table):  # noqa: F811
    expected, seconds = undisturbed(command)
    faults = []
    for trial, (number, after) in enumerate(moments(command, TRIALS, seconds)):
        out = tmp_path / str(trial) / "out"
        faults.append(kill_and_run_again(command, inputs, out, expected, number, after))
        if faults[-1]:
            print(f"\n{command}, signal {number} after {after:.2f} s: {faults[-1]}")
    table.append(("killed", f"`{command}`", TRIALS, faults.count({})))
    assert faults.count({}) == TRIALS


@pytest.mark.parametrize("kind", KINDS)
def test_damages(kind, finished, tmp_path, table):  # noqa: F811
    wrong = [run_after(DAMAGES, kind, finished, tmp_path, seed) for seed in range(TRIALS // 10 + 1)]
    print("\n", kind, wrong)
    trials = len(wrong) * len(DAMAGES)
    table.append(("damaged", f"`stages/{kind}`", trials, trials - sum(map(len, wrong))))
    assert not any(wrong)


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_cannot_grow(command, inputs, undisturbed, tmp_path, table):  # noqa: F811
    """A command that cannot finish says so in one line; one that can has its usual result."""
    expected, _ = undisturbed(command)
    rng, right = random.Random(command), 0
    for trial in range(TRIALS):
        out, largest = tmp_path / str(trial) / "out", int(10 ** rng.uniform(2.5, 5.5))
        ended = start(command, inputs, out, largest_file=largest).wait()
        try:
            if ended.code:
                ended.one_line()
                assert results_of(out).items() <= expected.items()
            else:
                assert left_by(out) == expected
        except AssertionError as error:
            print(f"\n{command}, at most {largest} bytes: {error}")
        else:
            right += 1
    table.append(("files cannot grow", f"`{command}`", TRIALS, right))
    assert right == TRIALS


@pytest.mark.parametrize("command", OTHER)
def test_two_at_once(command, inputs, undisturbed, tmp_path, table):  # noqa: F811
    other = (*COMMANDS[command], *OTHER[command])
    alone = tmp_path / "alone/out"
    assert start(other, inputs, alone).wait().code == 0
    first = tmp_path / "first/out"
    assert start(command, inputs, first).wait().code == 0
    allowed, right = [results_of(first), results_of(alone)], 0
    for trial in range(TRIALS):
        out = tmp_path / str(trial) / "out"
        runs = [start(arguments, inputs, out) for arguments in (command, other)]
        ended = [run.wait() for run in runs]
        silent = not any("Traceback" in each.err for each in ended)
        right += silent and each_folder_is_one_of(results_of(out), allowed)
    table.append(("two settings at once", f"`{command}`", TRIALS, right))
    assert right == TRIALS
