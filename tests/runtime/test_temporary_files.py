"""Temporary files: gone with their process, and never taken from one that lives."""

import os
import subprocess
import sys

import psutil
import pytest

from nmfsync.runtime import files
from nmfsync.runtime.files import atomic_write, staging, sweep_below

MAKE = """
import sys, time
from pathlib import Path
from nmfsync.runtime.files import atomic_write, staging
with staging(Path("a.db")) as folder, atomic_write("sub/b.npz") as temporary:
    (folder / "file").touch()
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def maker(tmp_path):
    """A process that has a temporary folder and, in a subfolder, a temporary file."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKE], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        yield process
        process.kill()


def temporaries(folder):
    return sorted(path.suffix for path in folder.rglob(".nmfsync-*"))


def test_what_a_killed_process_left_goes_when_its_folder_is_used(maker, tmp_path):
    for _ in range(2):
        sweep_below(tmp_path)
        assert temporaries(tmp_path) == ["", ".npz"]  # it lives
    maker.kill()  # and is not waited for: a zombie is dead
    psutil.Process(maker.pid).wait()
    files._sweep_once.cache_clear()
    with atomic_write(tmp_path / "c.txt"):
        assert temporaries(tmp_path) == [".npz", ".txt"]
    with staging(tmp_path / "sub/d"):
        assert temporaries(tmp_path / "sub") == [""]
    assert temporaries(tmp_path) == []


def test_names_that_only_look_like_temporary_ones_stay(tmp_path):
    host = files._host()
    names = [
        f".nmfsync-{host}-{10**30}-abcdefgh",  # no process has such a number
        f".nmfsync-{host}x-1-abcdefgh",  # another host
        f".nmfsync-{host}-1",
        ".nmfsync.lock",
        f"nmfsync-{host}-999999999-abcdefgh",
    ]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / f".nmfsync-{host}-999999999-abcdefgh.x-y").touch()  # a stray
    sweep_below(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_number_that_another_process_has_now_is_no_sign_of_life(tmp_path):
    stray = tmp_path / f".nmfsync-{files._host()}-{os.getpid()}-abcdefgh"
    stray.touch()
    sweep_below(tmp_path)
    assert stray.exists()
    started = psutil.Process().create_time()
    os.utime(stray, (started - 10**5, started - 10**5))
    sweep_below(tmp_path)
    assert not stray.exists()
