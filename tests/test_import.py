"""Importing the package: quick, and complete when a name is used."""

import nmfsync
from builders import python

HEAVY = ("matplotlib", "jinja2", "pooch", "numba", "cv2", "joblib", "skimage")
SOLVERS = "nmfsync.synchronisation"


def test_importing_loads_neither_heavy_libraries_nor_solvers():
    code = "import sys, nmfsync; print(*sys.modules)"
    loaded = python("-c", code).stdout.split()
    assert "nmfsync" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith(SOLVERS)] == []


def test_every_public_name_can_be_used():
    assert {"synchronise", "run_scenes", "PairwiseMatches", "METHODS"} <= set(nmfsync.__all__)
    for name in nmfsync.__all__:
        assert getattr(nmfsync, name) is not None


def test_reading_the_methods_loads_no_solver():
    code = "import sys, nmfsync; nmfsync.METHODS['nmfsync'].theta; print(*sys.modules)"
    loaded = python("-c", code).stdout.split()
    assert "nmfsync.synchronisation.nmfsync.method" not in loaded
