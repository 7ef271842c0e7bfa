"""Verification of a file alone, and descriptors of a COLMAP database matched anew."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from builders import links
from colmap_scenes import EXTRA, POINTS, write_database
from nmfsync import NmfsyncError, PairwiseMatches, match_colmap, verify_file

pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")

NAMES = ("a.jpg", "b.jpg", "c.jpg")


def sql(path, *query):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(*query).fetchall()


@pytest.fixture
def database(tmp_path):
    """Three views; the same point has nearly the same descriptor. Two pairs were matched."""
    path = tmp_path / "database.db"
    write_database(path, names=NAMES, pairs=[(0, 1), (1, 2)])
    rng = np.random.default_rng(0)
    points = rng.integers(0, 120, (POINTS, 128))
    for image in (1, 2, 3):
        seen = points + rng.integers(0, 30, points.shape)
        every = np.concatenate([seen, rng.integers(0, 150, (EXTRA, 128))]).astype(np.uint8)
        values = [image, 0, len(every), 128, every.tobytes()]
        sql(path, "INSERT INTO descriptors (image_id, type, rows, cols, data) "
                  "VALUES (?, ?, ?, ?, ?)", values)  # fmt: skip
    return path


def test_descriptors_are_matched_anew_between_the_pairs_that_were_matched(database):
    matches = match_colmap(database, progress=False)
    size = POINTS + EXTRA
    assert {(p // size, q // size) for p, q in links(matches)} == {(0, 1), (1, 2)}
    right = [p % size == q % size < POINTS for p, q in links(matches)]
    assert sum(right) > 1.9 * POINTS
    assert np.mean(right) > 0.97
    assert matches.weighted


def test_all_pairs_are_matched_if_none_were(database):
    sql(database, "DELETE FROM matches")
    assert sum(1 for _ in match_colmap(database, progress=False).by_image_pair()) == 3


def test_verify_writes_what_agrees(database, tmp_path):
    before = database.read_bytes()
    done = verify_file(database, tmp_path / "out.db", match=True)
    assert done.tracks is None
    assert done.result.settings == {"method": "verification", "geometry": "fundamental"}
    written = PairwiseMatches.from_colmap(done.path)
    assert links(written) == links(done.result)
    assert len(links(written)) > 1.8 * POINTS
    assert "verified matches" in done.report.read_text()
    assert database.read_bytes() == before


def test_verify_without_match_takes_the_raw_matches(database, tmp_path):
    done = verify_file(database, tmp_path / "out.db")
    raw = PairwiseMatches.from_colmap(database, verified=False)
    assert links(done.result) < links(raw)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DELETE FROM descriptors", "has no descriptors of a.jpg to match; leave out --match"),
        ("UPDATE descriptors SET type = 1", "descriptors of a.jpg are not SIFT's"),
        ("UPDATE descriptors SET cols = 512", "descriptors of a.jpg are not SIFT's"),
        ("UPDATE descriptors SET data = x'00'", "descriptors of a.jpg are damaged"),
    ],
)
def test_descriptors_that_cannot_be_matched_are_refused(database, change, message):
    sql(database, change)
    with pytest.raises(NmfsyncError, match=message):
        match_colmap(database, progress=False)


def test_only_databases_have_descriptors(tmp_path):
    PairwiseMatches(np.eye(2), [1, 1]).save(tmp_path / "m.npz")
    with pytest.raises(NmfsyncError, match=r"only a COLMAP database has descriptors"):
        match_colmap(tmp_path / "m.npz")
    with pytest.raises(NmfsyncError, match="evidence must be a probability from 0 to 1, got 2"):
        match_colmap(tmp_path / "m.npz", evidence=2)
    with pytest.raises(NmfsyncError, match="no positions, so its matches cannot be verified"):
        verify_file(tmp_path / "m.npz", tmp_path / "out.npz")
