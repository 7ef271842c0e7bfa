"""Everything again and again in one process, which must not grow.

python -m pytest -m benchmark tests/benchmarks/test_soak.py -s

It takes an hour, or NMFSYNC_SOAK_MINUTES.
Prints resident memory, open files and threads over time, and the growth of the memory: the
median slope, which a step (a larger problem, something compiled) does not move.
"""

import gc
import os
import shutil
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
from scipy.stats import theilslopes

from benchmarks.comparison import Table
from builders import noisy
from nmfsync import (
    METHODS,
    NmfsyncWarning,
    Settings,
    extract_all,
    match,
    run_scene,
    synchronise,
    synchronise_file,
)

pytestmark = pytest.mark.benchmark

MINUTES = float(os.environ.get("NMFSYNC_SOAK_MINUTES", "60"))
ROWS = 20  # of the table that is printed
WARM = 0.25  # share of the time after which nothing new is loaded or compiled
MOST = 0.05  # of the memory: what it may grow by in the rest of the time


def once(photographs: Path, folder: Path, seed: int) -> None:
    """Do everything that a long program might do."""
    out = folder / "out"
    run_scene(str(photographs), Settings(methods=("clustersync", "spectral"), features=60), out)
    shutil.rmtree(out)
    problem = noisy(seed=seed)
    for name, method in METHODS.items():
        if not method.needs_descriptors:
            synchronise(problem, name)
    problem.save(folder / "matches.npz")
    synchronise_file(folder / "matches.npz", folder / "new.npz", overwrite=True)
    match(extract_all(sorted(photographs.iterdir()), 200), weighted=True)


@pytest.mark.filterwarnings("ignore::nmfsync.errors.NmfsyncWarning")
def test_soak(photographs, tmp_path):
    process, start = psutil.Process(), time.monotonic()
    table = Table(f"{MINUTES:g} minutes", ["minutes", "rounds", "MB", "files", "threads"], 2)
    measured, rounds = [], 0
    while (minutes := (time.monotonic() - start) / 60) < MINUTES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NmfsyncWarning)
            once(photographs, tmp_path, rounds)
        rounds += 1
        gc.collect()
        megabytes = process.memory_info().rss / 1e6
        measured.append([minutes, megabytes, process.num_fds(), threading.active_count()])
        if minutes >= MINUTES * len(table.rows) / ROWS:
            table.add("", minutes, rounds, megabytes, *measured[-1][2:], digits=1)
    table.write("soak")
    warm = np.array([row for row in measured if row[0] >= WARM * MINUTES])
    slope = theilslopes(warm[:, 1], warm[:, 0]).slope
    growth = slope * (1 - WARM) * MINUTES
    per_round = 1000 * slope * MINUTES / rounds
    print(f"{rounds} rounds: {60 * slope:+.1f} MB an hour, {per_round:+.1f} kB a round")
    assert growth < MOST * warm[0, 1]
    assert warm[-1, 2] <= warm[0, 2], "open files"
    assert warm[-1, 3] <= warm[0, 3], "threads"
