"""Images that change while a run uses them: an error, and no wrong results, then or later."""

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import pytest

import rendered
from nmfsync import NmfsyncError, Settings, run_scene
from nmfsync.features import extract as extract_module
from nmfsync.run import scene as run
from nmfsync.run import truth

QUICK = Settings(methods=("nmfsync", "unionfind"), features=30, geometry="fundamental")

pytestmark = pytest.mark.usefixtures("without_report")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run a scene with cameras, so that every kind of entry is kept; return folder and results."""
    there = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "write_scene_report", lambda *arguments: None)
        patch.setattr(truth, "QUALITY_FEATURES", 20)
        rendered.write_epfl(there / "scene", rendered.scene())
        return there, results(there / "scene", there / "out")


@pytest.fixture
def copy(finished, tmp_path, monkeypatch):
    """Return a copy of the folder of the finished run."""
    monkeypatch.setattr(truth, "QUALITY_FEATURES", 20)
    shutil.copytree(finished[0], tmp_path / "copy")
    return tmp_path / "copy"


def results(scene, out, settings=QUICK):
    """Run a scene; return all figures and files that do not depend on time."""
    evaluation = run_scene(scene, settings, out).to_dict() | {"provenance": {}}
    for figures in evaluation["methods"].values():
        for name in ("seconds", "peak_memory_mb"):
            del figures[name]
    return evaluation, (out / "images/scene/tracks.csv").read_bytes()


def changed(path: Path) -> None:
    """Let an image be another one, of the same size."""
    cv2.imwrite(str(path), cv2.imread(str(path))[::-1, ::-1])


def test_features_of_another_image_never_reach_the_cache(photographs, tmp_path, monkeypatch):
    """The image is replaced when the run has hashed it, and put back afterwards."""
    scene = shutil.copytree(photographs, tmp_path / "scene")
    image = scene / "view1.png"
    original, extract = image.read_bytes(), extract_module.extract_with_faults

    def extract_late(path, *options):
        if path == image:
            changed(image)
        return extract(path, *options)

    with monkeypatch.context() as patch:
        patch.setattr(extract_module, "extract_with_faults", extract_late)
        with pytest.raises(NmfsyncError, match=r"view1\.png: has changed while it was used; run"):
            results(scene, tmp_path / "out")
    image.write_bytes(original)
    assert results(scene, tmp_path / "out") == results(scene, tmp_path / "new")


def test_depths_are_never_made_from_another_image(copy, monkeypatch):
    match = run.match

    def match_late(*arguments, **options):
        changed(copy / "scene/0001.png")
        return match(*arguments, **options)

    monkeypatch.setattr(run, "match", match_late)
    with pytest.raises(NmfsyncError, match=r"0001\.png: has changed while it was used; run again"):
        results(copy / "scene", copy / "new", replace(QUICK, ratio=0.9, features=29))
