"""Commands that write to one folder at once: the result is that of one of them, as a whole."""

import pytest

from faults.commands import COMMANDS, differences, left_by, long_form, results_of, start

# Two settings of a command that have different results.
OTHER = {
    "run": ("--features", "30"),
    "run --jobs 2": ("--features", "30"),
    "synchronise, npz": ("--theta", "0.9"),
    "synchronise, COLMAP": ("--theta", "0.9"),
    "study": ("--samples", "2"),
}


@pytest.mark.benchmark
@pytest.mark.parametrize("command", OTHER)
def test_the_same_command_three_times(command, inputs, undisturbed, tmp_path):
    expected, _ = undisturbed(command)
    runs = [start(command, inputs, tmp_path / "out") for _ in range(3)]
    for ended in [run.wait() for run in runs]:
        assert "Traceback" not in ended.err
        if ended.code:  # one may refuse while another one writes
            ended.one_line()
    assert left_by(tmp_path / "out") == expected
    assert [name for run in runs for name in run.end_all()] == []


# Two runs at once are in tests/run/test_folders.py.
SOME = "synchronise, npz"


@pytest.mark.parametrize("command", [SOME, *(long_form(name) for name in OTHER if name != SOME)])
def test_two_settings_at_once(command, inputs, tmp_path):
    """Which of the two it is, is left to chance."""
    other = (*COMMANDS[command], *OTHER[command])
    alone = tmp_path / "alone/out"
    assert start(other, inputs, alone).wait().code == 0
    first = tmp_path / "first/out"
    assert start(command, inputs, first).wait().code == 0
    allowed = [results_of(first), results_of(alone)]
    assert allowed[0] != allowed[1]

    runs = [start(arguments, inputs, tmp_path / "out") for arguments in (command, other)]
    for ended in [run.wait() for run in runs]:
        assert "Traceback" not in ended.err
        if ended.code:
            ended.one_line()
    found = results_of(tmp_path / "out")
    assert found in allowed, [differences(found, one) for one in allowed]
