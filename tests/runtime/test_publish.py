"""Files that belong together appear together, whenever the program is killed."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from nmfsync.runtime import publish
from nmfsync.runtime.files import staging, sweep_below
from nmfsync.runtime.publish import RECORD, commit, locked, publication, recover

FIRST = ("evaluation.json", "figures/a.pdf", "lengths.png", "overlay-1-2.png", "report.html")
SECOND = ("evaluation.json", "figures/b.pdf", "lengths.png", "report.html", "tracks.csv")


def write_set(folder, names, content):
    with publication(folder) as new:
        for name in names:
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(content)


def contents(folder):
    """What is in a folder, without the record and what is hidden."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != RECORD and "/." not in f"/{path.relative_to(folder)}"
    }


def killed_at(step, work):
    """Do the work in a process that is killed before its change number `step` of the disk.

    Returns whether it was; otherwise it had finished.
    """
    child = os.fork()
    if child == 0:
        left = [step]

        def changes(event, arguments):
            if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(changes)
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a copy of this process")
def test_a_kill_at_any_moment_leaves_one_set_or_the_other(tmp_path):
    seen, step, killed = set(), 0, True
    while killed:
        folder = tmp_path / str(step)
        write_set(folder, FIRST, "old")
        (folder / "notes.txt").write_text("mine")
        killed = killed_at(step, lambda: write_set(folder, SECOND, "new"))  # noqa: B023 - at once
        between = contents(folder)
        assert between.pop("notes.txt") == "mine"
        assert len(set(between.values())) <= 1  # never files of two sets
        assert "report.html" not in between or len(between) in (len(FIRST), len(SECOND))
        recover(folder)
        sweep_below(folder)
        assert not list(folder.glob(".*"))
        after = contents(folder)
        assert after.pop("notes.txt") == "mine"
        assert after in (dict.fromkeys(FIRST, "old"), dict.fromkeys(SECOND, "new"))
        seen.add(after["report.html"])
        write_set(folder, FIRST, "newer")
        assert contents(folder) == {**dict.fromkeys(FIRST, "newer"), "notes.txt": "mine"}
        step += 1
    assert seen == {"old", "new"}
    assert step > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a copy of this process")
def test_the_main_file_of_a_set_is_never_missing(tmp_path):
    names = ["a.db", "a.db.report.html", "a.db.tracks.csv"]

    def replace(content):
        with staging(tmp_path / "a.db") as new, locked(tmp_path):
            for name in names:
                (new / name).write_text(content)
            commit(new, tmp_path, names, names[1:], "a.db")

    step = 0
    replace("0")
    while killed_at(step, lambda: replace(str(step + 1))):  # noqa: B023 - at once
        found = {path.name: path.read_text() for path in tmp_path.glob("a.db*")}
        assert "a.db" in found
        assert len(set(found.values())) == 1
        recover(tmp_path, "a.db")
        assert sorted(path.name for path in tmp_path.glob("a.db*")) == names
        step += 1
    assert step > 5


def test_two_at_once_publish_whole_sets(tmp_path):
    def work(content):
        for _ in range(20):
            write_set(tmp_path, FIRST if content == "a" else SECOND, content)

    threads = [threading.Thread(target=work, args=(content,)) for content in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(tmp_path) in (dict.fromkeys(FIRST, "a"), dict.fromkeys(SECOND, "b"))
    assert not list(tmp_path.glob(".*"))


def test_what_fails_before_the_end_changes_nothing(tmp_path):
    write_set(tmp_path, FIRST, "old")

    def fail():
        with publication(tmp_path) as new:
            (new / "report.html").write_text("new")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert contents(tmp_path) == dict.fromkeys(FIRST, "old")


def test_ctrl_c_on_the_way_finishes_the_set_first(tmp_path, monkeypatch):
    write_set(tmp_path, FIRST, "old")
    put, calls = publish.put, []

    def interrupted_once(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        put(*arguments)

    monkeypatch.setattr(publish, "put", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        write_set(tmp_path, SECOND, "new")
    assert contents(tmp_path) == dict.fromkeys(SECOND, "new")


@pytest.mark.parametrize(
    "record",
    ["", "[]", "\xff", '{"files": 3}', '{"files": ["../mine", "/mine", "..", 1, "sub/x"]}'],
)
def test_a_record_can_delete_nothing_elsewhere(tmp_path, record):
    folder = tmp_path / "scene"
    (folder / "sub").mkdir(parents=True)
    for path in (tmp_path / "mine", folder / "sub/x"):
        path.touch()
    (folder / RECORD).write_bytes(record.encode("latin-1"))
    write_set(folder, SECOND, "new")
    assert (tmp_path / "mine").exists()
    assert (folder / "sub/x").exists()
    assert json.loads((folder / RECORD).read_text())["files"] == sorted(SECOND)


def test_folders_that_cannot_be_locked_have_a_file_for_it(tmp_path, monkeypatch):
    lock = publish._lock
    monkeypatch.setattr(publish, "_lock", lambda p, flags: None if p.is_dir() else lock(p, flags))
    inside = threading.Event()
    with locked(tmp_path):
        other = threading.Thread(target=lambda: locked(tmp_path).__enter__() or inside.set())
        other.start()
        assert not inside.wait(0.2)
    assert inside.wait(30)
    other.join()
    assert [path.name for path in tmp_path.iterdir()] == [".nmfsync.lock"]
    monkeypatch.setattr(publish, "_lock", lambda path, flags: None)
    with locked(tmp_path):  # no locks at all: the work is done all the same
        pass


def test_a_pending_set_without_its_plan_changes_nothing(tmp_path):
    write_set(tmp_path, FIRST, "old")
    pending = Path(tmp_path, ".outputs.pending")
    pending.mkdir()
    (pending / "report.html").write_text("new")
    recover(tmp_path)
    assert contents(tmp_path) == dict.fromkeys(FIRST, "old")
    assert not pending.exists()


def test_a_folder_within_goes_with_its_last_file(tmp_path):
    write_set(tmp_path, FIRST, "old")
    write_set(tmp_path, ("report.html",), "new")
    assert contents(tmp_path) == {"report.html": "new"}
    assert not (tmp_path / "figures").exists()
    write_set(tmp_path, FIRST, "old")
    (tmp_path / "figures/mine.pdf").write_text("mine")
    write_set(tmp_path, ("report.html",), "new")
    assert contents(tmp_path) == {"report.html": "new", "figures/mine.pdf": "mine"}


def test_a_file_where_a_folder_must_be_changes_nothing(tmp_path):
    write_set(tmp_path, ("report.html",), "old")
    (tmp_path / "figures").write_text("mine")
    with pytest.raises(OSError, match="figures"):
        write_set(tmp_path, SECOND, "new")
    assert contents(tmp_path) == {"report.html": "old", "figures": "mine"}
    write_set(tmp_path, ("report.html",), "newer")
    assert contents(tmp_path) == {"report.html": "newer", "figures": "mine"}


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a/../b", "a/b/c", "", ".", "..", "a//b", "./a", "sub/x"]
)
def test_a_record_cannot_lead_out_of_its_folder(tmp_path, name):
    (tmp_path / RECORD).write_text(
        json.dumps({"input": "x", "files": [name, "good", "figures/good"]})
    )
    assert publish.read_record(tmp_path)["files"] == ["good", "figures/good"]
