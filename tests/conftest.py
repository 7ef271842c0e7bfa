"""Small image folders and an in-process command line, for all tests."""

import sys
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import settings
from skimage import data

from nmfsync.cli import main

# The first call of a compiled kernel takes seconds, and so does any on a busy machine.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


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
def flat_image() -> np.ndarray:
    """Return a picture in which nothing can be found."""
    return np.full((80, 90), 127, np.uint8)
