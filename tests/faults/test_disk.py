"""A full disk and missing rights: one line, nothing half-written, and what was there stays."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.commands import COMMANDS, left_by, long_form, results_of, start

WRITING = ("run", "synchronise, COLMAP", *map(long_form, ("synchronise, npz", "synchronise, hloc",
                                                          "study")))  # fmt: skip


@contextmanager
def small_disk(folder: Path, kilobytes: int):
    """Mount a file system of this size; skip the test where that is not allowed."""
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    try:
        subprocess.run(options, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs the right to mount a file system ({error})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, free: int) -> None:
    """Leave so many bytes of a file system free."""
    left = shutil.disk_usage(folder).free - free
    (folder / "full").write_bytes(bytes(max(left, 0)))


def check_nothing_happened(ended, out: Path, before: dict[str, bytes]) -> None:
    """The command said in one line what is wrong; results are as before, and no file is partial."""
    line = ended.one_line()
    assert any(word in line.lower() for word in ("space", "too large", "full", "disk")), line
    assert results_of(out) == before
    assert hidden(out) == []


def hidden(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob(".*")]


@pytest.mark.parametrize("command", WRITING)
def test_files_that_cannot_grow(command, inputs, tmp_path):
    """The limit on the size of files is what every system has."""
    out = tmp_path / "out"
    ended = start(command, inputs, out, largest_file=2_000).wait()
    check_nothing_happened(ended, out, {})


@pytest.mark.parametrize("command", ["run", long_form("synchronise, COLMAP")])
def test_a_full_disk_keeps_the_last_result(command, inputs, tmp_path):
    with small_disk(tmp_path / "disk", 8_000) as disk:
        out = disk / "out"
        (tmp_path / "tmp").mkdir()
        assert start(command, inputs, out, {"TMPDIR": str(tmp_path / "tmp")}).wait().code == 0
        before = results_of(out)
        fill(disk, 50_000)
        other = (*COMMANDS[command], *(("--seed", "1") if command == "run" else ("--theta", ".9")))
        ended = start(other, inputs, out, {"TMPDIR": str(tmp_path / "tmp")}).wait()
        check_nothing_happened(ended, out, before)


@pytest.fixture(scope="module")
def ordinary() -> tuple[str, ...]:
    """What starts a command without the superuser's right to ignore permissions."""
    if os.geteuid():
        return ()
    drop = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
    if not shutil.which("setpriv") or subprocess.run([*drop, "true"], check=False).returncode:
        pytest.skip("needs setpriv (util-linux), or a user who is not root")
    return drop


@contextmanager
def closed(path: Path, mode: int):
    """Take rights away for a while."""
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


@pytest.mark.parametrize("command", ["study", long_form("run"), long_form("synchronise, COLMAP")])
def test_a_folder_that_cannot_be_written(command, inputs, tmp_path, ordinary):
    out = tmp_path / "out"
    out.mkdir()
    (out / "kept").write_text("kept")
    with closed(out, 0o555):
        line = start(command, inputs, out, before=ordinary).wait().one_line()
    assert str(out) in line
    assert "denied" in line.lower()
    assert left_by(out) == {"kept": b"kept"}


@pytest.mark.parametrize(
    ("command", "name"),
    [("run", "left"), ("synchronise, COLMAP", "a.db"), long_form("synchronise, npz", "a.npz"),
     long_form("synchronise, hloc", "a.h5"), long_form("synchronise, hloc", "features.h5")],
)  # fmt: skip
def test_input_that_cannot_be_read(command, name, inputs, tmp_path, ordinary):
    given, out = tmp_path / "given", tmp_path / "out"
    shutil.copytree(inputs, given)
    with closed(given / name, 0):
        line = start(command, given, out, before=ordinary).wait().one_line()
    assert name in line
    assert results_of(out) == {}


@pytest.mark.benchmark
def test_one_image_that_cannot_be_read_is_named(inputs, tmp_path, ordinary):
    """The others make a result, or the run ends with one line; nobody misses it without a word."""
    given, out = tmp_path / "given", tmp_path / "out"
    shutil.copytree(inputs, given)
    image = given / "left/view1.png"
    with closed(image, 0):
        ended = start("run", given, out, before=ordinary).wait()
    assert image.name in ended.out + ended.err
    assert "Traceback" not in ended.err
    if ended.code:
        ended.one_line()


@pytest.mark.benchmark
def test_stages_that_cannot_be_written(inputs, undisturbed, tmp_path, ordinary):
    """One line, and the results of before; or the same results without the stages."""
    out = tmp_path / "out"
    assert start("run", inputs, out).wait().code == 0
    before = results_of(out)
    [stages] = out.rglob("stages")
    shutil.rmtree(stages)
    stages.mkdir()
    with closed(stages, 0o555):
        ended = start("run", inputs, out, before=ordinary).wait()
    if ended.code:
        assert "stages" in ended.one_line()
    assert results_of(out) == before
