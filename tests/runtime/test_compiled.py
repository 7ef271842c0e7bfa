"""Compiled kernels start wherever the program does, and whatever became of their files."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from numba.core.dispatcher import Dispatcher

import nmfsync
from nmfsync.runtime import compiled as module
from nmfsync.runtime import compiling, files

PACKAGE = Path(nmfsync.__file__).parent

OUTER = """
from inner import plus
from nmfsync.runtime.compiled import compiled

@compiled
def twice(x):
    return plus(x, x)
"""

INNER = """
from nmfsync.runtime.compiled import compiled

@compiled
def plus(a, b):
    return a + b
"""


@pytest.fixture
def twice(tmp_path, monkeypatch):
    """Call a kernel of a new process, as it were; it doubles a number by another kernel."""
    (tmp_path / "outer.py").write_text(OUTER)
    (tmp_path / "inner.py").write_text(INNER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def call(number):
        for known in (module._digest_of_sources, module._folder_of, files.private_folder):
            known.cache_clear()
        for name in ("outer", "inner"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        kernel = import_module("outer").twice
        result = kernel(number)
        call.compiled = not kernel.stats.cache_hits
        return result

    yield call
    for known in (module._digest_of_sources, module._folder_of, files.private_folder):
        known.cache_clear()
    for name in ("outer", "inner"):
        sys.modules.pop(name, None)


def kept(folder):
    return sorted((folder / "__pycache__").glob("*.nbc"))


def test_machine_code_is_kept(twice, tmp_path):
    assert twice(4) == 8
    assert twice.compiled
    before = [file.stat().st_mtime_ns for file in kept(tmp_path)]
    assert len(before) == 2
    assert twice(5) == 10
    assert not twice.compiled
    assert twice(1.5) == 3  # other types of arguments
    assert twice.compiled
    assert len(kept(tmp_path)) == 4
    assert set(before) <= {file.stat().st_mtime_ns for file in kept(tmp_path)}


@pytest.mark.parametrize("damage", ["empty", "short", "long", "other", "flipped", "folder", "old"])
def test_damaged_files_are_made_again(twice, tmp_path, damage):
    assert twice(4) == 8
    whole = {file: file.read_bytes() for file in kept(tmp_path)}
    for file, content in whole.items():
        half = len(content) // 2
        harm = {
            "empty": b"",
            "short": content[:half],
            "long": content + b"\0",
            "other": b"\x80\x04not a pickle" * 99,
            "flipped": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
            "old": content[32:],
        }
        file.unlink()
        file.mkdir() if damage == "folder" else file.write_bytes(harm[damage])
    assert twice(4) == 8
    assert twice.compiled
    if damage != "folder":
        assert twice(4) == 8
        assert not twice.compiled


def test_a_kernel_follows_the_kernels_that_it_calls(twice, tmp_path):
    assert twice(4) == 8
    (tmp_path / "inner.py").write_text(INNER.replace("a + b", "a * b"))
    assert twice(4) == 16


def test_kernels_call_kernels_of_their_own_folder_only():
    """Their machine code is made again if a file of their folder changes."""
    kernels = {}
    for entry in walk_packages([str(PACKAGE)], "nmfsync."):
        if not entry.ispkg and entry.name != "nmfsync.__main__":
            values = vars(import_module(entry.name)).values()
            kernels |= {id(v): v.py_func for v in values if isinstance(v, Dispatcher)}
    assert len(kernels) > 50
    for function in kernels.values():
        names = (function.__globals__.get(name) for name in function.__code__.co_names)
        for called in (value.py_func for value in names if isinstance(value, Dispatcher)):
            file, of_called = (Path(f.__code__.co_filename) for f in (function, called))
            known = of_called.name in module.SHARED or file.parent == of_called.parent
            assert known, f"{function} calls {called}"


def test_every_kernel_is_compiled_in_one_place():
    direct = re.compile(r"\b(njit|jit|vectorize|guvectorize|cfunc|stencil|enable_caching)\b")
    for file in PACKAGE.rglob("*.py"):
        if file.name != "compiled.py":
            assert not direct.search(file.read_text()), file


def test_without_any_writable_folder_it_is_compiled_every_time(twice, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "is_writable", lambda folder: False)
    for _ in range(2):
        assert twice(4) == 8
        assert twice.compiled
    assert not kept(tmp_path)


def test_a_full_disk_keeps_nothing_and_stops_nothing(twice, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert twice(4) == 8
    assert not list((tmp_path / "__pycache__").iterdir())


@pytest.mark.parametrize("folder", ["mine", "file", "beyond\0"])
def test_numbas_own_setting_is_heeded_where_it_can_be(twice, tmp_path, monkeypatch, folder):
    (tmp_path / "file").touch()
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / folder))
    assert twice(4) == 8
    assert bool(kept(tmp_path)) == (folder != "mine")
    assert bool(list(tmp_path.glob("mine/*/*.nbc"))) == (folder == "mine")


def test_no_code_is_read_from_a_folder_that_others_can_write_to(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files.private_folder.cache_clear()
    own = files.private_folder()
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    files.private_folder.cache_clear()
    assert files.private_folder() is None
    own.rmdir()
    own.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    files.private_folder.cache_clear()
    assert files.private_folder() is None
    files.private_folder.cache_clear()


def test_compiling_is_announced_once_if_it_takes_long(twice, capsys, monkeypatch):
    compiling._say_once.cache_clear()
    with compiling.compilation_shown():
        twice(4)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(compiling, "DELAY", -1)
    with compiling.compilation_shown():
        twice(4.0)
        twice(4j)
    line = "Compiling for this computer, the first time only: about a quarter of a minute\n"
    assert capsys.readouterr().err == line


@pytest.fixture
def ordinary_user():
    """Return the start of a command that another user runs, who owns nothing."""
    user = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", sys.executable, "-c"]
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, by setpriv")
    if subprocess.run([*user, "import numba"], capture_output=True, check=False).returncode:
        pytest.skip("Python lies in a folder that is closed to other users")
    return user


def test_an_ordinary_user_without_a_home_and_with_a_read_only_package(ordinary_user):
    program = (
        "import numpy as np\n"
        "from nmfsync.runtime.heap import push\n"
        "print(push(np.zeros(4), np.zeros(4, np.int64), 0, 1.0, 1), dict(push.stats.cache_hits))\n"
    )
    with tempfile.TemporaryDirectory() as place:  # pytest's folder is closed to others
        Path(place).chmod(0o755)
        temporary = Path(place, "temporary")
        temporary.mkdir()
        temporary.chmod(0o1777)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, Path(place, "nmfsync"), ignore=ignored)
        found_before = [
            subprocess.run(
                [*ordinary_user, before + program],
                cwd=place,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": place, "TMPDIR": str(temporary)},
                stderr=subprocess.STDOUT,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            ).stdout
            for before in ("import nmfsync.run.batch\n", "")
        ]
        assert found_before[0] == "1 {}\n"
        assert found_before[1].startswith("1 {(Array(float64")
        assert sorted(file.name for file in Path(place).iterdir()) == ["nmfsync", "temporary"]
        assert [file.name for file in temporary.iterdir()] == ["nmfsync-54321"]
