"""Small image folders, a command line in this process, and another process, for all tests."""

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from skimage import data
from threadpoolctl import ThreadpoolController

from nmfsync.cli.commands import main
from nmfsync.report import drawing
from nmfsync.runtime.threads import thread_count

# The first call of a compiled kernel takes seconds, and so does any on a busy machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


BLAS = ThreadpoolController().select(user_api="blas")


@pytest.fixture(autouse=True)
def _linear_algebra_on_one_thread(request):
    """Small products gain nothing by more, and wait for each other on busy cores."""
    if request.node.get_closest_marker("benchmark"):
        yield
    else:
        with BLAS.limit(limits=1):
            yield


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def nmfsync_command(monkeypatch, capfd):
    """Run the command line; return its outcome."""

    def run(*arguments) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["nmfsync", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code
            if isinstance(code, str):  # as Python itself does at exit
                print(code, file=sys.stderr)
                code = 1
        return Outcome(code or 0, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def photographs(tmp_path_factory) -> Path:
    """Write three overlapping crops of one photograph; treat as read-only."""
    folder = tmp_path_factory.mktemp("photographs")
    image = cv2.cvtColor(data.astronaut(), cv2.COLOR_RGB2BGR)
    for number, (x, y) in enumerate([(0, 0), (12, 5), (25, 11)]):
        cv2.imwrite(str(folder / f"view{number}.png"), image[y : y + 220, x + 120 : x + 380])
    return folder


@pytest.fixture(scope="session")
def astronaut() -> np.ndarray:
    """Return a grey photograph; treat as read-only."""
    return cv2.cvtColor(data.astronaut(), cv2.COLOR_RGB2GRAY)


@pytest.fixture
def write_image(tmp_path):
    """Write an array, a Pillow image or bytes under a name; return the path."""

    def write(name, picture) -> Path:
        path = tmp_path / name
        if isinstance(picture, bytes):
            path.write_bytes(picture)
        elif isinstance(picture, np.ndarray):
            cv2.imencode(path.suffix, picture)[1].tofile(path)
        else:
            picture.save(path)
        return path

    return write


@pytest.fixture
def without_report(monkeypatch):
    """Let runs draw no report, which takes most of their time."""
    monkeypatch.setattr("nmfsync.run.scene.write_scene_report", lambda *arguments: None)


@pytest.fixture
def drawn(monkeypatch) -> list[str]:
    """Return the names of what is drawn from here on, all of it in this process."""
    names: list[str] = []
    draw_one = drawing._drawn

    def count(one, methods):
        names.append(one.name)
        return draw_one(one, methods)

    monkeypatch.setattr(drawing, "_drawn", count)
    monkeypatch.setattr(drawing, "helpers_for", lambda most: 0)
    return names


@pytest.fixture(scope="session")
def flat_image() -> np.ndarray:
    """Return a picture in which nothing can be found."""
    return np.full((80, 90), 127, np.uint8)


@pytest.fixture(scope="session")
def in_another_process():
    """Call a function in another process, with other numbers of threads than here."""
    threads = "2" if thread_count() == 1 else "1"
    blas = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "3")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with mock.patch.dict(os.environ, {"NUMBA_NUM_THREADS": threads, **blas}):
            assert str(pool.submit(thread_count).result()) == threads

        def call(function, *arguments, **options):
            return pool.submit(function, *arguments, **options).result()

        yield call
