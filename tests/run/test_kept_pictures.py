"""Runs that draw only what their settings changed."""

from dataclasses import replace

import pytest

from nmfsync import Settings, run_scene, run_scenes

QUICK = Settings(methods=("unionfind",), features=40)

SCENE = "sample/astronaut"


def pictures(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.png")}


def test_a_run_draws_what_its_settings_changed(drawn, tmp_path):
    run_scene(SCENE, QUICK, tmp_path / "out")
    folder = tmp_path / "out" / SCENE
    assert {f"{name}.png" for name in drawn} == {*pictures(folder)}
    drawn.clear()
    run_scene(SCENE, replace(QUICK, seed=1), tmp_path / "out")  # which union-find does not need
    assert drawn == []
    more = replace(QUICK, methods=("unionfind", "matcheig"))
    run_scene(SCENE, more, tmp_path / "out")
    assert {*drawn} == {"fcm", "trade-off", "overlay-1-2", "overlay-1-4", "overlay-1-6"}
    (folder / "fcm.png").write_text("damaged")
    (folder / "stages/pictures/matrix.npz").write_text("damaged")
    drawn.clear()
    run_scene(SCENE, more, tmp_path / "out")
    assert drawn == ["matrix"]
    run_scene(SCENE, more, tmp_path / "anew")
    assert pictures(folder) == pictures(tmp_path / "anew" / SCENE)


@pytest.mark.usefixtures("without_report")
def test_a_data_set_keeps_its_pictures_too(drawn, tmp_path):
    run_scenes(["sample"], QUICK, tmp_path)
    assert {f"{name}.png" for name in drawn} == {*pictures(tmp_path / "sample")}
    drawn.clear()
    run_scenes(["sample"], replace(QUICK, seed=1), tmp_path)
    assert drawn == []
