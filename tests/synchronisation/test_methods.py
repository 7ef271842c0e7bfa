"""Methods of one's own: functions, and those of installed packages."""

import os
from pathlib import Path

import pytest

from builders import alone, noisy, python
from nmfsync import NmfsyncError, NmfsyncWarning, synchronise


def test_a_function_is_a_method():
    matches = noisy(k=6, d=5, sigma=0.2)
    result = synchronise(matches, alone, 5)
    assert result.W.nnz == matches.W.shape[0]
    with pytest.raises(NmfsyncError, match="alone has no option 'speed'"):
        synchronise(matches, alone, 5, speed=1)
    with pytest.raises(NmfsyncError, match="must return a MultiMatching or PairwiseMatches"):
        synchronise(matches, lambda *arguments: 5)


def install(folder: Path, name: str, code: str) -> None:
    """Put a package with an entry point into a folder, as pip would."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[nmfsync.methods]\n{name} = {name}:solve\n")


def test_methods_of_installed_packages_are_found(tmp_path):
    install(tmp_path, "mine", "import nmfsync\ndef solve(matches, universe_size, theta, seed): ...")
    install(tmp_path, "broken", "raise RuntimeError('out of order')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    code = "import nmfsync; print(list(nmfsync.METHODS))"
    done = python("-c", code, env=os.environ | {"PYTHONPATH": path})
    assert "'mine'" in done.stdout
    assert "'broken'" not in done.stdout
    assert NmfsyncWarning.__name__ in done.stderr
    assert "the method broken (broken:solve) cannot be loaded: out of order" in done.stderr
