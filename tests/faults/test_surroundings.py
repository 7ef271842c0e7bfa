"""The result is the same whatever surrounds the program: threads, processes, language, place."""

import os
import shutil
import subprocess

import pytest

from faults.commands import COMMANDS, left_by, start

# Folders are listed in another order.
BACKWARDS = """
import os
_scandir, _listdir = os.scandir, os.listdir

class _Backwards:
    def __init__(self, *arguments):
        with _scandir(*arguments) as entries:
            self._entries = iter(sorted(entries, key=lambda e: e.name, reverse=True))
    def __iter__(self): return self
    def __next__(self): return next(self._entries)
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def close(self): pass

os.scandir = _Backwards
os.listdir = lambda *arguments: sorted(_listdir(*arguments), reverse=True)
"""

THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def threads(*counts: int) -> dict[str, str]:
    return dict(zip(THREADS, map(str, counts), strict=True))


def locales() -> list[str]:
    """Languages of this system, those whose numbers have a comma among them."""
    try:
        known = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ["C"]
    wanted = ("C.utf8", "C.UTF-8", "C", "de_DE.utf8", "de_DE.UTF-8", "tr_TR.utf8", "fr_FR.utf8")
    return [name for name in wanted if name in known.split()]


# By name: variables of the environment.
VARIABLES = {
    "two threads": threads(2, 2, 2),
    "three threads of linear algebra": threads(1, 3, 3),
    "another hash seed": {"PYTHONHASHSEED": "1"},
    "no hash seed": {"PYTHONHASHSEED": "0"},
    **{f"language {name}": {"LC_ALL": name} for name in locales()},
}
COMMAND = "run"


@pytest.fixture
def result(inputs, tmp_path):
    """Run the command; return what it leaves."""

    def run(arguments=COMMANDS[COMMAND], environment=None, given=inputs, out=None, folder=None):
        place = out or tmp_path / "out"
        ended = start(arguments, given, place, environment, folder=folder).wait()
        assert ended.code == 0, ended.err
        return left_by(folder / place if folder else place)

    return run


def backwards(folder) -> dict[str, str]:
    """Variables under which Python lists folders in another order."""
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(BACKWARDS)
    paths = (str(folder / "site"), os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture
def elsewhere(inputs, tmp_path, result):
    """Run in another folder with relative paths; the images were written in another order."""
    (tmp_path / "here/left").mkdir(parents=True)
    for path in sorted((inputs / "left").iterdir(), reverse=True):
        shutil.copy(path, tmp_path / "here/left")
    arguments = [a.replace("IN/", "").replace("OUT", "there/out") for a in COMMANDS[COMMAND]]
    place = {"out": tmp_path / "here/there/out", "folder": tmp_path / "here"}

    def run(*more, environment=None):
        return result((*arguments, *more), environment, **place)

    return run


def test_all_of_it(elsewhere, undisturbed, tmp_path):
    """Everything else at once; the benchmarks below say which one it was."""
    environment = {
        **threads(2, 3, 1), "PYTHONHASHSEED": "1", "LC_ALL": locales()[-1], **backwards(tmp_path)
    }  # fmt: skip
    found = elsewhere("--engine", "processes", environment=environment)
    assert found == undisturbed(COMMAND)[0]


@pytest.mark.benchmark
def test_place(elsewhere, undisturbed):
    assert elsewhere() == undisturbed(COMMAND)[0]


@pytest.mark.benchmark
def test_processes(undisturbed):
    assert undisturbed("run --engine processes")[0] == undisturbed(COMMAND)[0]


@pytest.mark.benchmark
@pytest.mark.parametrize("name", VARIABLES)
def test_variables(name, result, undisturbed):
    assert result(environment=VARIABLES[name]) == undisturbed(COMMAND)[0]


@pytest.mark.benchmark
def test_order_of_folders(result, undisturbed, tmp_path):
    assert result(environment=backwards(tmp_path)) == undisturbed(COMMAND)[0]
