"""What NmfSync keeps of the input and what it adds, on the real Graffiti scenes.

python -m pytest -m benchmark tests/benchmarks/test_graffiti.py -s
"""

import numpy as np
import pytest

from nmfsync import evaluation, extract_all, load_scene, match, synchronise
from nmfsync.scenes.catalogue import scene_names
from real_data import real_data

pytestmark = pytest.mark.benchmark


def precision(errors, chosen) -> float:
    judged = chosen & np.isfinite(errors.error)
    return float((errors.error[judged] <= 0.01).mean())


COLUMNS = ("input", "nmfsync", "kept", "added", "share added")


def show(name: str, row) -> None:
    print(f"{name:16}" + "".join(f"{value:12.3f}" for value in row))


def test_kept_and_added_matches():
    """Precision at 1 % of the input, of the result, and of its two parts."""
    real_data("graffiti")
    print("\n" + " " * 16 + "".join(f"{column:>12}" for column in COLUMNS))
    rows = []
    for name in scene_names("graffiti"):
        scene = load_scene(name)
        features = extract_all(scene.paths, progress=False)
        matches = match(features, progress=False)
        result = synchronise(matches, "nmfsync", theta=0.4)
        before, after = (
            evaluation.match_errors(m, features, scene.truth) for m in (matches, result)
        )
        kept = np.asarray(matches.W[after.p, after.q]).ravel() > 0
        rows.append(
            [
                precision(before, np.ones(len(before.p), dtype=bool)),
                precision(after, np.ones(len(after.p), dtype=bool)),
                precision(after, kept),
                precision(after, ~kept),
                (~kept).mean(),
            ]
        )
        show(name, rows[-1])
    show("mean", np.mean(rows, axis=0))
    assert np.mean(rows, axis=0)[1] > np.mean(rows, axis=0)[0]
    assert all(row[2] > row[0] for row in rows)
