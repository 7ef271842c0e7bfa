"""A file without look-alike pairs of images: what stays the same, what goes, what is said."""

import csv
import sqlite3
from contextlib import closing
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

import equal_houses
from builders import contents
from colmap_scenes import write_database
from mapped import write_cameras_and_matches
from nmfsync import (
    NmfsyncError,
    NmfsyncWarning,
    PairwiseMatches,
    disambiguate_file,
    synchronise_file,
)
from nmfsync.types.camera import Camera
from nmfsync.types.verdicts import PairVerdict
from three_images import Page

h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")

VIEWS = ("view0.jpg", "=view1<b>.jpg", "view2.jpg", "view3.jpg")
N = 30
WRONG, REASON = {(0, 2), (1, 3)}, "other <houses>"


@pytest.fixture(autouse=True)
def _judge(monkeypatch):
    """Call two pairs of images wrong, whatever they show."""

    def judge(matches, tracks, keypoints):
        assert len(tracks.sizes) == len(keypoints)
        return [
            PairVerdict(i, j, len(rows), 7, (i, j) not in WRONG, REASON if (i, j) in WRONG else "")
            for i, j, rows, _ in matches.by_image_pair()
        ]

    monkeypatch.setattr("nmfsync.run.image_pairs.judge_image_pairs", judge)


@pytest.fixture
def folder(tmp_path):
    """Files of hloc about four images with scores, and their photographs."""
    xy = np.random.default_rng(0).uniform([0, 0], [64, 48], (N, 2)).astype(np.float32)
    (tmp_path / "photographs").mkdir()
    with h5py.File(tmp_path / "features.h5", "w") as file:
        for name in VIEWS:
            file[f"{name}/keypoints"] = xy
            file[f"{name}/image_size"] = [64, 48]
            Image.new("L", (64, 48)).save(tmp_path / "photographs" / name)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        for a, b in combinations(VIEWS, 2):
            file[f"{a}/{b}/matches0"] = np.arange(N, dtype=np.int16)
            file[f"{a}/{b}/matching_scores0"] = np.full(N, 0.5, np.float16)
    return tmp_path


def judged(folder, **options):
    with pytest.warns(NmfsyncWarning, match="not known to be verified"):
        return disambiguate_file(
            folder / "in.h5", folder / "out.h5", folder / "features.h5", **options
        )


def test_hloc_keeps_all_but_the_matches_of_wrong_pairs(folder):
    done = judged(folder)
    assert {(v.i, v.j) for v in done.verdicts if not v.right} == WRONG
    with h5py.File(folder / "in.h5") as old, h5py.File(folder / "out.h5") as new:
        for a, b in combinations(VIEWS, 2):
            # Images are counted in order of name: =view1 is the first.
            wrong = {VIEWS.index(a), VIEWS.index(b)} in [{1, 2}, {0, 3}]
            before, after = (file[f"{a}/{b}/matches0"] for file in (old, new))
            assert after.dtype == before.dtype
            expected = np.full(N, -1) if wrong else before[()]
            np.testing.assert_array_equal(after[()], expected)
            assert new[f"{a}/{b}/matching_scores0"].dtype == np.float16
    read = PairwiseMatches.from_hloc(folder / "out.h5", folder / "features.h5")
    assert (read.W != done.matches.W).nnz == 0
    assert read.match_count == 4 * N


@pytest.fixture
def two_views(tmp_path):
    """A database of two views of a row of equal houses, verified by COLMAP."""
    pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    xy = equal_houses.houses(80, 60)
    camera = Camera(equal_houses.K, np.eye(3), np.zeros(3), equal_houses.SIZE)
    matches = PairwiseMatches.from_pairs({(0, 1): np.column_stack([np.arange(140)] * 2)}, [140] * 2)
    write_cameras_and_matches(tmp_path / "in.db", [camera, camera], xy, matches)
    return tmp_path / "in.db"


def test_matches_behind_the_cameras_go_and_their_geometry_stays(two_views):
    before = PairwiseMatches.from_colmap(two_views, verified=True)
    (rows,) = (pair.rows for pair in before.by_image_pair())
    assert (rows[:, 0] < 80).sum() > 70
    assert (rows[:, 0] >= 80).sum() > 50
    out = two_views.with_name("out.db")
    done = disambiguate_file(two_views, out)
    assert done.behind == (rows[:, 0] >= 80).sum()
    assert f"{done.behind} matches behind the cameras" in Page(done.report.read_text()).text
    after = PairwiseMatches.from_colmap(out, verified=True)
    (kept,) = (pair.rows for pair in after.by_image_pair())
    assert kept.tolist() == rows[rows[:, 0] < 80].tolist()
    for query in ("SELECT pair_id, config, F, E, H FROM two_view_geometries",
                  "SELECT * FROM matches", "SELECT * FROM keypoints"):  # fmt: skip
        tables = []
        for path in (two_views, out):
            with closing(sqlite3.connect(path)) as database:
                tables.append(database.execute(query).fetchall())
        assert tables[0] == tables[1]


def test_hloc_keeps_what_is_in_front_of_the_cameras(two_views):
    xy, folder = equal_houses.houses(80, 60), two_views.parent
    with h5py.File(folder / "features.h5", "w") as file:
        for name, positions in zip("ba", xy, strict=True):  # the stored pair is the other way round
            file[f"{name}/keypoints"] = positions
            file[f"{name}/image_size"] = equal_houses.SIZE
    with h5py.File(folder / "in.h5", "w") as file:
        file["b/a/matches0"] = np.arange(140, dtype=np.int32)
        file["b/a/matching_scores0"] = np.full(140, 0.5, np.float32)
    judged(folder)
    with h5py.File(folder / "out.h5") as file:
        stored, scores = file["b/a/matches0"][()], file["b/a/matching_scores0"][()]
    assert stored.tolist() == [*range(80), *[-1] * 60]
    assert scores.tolist() == [0.5] * 80 + [0] * 60


def test_the_table_has_every_pair(folder):
    with judged(folder).table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert [row["verdict"] for row in rows].count("wrong") == 2
    assert rows[1]["image_a"] == "'=view1<b>.jpg"  # no formula for a spreadsheet
    assert (rows[1]["image_b"], rows[1]["matches"], rows[1]["tracks"]) == ("view2.jpg", "30", "7")
    assert (rows[1]["verdict"], rows[1]["reason"]) == ("wrong", "other <houses>")


def test_the_page_shows_wrong_pairs_and_their_photographs(folder):
    before = contents(folder / "photographs")
    done = judged(folder, images=folder / "photographs", command="nmfsync pairs <in>")
    assert contents(folder / "photographs") == before
    page = Page(done.report.read_text())
    assert "2 of 6 pairs of images with matches show different places that look alike" in page.text
    assert "The other pairs hold the same images together." in page.text
    assert "1: =view1<b>.jpg" in page.text
    assert page.text.count("other <houses>") == 4  # in both tables
    assert "nmfsync pairs <in>" in page.text
    images = [source for source in page.sources if source.startswith("data:image/jpeg")]
    assert len(images) == 4
    assert not [source for source in page.sources if not source.startswith("data:")]


def test_the_same_file_gives_the_same_bytes(folder, monkeypatch):
    monkeypatch.setattr("nmfsync.run.pairs_file.Clock.provenance", lambda *arguments: {})
    once = [path.read_bytes() for path in (judged(folder).report, folder / "out.h5.pairs.csv")]
    again = judged(folder, overwrite=True)
    assert [again.report.read_bytes(), again.table.read_bytes()] == once


def test_nothing_is_left_half_written(folder, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    before = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr("nmfsync.run.pairs_file.write_pairs_report", fail)
    with pytest.raises(OSError, match="No space left"):
        disambiguate_file(folder / "in.h5", folder / "out.h5", folder / "features.h5")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_file_without_positions_is_refused(tmp_path):
    PairwiseMatches.from_entries([0], [1], [1, 1]).save(tmp_path / "in.npz")
    for options in ({}, {"geometry": "fundamental"}):
        with pytest.raises(NmfsyncError, match=r"in\.npz: an \.npz file has no positions, so"):
            disambiguate_file(tmp_path / "in.npz", tmp_path / "out.npz", **options)
    with pytest.raises(NmfsyncError, match=r"must end in \.npz"):
        disambiguate_file(tmp_path / "in.npz", tmp_path / "out.db")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A database of four images that COLMAP has verified."""
    pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    path = tmp_path_factory.mktemp("colmap") / "in.db"
    write_database(path, VIEWS)
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    pycolmap.logging.minloglevel = 2
    pycolmap.geometric_verification(path, two_view_geometry_options=options)
    return path


def tables_of(path):
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: set(database.execute(f"SELECT * FROM {name}")) for (name,) in names}


def test_a_database_keeps_all_else_as_it_is(database, tmp_path):
    done = disambiguate_file(database, tmp_path / "out.db")
    old, new = tables_of(database), tables_of(done.path)
    left = {2147483647 * (i + 1) + j + 1 for i, j in WRONG}
    for name in ("matches", "two_view_geometries"):
        assert new.pop(name) == {row for row in old.pop(name) if row[0] not in left}
    assert new == old
    read = PairwiseMatches.from_colmap(done.path)
    assert (read.W != done.matches.W).nnz == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.db", "out.db.pairs.csv", "out.db.report.html",
    ]  # fmt: skip


def test_the_command_says_what_was_left_out(database, tmp_path, nmfsync_command):
    out = tmp_path / "out.db"
    outcome = nmfsync_command("pairs", database, "-o", out)
    assert outcome.code == 0, outcome.err
    assert "2 of 6 pairs of images with matches show different places" in outcome.out
    assert "view0.jpg and view2.jpg: " in outcome.out
    assert "matches, other <houses>" in outcome.out
    assert f"Wrote {out}\nAll pairs: {out}.pairs.csv\nReport: {out}.report.html" in outcome.out
    again = nmfsync_command("pairs", database, "-o", out)
    assert (again.code, len(again.err.strip().splitlines())) == (1, 1)
    assert "exists already" in again.err


def test_synchronising_leaves_wrong_pairs_out_if_asked(database, tmp_path):
    done = synchronise_file(database, tmp_path / "out.db", disambiguate=True)
    written = PairwiseMatches.from_colmap(done.path)
    assert not WRONG & {(pair.i, pair.j) for pair in written.by_image_pair()}
    assert "Look-alike pairs of images" in Page(done.report.read_text()).text
    assert "2 of 6 pairs" in done.remarks[0]
    assert len(done.verdicts) == 6
