"""Small commands that read and write everything, run as a user runs them: in a process of its own.

What they leave is compared by `left_by`, with no regard to what a clock or another process decides.
"""

import csv
import io
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import cv2
import numpy as np
import psutil
import pytest
from skimage import data

from colmap_scenes import write_database
from nmfsync import PairwiseMatches
from nmfsync.synthetic import generate

TESTS = Path(__file__).parents[1]
MARK = "NMFSYNC_FAULTS_RUN"  # an environment variable that all processes of one command inherit
GONE = 2.0  # seconds within which no process of a killed command is left
PATIENCE = 120  # seconds until a command that answers nothing counts as hanging

_METHODS = ("--methods", "clustersync,spectral", "--features", "50", "--verify", "homography")
_TINY_STUDY = """
import builders, nmfsync.study.definitions
nmfsync.study.definitions.STUDIES["synthetic"] = builders.TINY_STUDY
from nmfsync.cli.commands import main
main()
"""

# By name: what follows "python", with the folders IN and OUT.
COMMANDS = {
    "run": ("-m", "nmfsync", "run", "IN/left", *_METHODS, "--out", "OUT"),
    "run --jobs 2": ("-m", "nmfsync", "run", "IN/left", "IN/right", "--jobs", "2", *_METHODS,
                     "--out", "OUT"),
    "run --engine processes": ("-m", "nmfsync", "run", "IN/left", "--engine", "processes",
                               *_METHODS, "--out", "OUT"),
    "synchronise, npz": ("-m", "nmfsync", "synchronise", "IN/a.npz", "-o", "OUT/a.npz", "--force"),
    "synchronise, COLMAP": ("-m", "nmfsync", "synchronise", "IN/a.db", "-o", "OUT/a.db", "--force",
                            "--verify", "fundamental"),
    "synchronise, hloc": ("-m", "nmfsync", "synchronise", "IN/a.h5", "--features", "IN/features.h5",
                          "-o", "OUT/a.h5", "--force"),
    "study": ("-c", _TINY_STUDY, "study", "synthetic", "--samples", "3", "--jobs", "2",
              "--out", "OUT"),
}  # fmt: skip


def make_inputs(folder: Path) -> Path:
    """Write the input of all commands; return the folder."""
    image = cv2.cvtColor(data.astronaut(), cv2.COLOR_RGB2BGR)
    for name, top in (("left", 0), ("right", 100)):
        (folder / name).mkdir(parents=True)
        for number, (x, y) in enumerate([(120, 0), (132, 5), (145, 11)]):
            crop = image[top + y : top + y + 150, x : x + 180]
            cv2.imwrite(str(folder / name / f"view{number}.png"), crop)
    W, _, sizes = generate(k=10, d=20, rho=0.7, sigma=0.5, seed=1)
    PairwiseMatches(W, sizes).save(folder / "a.npz")
    write_database(folder / "a.db", wrong=0.2)
    _write_hloc(folder)
    return folder


def _write_hloc(folder: Path) -> None:
    import h5py

    rng = np.random.default_rng(0)
    images = [f"{name}.jpg" for name in "abc"]
    with h5py.File(folder / "features.h5", "w") as file:
        for image in images:
            file[f"{image}/keypoints"] = rng.uniform(0, 600, (40, 2)).astype(np.float32)
            file[f"{image}/image_size"] = [640, 480]
    with h5py.File(folder / "a.h5", "w") as file:
        for a, b in ((0, 1), (0, 2), (1, 2)):
            file[f"{images[a]}/{images[b]}/matches0"] = np.arange(40, dtype=np.int16)


# --- Running ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """What a command left: exit code, and what it printed."""

    code: int
    out: str
    err: str

    def one_line(self) -> str:
        """The error of a command that failed as it should: one line a scene, and an exit code."""
        lines = [
            line
            for line in self.err.splitlines()
            if not line.startswith(("Warning: ", "Compiling "))
        ]
        if self.code == 2:  # the command line is wrong: how to use it comes first
            lines = [line for line in lines if line and not line.startswith(("Usage:", "Try"))]
        assert self.code > 0, self
        assert lines, self
        assert all(line.startswith("Error: ") for line in lines), self.err
        return "\n".join(lines)


@dataclass
class Run:
    """A command that is running."""

    process: subprocess.Popen
    mark: str
    out: IO[str]
    err: IO[str]
    started: float = field(default_factory=time.monotonic)

    def wait(self, patience: float = PATIENCE) -> Ended:
        """Wait for the end; a command that hangs is ended, and has a traceback that says so."""
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code, hangs = self.process.wait(), f"Traceback: no answer in {patience} seconds"
        else:
            hangs = ""
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return Ended(code, texts[0], texts[1] + hangs)

    def stop(self, number: int, after: float) -> Ended:
        """Send a signal some seconds after the start; Ctrl-C goes to all processes, as it does."""
        while self.process.poll() is None and time.monotonic() - self.started < after:
            time.sleep(0.002)
        if self.process.poll() is None:
            if number == signal.SIGINT:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)
        return self.wait()

    def processes(self) -> list[psutil.Process]:
        """Processes of this command that are still there, whoever is their parent now."""
        return [process for process in psutil.process_iter() if _has_mark(process, self.mark)]

    def end_all(self) -> list[str]:
        """Wait a moment, end what is left, and say what that was."""
        deadline = time.monotonic() + GONE
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        names = [" ".join(process.cmdline())[:80] for process in left]
        for process in left:
            process.kill()
        return names


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark
    except psutil.Error:
        return False


def start(
    command: str | tuple[str, ...],
    inputs: Path,
    out: Path,
    environment: dict[str, str] | None = None,
    before: tuple[str, ...] = (),
    largest_file: int | None = None,
    folder: Path | None = None,
) -> Run:
    """Start a command.

    Parameters
    ----------
    command : str or tuple of str
        A name in `COMMANDS`, or what follows "python".
    inputs, out : Path
        The folders IN and OUT.
    environment : dict of str, optional
        More variables; one thread is used, and `tmp` beside `out` is for temporary files.
    before : tuple of str
        A program that starts the command, and its arguments.
    largest_file : int, optional
        Bytes that a file may have; writing more is an error.
    folder : Path, optional
        Where it runs.
    """
    arguments = COMMANDS[command] if isinstance(command, str) else command
    filled = [re.sub(r"\bIN\b", str(inputs), re.sub(r"\bOUT\b", str(out), a)) for a in arguments]
    temporary = out.parent / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex
    variables = {
        **os.environ,
        **dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "TMPDIR": str(temporary),
        "JOBLIB_TEMP_FOLDER": str(temporary),
        MARK: mark,
        **(environment or {}),
    }
    if largest_file is None:  # Python 3.11 leaves truncated .pyc files under a limit
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
    else:
        variables["PYTHONDONTWRITEBYTECODE"] = "1"

    def limit() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    # No pipes: a worker that is left behind would hold them open.
    printed = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(2)]  # noqa: SIM115
    process = subprocess.Popen(
        [*before, sys.executable, *filled], stdin=subprocess.DEVNULL,
        stdout=printed[0], stderr=printed[1], env=variables, cwd=folder or temporary,
        start_new_session=True, preexec_fn=limit,
    )  # fmt: skip
    return Run(process, mark, *printed)


# --- What a command leaves -------------------------------------------------------------


def left_by(folder: Path) -> dict[str, bytes]:
    """Every file of a folder and its content without times: of `stages`, only that it is there.

    A stage may hold its pairs of images in the order in which they were done; what
    is made from it is among the results.
    """
    return {
        str(path.relative_to(folder)): b"" if "stages" in path.parts else without_times(path)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() or path.is_symlink()
    }


def results_of(folder: Path) -> dict[str, bytes]:
    """What a command leaves for the user: nothing hidden or kept for the next run, no records."""
    kept = ("stages", "samples.jsonl", "outputs.json")
    return {
        name: content
        for name, content in left_by(folder).items()
        if not any(part in kept or part[0] == "." for part in Path(name).parts)
    }


def each_folder_is_one_of(found: dict[str, bytes], allowed: list[dict[str, bytes]]) -> bool:
    """Say whether every folder of a result is, as a whole, as in one of some results."""

    def of(result: dict[str, bytes], folder: Path) -> dict[str, bytes]:
        return {name: c for name, c in result.items() if Path(name).parent == folder}

    folders = {Path(name).parent for result in (found, *allowed) for name in result}
    return all(of(found, f) in [of(one, f) for one in allowed] for f in folders)


def without_times(path: Path) -> bytes:
    """Content of a result without what differs from run to run.

    That is the provenance, seconds and megabytes in `evaluation.json`, `evaluation.csv` and in
    the report's table of methods, the place of the input and what all follows from in
    `outputs.json`, and the order in which the samples of a study were done.
    """
    content = path.read_bytes()
    if path.name == "evaluation.json":
        content = json.dumps(json.loads(content) | {"provenance": {}}, indent=1).encode()
        return re.sub(rb'("(?:seconds|peak_memory_mb)"): [0-9.e-]+', rb"\1: 0", content)
    if path.name == "outputs.json":
        return json.dumps(json.loads(content) | {"input": 0, "made_from": None}, indent=1).encode()
    if path.name == "evaluation.csv":
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        return repr([{**row, "seconds": "", "peak_memory_mb": ""} for row in rows]).encode()
    if path.name.endswith("report.html"):
        content = re.sub(rb'<section id="provenance">.*?</section>', b"", content, flags=re.DOTALL)
        return re.sub(rb"<table>.*?</table>", _without_costs, content, flags=re.DOTALL)
    if path.name == "samples.jsonl":
        return b"\n".join(sorted(content.splitlines()))
    return content


def _without_costs(table: re.Match) -> bytes:
    if b"Memory,<br>MB</th>" not in table[0]:
        return table[0]
    return re.sub(rb"(<td>[^\n]*</td>\s*){2}</tr>", b"</tr>", table[0])


def differences(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    """Say in which files two results differ."""
    return [
        f"{name} {'differs' if name in expected and name in found else 'is missing'}"
        if name in expected
        else f"{name} is left behind"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    ]


# --- Kills -----------------------------------------------------------------------------


def kill_and_run_again(
    command: str,
    inputs: Path,
    out: Path,
    expected: dict[str, bytes],
    number: int,
    after: float,
) -> dict[str, list[str]]:
    """Kill a command, run it again, and say what is wrong then.

    Parameters
    ----------
    command, inputs, out
        As for `start`.
    expected : dict of str to bytes
        What the command leaves when nothing disturbs it, see `left_by`.
    number : int
        The signal.
    after : float
        Seconds from the start to the kill.

    Returns
    -------
    dict of str to list of str
        By kind of fault: "traceback", "process", "code", "result", "stray".
    """
    run = start(command, inputs, out)
    ended = run.stop(number, after)
    faults = {
        "traceback": [ended.err] if "Traceback" in ended.err else [],
        "process": run.end_all(),
        "code": [] if ended.code or expected == left_by(out) else ["exit code 0, unfinished"],
    }
    again = start(command, inputs, out)
    ended = again.wait()
    if ended.code:
        faults["code"].append(f"the next run ended with {ended.code}: {ended.err}")
    faults["process"] += again.end_all()
    found = left_by(out)
    faults["result"] = differences({n: c for n, c in found.items() if n in expected}, expected)
    strays = [path for path in (out.parent / "tmp").rglob("*") if path.is_file()]
    faults["stray"] = [*sorted({*found} - {*expected}), *map(str, strays)]
    return {kind: found for kind, found in faults.items() if found}


def moments(command: str, count: int, seconds: float) -> list[tuple[int, float]]:
    """Choose signals, and seconds from the start, for a command that takes so many seconds."""
    rng = random.Random(command)
    kinds = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
    return [(kinds[n % 3], seconds * rng.uniform(0.3, 1)) for n in range(count)]


Undisturbed = Callable[[str], tuple[dict[str, bytes], float]]


def long_form(*values) -> Any:
    """A parameter of a test that takes too long for every day."""
    return pytest.param(*values, marks=pytest.mark.benchmark)
