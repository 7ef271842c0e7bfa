"""Of processes that are about to make a file, one makes it."""

import os
import sys
from threading import Thread

import pytest

from builders import python, wait_until
from nmfsync.runtime import claims

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of files")

HOLDER = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from nmfsync.runtime import claims\n"
    "assert claims.claim(Path('kernel'))\n"
    "Path('begun').touch()\n"
    "while not Path('end').exists():\n    time.sleep(0.01)\n"
)


@pytest.fixture
def holder(tmp_path):
    """Another process claims the file, until there is a file `end`."""
    thread = Thread(target=python, args=("-c", HOLDER), kwargs={"cwd": tmp_path})
    thread.start()
    wait_until((tmp_path / "begun").exists)
    yield tmp_path / "kernel"
    (tmp_path / "end").touch()
    thread.join()
    claims.release_all()


def test_the_second_one_waits_for_the_first(holder):
    assert not claims.claim(holder)
    waiting = Thread(target=claims.wait_for, args=(holder,))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    holder.with_name("end").touch()  # it ends without a word, as if it were killed
    waiting.join(60)
    assert not waiting.is_alive()
    assert claims.claim(holder)  # it is ours now


def test_nobody_waits_for_ever(holder, monkeypatch):
    monkeypatch.setattr(claims, "LONGEST", 0.1)
    claims.wait_for(holder)
    assert not claims.claim(holder)


def test_nothing_is_left(tmp_path):
    assert claims.claim(tmp_path / "kernel")
    claims.release(tmp_path / "kernel")
    claims.release(tmp_path / "kernel")
    assert os.listdir(tmp_path) == []


def test_where_nothing_can_be_written_everybody_may(tmp_path):
    assert claims.claim(tmp_path / "missing" / "kernel")
    claims.wait_for(tmp_path / "missing" / "kernel")
