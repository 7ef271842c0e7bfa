"""From photographs to a model: settings by scene, and the files for mappers."""

import json
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace

import cv2
import numpy as np
import pytest

import rendered
from builders import contents
from colmap_scenes import map_images
from nmfsync import METHODS, NmfsyncError, Settings, run_scene, run_scenes
from nmfsync.run.settings import EVIDENCE, MOST_IN_ALL_PAIRS

pycolmap = pytest.importorskip("pycolmap")

pytestmark = pytest.mark.usefixtures("without_report")

FEW = Settings(features=300)


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """Run views of a scene, without saying where the cameras were; return photographs and files."""
    there = tmp_path_factory.mktemp("mapped")
    folder = there / "tour" / "images"
    folder.mkdir(parents=True)
    for n, image in enumerate(rendered.scene().images):
        cv2.imwrite(str(folder / f"{n}.png"), image)
    settings = Settings(features=300, colmap=there / "model.db", hloc=there / "hloc")
    evaluation = run_scene(there / "tour", settings, there / "out")
    shutil.copytree(there / "hloc", there / "first")
    shutil.copy(there / "model.db", there / "first")  # a mapper changes it, but not its content
    return there, settings, evaluation


def names_in(path):
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        return [name for (name,) in database.execute("SELECT name FROM images ORDER BY image_id")]


def test_photographs_become_a_model(mapped, tmp_path):
    there, _, evaluation = mapped
    (model,) = map_images(there / "model.db", tmp_path)
    assert model.num_reg_images() == evaluation.images == 7
    assert model.compute_mean_reprojection_error() < 1
    options = pycolmap.GlobalPipelineOptions(random_seed=0)
    (model,) = pycolmap.global_mapping(there / "model.db", tmp_path, tmp_path, options).values()
    assert model.num_reg_images() == 7
    assert names_in(there / "model.db") == [f"{n}.png" for n in range(7)]
    assert sorted(p.name for p in (there / "hloc").iterdir()) == [
        "features.h5", "matches.h5", "pairs.txt",
    ]  # fmt: skip
    assert {path.name for path in (there / "tour").rglob("*.*")} == {f"{n}.png" for n in range(7)}


def test_a_second_run_writes_the_same_again(mapped):
    there, settings, _ = mapped
    run_scene(there / "tour", settings, there / "out")
    again = contents(there / "hloc") | {"model.db": (there / "model.db").read_bytes()}
    assert contents(there / "first") == again


def test_what_this_scene_did_not_write_stays(mapped, tmp_path):
    there, settings, _ = mapped
    other = replace(settings, colmap=tmp_path / "other.db", hloc=None)
    (tmp_path / "other.db").write_text("mine")
    with pytest.raises(NmfsyncError, match=r"other.db: exists already, and no run of this scene"):
        run_scene(there / "tour", other, there / "out")
    (tmp_path / "other.db").unlink()
    run_scene(there / "tour", other, there / "out")
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("BEGIN IMMEDIATE")
        with pytest.raises(NmfsyncError, match=r"other.db: is locked: another program writes it"):
            run_scene(there / "tour", other, there / "out")
        database.execute("DELETE FROM two_view_geometries")
        database.commit()
    with pytest.raises(NmfsyncError, match="another program has changed it"):
        run_scene(there / "tour", other, there / "out")
    (tmp_path / "other.db").write_text("mine")
    with pytest.raises(NmfsyncError, match=r"other.db: not a COLMAP database"):
        run_scene(there / "tour", other, there / "out")
    assert (tmp_path / "other.db").read_text() == "mine"


def test_verified_matches_alone_are_written_without_a_method(mapped, tmp_path):
    there, settings, evaluation = mapped
    alone = replace(settings, methods=("none",), colmap=tmp_path / "a.db", hloc=None)
    without = run_scene(there / "tour", alone, there / "out")
    assert list(without.methods) == ["input"]
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        (written,) = database.execute("SELECT sum(rows) FROM two_view_geometries").fetchone()
    assert written == without.methods["input"].matchings
    assert written == evaluation.methods["input"].matchings


def test_images_of_folders_are_named_from_the_folder_that_was_named(photographs, tmp_path):
    for n, path in enumerate(sorted(photographs.iterdir())):
        place = tmp_path / "trip" / f"day{n // 2}" / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    (tmp_path / "trip" / "day1").rename(tmp_path / "elsewhere")
    run_scene(tmp_path / "trip", replace(FEW, colmap=tmp_path / "a.db"), tmp_path / "out")
    assert names_in(tmp_path / "a.db") == ["day0/view0.png", "day0/view1.png"]


def test_known_cameras_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr("nmfsync.run.scene.with_truth", lambda scene, *_: scene)  # takes long
    rendered.write_epfl(tmp_path / "scene", rendered.scene())
    settings = replace(FEW, methods=("unionfind",), colmap=tmp_path / "a.db")
    run_scene(tmp_path / "scene", settings, tmp_path / "out")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        found = database.execute("SELECT model, params, prior_focal_length FROM cameras").fetchall()
    K = rendered.scene().cameras[0].K
    assert [(model, prior) for model, _, prior in found] == [(1, 1)]
    expected = [K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5]
    assert np.frombuffer(found[0][1]).tolist() == expected


def test_own_photographs_have_settings_of_their_own(photographs, mapped, tmp_path):
    assert mapped[2].settings["evidence"] == EVIDENCE
    own = Settings().resolved(own=True)
    assert (own.methods, own.geometry, own.pairs) == (("clustersync",), "fundamental", "all")
    assert own.disambiguate
    assert Settings().resolved(True, MOST_IN_ALL_PAIRS + 1).pairs == "nearest:40"
    papers = Settings().resolved(own=False)
    assert (papers.methods, papers.features) == (tuple(METHODS), 200)
    assert (papers.geometry, papers.evidence, papers.disambiguate) == ("none", 0, False)
    assert Settings(colmap="a.db").resolved(own=False).methods == ("clustersync",)
    chosen = Settings(methods=("spectral",), features=7, geometry="none", evidence=0.1)
    assert chosen.resolved(True) == replace(
        chosen, contrast=own.contrast, orientations=True, pairs="all", disambiguate=False
    )
    assert own.resolved(own=False) == own
    evaluation = run_scene(photographs, FEW, tmp_path)
    assert list(evaluation.methods) == ["input", "clustersync"]
    assert evaluation.settings["evidence"] == EVIDENCE
    assert len(evaluation.verdicts) == 3
    evaluation = run_scene("sample/astronaut", replace(FEW, methods=("unionfind",)), tmp_path)
    assert evaluation.settings["evidence"] == 0
    assert evaluation.verdicts == []


@pytest.mark.parametrize(
    ("targets", "settings", "message"),
    [
        (["sample/astronaut", "."], {"colmap": "a.db"}, "--colmap: files for one scene, got 2"),
        (["sample/astronaut"], {"colmap": "a.txt"}, "a.txt: the name of a database must end in"),
        (["sample/astronaut"], {"hloc": "file"}, "file: is no folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_any_work(
    targets, settings, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NmfsyncError, match=message):
        run_scenes(targets, Settings(**settings))
    assert os.listdir(tmp_path) == ["file"]


def test_a_missing_extra_is_said_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    with pytest.raises(NmfsyncError, match=r"pip install 'nmfsync\[colmap\]'"):
        run_scenes(["sample/astronaut"], Settings(colmap="a.db"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_mapper_needs_consistent_matches():
    with pytest.raises(NmfsyncError, match="--colmap: a method with a cycle-consistent result"):
        Settings(methods=("matcheig",), colmap="a.db")


def test_the_record_names_the_files(mapped):
    there, _, _ = mapped
    record = json.loads((there / "out/images/tour/outputs.json").read_text())
    assert "../../../model.db" in record["exports"]


def test_a_run_that_was_killed_before_it_put_the_file_in_place_is_no_obstacle(mapped):
    there, settings, _ = mapped
    record = there / "out/images/tour/outputs.json"
    content = json.loads(record.read_text())
    content["exports"]["../../../model.db"].insert(0, "of a file that never came")
    record.write_text(json.dumps(content))
    run_scene(there / "tour", settings, there / "out")
