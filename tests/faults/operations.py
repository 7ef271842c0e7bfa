"""Kill a command at its file operations: at each one, no matter how short the moment between two.

Run as a program of its own, which imports nmfsync once, and forks for every kill:

python -c "from faults.operations import main; main()" OUT COUNT BEFORE ARGUMENTS...

It writes JSON: number of the operation -> faults.
"""

import io
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from faults.commands import differences, left_by, results_of
from nmfsync.cli.commands import main as nmfsync_main

# Those that change a folder or a file, and the letter that each is counted with.
KINDS = {
    "open": b"o",
    "os.rename": b"r",
    "os.remove": b"-",
    "os.rmdir": b"d",
    "os.mkdir": b"m",
    "os.link": b"l",
    "os.symlink": b"s",
    "os.truncate": b"t",
}


def main() -> None:
    out, count, other, *arguments = sys.argv[1:]
    json.dump(kill_at_operations(arguments, json.loads(other), Path(out), int(count)), sys.stdout)


def kill_at_operations(
    arguments: Sequence[str], other: Sequence[str], out: Path, count: int
) -> dict[int, list[str]]:
    """Kill a command at so many operations, of all kinds; run it again after each.

    Parameters
    ----------
    arguments : sequence of str
        Of nmfsync.
    other : sequence of str
        Options with which the command runs first: it overwrites what they have left in `out`.
    out : Path
    count : int

    Returns
    -------
    dict of int to list of str
        By number of the operation: what is wrong after the kill, when results of the old and
        of the new settings must not stand together, and after the next run.
    """
    before, total = out.with_name("before"), out.with_name("operations")
    _warm_up([a.replace(str(out), str(out.with_name("warm"))) for a in arguments])
    assert not run([*arguments, *other], out, total)
    shutil.copytree(out, before, symlinks=True)
    old = results_of(out)
    assert not run(arguments, out, total)
    expected, new = left_by(out), results_of(out)
    assert old != new
    faults = {}
    for number in chosen(total.read_text(), count):
        shutil.rmtree(out)
        shutil.copytree(before, out, symlinks=True)
        status = run(arguments, out, total, number)
        assert os.WIFSIGNALED(status), number
        found = results_of(out)
        mixed = not (found.items() <= old.items() or found.items() <= new.items())
        wrong = ["mixed: " + ", ".join(differences(found, new))] if mixed else []
        if os.waitstatus_to_exitcode(run(arguments, out, total)):
            wrong.append("the next run fails")
        wrong += differences(left_by(out), expected)
        if wrong:
            faults[number] = wrong
    return faults


def _warm_up(arguments: Sequence[str]) -> None:
    """Import and load here what every fork would import and load again.

    In another folder: a process removes what killed ones have left in a folder only once.
    """
    with redirect_stdout(io.StringIO()):
        assert not _command_line(arguments)


def chosen(kinds: str, count: int) -> list[int]:
    """Choose so many operations, counted from 1, at random; one of every kind comes first."""
    seen: Counter[str] = Counter()
    ranked = []
    for number in random.Random(0).sample(range(len(kinds)), len(kinds)):
        ranked.append((seen[kinds[number]], number + 1))
        seen[kinds[number]] += 1
    return [number for _, number in sorted(ranked, key=lambda each: each[0])][:count]


def _command_line(arguments: Sequence[str]) -> int:
    sys.argv = ["nmfsync", *arguments]
    try:
        nmfsync_main()
    except SystemExit as end:
        return int(bool(end.code))
    return 0


def run(arguments: Sequence[str], out: Path, counted: Path, kill_at: int = 0) -> int:
    """Run nmfsync in a fork of this process; return its status. Every operation is a letter."""
    counted.write_bytes(b"")
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        _count_operations(out, counted, kill_at)
        os._exit(_command_line(arguments))
    finally:  # whatever happens, this is no second copy of the caller
        os._exit(1)


def _count_operations(out: Path, counted: Path, kill_at: int) -> None:
    file = os.open(counted, os.O_WRONLY | os.O_APPEND)
    place, number = str(out), 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal number
        changes = event in KINDS and (event != "open" or arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if changes and str(arguments[0]).startswith(place):
            number += 1
            os.write(file, KINDS[event])
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
