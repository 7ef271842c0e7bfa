"""Scenes with cameras: which truth a run finds, and that it says so."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rendered
from nmfsync import NmfsyncError, Settings, run_scene
from nmfsync.run import truth
from real_data import real_data

QUICK = Settings(methods=("spectral",), features=40)


@pytest.fixture(autouse=True)
def _few_features_for_the_quality(monkeypatch):
    """Every run of a scene with depths checks them, which is the longest part of it."""
    monkeypatch.setattr(truth, "QUALITY_FEATURES", 20)


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


def test_other_matches_of_the_same_features_keep_the_depths(folder, tmp_path, monkeypatch):
    run_scene(folder, QUICK, tmp_path)
    for name in ("sweep_depths", "held_out_quality"):
        monkeypatch.setattr(truth, name, None)
    for change in ({"ratio": 0.9}, {"geometry": "fundamental"}, {"pairs": "sequential:2"}):
        run_scene(folder, replace(QUICK, **change), tmp_path)
    with pytest.raises(TypeError):  # other features need depths of their own
        run_scene(folder, replace(QUICK, features=39), tmp_path)


def test_quality_of_reconstructed_depths_is_measured_on_the_scene_itself(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(truth, "QUALITY_FEATURES", 200)
    quality = run_scene(folder, QUICK, tmp_path / "out").depth_quality
    assert quality["against"] == "a view held out"
    assert quality["features"] == 200
    assert quality["judged"] > 100
    assert quality["within"] > 0.95
    out = tmp_path / "out/images/scene"
    assert json.loads((out / "evaluation.json").read_text())["depth_quality"] == quality
    assert f"{100 * quality['within']:.1f} %" in (out / "report.html").read_text()
    monkeypatch.setattr(truth, "held_out_quality", None)  # kept, not measured again
    assert run_scene(folder, QUICK, tmp_path / "out").depth_quality == quality


def test_quality_of_reconstructed_depths_is_measured_against_depth_maps(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(truth, "QUALITY_FEATURES", 200)
    rendered.write_epfl(folder, rendered.scene(), depth_maps=True)
    quality = run_scene(folder, QUICK, tmp_path).depth_quality
    assert quality["against"] == "depths (laser)"
    assert 200 == quality["features"] >= quality["judged"] > 150
    assert quality["reconstructed"] > 0.7
    assert quality["within"] > 0.98
    # Other depth maps, another quality: what was measured before does not stay.
    for path in folder.glob("*.npy"):
        np.save(path, np.load(path) * np.float32(1.2))
    assert run_scene(folder, QUICK, tmp_path).depth_quality["within"] < 0.5


def test_quality_that_cannot_be_measured_is_none(folder, tmp_path):
    for path in folder.glob("000[3-6].png*"):
        path.unlink()
    quality = run_scene(folder, QUICK, tmp_path).depth_quality
    assert (quality["judged"], quality["within"], quality["median"]) == (0, None, None)
    assert "Nothing could be compared" in (tmp_path / "images/scene/report.html").read_text()


@pytest.mark.parametrize("count", [0, 1, 5, 9, 20])
def test_features_for_the_quality_are_spread_evenly(count):
    arrays = [np.arange(4), np.arange(0), np.arange(4, 9)]
    some = truth._spread_evenly(arrays, count)
    assert [len(part) for part in some][1] == 0
    rows = np.concatenate(some)
    assert len(rows) == min(count, 9)
    assert set(np.diff(rows)) <= {9 // max(count, 1), -(-9 // max(count, 1))}


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
    settings = Settings(methods=("clustersync", "nmfsync"), features=60)
    evaluation = run_scene(scene, settings, tmp_path)
    assert evaluation.truth == truth
    # The paper's for its method and scenes with depth.
    assert evaluation.settings["theta"] == {"clustersync": 0.4, "nmfsync": 0.0}
    figures = json.loads((tmp_path / scene / "evaluation.json").read_text())["methods"]["input"]
    assert figures["judged"] > 0
    # A match that is right by depth is right by the epipolar line, too.
    assert figures["epipolar_fcm"]["0.01"] >= figures["fcm"]["0.01"]
