"""Scenes with cameras: which truth a run finds, and that it says so."""

import json
from pathlib import Path

import numpy as np
import pytest

import rendered
from nmfsync import NmfsyncError, Settings, run_scene
from real_data import real_data

QUICK = Settings(methods=("spectral",), features=80)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return the rendered scene with its cameras, in the EPFL layout."""
    rendered.write_epfl(tmp_path / "scene", rendered.scene())
    return tmp_path / "scene"


def test_depths_are_made_from_the_images_where_there_are_no_others(folder, tmp_path):
    evaluation = run_scene(folder, QUICK, tmp_path / "out")
    assert evaluation.truth == "depths (reconstructed)"
    out = tmp_path / "out/images/scene"
    for name in ("cameras.png", "epipolar.png", "fcm.png", "stages/depths.npz"):
        assert (out / name).is_file()
    again = run_scene(folder, QUICK, tmp_path / "out")  # from the stored depths
    assert again.methods["input"].fcm == evaluation.methods["input"].fcm


def test_reconstructed_depths_judge_as_exact_ones_do(folder, tmp_path):
    """On matches that both can judge, made in two ways from one scene."""
    made = run_scene(folder, QUICK, tmp_path / "made").methods["input"]
    rendered.write_epfl(folder, rendered.scene(), depth_maps=True)
    exact_run = run_scene(folder, QUICK, tmp_path / "exact")
    exact = exact_run.methods["input"]
    assert exact_run.truth == "depths (laser)"
    assert 0 < made.judged <= exact.judged
    assert made.precision["0.02"] == pytest.approx(exact.precision["0.02"], abs=0.05)
    # The epipolar lines need no depth, judge everything, and are the same for both.
    assert made.epipolar_precision == exact.epipolar_precision
    assert made.epipolar_precision["0.02"] >= exact.precision["0.02"] - 0.05


def test_a_mesh_beside_the_images_comes_first(folder, tmp_path):
    pytest.importorskip("trimesh")
    rendered.write_mesh(folder / "scene.ply")
    evaluation = run_scene(folder, QUICK, tmp_path / "out")
    assert evaluation.truth == "depths (laser)"
    assert evaluation.methods["input"].precision["0.02"] > 0.5


def test_a_mesh_in_other_coordinates_is_one_line(folder, tmp_path):
    pytest.importorskip("trimesh")
    rendered.write_mesh(folder / "scene.ply", shift=(1000, 0, 0))
    with pytest.raises(NmfsyncError, match=r"scene\.ply"):
        run_scene(folder, QUICK, tmp_path / "out")


def test_two_meshes_are_one_too_many(folder, tmp_path):
    pytest.importorskip("trimesh")
    for name in ("a.ply", "b.ply"):
        rendered.write_mesh(folder / name)
    with pytest.raises(NmfsyncError, match=r"several meshes \(a\.ply, b\.ply\)"):
        run_scene(folder, QUICK, tmp_path / "out")


def test_swapped_rotations_are_noticed(folder, tmp_path):
    for path in folder.glob("*.camera"):
        rows = path.read_text().splitlines()
        R = np.array([row.split() for row in rows[4:7]], dtype=float).T
        rows[4:7] = [" ".join(map(str, row)) for row in R]
        path.write_text("\n".join(rows) + "\n")
    with pytest.raises(NmfsyncError, match="the cameras do not fit the images"):
        run_scene(folder, QUICK, tmp_path / "out")


@pytest.mark.parametrize(
    ("scene", "truth"),
    [
        ("epfl/fountain-P11", "depths (laser)"),
        ("middlebury/dinoSparseRing", "depths (reconstructed)"),
    ],
)
def test_real_scenes(scene, truth, tmp_path):
    real_data(scene)
    evaluation = run_scene(scene, Settings(methods=("spectral",), features=60), tmp_path)
    assert evaluation.truth == truth
    assert evaluation.settings["theta"] == 0.0  # the paper's for scenes with depth
    figures = json.loads((tmp_path / scene / "evaluation.json").read_text())["methods"]["input"]
    assert figures["judged"] > 0
    # A match that is right by depth is right by the epipolar line, too.
    assert figures["epipolar_fcm"]["0.01"] >= figures["fcm"]["0.01"]
