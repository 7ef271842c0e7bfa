"""Where a result comes from: command, date, versions, input files, and what it took."""

import hashlib
import os
import platform
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nmfsync.errors import NmfsyncError, printable, shown
from nmfsync.runtime.cache import versions
from nmfsync.runtime.threads import thread_count

# Of the libraries that draw and time results; those that results depend on are in `versions`.
_ALSO_USED = ("numba", "matplotlib", "pycolmap")


@dataclass(frozen=True)
class Costs:
    """What a part of a run took.

    Attributes
    ----------
    stage : str
    seconds : float
        Wall time.
    cpu_seconds : float or None
        CPU time of this process with all its threads, and of processes it had started
        that ended. None if it was not measured. Workers of an engine do not count.
    kept : bool
        The result is of an earlier run, and so is the time.
    """

    stage: str
    seconds: float
    cpu_seconds: float | None
    kept: bool = False


class Clock:
    """Wall time and CPU time since it was made, and the date of that."""

    def __init__(self) -> None:
        self.date = _now()
        self._wall, self._cpu = time.perf_counter(), cpu_time()

    def costs(self, stage: str) -> Costs:
        """Return what was taken so far, under the name of a stage."""
        return Costs(stage, time.perf_counter() - self._wall, cpu_time() - self._cpu)

    def provenance(
        self, command: str, inputs: Mapping[str, str], stages: Sequence[Costs]
    ) -> dict[str, Any]:
        """Say where a result comes from, as JSON can hold it.

        Parameters
        ----------
        command : str
            The command line, see `command_line`, or the function called from Python.
        inputs : dict of str to str
            SHA-256 of every input file, by name.
        stages : sequence of Costs

        Returns
        -------
        dict
            `command`; `date`, when the run began, in UTC; `versions`; `platform`; `threads`;
            `inputs`; `digest`, see `digest_of`; `stages`, of which the last one is the whole
            run so far: figures and pages are drawn later.
        """
        whole = self.costs("whole run")
        return {
            "command": command,
            "date": self.date,
            "versions": _all_versions(),
            "platform": f"{platform.system()} {platform.machine()}",
            "threads": thread_count(),
            "inputs": dict(inputs),
            "digest": digest_of(inputs),
            "stages": [asdict(costs) for costs in (*stages, whole)],
        }


def cpu_time() -> float:
    """Return the CPU seconds of this process, and of the processes it started that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def digest_of(inputs: Mapping[str, str]) -> str:
    """Return one SHA-256 for all input files: that of the lines `sha256sum` prints for them."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in inputs.items())
    return hashlib.sha256(lines.encode()).hexdigest()


def command_line(words: Sequence[str]) -> str:
    """Return a command as it can be typed again; ~ stands for the home folder, as it was typed.

    Parameters
    ----------
    words : sequence of str
        The words after the name of the program.
    """
    return " ".join(["nmfsync", *map(_quoted, words)])


def _quoted(word: str) -> str:
    home = str(Path.home())
    if len(home) > 1 and word.startswith(home + os.sep):  # which the shell put in place of ~
        return "~/" + shlex.quote(printable(word[len(home) + 1 :]))
    name, equals, value = word.partition("=")
    if name.startswith("--") and equals and len(home) > 1 and value.startswith(home + os.sep):
        return f"{name}={_quoted(value)}"
    return shlex.quote(printable(word))


def _now() -> str:
    """Return the time in UTC, or that of SOURCE_DATE_EPOCH, as in 2026-01-31T12:00:00Z."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = datetime.fromtimestamp(time.time() if epoch is None else int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        raise NmfsyncError(
            f"SOURCE_DATE_EPOCH must be seconds since 1970, got {shown(epoch)!r}"
        ) from None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _all_versions() -> dict[str, str]:
    found = {}
    for name in _ALSO_USED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**versions(), **found}
