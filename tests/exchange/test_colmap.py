"""COLMAP databases, in and out, against those that pycolmap writes."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy import sparse

import nmfsync
from builders import between, contents, links
from colmap_scenes import EXTRA, POINTS, copy_on_one_core, map_images, write_database
from nmfsync import MultiMatching, NmfsyncError, NmfsyncWarning, PairwiseMatches, synchronise
from nmfsync.evaluation.tracks import track_counts
from nmfsync.exchange import colmap
from nmfsync.matching import verification

pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")

N = POINTS + EXTRA
TABLES = ("matches", "two_view_geometries")


@pytest.fixture
def database(tmp_path) -> Path:
    path = tmp_path / "database.db"
    write_database(path)
    return path


def sql(path, *query):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(*query).fetchall()


def set_rows(path, pair_id, rows, table="matches"):
    data = np.array(rows, "<i4")
    sql(path, f"DELETE FROM {table} WHERE pair_id = ?", [pair_id])
    extra = ", config" if table != "matches" else ""
    values = [pair_id, len(data), 2, data.tobytes(), *([2] if extra else [])]
    marks = ", ".join("?" * len(values))
    sql(path, f"INSERT INTO {table} (pair_id, rows, cols, data{extra}) VALUES ({marks})", values)


def pair(a, b):
    return 2147483647 * a + b


def rows_of(path, table="matches"):
    """Rows of every pair, by its id, as the file holds them."""
    query = f"SELECT pair_id, data FROM {table} WHERE rows > 0 ORDER BY pair_id"
    return {p: np.frombuffer(data, "<u4").reshape(-1, 2).tolist() for p, data in sql(path, query)}


def everything_else(path):
    names = [name for (name,) in sql(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    kept = sorted(set(names) - set(TABLES))
    assert "keypoints" in kept
    assert "rigs" in kept
    return {name: sql(path, f"SELECT * FROM {name}") for name in kept}


def matches_between(matches, i, j):
    block = between(matches, i, j)
    return sorted(zip(block.row.tolist(), block.col.tolist(), strict=True))


def matched_images(matches):
    """Pairs of images that have matches."""
    p, q = sparse.triu(matches.W, 1).tocoo().coords
    image = matches.image_of
    return sorted(set(zip(image[p].tolist(), image[q].tolist(), strict=True)))


# In ------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [2, 4, 6])
def test_reads_what_pycolmap_wrote(tmp_path, columns):
    path = tmp_path / "d.db"
    names = ["z.jpg", "sub dir/a b.jpg", "c.jpg", "ü.jpg"]
    ids = [3, 7, 8, 40]
    xy = write_database(path, names, ids, columns, empty=(2,), pairs=[(0, 1), (1, 3), (0, 2)])
    before = contents(tmp_path)
    matches = PairwiseMatches.from_colmap(path)
    assert matches.sizes.tolist() == [N, N, 0, N]
    assert matches.source.names == tuple(names)
    assert matches.source.ids == tuple(ids)
    assert matched_images(matches) == [(0, 1), (1, 3)]
    stored = rows_of(path)
    assert sorted(stored) == [pair(3, 7), pair(7, 40)]
    assert matches_between(matches, 1, 3) == sorted(map(tuple, stored[pair(7, 40)]))
    assert matches.W.nnz == 4 * N - N + 2 * 2 * POINTS
    for image in (0, 1, 3):
        np.testing.assert_array_equal(matches.source.xy()[image], xy[image] - np.float32(0.5))
    assert matches.source.xy()[2].shape == (0, 2)
    assert contents(tmp_path) == before


def test_scales_and_orientations_are_those_that_colmap_computes(database):
    """The diameter of the blob is twice σ; COLMAP's angle is clockwise, in radians."""
    rng = np.random.default_rng(0)
    shapes = rng.normal(0, 3, (N, 6)).astype(np.float32)
    shapes[0, 2:] = 1, 0, 0, 1  # COLMAP's own for a position only
    shapes[1, 2:] = 0
    shapes[2, 2:] = np.nan
    shapes[3, 2:] = 3e38
    four = np.column_stack([np.zeros((3, 2)), [2.5, 1, -1], [-np.pi / 2, 0, 1]]).astype("<f4")
    sql(database, "UPDATE keypoints SET cols = 6, data = ? WHERE image_id = 1", [shapes.tobytes()])
    sql(database, "UPDATE keypoints SET rows = 3, cols = 4, data = ? WHERE image_id = 2",
        [four.tobytes()])  # fmt: skip
    sql(database, "DELETE FROM keypoints WHERE image_id = 4")
    sql(database, "DELETE FROM matches")
    sql(database, "UPDATE cameras SET width = 'wide' WHERE camera_id = 2")
    source = PairwiseMatches.from_colmap(database).source
    affine, round_, plain, none, *_ = source.keypoints()
    columns = ("x", "y", "a11", "a12", "a21", "a22")
    theirs = [
        pycolmap.FeatureKeypoint(dict(zip(columns, row, strict=True)))
        for row in shapes[4:].tolist()
    ]
    np.testing.assert_allclose(affine.scale[4:], [2 * k.compute_scale() for k in theirs], rtol=1e-5)
    angles = np.rad2deg([k.compute_orientation() for k in theirs])
    assert np.abs((affine.orientation[4:] - angles + 180) % 360 - 180).max() < 1e-3
    assert affine.scale[:4].tolist() == [0, 0, 0, 0]
    assert np.isnan(affine.orientation[[0, 2]]).all()
    assert round_.scale.tolist() == [5, 0, 0]
    np.testing.assert_allclose(round_.orientation, [270, np.nan, np.rad2deg(1)])
    assert set(plain.scale) == {0}
    assert np.isnan(plain.orientation).all()
    assert none.xy.shape == (0, 2)
    assert [k.image_size for k in source.keypoints()] == [(640, 480), None] * 3
    for keypoints, xy in zip(source.keypoints(), source.xy(), strict=True):
        np.testing.assert_array_equal(keypoints.xy, xy)


def test_verified_matches_come_first(database):
    with pytest.raises(NmfsyncError, match="contains no verified matches"):
        PairwiseMatches.from_colmap(database, verified=True)
    assert PairwiseMatches.from_colmap(database).source.table == "matches"
    set_rows(database, pair(1, 2), [(0, 1), (5, 4)], "two_view_geometries")
    for verified, count in ((None, 2), (True, 2), (False, 15 * POINTS)):
        matches = PairwiseMatches.from_colmap(database, verified)
        assert matches.W.nnz == 6 * N + 2 * count
    set_rows(database, pair(1, 2), [], "two_view_geometries")  # as COLMAP notes a failure
    assert PairwiseMatches.from_colmap(database).source.table == "matches"


def test_swapped_pairs_are_read_as_pycolmap_stores_them(tmp_path):
    path = tmp_path / "d.db"
    write_database(path, pairs=[])
    with closing(pycolmap.Database.open(path)) as file:
        file.write_matches(2, 1, np.array([[0, 9]], np.uint32))
    assert matches_between(PairwiseMatches.from_colmap(path), 0, 1) == [(9, 0)]
    # Other writers may not have swapped them; then the columns follow the id of the pair.
    set_rows(path, pair(4, 3), [(0, 9)])
    assert matches_between(PairwiseMatches.from_colmap(path), 2, 3) == [(9, 0)]


def test_repairs_matches_that_are_not_one_to_one(database):
    sql(database, "DELETE FROM matches")
    set_rows(database, pair(1, 2), [(3, 7), (3, 8), (3, 7), (4, 8), (5, 7), (9, 9)])
    message = "3 of 6 rows of matches dropped: 1 repeated, 2 of features"
    with pytest.warns(NmfsyncWarning, match=message) as caught:
        matches = PairwiseMatches.from_colmap(database)
    assert len(caught) == 1
    # (3, 7) comes first, so (3, 8) and (5, 7) go; (4, 8) may stay because (3, 8) went.
    assert matches_between(matches, 0, 1) == [(3, 7), (4, 8), (9, 9)]


@pytest.mark.parametrize("bad", [(99999, 0), (0, N), (-1, 0), (0, -1)])
def test_impossible_indices_never_reach_pycolmap(database, bad):
    set_rows(database, pair(2, 5), [(0, 0), bad])
    text = f"match ({bad[0]}, {bad[1]}) of view1.jpg and view4.jpg is impossible"
    with pytest.raises(NmfsyncError, match=re.escape(text)):
        PairwiseMatches.from_colmap(database)


def test_damaged_files_are_named(database, tmp_path):
    def fails(message, path=database):
        with pytest.raises(NmfsyncError, match=message):
            PairwiseMatches.from_colmap(path)

    fails("absent.db: no such file", tmp_path / "absent.db")
    (tmp_path / "text.db").write_text("hello")
    fails("text.db: not a COLMAP database", tmp_path / "text.db")
    (tmp_path / "cut.db").write_bytes(database.read_bytes()[:9000])
    fails("cut.db: ", tmp_path / "cut.db")
    sql(tmp_path / "other.db", "CREATE TABLE a (b)")
    fails("other.db: .*no such table: images", tmp_path / "other.db")
    set_rows(database, pair(3, 99), [(0, 0)])
    fails("images 3 and 99, but there is no image 99")
    set_rows(database, pair(3, 3), [(0, 0)])
    sql(database, "DELETE FROM matches WHERE pair_id = ?", [pair(3, 99)])
    fails("view2.jpg has matches with itself")
    sql(database, "DELETE FROM matches WHERE pair_id = ?", [pair(3, 3)])
    sql(database, "UPDATE matches SET rows = 7 WHERE pair_id = ?", [pair(1, 2)])
    fails("the matches of view0.jpg and view1.jpg are damaged")
    sql(database, "UPDATE keypoints SET cols = 3 WHERE image_id = 2")
    fails("the keypoints of view1.jpg are damaged")
    sql(database, "UPDATE keypoints SET cols = 2, data = zeroblob(8) WHERE image_id = 2")
    fails(f"view1.jpg are damaged: {N} rows of 2 columns in 8 bytes")
    sql(database, "DELETE FROM images")
    fails("contains no images")


def test_pending_changes_are_read_and_copied(tmp_path):
    """A program that is still open has written to the WAL file only."""
    path = tmp_path / "d.db"
    write_database(path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("DELETE FROM matches WHERE pair_id != ?", [pair(1, 2)])
        writer.execute("UPDATE cameras SET prior_focal_length = 1")
        writer.commit()
        assert (tmp_path / "d.db-wal").stat().st_size > 0
        before = path.read_bytes(), (tmp_path / "d.db-wal").read_bytes()
        matches = PairwiseMatches.from_colmap(path)
        matches.to_colmap(tmp_path / "out.db")
        assert (path.read_bytes(), (tmp_path / "d.db-wal").read_bytes()) == before
    assert matched_images(matches) == [(0, 1)]
    assert list(rows_of(tmp_path / "out.db")) == [pair(1, 2)]
    assert sql(tmp_path / "out.db", "SELECT DISTINCT prior_focal_length FROM cameras") == [(1,)]


# Out -----------------------------------------------------------------------------------


def rigged(path):
    """Give a database all that pycolmap can write: rig, frames, descriptors, pose priors."""
    with closing(pycolmap.Database.open(path)) as file:
        for image in file.read_all_images():
            descriptors = np.full((N, 128), image.image_id, np.uint8)
            kind = pycolmap.FeatureExtractorType.SIFT
            file.write_descriptors(image.image_id, pycolmap.FeatureDescriptors(kind, descriptors))
        rig = pycolmap.Rig(rig_id=5)
        rig.add_ref_sensor(pycolmap.sensor_t(pycolmap.SensorType.CAMERA, 1))
        file.write_rig(rig, use_rig_id=True)
        frame = pycolmap.Frame(rig_id=5, frame_id=9)
        frame.add_data_id(pycolmap.data_t(pycolmap.sensor_t(pycolmap.SensorType.CAMERA, 1), 1))
        file.write_frame(frame, use_frame_id=True)
        prior = pycolmap.PosePrior(position=[1.0, 2.0, 3.0], corr_data_id=frame.data_ids.pop())
        file.write_pose_prior(prior)


@pytest.mark.parametrize("verify", [True, False])
def test_only_matches_change(tmp_path, verify):
    path, out = tmp_path / "d.db", tmp_path / "new" / "out.db"
    write_database(path, ids=[2, 3, 5, 7, 11, 13], columns=4)
    rigged(path)
    before = contents(tmp_path)
    matches = PairwiseMatches.from_colmap(path)
    matches.to_colmap(out, verify=verify)
    assert everything_else(out) == everything_else(path)
    assert len(everything_else(out)["pose_priors"]) == 1
    assert rows_of(out) == {p: sorted(rows) for p, rows in rows_of(path).items()}
    again = PairwiseMatches.from_colmap(out, verified=False)
    assert (again.W != matches.W).nnz == 0
    assert contents(tmp_path) == before
    assert [p.name for p in out.parent.iterdir()] == ["out.db"]
    # A database that holds matches only of what it was given is given less.
    fewer = PairwiseMatches(sparse.eye_array(6 * N), matches.sizes)
    fewer.source = matches.source
    fewer.to_colmap(out, verify=verify, overwrite=True)
    assert rows_of(out) == rows_of(out, "two_view_geometries") == {}


def test_written_database_can_be_mapped(database, tmp_path):
    matches = PairwiseMatches.from_colmap(database)
    result = synchronise(matches)
    assert isinstance(result, MultiMatching)
    assert result.source is matches.source
    for verify in (True, False):
        out = tmp_path / f"{verify}.db"
        result.to_colmap(out, verify=verify)
        (model,) = map_images(out, tmp_path)
        assert model.num_reg_images() == 6
        assert model.num_points3D() >= 0.98 * POINTS
        assert model.compute_mean_reprojection_error() < 0.5
        for point in model.points3D.values():
            images = [element.image_id for element in point.track.elements]
            assert len(images) == len(set(images))


def test_result_of_every_kind_can_be_written(database, tmp_path):
    matches = PairwiseMatches.from_colmap(database)
    result = synchronise(matches, "matcheig", universe_size=N)
    assert not result.cycle_consistent
    for added in ("all", "none"):
        out = tmp_path / f"{added}.db"
        result.to_colmap(out, verify=False, added=added)
        again = PairwiseMatches.from_colmap(out)
        assert again.source.table == "two_view_geometries"
        expected = links(result) if added == "all" else links(result) & links(matches)
        assert links(again) == expected


def test_unverified_geometries_suit_the_mapper(database, tmp_path):
    """CALIBRATED where both focal lengths are known; a geometry that is there stays."""
    sql(database, "UPDATE cameras SET prior_focal_length = 1 WHERE camera_id = 1")
    matches = PairwiseMatches.from_colmap(database)
    matches.to_colmap(tmp_path / "a.db", verify=False)
    query = "SELECT pair_id, config FROM two_view_geometries"
    kinds = dict(sql(tmp_path / "a.db", query))
    assert kinds[pair(1, 3)] == 2  # both by camera 1
    assert kinds[pair(1, 2)] == kinds[pair(2, 4)] == 3
    matches.to_colmap(tmp_path / "b.db")
    verified = PairwiseMatches.from_colmap(tmp_path / "b.db")
    verified.to_colmap(tmp_path / "c.db", verify=False)
    query = "SELECT pair_id, config, E, F, H FROM two_view_geometries"
    assert sql(tmp_path / "b.db", query) == sql(tmp_path / "c.db", query)
    assert any(blob for row in sql(tmp_path / "b.db", query) for blob in row[2:])


def test_added_matches_are_left_out_unless_asked_for(tmp_path):
    path = tmp_path / "d.db"
    write_database(path, pairs=[(0, 1), (1, 2), (2, 3), (0, 2)], wrong=0)
    # Point 7 is seen in images 0 and 2, too, but only through image 1.
    set_rows(path, pair(1, 3), [(n, n) for n in range(POINTS) if n != 7])
    matches = PairwiseMatches.from_colmap(path)
    result = synchronise(matches, "unionfind")
    written = {}
    for added in ("none", "matched", "all"):
        out = tmp_path / f"{added}.db"
        result.to_colmap(out, verify=False, added=added)
        written[added] = rows_of(out)
        assert rows_of(out) == rows_of(out, "two_view_geometries")
    given = rows_of(path)
    everything = [[n, n] for n in range(POINTS)]
    assert written["none"] == given
    assert written["matched"] == given | {pair(1, 3): everything}
    new = [pair(1, 4), pair(2, 4)]
    assert written["all"] == given | dict.fromkeys([pair(1, 3), *new], everything)
    result.to_colmap(tmp_path / "default.db", verify=False)
    assert rows_of(tmp_path / "default.db") == given
    with pytest.raises(NmfsyncError, match="must be none, matched, all, not 'some'"):
        result.to_colmap(tmp_path / "some.db", added="some")
    assert not (tmp_path / "some.db").exists()


def test_what_is_written_by_default_was_given_and_is_consistent(tmp_path):
    path = tmp_path / "d.db"
    write_database(path, wrong=0.3)
    matches = PairwiseMatches.from_colmap(path)
    assert track_counts(matches).lost > 0
    result = synchronise(matches)
    result.to_colmap(tmp_path / "out.db", verify=False)
    again = PairwiseMatches.from_colmap(tmp_path / "out.db")
    assert links(again) == links(result) & links(matches)
    assert links(again) < links(matches)
    assert links(result) - links(matches)  # or nothing is left out
    assert track_counts(again).lost == 0


def test_results_remember_what_they_were_made_from(database):
    matches = PairwiseMatches.from_colmap(database)
    assert matches.input_matches is None
    for method in ("clustersync", "matcheig", lambda M, *_: MultiMatching(range(6 * N), M.sizes)):
        result = synchronise(matches, method)
        assert result.input_matches is matches
        assert result.source is matches.source
    nothing = PairwiseMatches(np.empty((0, 0)), [0, 0])
    assert synchronise(nothing).input_matches is nothing
    assert matches.input_matches is None


def geometries(path):
    query = "SELECT pair_id, config, E, F, H, qvec, tvec FROM two_view_geometries WHERE rows > 0"
    return sql(path, query + " ORDER BY pair_id")


@pytest.fixture
def colmap_calls(monkeypatch):
    """Count how often COLMAP verifies."""
    calls, original = [], colmap.change_database

    def counted(source, copy, blocks, verify):
        calls.extend([copy] * verify)
        original(source, copy, blocks, verify)

    monkeypatch.setattr(colmap, "change_database", counted)
    return calls


def test_raw_matches_are_verified_by_colmap(database, tmp_path, colmap_calls):
    out = tmp_path / "out.db"
    matches = PairwiseMatches.from_colmap(database)
    assert matches.source.unverified
    matches.to_colmap(out)
    assert len(colmap_calls) == 1
    kept = rows_of(out, "two_view_geometries")
    assert kept.keys() == rows_of(out).keys()
    assert all(len(kept[p]) < len(rows) for p, rows in rows_of(out).items())


def test_verified_matches_keep_their_geometries(database, tmp_path, colmap_calls):
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    PairwiseMatches.from_colmap(database).to_colmap(first)
    matches = PairwiseMatches.from_colmap(first)
    assert not matches.source.unverified
    result = synchronise(matches)
    result.to_colmap(second)
    assert len(colmap_calls) == 1  # of the first
    assert geometries(second) == geometries(first)
    assert any(blob for row in geometries(first) for blob in row[2:])
    assert rows_of(second, "two_view_geometries") == rows_of(second)
    assert links(PairwiseMatches.from_colmap(second)) == links(result) & links(matches)
    # Read as unverified on purpose, they are verified.
    raw = PairwiseMatches.from_colmap(first, verified=False)
    assert raw.source.unverified
    raw.to_colmap(second, overwrite=True)
    assert len(colmap_calls) == 2


def test_matches_that_we_verified_are_written_as_they_are(database, tmp_path, colmap_calls):
    matches = PairwiseMatches.from_colmap(database)
    verified = verification.verify(matches, matches.source.xy(), progress=False)
    assert 0 < len(links(verified)) < len(links(matches))
    assert not verified.source.unverified
    verified.to_colmap(tmp_path / "verified.db")
    result = synchronise(verified.unweighted())
    result.to_colmap(tmp_path / "result.db")
    assert colmap_calls == []
    for name, expected in (
        ("verified.db", links(verified)),
        ("result.db", links(result) & links(verified)),
    ):
        out = tmp_path / name
        assert rows_of(out) == rows_of(out, "two_view_geometries")
        assert links(PairwiseMatches.from_colmap(out, verified=True)) == expected
    verified.to_colmap(tmp_path / "both.db", verify=True)
    assert len(colmap_calls) == 1


def test_same_bits_every_time(database, tmp_path, in_another_process):
    matches = PairwiseMatches.from_colmap(database)
    for name in ("a.db", "b.db"):
        matches.to_colmap(tmp_path / name)
    dump = "SELECT * FROM two_view_geometries"
    assert sql(tmp_path / "a.db", dump) == sql(tmp_path / "b.db", dump)
    in_another_process(copy_on_one_core, str(database), str(tmp_path / "c.db"))
    assert sql(tmp_path / "a.db", dump) == sql(tmp_path / "c.db", dump)


def test_names_with_spaces_are_verified(tmp_path):
    path = tmp_path / "d.db"
    write_database(path, ["a b.jpg", "a c.jpg", "a.jpg"])
    PairwiseMatches.from_colmap(path).to_colmap(tmp_path / "out.db")
    assert len(rows_of(tmp_path / "out.db", "two_view_geometries")) == 3


def test_targets_are_protected(database, tmp_path):
    matches = PairwiseMatches.from_colmap(database)
    out = tmp_path / "out.db"
    out.write_text("precious")
    before = contents(tmp_path)
    link = tmp_path / "link.db"
    link.symlink_to(database)
    for path in (database, link):
        with pytest.raises(NmfsyncError, match="is an input file"):
            matches.to_colmap(path, overwrite=True)
    link.unlink()
    with pytest.raises(NmfsyncError, match="exists already"):
        matches.to_colmap(out)
    with pytest.raises(NmfsyncError, match="is a folder"):
        matches.to_colmap(tmp_path, overwrite=True)
    assert contents(tmp_path) == before
    # Changes pending beside the old file do not belong to the new one.
    (tmp_path / "out.db-wal").write_bytes(b"stale")
    matches.to_colmap(out, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["database.db", "out.db"]
    assert rows_of(out)


def test_nothing_that_sqlite_holds_beside_is_lost(database, tmp_path, monkeypatch):
    """Even if what pycolmap wrote last is still in the WAL file."""
    still_open = []

    def write(copy, ids, blocks, verify):
        still_open.append(sqlite3.connect(copy))
        still_open[0].execute("UPDATE cameras SET prior_focal_length = 7")
        still_open[0].commit()

    monkeypatch.setattr(colmap, "change_database", write)
    PairwiseMatches.from_colmap(database).to_colmap(tmp_path / "out.db")
    still_open[0].close()
    assert sql(tmp_path / "out.db", "SELECT DISTINCT prior_focal_length FROM cameras") == [(7,)]


def test_read_only_folder_can_be_read(database, tmp_path):
    before = contents(tmp_path)
    database.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        matches = PairwiseMatches.from_colmap(database)
        assert contents(tmp_path) == before
        matches.to_colmap(tmp_path.parent / "elsewhere.db", verify=False, overwrite=True)
        assert rows_of(tmp_path.parent / "elsewhere.db")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import os; os.abort()", r"out\.db: COLMAP cannot write it \(SIGABRT: .*\)$"),
        ("import sys; sys.exit('no')", r"out\.db: COLMAP cannot write it \(no\)$"),
        (None, "now"),
    ],
)
def test_failure_leaves_nothing(database, tmp_path, monkeypatch, program, message):
    matches = PairwiseMatches.from_colmap(database)
    before = contents(tmp_path)
    started, original = [], subprocess.Popen

    def start(command, **options):
        started.append(original([sys.executable, "-c", program or "input()"], **options))
        if program is None:
            started[0].stderr = mock.Mock(read=mock.Mock(side_effect=KeyboardInterrupt("now")))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(NmfsyncError if program else KeyboardInterrupt, match=message):
        matches.to_colmap(tmp_path / "out.db")
    assert contents(tmp_path) == before
    assert [p for p in tmp_path.iterdir() if p.is_dir()] == []
    assert started[0].poll() is not None


def test_a_source_that_changed_is_refused(database, tmp_path):
    matches = PairwiseMatches.from_colmap(database)
    # Fewer keypoints than before: the old matches would crash the interpreter.
    sql(database, "UPDATE keypoints SET rows = 2, data = zeroblob(16) WHERE image_id = 1")
    with pytest.raises(NmfsyncError, match="not those of these matches"):
        matches.to_colmap(tmp_path / "out.db")
    assert not (tmp_path / "out.db").exists()


def test_keypoints_that_moved_are_refused(database, tmp_path):
    matches = PairwiseMatches.from_colmap(database)
    sql(database, "UPDATE matches SET data = data")  # which changes the file, but no content
    matches.to_colmap(tmp_path / "same.db")
    sql(database, "UPDATE keypoints SET data = zeroblob(length(data)) WHERE image_id = 1")
    for use in (lambda: matches.to_colmap(tmp_path / "out.db"), matches.source.xy):
        with pytest.raises(NmfsyncError, match="its images or keypoints are not those of these"):
            use()
    assert not (tmp_path / "out.db").exists()


def test_an_image_without_its_camera_is_refused(database, tmp_path):
    matches = PairwiseMatches.from_colmap(database)
    sql(database, "DELETE FROM cameras WHERE camera_id = 2")
    with pytest.raises(NmfsyncError, match=r"view1\.jpg has the camera 2, which does not exist"):
        matches.to_colmap(tmp_path / "out.db")


def test_matches_from_elsewhere_cannot_be_written(tmp_path):
    W, _, sizes = nmfsync.synthetic.generate(k=3, d=4, rho=1.0, sigma=0.0)
    with pytest.raises(NmfsyncError, match=r"do not come from .*from_colmap"):
        PairwiseMatches(W, sizes).to_colmap(tmp_path / "out.db")


def test_missing_pycolmap_is_one_line(database, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    matches = PairwiseMatches.from_colmap(database)  # reading does without
    with pytest.raises(NmfsyncError, match=r"pip install 'nmfsync\[colmap\]'"):
        matches.to_colmap(tmp_path / "out.db")


def test_database_of_an_older_colmap(database, tmp_path):
    """The copy gets the tables that came later; the original does not."""
    for table in ("rigs", "rig_sensors", "frames", "frame_data", "pose_priors"):
        sql(database, f"DROP TABLE {table}")
    sql(database, "PRAGMA user_version = 3800")
    before = contents(tmp_path)
    result = synchronise(PairwiseMatches.from_colmap(database))
    result.to_colmap(tmp_path / "new" / "out.db")
    assert contents(tmp_path) == before
    (model,) = map_images(tmp_path / "new" / "out.db", tmp_path)
    assert model.num_reg_images() == 6
