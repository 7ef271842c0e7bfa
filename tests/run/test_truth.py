"""Scenes with cameras: which truth a run finds, and that it says so."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import rendered
from builders import lose_a_file, make_features, one_line
from nmfsync import NmfsyncError, Settings, load_scene, run_scene
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.scene_page import write_scene_report
from nmfsync.run import truth
from nmfsync.run.stages import Stages
from nmfsync.scenes.scene import Scene
from nmfsync.truth.depths import FeatureDepths
from nmfsync.truth.quality import DepthQuality
from real_data import real_data

QUICK = Settings(methods=("spectral",), features=30)

# Reports are most of the time of a run.
pytestmark = pytest.mark.usefixtures("without_report")


@pytest.fixture(autouse=True)
def _few_features_for_the_quality(monkeypatch):
    """Every run of a scene with depths checks them, which is the longest part of it."""
    monkeypatch.setattr(truth, "QUALITY_FEATURES", 20)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, SceneEvaluation]:
    """Run the rendered scene once, with its report; return the folder of both, and what came out.

    There are cameras in the EPFL layout, and no depths but those made from the images.
    """
    there = tmp_path_factory.mktemp("made")
    rendered.write_epfl(there / "scene", rendered.scene())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(truth, "QUALITY_FEATURES", 20)
        return there, run_scene(there / "scene", QUICK, there / "out")


@pytest.fixture
def folder(made, tmp_path) -> Path:
    """Return a copy of the scene; beside it, in "out", is what the run of it left."""
    for name in ("scene", "out"):
        shutil.copytree(made[0] / name, tmp_path / name)
    return tmp_path / "scene"


@pytest.fixture
def report(without_report, monkeypatch):
    """Let runs draw their reports after all."""
    monkeypatch.setattr("nmfsync.run.scene.write_scene_report", write_scene_report)


def test_depths_are_made_from_the_images_where_there_are_no_others(made, folder, tmp_path):
    _, evaluation = made
    assert evaluation.truth == "depths (reconstructed)"
    for name in ("cameras.png", "epipolar.png", "fcm.png", "stages/depths.npz"):
        assert (tmp_path / "out/images/scene" / name).is_file()
    lose_a_file(tmp_path / "out")
    again = run_scene(folder, QUICK, tmp_path / "out")  # from the stored depths
    assert again.methods["input"].fcm == evaluation.methods["input"].fcm


def test_other_matches_of_the_same_features_keep_the_depths(folder, tmp_path, monkeypatch):
    for name in ("sweep_depths", "held_out_quality"):
        monkeypatch.setattr(truth, name, None)
    for change in ({"ratio": 0.9}, {"geometry": "fundamental"}, {"pairs": "sequential:2"}):
        run_scene(folder, replace(QUICK, **change), tmp_path / "out")
    with pytest.raises(TypeError):  # other features need depths of their own
        run_scene(folder, replace(QUICK, features=29), tmp_path / "out")


def test_quality_of_reconstructed_depths_is_measured_on_the_scene_itself(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(truth, "QUALITY_FEATURES", 100)
    quality = run_scene(folder, QUICK, tmp_path / "out").depth_quality
    assert quality["against"] == "a view held out"
    assert quality["features"] == 100
    assert quality["judged"] > 50
    assert quality["within"] > 0.95
    out = tmp_path / "out/images/scene"
    assert json.loads((out / "evaluation.json").read_text())["depth_quality"] == quality
    lose_a_file(tmp_path / "out")
    monkeypatch.setattr(truth, "held_out_quality", None)  # kept, not measured again
    assert run_scene(folder, QUICK, tmp_path / "out").depth_quality == quality


def test_quality_of_reconstructed_depths_is_measured_against_depth_maps(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(truth, "QUALITY_FEATURES", 200)
    rendered.write_epfl(folder, rendered.scene(), depth_maps=True)
    quality = run_scene(folder, QUICK, tmp_path / "out").depth_quality
    assert quality["against"] == "depths (laser)"
    assert 200 == quality["features"] >= quality["judged"] > 150
    assert quality["reconstructed"] > 0.7
    assert quality["within"] > 0.98
    # Other depth maps, another quality: what was measured before does not stay.
    for path in folder.glob("*.npy"):
        np.save(path, np.load(path) * np.float32(1.2))
    assert run_scene(folder, QUICK, tmp_path / "out").depth_quality["within"] < 0.5


@pytest.mark.usefixtures("report")
def test_quality_that_cannot_be_measured_is_none(folder, tmp_path):
    for path in folder.glob("000[3-6].png*"):
        path.unlink()
    quality = run_scene(folder, QUICK, tmp_path / "out").depth_quality
    assert (quality["judged"], quality["within"], quality["median"]) == (0, None, None)
    page = (tmp_path / "out/images/scene/report.html").read_text()
    assert "Nothing could be compared" in page


@pytest.mark.parametrize("count", [0, 1, 5, 9, 20])
def test_features_for_the_quality_are_spread_evenly(count, tmp_path, monkeypatch):
    checked = []

    def nothing(images, cameras, xy, bounds, progress):
        checked.extend(xy)
        return DepthQuality(0, 0.0, 0.0, 0.0, 0.0)

    monkeypatch.setattr(truth, "QUALITY_FEATURES", count)
    monkeypatch.setattr(truth, "held_out_quality", nothing)
    cameras = rendered.scene().cameras[:3]
    numbers = [np.arange(4), np.arange(0), np.arange(4, 9)]
    features = [make_features(np.column_stack([n, n])) for n in numbers]
    depths = FeatureDepths(cameras, [f.xy for f in features], [np.ones(len(n)) for n in numbers])
    scene = Scene("set/a", (), depths, cameras)
    stages = Stages(tmp_path, bars=False)
    stages.keys["features"] = "key"
    truth.measure_depth_quality(scene, features, stages)
    assert len(checked[1]) == 0
    rows = np.concatenate(checked)[:, 0].astype(int)
    assert len(rows) == min(count, 9)
    assert set(np.diff(rows)) <= {9 // max(count, 1), -(-9 // max(count, 1))}


def test_reconstructed_depths_judge_as_exact_ones_do(made, folder, tmp_path):
    """On matches that both can judge, made in two ways from one scene."""
    reconstructed = made[1].methods["input"]
    rendered.write_epfl(folder, rendered.scene(), depth_maps=True)
    exact_run = run_scene(folder, QUICK, tmp_path / "out")
    exact = exact_run.methods["input"]
    assert exact_run.truth == "depths (laser)"
    assert 0 < reconstructed.judged <= exact.judged
    assert reconstructed.precision["0.02"] == pytest.approx(exact.precision["0.02"], abs=0.05)
    # The epipolar lines need no depth, judge everything, and are the same for both.
    assert reconstructed.epipolar_precision == exact.epipolar_precision
    assert reconstructed.epipolar_precision["0.02"] >= exact.precision["0.02"] - 0.05


def test_a_mesh_beside_the_images_comes_first(folder, tmp_path):
    pytest.importorskip("trimesh")
    rendered.write_mesh(folder / "scene.ply", steps=24)
    evaluation = run_scene(folder, QUICK, tmp_path / "out")
    assert evaluation.truth == "depths (laser)"
    assert evaluation.methods["input"].precision["0.02"] > 0.5


def test_a_mesh_in_other_coordinates_is_one_line(folder, tmp_path):
    pytest.importorskip("trimesh")
    rendered.write_mesh(folder / "scene.ply", shift=(1000, 0, 0), steps=12)
    with pytest.raises(NmfsyncError, match=r"scene\.ply") as error:
        run_scene(folder, QUICK, tmp_path / "out")
    one_line(error)


def test_two_meshes_are_one_too_many(folder, tmp_path):
    pytest.importorskip("trimesh")
    for name in ("a.ply", "b.ply"):
        rendered.write_mesh(folder / name, steps=12)
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


@pytest.mark.usefixtures("report")
def test_an_image_of_another_size_than_its_homography_is_named(tmp_path):
    folder = shutil.copytree(load_scene("sample").paths[0].parent, tmp_path / "scene")
    image = folder / "img4.jpg"
    cv2.imwrite(str(image), cv2.resize(cv2.imread(str(image)), (240, 240)))
    evaluation = run_scene(folder, replace(QUICK, features=100), tmp_path / "out")
    (text,) = evaluation.warnings
    assert text.startswith(f"{image} (H1to4p): the homographies do not fit the images")
    page = (tmp_path / "out/images/scene/report.html").read_text()
    assert "the homographies do not fit the images" in page


@pytest.mark.parametrize(
    ("scene", "kind"),
    [
        ("epfl/fountain-P11", "depths (laser)"),
        ("middlebury/dinoSparseRing", "depths (reconstructed)"),
    ],
)
def test_real_scenes(scene, kind, tmp_path):
    real_data(scene)
    settings = Settings(methods=("clustersync", "nmfsync"), features=30)
    evaluation = run_scene(scene, settings, tmp_path)
    assert evaluation.truth == kind
    assert evaluation.settings["theta"] == {"clustersync": 0.4, "nmfsync": 0.4}
    figures = json.loads((tmp_path / scene / "evaluation.json").read_text())["methods"]["input"]
    assert figures["judged"] > 0
    # A match that is right by depth is right by the epipolar line, too.
    assert figures["epipolar_fcm"]["0.01"] >= figures["fcm"]["0.01"]
