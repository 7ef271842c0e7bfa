"""How long it takes until something is there: seconds of the command, and ratios.

python -m pytest -m benchmark tests/benchmarks/test_start.py -s

CPU seconds are those of the command with the processes that it started. Only on a machine that
does nothing else are the wall times those of a user.
"""

import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from nmfsync import METHODS

pytestmark = pytest.mark.benchmark

ROUNDS = 3

LESS = ",".join(name for name in METHODS if name != "matcheig")

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "matplotlib")


def test_start(tmp_path):
    commands = {
        "help": ["--help"],
        "version": ["--version"],
        "sample, from nothing, nothing compiled": ["run", "sample", "--out", "cold"],
        "sample, from nothing": ["run", "sample", "--out", "warm"],
        "sample, nothing to do": ["run", "sample", "--out", "warm"],
        "sample, one method less": ["run", "sample", "--out", "warm", "--methods", LESS],
        "sample, one method more": ["run", "sample", "--out", "warm"],
        "sample, another seed": ["run", "sample", "--out", "warm", "--seed", "1"],
        "sample, another theta": ["run", "sample", "--out", "warm", "--theta", "0.3"],
        "sample, figures for papers": ["run", "sample", "--out", "warm", "--figures"],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for n in range(ROUNDS):  # the commands in turn, so that what the machine does besides hits all
        folder = tmp_path / str(n)
        folder.mkdir()
        for name, arguments in commands.items():
            times[name].append(taken(arguments, folder))
    print(f"\n{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
          + ", ".join(f"{name} {version(name)}" for name in LIBRARIES))  # fmt: skip
    best = {name: tuple(map(min, zip(*pairs, strict=True))) for name, pairs in times.items()}
    unit = best["sample, from nothing"]
    print("| command | wall, s | CPU, s | wall, ratio |\n|---|---|---|---|")
    for name, (wall, cpu) in best.items():
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {wall / unit[0]:.2f} |")
    cold = best["sample, from nothing, nothing compiled"]
    print(
        f"compiling: {cold[0] - unit[0]:.1f} s of wall time, {cold[1] - unit[1]:.1f} s of CPU time"
    )


def taken(arguments: list[str], folder: Path) -> tuple[float, float]:
    """Run the command with kernels kept in this folder only; return wall and CPU seconds."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kernels")}
    before, start = children(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "nmfsync", *arguments], env=environment, cwd=folder,
                   check=True, capture_output=True)  # fmt: skip
    return time.perf_counter() - start, children() - before


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(": ", 1)[1] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
