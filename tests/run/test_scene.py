"""The whole way of a scene, and what a second run makes of the first."""

import csv
import json
import shutil
from collections import Counter
from dataclasses import replace

import cv2
import numpy as np
import pytest

from builders import lose_a_file
from nmfsync import (
    METHODS,
    MultiMatching,
    NmfsyncError,
    Settings,
    run_scene,
)
from nmfsync.evaluation.errors import errors_of_all
from nmfsync.features import extract as extract_module
from nmfsync.matching import match as matching
from nmfsync.report.scene_page import write_scene_report
from nmfsync.run import scene as run
from nmfsync.synchronisation.numerics.effort import Effort
from real_data import real_data

QUICK = Settings(methods=("nmfsync", "spectral"), features=60)
OUTPUTS = {
    "evaluation.json", "fcm.png", "overlay-1-2.png", "overlay-tracks.png", "report.html",
    "tracks.csv",
}  # fmt: skip


# Reports are most of the time of a run: those of the fixtures are drawn, and where a test asks.
pytestmark = pytest.mark.usefixtures("without_report")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Run the sample once; return its evaluation and its folder."""
    out = tmp_path_factory.mktemp("outputs")
    return run_scene("sample/astronaut", QUICK, out), out / "sample/astronaut"


@pytest.fixture(scope="module")
def album(photographs, tmp_path_factory):
    """Run three photographs without a truth once; return what came out, images and outputs."""
    there = tmp_path_factory.mktemp("album")
    images = shutil.copytree(photographs, there / "album")
    return run_scene(images, QUICK, there / "out"), images, there / "out"


@pytest.fixture
def report(without_report, monkeypatch):
    """Let runs draw their reports after all."""
    monkeypatch.setattr(run, "write_scene_report", write_scene_report)


def test_sample_writes_everything(sample):
    evaluation, folder = sample
    assert {path.name for path in folder.iterdir()} >= OUTPUTS
    assert not list(folder.rglob(".*"))  # no temporary file is left
    stored = json.loads((folder / "evaluation.json").read_text())
    assert stored == json.loads(json.dumps(evaluation.to_dict()))
    assert set(stored) >= {
        "scene", "images", "features", "sizes", "universe_size", "truth", "settings", "methods",
    }  # fmt: skip
    assert list(stored["methods"]) == ["input", "nmfsync", "spectral"]
    assert stored["features"] == sum(stored["sizes"])
    assert stored["truth"] == "homographies"
    assert stored["depth_quality"] == {}
    # The paper's for its method and planar scenes; spectral has none.
    assert stored["settings"]["theta"] == {"nmfsync": 0.4, "spectral": 0.0}
    for figures in stored["methods"].values():
        assert 0 < figures["fcm"]["0.01"] <= figures["fcm"]["0.05"] <= 1
        assert 0 < figures["precision"]["0.01"] <= 1
        assert figures["seconds"] > 0
        assert figures["peak_memory_mb"] > 0


def test_figures_for_papers_come_and_go_with_the_option(sample, tmp_path, monkeypatch):
    def draw(folder, *arguments):
        (folder / "figures").mkdir()
        (folder / "figures/fcm.pdf").write_text("drawn")

    monkeypatch.setattr(run, "write_scene_figures", draw)
    shutil.copytree(sample[1], tmp_path / "sample/astronaut")
    run_scene("sample/astronaut", replace(QUICK, figures=True), tmp_path)
    figure = tmp_path / "sample/astronaut/figures/fcm.pdf"
    assert figure.read_text() == "drawn"
    run_scene("sample/astronaut", QUICK, tmp_path)
    assert not figure.parent.exists()


def test_a_run_that_changes_nothing_writes_nothing(sample, tmp_path):
    out = copy_of(sample, tmp_path)
    folder = out / "sample/astronaut"
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    again = run_scene("sample/astronaut", QUICK, out, command="another")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    stored = json.loads((folder / "evaluation.json").read_text())
    assert json.loads(json.dumps(again.to_dict())) == stored
    tracks = (folder / "tracks.csv").read_bytes()
    (folder / "tracks.csv").write_text("damaged")
    run_scene("sample/astronaut", QUICK, out, command="another")
    assert (folder / "tracks.csv").read_bytes() == tracks
    stored = json.loads((folder / "evaluation.json").read_text())
    assert stored["provenance"]["command"] == "another"


def test_sample_becomes_consistent_and_more_precise(sample):
    methods = sample[0].methods
    for method in ("nmfsync", "spectral"):
        assert methods[method].cycle_error == 0.0
        assert methods[method].cycle_consistent
        assert methods[method].precision["0.01"] > methods["input"].precision["0.01"]
    assert methods["input"].cycle_error > 0


def test_every_result_is_compared_with_the_truth_once(sample, tmp_path, monkeypatch):
    measured = []

    def counted(results, *others):
        measured.extend(results)
        return errors_of_all(results, *others)

    monkeypatch.setattr(run, "errors_of_all", counted)
    monkeypatch.setattr("nmfsync.evaluation.errors.errors_of_all", counted)
    out = copy_of(sample, tmp_path)
    lose_a_file(out)
    run_scene("sample/astronaut", QUICK, out)
    assert measured == ["input", "nmfsync", "spectral"]


def test_tracks_show_at_most_one_feature_of_an_image(sample):
    evaluation, folder = sample
    with (folder / "tracks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["track", "image", "feature", "x", "y", "estimated_precision"]
    assert all(0 <= float(row["estimated_precision"]) <= 1 for row in rows)
    seen = [(row["track"], row["image"]) for row in rows]
    assert len(seen) == len(set(seen))
    lengths = np.bincount([int(row["track"]) for row in rows])
    assert lengths.min() >= 2
    assert (lengths * (lengths - 1) // 2).sum() == evaluation.methods["nmfsync"].matchings


def test_tracks_are_those_of_the_first_consistent_method(sample, tmp_path):
    """By default that is clustersync."""
    assert Settings().resolved(own=False).methods[0] == "clustersync"
    out = copy_of(sample, tmp_path)
    settings = Settings(methods=("matcheig", "clustersync", "nmfsync"), features=60)
    methods = run_scene("sample/astronaut", settings, out).methods
    with (out / "sample/astronaut/tracks.csv").open(newline="") as file:
        lengths = Counter(row["track"] for row in csv.DictReader(file)).values()
    matchings = sum(n * (n - 1) // 2 for n in lengths)
    assert matchings == methods["clustersync"].matchings
    assert len({method.matchings for method in methods.values()}) == 4  # no other has as many


def copy_of(sample, tmp_path):
    shutil.copytree(sample[1], tmp_path / "sample/astronaut")
    return tmp_path


def computed(monkeypatch) -> list[str]:
    """Record what is computed from here on: images, tasks of pairs, methods."""
    names = []
    places = (
        (extract_module, "extract_with_faults"),
        (matching, "mutual_nearest"),
        (run, "synchronise"),
    )
    for module, name in places:
        original = getattr(module, name)

        def spy(*args, name=name, original=original, **kwargs):
            names.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, spy)
    return names


def test_every_method_has_its_own_settings(sample, photographs, tmp_path, monkeypatch):
    def mine(matches, universe_size, theta, seed):
        return MultiMatching(np.arange(matches.sizes.sum()), matches.sizes)

    monkeypatch.setitem(METHODS, "mine", mine)
    settings = Settings(methods=("clustersync", "nmfsync", "matcheig", "mine"), features=60)
    out = copy_of(sample, tmp_path)
    for scene in ("sample/astronaut", photographs):
        used = run_scene(scene, settings, out).settings
        assert used["theta"] == {"clustersync": 0.4, "nmfsync": 0.4, "matcheig": 0.0, "mine": 0.0}
        d = used["options"]["nmfsync"]["universe_size"]
        assert used["options"] == {
            "clustersync": {"weights": True, "theta": 0.4},
            "nmfsync": {"weights": False, "seed": 0, "theta": 0.4, "universe_size": d},
            "matcheig": {"weights": False, "seed": 0, "threshold": 0.5, "universe_size": d},
            "mine": {"weights": True, "seed": 0, "theta": 0.0, "universe_size": d},
        }


def test_a_theta_that_is_asked_for_is_for_all_methods_that_take_one(sample, tmp_path):
    settings = Settings(methods=("clustersync", "nmfsync", "spectral"), features=60, theta=0.1)
    evaluation = run_scene("sample/astronaut", settings, copy_of(sample, tmp_path))
    assert evaluation.settings["theta"] == {"clustersync": 0.1, "nmfsync": 0.1, "spectral": 0.0}


def test_second_run_computes_nothing_and_says_the_same(sample, tmp_path, monkeypatch):
    out = copy_of(sample, tmp_path)
    names = computed(monkeypatch)
    assert run_scene("sample/astronaut", QUICK, out) == sample[0]
    lose_a_file(out)
    assert run_scene("sample/astronaut", QUICK, out) == sample[0]
    assert names == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"features": 50},
            # First choices, and second ones.
            ["extract_with_faults"] * 6 + ["mutual_nearest"] * 2 + ["synchronise"] * 2,
        ),
        ({"ratio": 0.9}, ["synchronise", "synchronise"]),  # the same neighbours serve any ratio
        ({"distance": 300.0}, ["synchronise", "synchronise"]),
        ({"geometry": "homography"}, ["synchronise", "synchronise"]),
        ({"pairs": "sequential:2"}, ["synchronise", "synchronise"]),
        ({"theta": 0.1}, ["synchronise"]),  # spectral takes none
        ({"methods": ("nmfsync", "matcheig")}, ["synchronise"]),
    ],
)
def test_a_changed_setting_redoes_what_depends_on_it(
    sample, tmp_path, monkeypatch, changed, expected
):
    out = copy_of(sample, tmp_path)
    names = computed(monkeypatch)
    settings = Settings(**{"methods": QUICK.methods, "features": 60, **changed})
    run_scene("sample/astronaut", settings, out)
    assert names == expected


def test_a_damaged_stage_is_made_again(sample, tmp_path, monkeypatch):
    out = copy_of(sample, tmp_path)
    stage = out / "sample/astronaut/stages/matches.npz"
    stage.write_bytes(stage.read_bytes()[:1000])
    lose_a_file(out)
    names = computed(monkeypatch)
    evaluation = run_scene("sample/astronaut", QUICK, out)
    assert names == []  # the matches of every pair are kept beside it
    assert evaluation.methods["input"].precision == sample[0].methods["input"].precision
    assert evaluation.methods["nmfsync"] == sample[0].methods["nmfsync"]


def test_a_changed_image_is_noticed(album, tmp_path, monkeypatch):
    images, out = (shutil.copytree(folder, tmp_path / folder.name) for folder in album[1:])
    cv2.imwrite(str(images / "view1.png"), cv2.imread(str(images / "view1.png")) // 2)
    names = computed(monkeypatch)
    run_scene(images, QUICK, out)
    assert names == ["extract_with_faults", *["mutual_nearest"] * 2, *["synchronise"] * 2]


def test_fewer_pairs_and_verification_reach_the_report(sample, tmp_path):
    settings = Settings(
        methods=("spectral",), features=60, pairs="sequential:1", geometry="homography"
    )
    evaluation = run_scene("sample/astronaut", settings, copy_of(sample, tmp_path))
    before, after = sample[0].methods["input"], evaluation.methods["input"]
    assert 0 < after.matchings < before.matchings / 3  # 5 of 15 pairs of images
    assert after.precision["0.01"] > before.precision["0.01"]
    assert evaluation.settings["pairs"] == "sequential:1"
    assert evaluation.settings["geometry"] == "homography"
    kept = evaluation.verification
    assert (kept["pairs"], kept["matches_kept"]) == (5, after.matchings)
    assert kept["pairs_kept"] <= kept["pairs"]
    assert kept["matches_kept"] < kept["matches"]


def test_images_of_a_file_of_pairs_are_named_from_their_folder(photographs, tmp_path):
    """Two images of one name in two folders are told apart, in the pairs and in the tracks."""
    for part in ("left", "right"):
        shutil.copytree(photographs, tmp_path / "images" / part)
    chosen = [("left/view0.png", "right/view0.png"), ("right/view1.png", "left/view1.png")]
    (tmp_path / "pairs.txt").write_text("".join(f"{a} {b}\n" for a, b in chosen))
    settings = Settings(methods=("unionfind",), features=60, pairs=str(tmp_path / "pairs.txt"))
    evaluation = run_scene(tmp_path / "images", settings, tmp_path / "out")
    assert any("split the images into 4 parts" in text for text in evaluation.warnings)
    assert evaluation.methods["input"].matchings == 120  # both are equal images
    with next((tmp_path / "out").rglob("tracks.csv")).open(newline="") as file:
        names = {row["image"] for row in csv.DictReader(file)}
    assert names == {name for pair in chosen for name in pair}


def test_folder_of_images_has_no_truth(album):
    evaluation, _, out = album
    assert evaluation.truth == "none"
    assert evaluation.methods["nmfsync"].fcm == {}
    assert (out / "images/album/report.html").is_file()
    assert not (out / "images/album/fcm.png").exists()


@pytest.mark.usefixtures("report")
def test_outputs_of_other_settings_do_not_stay(album, tmp_path):
    images, out = (shutil.copytree(folder, tmp_path / folder.name) for folder in album[1:])
    folder = out / "images/album"
    assert (folder / "tracks.csv").exists()
    assert (folder / "overlay-tracks.png").exists()
    (folder / "overlay-7-8.png").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    run_scene(images, Settings(methods=("matcheig",), features=60), out)
    assert not (folder / "tracks.csv").exists()  # matcheig has none
    assert not (folder / "overlay-tracks.png").exists()
    for name in ("overlay-7-8.png", "notes.txt"):  # no run wrote these
        assert (folder / name).read_text() == "mine"


def test_an_image_without_features_stays_and_is_a_warning(photographs, flat_image, tmp_path):
    images = shutil.copytree(photographs, tmp_path / "with-flat")
    cv2.imwrite(str(images / "flat.png"), flat_image)
    for _ in range(2):  # the second time from the stored stage
        evaluation = run_scene(images, QUICK, tmp_path / "out")
        assert evaluation.sizes[0] == 0
        assert ["flat.png: no features found" in text for text in evaluation.warnings] == [True]


def damage(path):
    """Cut a file in half: its header is sound."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.usefixtures("report")
def test_what_is_left_out_reaches_the_report(album, tmp_path):
    images, out = (shutil.copytree(folder, tmp_path / folder.name) for folder in album[1:])
    (images / "<b>.heic").write_bytes(b"x")
    (images / "empty.png").touch()
    shutil.copy(images / "view0.png", images / "z.png")
    damage(images / "z.png")
    for _ in range(2):
        evaluation = run_scene(images, QUICK, out)
        assert evaluation.images == 3
        assert evaluation.methods["nmfsync"].matchings == album[0].methods["nmfsync"].matchings
        reasons = {name.removeprefix(f"{images}/"): r for name, r in evaluation.left_out.items()}
        assert list(reasons) == ["<b>.heic", "empty.png", "z.png"]
        assert reasons["z.png"].startswith("is damaged or incomplete")
        assert [text.count("left out") for text in evaluation.warnings] == [1, 1]
        assert "2 files or folders are left out" in evaluation.warnings[0]
        assert "z.png, which is damaged" in evaluation.warnings[1]
    stored = json.loads((out / "images" / images.name / "evaluation.json").read_text())
    assert stored["left_out"] == evaluation.left_out
    page = (out / "images" / images.name / "report.html").read_text()
    for text in ("&lt;b&gt;.heic</td>", "z.png</td>", "is a HEIC image", "is empty"):
        assert text in page


def test_one_readable_image_is_not_enough(album, tmp_path):
    images = shutil.copytree(album[1], tmp_path / "images")
    for name in ("view0.png", "view2.png"):
        damage(images / name)
    with pytest.raises(
        NmfsyncError, match=r"fewer than two .*view0\.png: is dam.*view2\.png: is dam"
    ):
        run_scene(images, QUICK, tmp_path)


def test_a_damaged_image_of_a_scene_with_truth_is_an_error(album, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for n in (1, 2, 3):
        shutil.copy(album[1] / f"view{n - 1}.png", images / f"img{n}.png")
        (images / f"H1to{n}p").write_text("1 0 0 0 1 0 0 0 1")
    damage(images / "img3.png")
    with pytest.raises(NmfsyncError, match=r"img3\.png: is damaged or incomplete"):
        run_scene(images, QUICK, tmp_path)


def test_faults_of_images_reach_the_report(album, tmp_path):
    images = shutil.copytree(album[1], tmp_path / "images")
    for path in images.iterdir():
        grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE).astype(np.uint16) * 16
        grey[5, 5] = 65535
        cv2.imwrite(str(path), grey)
    for _ in range(2):  # the second time from the cache
        evaluation = run_scene(images, QUICK, tmp_path)
        assert ["hot pixels" in text for text in evaluation.warnings] == [True]
        assert evaluation.sizes == [60, 60, 60]


@pytest.mark.usefixtures("report")
def test_images_without_any_match_are_a_warning(flat_image, tmp_path):
    for name in ("a.png", "b.png"):
        cv2.imwrite(str(tmp_path / name), flat_image)
    evaluation = run_scene(tmp_path, Settings(), tmp_path / "out")
    assert any("no two images have a match" in text for text in evaluation.warnings)
    assert evaluation.methods["clustersync"].matchings == 0


def test_a_method_that_cannot_is_left_out(photographs, tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("M", (), {"available": 10**6})())
    evaluation = run_scene(
        photographs, Settings(methods=("spectral", "matchals"), features=60), tmp_path
    )
    assert list(evaluation.methods) == ["input", "spectral"]
    assert any("matchals left out: matchals needs" in text for text in evaluation.warnings)
    with pytest.raises(NmfsyncError, match="matchals left out"):
        run_scene(photographs, Settings(methods=("matchals",), features=60), tmp_path)


def test_methods_that_would_take_too_long_are_left_out(photographs, tmp_path, monkeypatch):
    for name in ("clear", "matchals"):
        slow = replace(METHODS[name], effort=lambda *_: Effort(3600, 0, "9 connected features"))
        monkeypatch.setitem(METHODS, name, slow)
    settings = Settings(methods=("clear", "matchals", "spectral"), features=60)
    evaluation = run_scene(photographs, settings, tmp_path)
    assert list(evaluation.methods) == ["input", "spectral"]
    for name, warning in zip(("clear", "matchals"), evaluation.warnings, strict=True):
        assert warning.startswith(
            f"{name} left out: {name} would take about 60 minutes for 9 connected features, "
            "more than 15; use fewer features or another method"
        )


@pytest.mark.parametrize("scene", ["graf", "boat"])
def test_real_graffiti(scene, tmp_path):
    real_data(f"graffiti/{scene}")
    evaluation = run_scene(f"graffiti/{scene}", QUICK, tmp_path)
    assert all(evaluation.methods[method].cycle_error == 0.0 for method in QUICK.methods)
    before, after = (
        evaluation.methods[method].precision["0.01"] for method in ("input", "nmfsync")
    )
    assert after > before
