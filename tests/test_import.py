"""Importing the package: quick, and complete when a name is used."""

import pytest

import nmfsync
from builders import python

HEAVY = ("numpy", "scipy", "matplotlib", "jinja2", "pooch", "numba", "cv2", "joblib", "skimage")
SOLVERS = "nmfsync.synchronisation"


def test_importing_loads_neither_heavy_libraries_nor_solvers():
    code = "import sys, nmfsync; print(*sys.modules)"
    loaded = python("-c", code).stdout.split()
    assert "nmfsync" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith(SOLVERS)] == []


@pytest.mark.parametrize("options", [["--help"], ["--version"], ["run", "--help"]])
def test_help_comes_without_what_does_the_work(options):
    code = (
        "import sys\n"
        f"sys.argv[1:] = {options}\n"
        "from nmfsync.__main__ import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules)"
    )
    *said, modules = python("-c", code).stdout.splitlines()
    assert said
    assert [name for name in modules.split() if name in HEAVY] == []


def test_every_public_name_can_be_used():
    assert {"synchronise", "run_scenes", "PairwiseMatches", "METHODS"} <= set(nmfsync.__all__)
    for name in nmfsync.__all__:
        assert getattr(nmfsync, name) is not None


def test_reading_the_methods_loads_no_solver():
    code = "import sys, nmfsync; nmfsync.METHODS['nmfsync'].theta; print(*sys.modules)"
    loaded = python("-c", code).stdout.split()
    assert "nmfsync.synchronisation.nmfsync.method" not in loaded
