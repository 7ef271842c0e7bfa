"""Inputs of the commands, and what each command leaves when nothing disturbs it."""

import shutil
import time
from functools import cache
from pathlib import Path

import pytest

from faults.commands import Undisturbed, left_by, make_inputs, start


@pytest.fixture(scope="session")
def inputs(tmp_path_factory) -> Path:
    """Input of all commands; treat as read-only."""
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="session")
def undisturbed(inputs, tmp_path_factory) -> Undisturbed:
    """Name of a command -> what it leaves, and the seconds that it takes with warm caches."""

    @cache
    def run(command: str) -> tuple[dict[str, bytes], float]:
        out = tmp_path_factory.mktemp("undisturbed") / "out"
        started = time.monotonic()
        ended = start(command, inputs, out).wait()
        seconds = time.monotonic() - started
        assert ended.code == 0, ended.err
        assert "Traceback" not in ended.err
        found = left_by(out)
        shutil.rmtree(out)
        return found, seconds

    return run
