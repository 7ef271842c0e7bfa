"""One input, one folder of outputs; two inputs, two."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nmfsync import NmfsyncError, Settings, run_scene
from nmfsync.run.batch import run_scenes
from nmfsync.run.folders import claim_folder
from nmfsync.runtime.publish import RECORD
from nmfsync.scenes import catalogue
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.layouts import name_of_folder
from nmfsync.scenes.scene import Scene
from three_images import three_images

QUICK = Settings(methods=("unionfind",), features=40)


def images(folder):
    three_images(folder)
    return folder


def scene_of(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return Scene(name_of_folder(folder), (), folder=folder.resolve())


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("projA", "images/projA"),
        ("projA/images", "images/projA"),  # COLMAP's layout
        ("projA/Images/../Images", "images/projA"),
        ("images/images", "images/images"),
        ("a\nb", "images/a_b"),
        (os.fsdecode(b"a\xffb"), "images/a_b"),
        ("[b] 写真.d", "images/[b] 写真.d"),
    ],
)
def test_names_of_folders(tmp_path, folder, name):
    assert name_of_folder(tmp_path / folder) == name


def test_names_of_special_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(images(tmp_path / "here"))
    assert {name_of_folder(Path(name)) for name in ("", ".", "../here/")} == {"images/here"}
    assert name_of_folder(Path("/")) == "images/root"
    assert name_of_folder(Path("/images")) == "images/images"


def test_every_input_keeps_a_name_of_its_own(tmp_path):
    out = tmp_path / "out"
    scenes = [scene_of(tmp_path / place / "projA/images") for place in "xyz"]
    names = [claim_folder(scene, out) for scene in scenes]
    assert names[0] == "images/projA"
    assert len(set(names)) == 3
    assert all(name.startswith("images/projA-") for name in names[1:])
    for again in (scenes, scenes[::-1]):
        assert [claim_folder(s, out) for s in again] == (names if again is scenes else names[::-1])
    (tmp_path / "link").symlink_to(tmp_path / "y/projA/images")
    assert claim_folder(scene_of(tmp_path / "link"), out) == names[1]
    record = out / names[0] / RECORD  # another path to the folder, as where capitals do not count
    (tmp_path / "again").symlink_to(tmp_path / "x")
    record.write_text(record.read_text().replace("../x/", "../again/"))
    assert claim_folder(scenes[0], out) == names[0]
    record.write_text(record.read_text().replace("../again/", "../x/"))
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("x", "y", "z", "out"):  # inputs and outputs together
        (tmp_path / name).rename(moved / name)
    scenes = [scene_of(moved / place / "projA/images") for place in "zyx"]
    assert [claim_folder(scene, moved / "out") for scene in scenes] == names[::-1]


def test_claims_at_once_are_all_different(tmp_path):
    scenes = [scene_of(tmp_path / str(n) / "projA") for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda scene: claim_folder(scene, tmp_path / "out"), scenes))
    assert len(set(names)) == 16
    assert "images/projA" in names


def test_a_folder_with_files_of_someone_else_is_not_taken(tmp_path):
    out, scene = tmp_path / "out", scene_of(tmp_path / "projA")
    (out / "images/projA").mkdir(parents=True)
    assert claim_folder(scene, out) == "images/projA"  # an empty one is
    (out / "images/projA" / RECORD).write_text("damaged")
    second = claim_folder(scene, out)
    assert second.startswith("images/projA-")
    (out / second / RECORD).unlink()
    (out / second / "notes.txt").write_text("mine")
    assert claim_folder(scene, out) not in ("images/projA", second)
    (out / "images/file").touch()
    assert claim_folder(scene_of(tmp_path / "file"), out).startswith("images/file-")


def test_long_names(tmp_path):
    scenes = [scene_of(tmp_path / place / ("é" * 127)) for place in "ab"]
    names = [claim_folder(scene, tmp_path / "out") for scene in scenes]
    assert len(set(names)) == 2


@pytest.mark.usefixtures("without_report")
def test_folders_of_one_name_in_one_command(tmp_path):
    """One of them cannot be read; the others have the same names as one by one."""
    folders = [tmp_path / place / "projA/images" for place in "abc"]
    folders[0].mkdir(parents=True)
    for folder in folders[1:]:
        images(folder)
    for targets in (folders, folders[::-1]):
        out = tmp_path / f"out-{targets is folders}"
        batch = run_scenes([str(f) for f in targets], QUICK, out)
        assert list(batch.failures) == [str(folders[0])]
        names = {evaluation.scene for evaluation in batch.evaluations.values()}
        assert len(names) == 2
        for evaluation in batch.evaluations.values():
            stored = json.loads((out / evaluation.scene / "evaluation.json").read_text())
            assert stored["scene"] == evaluation.scene
            remark = f"the results of this one are in {evaluation.scene}"
            renamed = evaluation.scene != "images/projA"
            assert any(remark in text for text in evaluation.warnings) == renamed


@pytest.mark.usefixtures("without_report")
def test_one_folder_by_several_paths_runs_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images(Path("photos"))
    Path("link").symlink_to("photos")
    batch = run_scenes(["photos", "photos/", "./photos", "link", str(tmp_path / "photos")], QUICK)
    assert [e.scene for e in batch.evaluations.values()] == ["images/photos"]
    assert [path.name for path in Path("outputs/images").iterdir()] == ["photos"]


def test_jobs_give_the_same_names(tmp_path, monkeypatch, nmfsync_command):
    monkeypatch.chdir(tmp_path)
    folders = [images(tmp_path / place / "projA/images") for place in "ab"]
    options = ("--methods", "unionfind", "--features", 40)
    names = []
    for jobs in (1, 2):
        nmfsync_command("run", *folders, *options, "--out", str(jobs), "--jobs", jobs)
        names.append(sorted(path.name for path in Path(str(jobs), "images").iterdir()))
        assert Path(str(jobs), "images/projA", RECORD).read_text().count("a/projA") == 1
    assert names[0] == names[1]
    assert len(names[0]) == 2


def test_outputs_never_go_between_the_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = images(Path("images/cats"))
    before = sorted(os.listdir(folder))
    # "images/cats" in "." is the input itself: the outputs get a folder of their own.
    scene = run_scene("images/cats", QUICK, ".").scene
    assert scene.startswith("images/cats-")
    assert sorted(os.listdir(folder)) == before
    sample = load_scene("sample/astronaut")
    with pytest.raises(NmfsyncError, match="the images lie where their outputs go"):
        claim_folder(sample, catalogue.CATALOGUE)


def test_pictures_of_a_run_are_no_images_of_the_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for part in ("left", "right"):
        images(Path(part))
    counts = [run_scene(".", QUICK).images for _ in range(2)]
    assert list(Path().rglob("overlay-1-2.png"))
    assert counts == [6, 6]


def test_names_of_other_outputs_are_reserved_for_them(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "CATALOGUE", tmp_path)
    for name in ("Images", "studies"):
        keys = 'title="" \nhomepage="" \ncitation="" \nterms="" \nformat="epfl"'
        (tmp_path / "x.toml").write_text(f'name="{name}"\n{keys}')
        with pytest.raises(NmfsyncError, match="is reserved"):
            catalogue.datasets()


def test_two_runs_at_once_on_one_scene(tmp_path):
    """Both finish, and what is there in the end is of one of them as a whole."""
    images(tmp_path / "photos")
    command = [sys.executable, "-m", "nmfsync", "run", "photos", "--features", "40", "--methods"]
    runs = [
        subprocess.Popen([*command, method], cwd=tmp_path, stdout=subprocess.DEVNULL)
        for method in ("unionfind", "spectral")
    ]
    assert [run.wait(120) for run in runs] == [0, 0]
    folder = tmp_path / "outputs/images/photos"
    evaluation = json.loads((folder / "evaluation.json").read_text())
    (method,) = evaluation["settings"]["methods"]
    page = (folder / "report.html").read_text()
    assert {"unionfind": "union-find", "spectral": "spectral"}[method] in page.lower()
    names = {path.name for path in folder.iterdir()} - {RECORD, "stages"}
    assert names == set(json.loads((folder / RECORD).read_text())["files"])
