"""Databases that are damaged, hostile, locked or old: one line, or the right matches."""

import os
import sqlite3
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

import strategies
from builders import NO_FILES, contents, no_file, result_or_line
from nmfsync import NmfsyncError, PairwiseMatches
from nmfsync.runtime import files

SIZES = (3, 3, 2)
SCHEMA = """
CREATE TABLE cameras (camera_id INTEGER PRIMARY KEY, model INTEGER, width INTEGER, height INTEGER,
                      params BLOB, prior_focal_length INTEGER);
CREATE TABLE images (image_id INTEGER PRIMARY KEY, name TEXT UNIQUE, camera_id INTEGER);
CREATE TABLE keypoints (image_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER, data BLOB);
CREATE TABLE matches (pair_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER, data BLOB);
CREATE TABLE two_view_geometries (pair_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER,
                                  data BLOB, config INTEGER);
"""


def write(path):
    """Write a database of three images without pycolmap, in the layout of COLMAP 3.8."""
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript("PRAGMA synchronous = OFF;" + SCHEMA)
        database.execute("INSERT INTO cameras VALUES (1, 0, 640, 480, zeroblob(24), 0)")
        for image, n in enumerate(SIZES, start=1):
            xy = np.arange(2 * n, dtype="<f4").tobytes()
            database.execute("INSERT INTO images VALUES (?, ?, 1)", [image, f"{image}.jpg"])
            database.execute("INSERT INTO keypoints VALUES (?, ?, 2, ?)", [image, n, xy])
        for a, b in pairwise(range(1, 4)):
            rows = np.array([[0, 1], [2, 0]], "<u4").tobytes()
            database.execute("INSERT INTO matches VALUES (?, 2, 2, ?)", [2147483647 * a + b, rows])
    return path


@pytest.fixture
def database(tmp_path):
    return write(tmp_path / "d.db")


def change(path, *statements):
    with closing(sqlite3.connect(path)) as database, database:
        for statement in ("PRAGMA synchronous = OFF", *statements):
            database.execute(statement)


def refused(path, message):
    with pytest.raises(NmfsyncError, match=rf"^{path}: .*{message}") as caught:
        PairwiseMatches.from_colmap(path)
    assert str(caught.value).isprintable()


def test_the_sound_one_is_read(database):
    matches = PairwiseMatches.from_colmap(database)
    assert matches.sizes.tolist() == list(SIZES)
    assert matches.W.nnz == sum(SIZES) + 2 * 4
    assert matches.source.xy()[2].tolist() == [[-0.5, 0.5], [1.5, 2.5]]


VALUES = [
    "NULL", "'text'", "''", "-1", "0", "3.5", "9e99", "9223372036854775807", "zeroblob(7)",
    "x'00'", "zeroblob(16)", "zeroblob(5000)", "char(0)", "'a' || char(10) || char(27)",
    "CAST(x'fffe41' AS TEXT)", "printf('%.*c', 5000, 'x')", "x'0000c07f0000807f' || zeroblob(16)",
]  # fmt: skip
# What is sound all the same: another name, no match, another match.
ALLOWED = {
    "images.name": [v for v in VALUES if v not in ("NULL", "''", "char(0)") and "zero" not in v
                    and v != "x'00'"],
    "matches.rows": ["0"],
    "matches.data": ["zeroblob(16)"],
}  # fmt: skip
COLUMNS = [
    "images.image_id", "images.name", "keypoints.image_id", "keypoints.rows", "keypoints.cols",
    "keypoints.data", "matches.pair_id", "matches.rows", "matches.cols", "matches.data",
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_any_value_in_any_column(tmp_path, column):
    """In tables without types, which let every value in."""
    table, name = column.split(".")
    for number, value in enumerate(VALUES):
        path = write(tmp_path / f"{number}.db")
        change(
            path,
            f"CREATE TABLE bare AS SELECT * FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE bare RENAME TO {table}",
            f"UPDATE {table} SET {name} = {value} WHERE rowid = 2",
        )
        matches = result_or_line(PairwiseMatches.from_colmap, path)
        if not isinstance(matches, str):
            assert value in ALLOWED.get(column, ()), (value, matches)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_keypoints_that_are_nowhere_are_refused(database, value):
    xy = np.array([[0, 1], [2, float(value)], [3, 4]], "<f4").tobytes().hex()
    change(database, f"UPDATE keypoints SET data = x'{xy}' WHERE image_id = 2")
    refused(database, rf"keypoint 1 of 2\.jpg is at \(2\.0, {value}\), which is not finite")


@pytest.mark.parametrize("table", ["images", "keypoints", "matches"])
def test_missing_tables_and_columns(database, table):
    change(database, f"ALTER TABLE {table} RENAME TO other")
    refused(database, f"no such table: {table}; its version is 0.*open a copy with a recent COLMAP")
    change(database, f"CREATE TABLE {table} (other)")
    refused(database, f"no column (image_id|pair_id) in its table {table}")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TRIGGER t DELETE ON matches BEGIN DELETE FROM images; END", "the trigger t"),
        ("CREATE TRIGGER t AFTER INSERT ON matches BEGIN DELETE FROM images; END", "the trigger t"),
        ("CREATE VIEW v AS SELECT 1", "the view v"),
        (
            "CREATE VIEW inlier_matches AS WITH RECURSIVE n(pair_id) AS "
            "(SELECT 1 UNION ALL SELECT pair_id FROM n) SELECT * FROM n",
            "the view inlier_matches",
        ),
        (
            "CREATE TABLE x (a INTEGER REFERENCES matches(pair_id) ON DELETE CASCADE)",
            "the table x changes with the matches",
        ),
    ],
)
def test_what_would_act_on_the_copy_is_refused(database, statement, message):
    change(database, statement)
    before = contents(database.parent)
    refused(database, message)
    assert contents(database.parent) == before


def test_a_view_in_place_of_a_table_never_runs(database):
    change(
        database,
        "ALTER TABLE matches RENAME TO m",
        "CREATE VIEW matches AS WITH RECURSIVE n(pair_id) AS (SELECT 1 UNION ALL SELECT pair_id "
        "FROM n) SELECT pair_id, 0 AS rows, 2 AS cols, NULL AS data FROM n",
    )
    refused(database, r"the view matches.*DROP VIEW")


def test_a_database_that_is_being_written_is_left_alone(database):
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        for begin, message in [
            ("EXCLUSIVE", "is locked: another program writes it; wait"),
            ("IMMEDIATE", "is being written by another program: wait"),
        ]:
            writer.execute(f"BEGIN {begin}")
            if begin == "IMMEDIATE":
                writer.execute("DELETE FROM matches")
            before = contents(database.parent)
            refused(database, message)
            assert contents(database.parent) == before
            writer.execute("ROLLBACK")
    PairwiseMatches.from_colmap(database)


def test_changes_in_the_side_file_that_are_not_committed_are_left_alone(database):
    """SQLite itself would read the state before them, half of what a matcher finds."""
    change(database, "PRAGMA journal_mode = WAL")
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN")
        writer.execute("DELETE FROM matches")
        before = contents(database.parent)
        refused(database, "is locked: another program writes it; wait")
        assert contents(database.parent) == before
        writer.execute("ROLLBACK")
        PairwiseMatches.from_colmap(database)


def test_a_change_while_reading_is_noticed(database, monkeypatch):
    change(database, "PRAGMA journal_mode = WAL")
    original = files._check_regular

    def later(path):
        original(path)
        os.utime(path, ns=(1, next(times)))

    times = iter(range(1, 100))
    monkeypatch.setattr(files, "_check_regular", later)
    PairwiseMatches.from_colmap(database)
    monkeypatch.setattr("nmfsync.exchange.colmap._check_integrity", lambda _: later(database))
    refused(database, "was changed while it was read")


def test_damaged_pages_that_are_not_read_are_noticed(database):
    change(
        database,
        "CREATE TABLE descriptors (image_id INTEGER PRIMARY KEY, data)",
        *(f"INSERT INTO descriptors VALUES ({n}, zeroblob(3000))" for n in range(20)),
    )
    content = bytearray(database.read_bytes())
    content[-4096:] = b"\xff" * 4096
    database.write_bytes(content)
    refused(database, r"is damaged \(.*\); restore it from a copy")


def test_queries_without_an_end_are_stopped(database, monkeypatch):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    monkeypatch.setattr(
        "nmfsync.exchange.colmap._check_integrity", lambda database: database.execute(endless)
    )
    refused(database, "reading it does not come to an end")


def test_inliers_of_an_old_database(database):
    """Old versions have verified matches in the table inlier_matches."""
    change(
        database,
        "DROP TABLE two_view_geometries",
        "CREATE TABLE inlier_matches AS SELECT *, 2 AS config FROM matches LIMIT 1",
    )
    matches = PairwiseMatches.from_colmap(database)
    assert matches.source.table == "inlier_matches"
    assert not matches.source.unverified
    assert matches.W.nnz == sum(SIZES) + 2 * 2
    assert PairwiseMatches.from_colmap(database, verified=False).W.nnz == sum(SIZES) + 2 * 4
    change(database, "DROP TABLE inlier_matches")
    assert PairwiseMatches.from_colmap(database).source.table == "matches"
    with pytest.raises(NmfsyncError, match="contains no verified matches"):
        PairwiseMatches.from_colmap(database, verified=True)


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_file_at_all(database, kind):
    assert "d.db: " in result_or_line(PairwiseMatches.from_colmap, no_file(database, kind))


def test_damaged_anywhere(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    sound = write(folder / "sound.db").read_bytes()

    @settings(max_examples=150, derandomize=True, database=None)
    @given(strategies.damaged(sound))
    def check(content):
        path = folder / "d.db"
        path.write_bytes(content)
        matches = result_or_line(PairwiseMatches.from_colmap, path)
        if not isinstance(matches, str):
            result_or_line(matches.source.xy)

    check()


def test_too_little_space_is_said_before_anything_is_written(database, monkeypatch):
    pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    matches = PairwiseMatches.from_colmap(database)
    before = contents(database.parent)
    usage = files.shutil.disk_usage(database.parent)._replace(free=1000)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(NmfsyncError, match=r"not enough space: .* MB are needed, 0\.0 MB are free"):
        matches.to_colmap(database.with_name("out.db"))
    assert contents(database.parent) == before
    assert list(database.parent.iterdir()) == [database]
