"""Photographs to a file of tracks, in parts: the same as `nmfsync run`."""

import json
import sqlite3

import cv2
import numpy as np
import pytest

from builders import contents
from nmfsync import PairwiseMatches
from nmfsync.run.settings import Settings
from nmfsync.run.tracks_file import track_images

OPTIONS = ("--features", 300, "--verify", "homography")


@pytest.fixture(scope="module")
def tracked(photographs, tmp_path_factory):
    """Tracks of the photographs, as a table."""
    out = tmp_path_factory.mktemp("tracks") / "t.csv"
    return track_images(photographs, out, Settings(features=300, geometry="homography"))


@pytest.mark.usefixtures("without_report")
def test_the_same_tracks_as_a_run(nmfsync_command, photographs, tracked, tmp_path):
    run = nmfsync_command("run", photographs, *OPTIONS, "--no-disambiguate", "--out", tmp_path)
    assert run.code == 0
    assert next(tmp_path.rglob("tracks.csv")).read_bytes() == tracked.path.read_bytes()
    evaluation = json.loads(next(tmp_path.rglob("evaluation.json")).read_text())
    figures = evaluation["methods"]["clustersync"]
    assert tracked.tracks == figures["tracks"]
    assert tracked.precision == pytest.approx(figures["estimated_precision"])
    assert tracked.kept == evaluation["verification"]["matches_kept"]


def test_the_record_says_how_it_was_made(tracked):
    record = json.loads(tracked.record.read_text())
    assert record["settings"]["geometry"] == "homography"
    assert record["settings"]["features_of_part"] == 2**18
    assert record["images"] == 3
    stages = [stage["stage"] for stage in record["provenance"]["stages"]]
    assert stages[:3] == ["images", "features", "pairs of images"]
    assert stages[-3:] == ["estimates", "file", "whole run"]
    assert len(record["provenance"]["inputs"]) == 3


def test_what_is_printed(nmfsync_command, photographs, tracked, tmp_path):
    out = tmp_path / "t.npz"
    done = nmfsync_command("tracks", photographs, *OPTIONS, "-o", out)
    assert done.code == 0
    assert f"3 images, {tracked.features:,} features, 3 pairs of images" in done.out
    assert f"{tracked.tracks:,} tracks of {tracked.in_tracks:,} features" in done.out
    assert "Synchronised in 1 part\n" in done.out
    assert done.out.endswith(f"Wrote {out}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "t.npz", "t.npz.json", "t.npz.stages",
    ]  # fmt: skip
    with np.load(out) as arrays:
        assert np.bincount(arrays["universe"]).max() == 3
    PairwiseMatches.load(out)
    before = contents(tmp_path)
    again = nmfsync_command("tracks", photographs, *OPTIONS, "-o", out)
    assert again.code == 1
    assert "t.npz: exists already" in again.err
    assert nmfsync_command("tracks", photographs, *OPTIONS, "-o", out, "--force").code == 0
    after = contents(tmp_path)
    assert {n: b for n, b in before.items() if not n.endswith(".json")} == {
        n: b for n, b in after.items() if not n.endswith(".json")
    }


def test_a_database_for_a_mapper(nmfsync_command, photographs, tracked, tmp_path):
    pytest.importorskip("pycolmap", reason="needs nmfsync[colmap]")
    out = tmp_path / "model.db"
    assert nmfsync_command("tracks", photographs, *OPTIONS, "-o", out).code == 0
    run = tmp_path / "run.db"
    ran = nmfsync_command(
        "run", photographs, *OPTIONS, "--no-disambiguate", "--out", tmp_path / "o", "--colmap", run
    )
    assert ran.code == 0
    tables = [
        sorted(sqlite3.connect(path).execute(f"SELECT * FROM {table}").fetchall())
        for path in (out, run)
        for table in ("matches", "two_view_geometries", "keypoints")
    ]
    assert tables[:3] == tables[3:]
    assert sum(row[1] for row in tables[0]) > 100


def test_a_damaged_photograph_is_named(nmfsync_command, photographs, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for path in photographs.iterdir():
        (images / path.name).write_bytes(path.read_bytes())
    (images / "z.png").write_bytes((images / "view0.png").read_bytes()[:5000])
    done = nmfsync_command("tracks", images, *OPTIONS, "-o", tmp_path / "t.csv")
    assert done.code == 0
    assert "z.png" in done.out
    assert "z.png" in json.loads((tmp_path / "t.csv.json").read_text())["left_out"].popitem()[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "t.txt"), "t.txt: the name must end in .csv, .npz or .db"),
        (("-o", "t.csv", "--part", "0"), "Invalid value for '--part'"),
        (("-o", "t.csv", "--theta", "2"), "theta must be between 0 and 1, got 2"),
        (("-o", "t.csv", "--pairs", "near"), "pairs 'near': must be all"),
        (("-o", "t.csv", "--engine", "dask"), "needs the address"),
    ],
)
def test_wrong_arguments_are_one_line(
    nmfsync_command, photographs, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    done = nmfsync_command("tracks", photographs, *arguments)
    assert done.code != 0
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "t.csv").exists()


def test_too_few_images(nmfsync_command, tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((9, 9), np.uint8))
    done = nmfsync_command("tracks", tmp_path, "-o", tmp_path / "t.csv")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1


def test_photographs_without_matches_are_named_in_a_warning(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        noise = cv2.resize(rng.integers(0, 256, (30, 40), np.uint8), (320, 240))
        cv2.imwrite(str(folder / name), noise)
    done = track_images(folder, tmp_path / "t.csv", Settings(features=100, ratio=0.3))
    assert done.features > 50
    assert (done.kept, done.tracks) == (0, 0)
    assert [text for text in done.warnings if "no two photographs have a match" in text]
