"""COLMAP databases: read with SQLite alone, written with pycolmap.

pycolmap upgrades every database that it opens, so it only ever opens copies.
"""

import hashlib
import itertools
import os
import re
import signal
import sqlite3
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.errors import NmfsyncError, NmfsyncWarning, shown
from nmfsync.exchange.blocks import (
    check_positions,
    check_rows,
    choose,
    missing_rows,
    rows_in,
    to_keypoints,
    to_matches,
    with_duplicates_marked,
)
from nmfsync.runtime.cache import key_of
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import (
    SIDE_FILES,
    check_space,
    check_target,
    put,
    reading,
    staging,
    writing,
)
from nmfsync.types.arrays import AnyArray, Float32Array, FloatArray, IntArray
from nmfsync.types.features import DESCRIPTOR, Features
from nmfsync.types.matches import ImagePair, Matches, PairwiseMatches, Source, StoredKeypoints

MAGIC = b"SQLite format 3\0"

MAX_IMAGES = 2147483647  # pair_id = MAX_IMAGES * smaller image id + larger image id

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)  # another program has the lock

RAW = "matches"  # the table of all matches

_UNDEFINED, _SIFT = -1, 0  # types of descriptors

# Those of verified matches: today's, and that of old versions.
_VERIFIED = ("two_view_geometries", "inlier_matches")

_BLOB = ("rows", "cols", "data")
_COLUMNS = {
    "images": ("image_id", "name"), "keypoints": ("image_id", *_BLOB),
    **dict.fromkeys((RAW, *_VERIFIED), ("pair_id", *_BLOB)),
}  # fmt: skip

_Images = tuple[tuple[int, ...], tuple[str, ...], list[Float32Array]]  # ids, names, positions

_WAL_MODE = b"\2"  # the byte 18 of a database that keeps pending changes in a second file


@dataclass(frozen=True, eq=False)
class ColmapSource(Source):
    """A COLMAP database that matches were read from.

    Attributes
    ----------
    ids : tuple of int, length k
        The image ids in the database, ascending.
    table : str
        The table that the matches were read from: "two_view_geometries" ("inlier_matches"
        in old databases) or "matches".
    digest : str
        Of the images and their keypoints, to which the matches refer by number.
    """

    ids: tuple[int, ...]
    table: str
    digest: str

    @property
    def unverified(self) -> bool:
        """True if neither COLMAP nor `verification.verify` has verified the matches."""
        return self.table == RAW and not self.verified

    def xy(self) -> list[Float32Array]:
        """Positions as `Source.xy` defines them: those stored, minus COLMAP's half pixel."""
        with open_read_only(self.path) as database:
            images = _read_images(database)
            _check_unchanged(images, self)
            return [xy - np.float32(0.5) for xy in images[2]]

    def keypoints(self) -> list[StoredKeypoints]:
        """Positions, scales and orientations of every image, and the size of its camera."""
        with open_read_only(self.path) as database:
            ids, _, positions = images = _read_images(database)
            _check_unchanged(images, self)
            sizes = _read_sizes(database)
            return [
                to_keypoints(xy - np.float32(0.5), *_read_shapes(database, image), sizes.get(image))
                for image, xy in zip(ids, positions, strict=True)
            ]

    def features(self) -> list[Features]:
        """Keypoints and SIFT descriptors of every image, to match them anew.

        Raises
        ------
        NmfsyncError
            If descriptors are missing or damaged, or are not SIFT's.
        """
        keypoints = self.keypoints()
        with open_read_only(self.path) as database:
            return [
                _to_features(stored, _read_descriptors(database, image, name, len(stored.xy)))
                for image, name, stored in zip(self.ids, self.names, keypoints, strict=True)
            ]

    def tried_pairs(self) -> IntArray:
        """Pairs of images (n, 2), i < j, that COLMAP has matched; those without a match, too."""
        with open_read_only(self.path) as database:
            stored = database.execute(f"SELECT pair_id FROM {RAW} ORDER BY pair_id").fetchall()
        ids = np.array(self.ids, np.int64)
        pairs = np.column_stack(np.divmod(np.array(stored, np.int64).ravel(), MAX_IMAGES))
        pairs = pairs[np.isin(pairs, ids).all(axis=1) & (pairs[:, 0] < pairs[:, 1])]
        return np.searchsorted(ids, pairs)


def read_colmap(path: Path | str, verified: bool | None = None) -> PairwiseMatches:
    """Read the matches of a COLMAP database, which is not changed.

    Images are in order of image id, and an image without keypoints has 0
    features. The `source` of the result contains names and ids.

    Parameters
    ----------
    path : Path or str
    verified : bool, optional
        Read the verified matches (`two_view_geometries`) or all (`matches`).
        None reads verified matches if the database contains any.

    Returns
    -------
    PairwiseMatches
        Every match has the weight 1. Near-duplicates are marked, see `mark_duplicates`.

    Warns
    -----
    NmfsyncWarning
        If rows were dropped: repeated rows, and all but the first of several
        matches of a feature in the same image.

    Raises
    ------
    NmfsyncError
        If the file is missing, damaged, locked or no COLMAP database, if it contains
        triggers or views, if a position is not finite, or if matches name images or
        keypoints that do not exist.
    """
    path = Path(path)
    with open_read_only(path) as database:
        _check_integrity(database)
        ids, names, xy = images = _read_images(database)
        sizes = [len(points) for points in xy]
        table = _choose_table(database, verified)
        blocks = list(_read_blocks(database, table, ids, names, sizes))
    matches, dropped = to_matches(blocks, sizes)
    if dropped:
        warnings.warn(f"{path}: {dropped}", NmfsyncWarning, stacklevel=3)
    matches = with_duplicates_marked(matches, xy)
    matches.source = ColmapSource(path, names, ids, table, _digest(images))
    matches.verified = table != RAW
    return matches


def write_colmap(
    matches: Matches,
    path: Path | str,
    verify: bool | None = None,
    added: str = "none",
    overwrite: bool = False,
) -> None:
    """Write a copy of the COLMAP database that the matches come from, with these matches in it.

    Everything else is copied unchanged, and the original stays as it is. Needs
    `pip install 'nmfsync[colmap]'`.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    path : Path or str
    verify : bool, optional
        Let COLMAP verify the matches, with a fixed seed, which makes the
        two-view geometries that its mappers read. Otherwise the geometries
        contain the matches as they are, with the relative pose of the original
        if it has one, or else that which COLMAP estimates from the matches, with
        a fixed seed. None verifies if neither COLMAP nor
        `verification.verify` has verified the matches.
    added : str
        Which of the matches that synchronisation added to write: "none",
        "matched" (those between images that had matches before) or "all".
    overwrite : bool
        Replace `path` if it exists.

    Raises
    ------
    NmfsyncError
        If the matches do not come from a COLMAP database (`source`), the
        database has changed since, or `path` is the database itself or exists.
    """
    source, path = _source_of(matches), Path(path)
    check_target(path, [source.path], overwrite)
    optional("pycolmap", "colmap")
    if verify is None:
        verify = source.unverified
    blocks = list(choose(matches, added).by_image_pair())
    with staging(path) as folder:
        copy = folder / "database.db"
        # COLMAP writes every match to two tables, first to a file of pending changes.
        space = 32 * sum(len(block.rows) for block in blocks)
        _copy_database(source, copy, space)
        with writing(path):
            change_database(copy, source.ids, blocks, verify)
            checkpoint(copy)
            put(copy, path)


def _source_of(matches: Matches) -> ColmapSource:
    if not isinstance(matches.source, ColmapSource):
        raise NmfsyncError(
            "these matches do not come from a COLMAP database; "
            "to_colmap needs matches read with PairwiseMatches.from_colmap"
        )
    return matches.source


def write_colmap_part(matches: PairwiseMatches, path: Path, part: PairwiseMatches) -> None:
    """Write a copy of the COLMAP database that matches come from, with a part of them.

    Pairs of images without any have neither matches nor a two-view geometry. Of the others, only
    those matches go that are not in the part, and else everything is copied unchanged: geometries,
    poses, and matches that were not read.

    Parameters
    ----------
    matches : PairwiseMatches
    path : Path
        Replaced if it exists.
    part : PairwiseMatches
        Some of the matches.

    Raises
    ------
    NmfsyncError
        If the database has changed since it was read.
    """
    source = _source_of(matches)
    left_out = {
        MAX_IMAGES * source.ids[i] + source.ids[j]: rows
        for (i, j), rows in missing_rows(matches, part).items()
    }
    with staging(path) as folder:
        copy = folder / "database.db"
        _copy_database(source, copy, 0)
        with writing(path):
            _delete_rows(copy, source.table, left_out)
            checkpoint(copy)
            put(copy, path)


def _delete_rows(path: Path, read: str, left_out: Mapping[int, IntArray | None]) -> None:
    """Delete pairs of images, where rows are None, and rows of the others in the table `read`."""
    everything = [(pair_id,) for pair_id, rows in left_out.items() if rows is None]
    with closing(sqlite3.connect(path)) as database, database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        for table in {RAW, *_VERIFIED} & tables:
            database.executemany(f"DELETE FROM {table} WHERE pair_id = ?", everything)
        for pair_id, rows in left_out.items():
            if rows is not None:
                _delete_rows_of_pair(database, read, pair_id, rows)


def _delete_rows_of_pair(
    database: sqlite3.Connection, table: str, pair_id: int, rows: IntArray
) -> None:
    ((data,),) = database.execute(f"SELECT data FROM {table} WHERE pair_id = ?", [pair_id])
    stored = np.frombuffer(data, np.uint32).reshape(-1, 2)
    stay = stored[~rows_in(stored.astype(np.int64), rows)]
    query = f"UPDATE {table} SET rows = ?, data = ? WHERE pair_id = ?"
    database.execute(query, [len(stay), stay.tobytes(), pair_id])


def count_verified(path: Path) -> tuple[int, int]:
    """Count the verified matches of a database, and the pairs of images that have any."""
    with open_read_only(path) as database:
        table = _verified_table(database)
        query = f"SELECT coalesce(sum(rows), 0), count(*) FROM {table} WHERE rows > 0"
        matches, pairs = database.execute(query).fetchone()
        return matches, pairs


def content_of(path: Path) -> str:
    """Return a digest of what the tables of a database contain; opening it may change its bytes."""
    with open_read_only(path) as database:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        digest = hashlib.sha256()
        for (name,) in database.execute(query).fetchall():
            digest.update(repr(name).encode())
            for row in database.execute(f'SELECT * FROM "{name.replace(chr(34), chr(34) * 2)}"'):
                digest.update(repr(row).encode())
        return digest.hexdigest()


def check_unused(path: Path) -> None:
    """Raise NmfsyncError if another program is writing a database."""
    try:
        _take_turn_to_write(path)
    except sqlite3.Error as error:
        raise NmfsyncError(f"{path}: {_fault(error)}") from None


def _take_turn_to_write(path: Path) -> None:
    """Lock a database as a writer does, and give it back: fails while another one writes."""
    with closing(sqlite3.connect(path, timeout=1)) as database:
        database.execute("BEGIN IMMEDIATE")
        database.rollback()


def _check_not_written(path: Path) -> None:
    """Raise sqlite3.Error if a program is in the middle of writing a database that is open.

    As long as it is open, a second connection leaves no trace when it is closed.
    """
    try:
        _take_turn_to_write(path)
    except sqlite3.Error as error:
        if _primary_code(error) in _BUSY:
            raise  # otherwise the file is read-only, and nobody writes it


@contextmanager
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database without changing it or creating files beside it."""
    with reading(path, "is a damaged database"):
        with path.open("rb") as file:
            head = file.read(20)
        if not head.startswith(MAGIC):
            raise NmfsyncError("not a COLMAP database")
        wal, shared, journal = (path.with_name(path.name + ending) for ending in SIDE_FILES)
        if journal.exists() and journal.stat().st_size:
            raise NmfsyncError(
                "is being written by another program: wait until that has ended; if it stopped "
                "in the middle, open the database once with COLMAP"
            )
        # A database with pending changes must be read together with its side files. Without,
        # "immutable" keeps SQLite from creating them, which fails in a read-only folder. Then
        # nothing keeps other programs from writing; what they did shows in the state of the file.
        alone = head[18:19] == _WAL_MODE and not any(
            file.exists() and file.stat().st_size for file in (wal, shared)
        )
        before = _state(path)
        uri = path.resolve().as_uri() + ("?mode=ro&immutable=1" if alone else "?mode=ro")
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=1)) as database:
                database.execute("BEGIN")  # all that is read is of one moment
                _restrict(database)
                _check_schema(database)
                if not alone:
                    _check_not_written(path)
                yield database
        except sqlite3.Error as error:
            raise NmfsyncError(_fault(error)) from None
        if alone and _state(path) != before:
            raise NmfsyncError("was changed while it was read; wait until no program writes it")


def _state(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _fault(error: sqlite3.Error) -> str:
    """Say what an error of SQLite means."""
    code = _primary_code(error)
    if code in _BUSY:
        return "is locked: another program writes it; wait until that has ended"
    if code == sqlite3.SQLITE_INTERRUPT:
        return "is damaged: reading it does not come to an end"
    return f"SQLite cannot read this database ({shown(error, 200)}); restore it from a copy"


def _restrict(database: sqlite3.Connection) -> None:
    """Keep a database that we did not make from doing more than to be read."""
    database.execute("PRAGMA trusted_schema = OFF")
    # COLMAP stores names of files as their bytes.
    database.text_factory = lambda name: name.decode("utf-8", "backslashreplace")
    size = _size(database)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, size + 10**6)
    # Damaged pages can form circles. A byte takes less than a step of SQLite's machine.
    left = itertools.count(20 + 10 * size // 10**6, -1)
    database.set_progress_handler(lambda: next(left) < 0, 10**6)


def _size(database: sqlite3.Connection) -> int:
    """Return the size of a database in bytes, pending changes included."""
    pages, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
    )
    return int(pages * size)


def _check_schema(database: sqlite3.Connection) -> None:
    """Raise NmfsyncError if COLMAP's tables are not there, or more than tables and indices are."""
    tables = set()
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    for name, sql in database.execute(query).fetchall():
        # SQLite writes this start itself. Triggers and views act when COLMAP writes the copy.
        if not re.match("CREATE (TABLE|INDEX|UNIQUE INDEX) ", sql):
            kind = " ".join(re.findall("[A-Z]+", sql[:30])[1:2]).lower()
            raise NmfsyncError(
                f"contains the {kind} {shown(name)}, which COLMAP does not make and which could "
                f"change what is copied; DROP {kind.upper()} removes it"
            )
        tables.add(name)
        keys = database.execute('SELECT "table" FROM pragma_foreign_key_list(?)', [name])
        if any(parent.lower() in (RAW, *_VERIFIED) for (parent,) in keys):
            raise NmfsyncError(
                f"the table {shown(name)} changes with the matches (a foreign key), "
                "which is not so in COLMAP"
            )
    for table, columns in _COLUMNS.items():
        if table in tables or table not in _VERIFIED:
            found = database.execute("SELECT name FROM pragma_table_info(?)", [table]).fetchall()
            if missing := [column for column in columns if (column,) not in found]:
                raise NmfsyncError(_unknown_layout(database, table, missing[0] if found else ""))


def _unknown_layout(database: sqlite3.Connection, table: str, column: str) -> str:
    what = f"no column {column} in its table {table}" if column else f"no such table: {table}"
    version = database.execute("PRAGMA user_version").fetchone()[0]
    return (
        f"not a COLMAP database, or one of a COLMAP that is too old or too new ({what}; its "
        f"version is {version}); to upgrade an old one, open a copy with a recent COLMAP: "
        "colmap database_creator --database_path COPY"
    )


def _check_integrity(database: sqlite3.Connection) -> None:
    """Raise NmfsyncError if pages of a database are damaged, also those that we do not read."""
    (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        fault = shown(" ".join(result.removeprefix("*** in database main ***").split()), 200)
        raise NmfsyncError(f"is damaged ({fault}); restore it from a copy")


def _read_images(database: sqlite3.Connection) -> _Images:
    """Read ids, names and positions of keypoints (n, 2) of all images, in order of id."""
    rows = database.execute(
        "SELECT image_id, name, rows, cols, data FROM images "
        "LEFT JOIN keypoints USING (image_id) ORDER BY image_id"
    )
    ids, names, xy = [], [], []
    for image_id, name, *keypoints in rows:
        if not isinstance(image_id, int) or not isinstance(name, str) or not name or "\0" in name:
            raise NmfsyncError(
                f"the name of image {shown(image_id)} is no text ({shown(repr(name))})"
            )
        ids.append(image_id)
        names.append(name)
        xy.append(_positions(name, *keypoints))
    if not ids:
        raise NmfsyncError("contains no images")
    for values in (ids, names):
        (value, count), *_ = Counter(values).most_common(1)
        if count > 1:
            raise NmfsyncError(f"has {count} images {shown(value)}")
    return tuple(ids), tuple(names), xy


def _positions(name: str, n: Any, columns: Any, data: Any) -> Float32Array:
    if n is None and data is None:
        return np.empty((0, 2), np.float32)
    keypoints = _array(n, columns, data, "<f4")
    if keypoints is None or (n and columns not in (2, 4, 6)):
        size = f"{len(data)} bytes" if isinstance(data, bytes) else "no bytes"
        raise NmfsyncError(
            f"the keypoints of {shown(name)} are damaged: {shown(n)} rows of {shown(columns)} "
            f"columns in {size}"
        )
    xy = keypoints[:, :2].reshape(-1, 2).copy()
    check_positions(name, xy)
    return xy


def _read_sizes(database: sqlite3.Connection) -> dict[int, tuple[Any, Any]]:
    """Return width and height, as stored, of the camera of every image that has one."""
    query = "SELECT image_id, width, height FROM images JOIN cameras USING (camera_id)"
    return {image: (width, height) for image, width, height in database.execute(query)}


def _read_shapes(database: sqlite3.Connection, image: int) -> tuple[FloatArray, FloatArray]:
    """Return SIFT's σ, and the orientations in degrees, of the keypoints of an image."""
    query = "SELECT rows, cols, data FROM keypoints WHERE image_id = ?"
    n, columns, data = database.execute(query, [image]).fetchone() or (0, 2, b"")
    stored = _array(n, columns, data, "<f4")
    return _shapes(np.empty((0, 2)) if stored is None else stored.astype(np.float64))


def _read_descriptors(database: sqlite3.Connection, image: int, name: str, n: int) -> AnyArray:
    """Read the SIFT descriptors (n, 128) of an image."""
    if n == 0:
        return np.empty((0, DESCRIPTOR), np.uint8)
    query = "SELECT * FROM descriptors WHERE image_id = ?"  # without a type in old versions
    cursor = database.execute(query, [image])
    values = cursor.fetchone()
    stored = dict(zip((column[0] for column in cursor.description), values or (), strict=False))
    if not stored or stored.get("rows") == 0:
        raise NmfsyncError(f"has no descriptors of {shown(name)} to match; leave out --match")
    if stored.get("type", _SIFT) not in (_UNDEFINED, _SIFT) or stored.get("cols") != DESCRIPTOR:
        raise NmfsyncError(
            f"the descriptors of {shown(name)} are not SIFT's (128 bytes each), and only these "
            "can be matched; match them with the program that made them, and leave out --match"
        )
    data = stored.get("data")
    if stored["rows"] != n or not isinstance(data, bytes) or len(data) != n * DESCRIPTOR:
        raise NmfsyncError(f"the descriptors of {shown(name)} are damaged; extract them again")
    return np.frombuffer(data, np.uint8).reshape(n, DESCRIPTOR)


def _to_features(stored: StoredKeypoints, descriptors: AnyArray) -> Features:
    """Make features of what is stored; an orientation that is not known is 0."""
    n = len(stored.xy)
    orientation = np.nan_to_num(stored.orientation)
    size = stored.image_size or (1, 1)
    return Features(stored.xy, descriptors, stored.scale, orientation, size, n, n)


def _shapes(keypoints: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return σ and degrees of keypoints (n, 2), (n, 4) or (n, 6); NaN where they are not known."""
    sigma, radians = np.full((2, len(keypoints)), np.nan)
    if keypoints.shape[1] == 4:
        sigma, radians = keypoints[:, 2:].T
    elif keypoints.shape[1] == 6:
        # A rotation, times a scale along each axis, and a shear.
        a11, a12, a21, a22 = keypoints[:, 2:].T
        sigma, radians = (np.hypot(a11, a21) + np.hypot(a12, a22)) / 2, np.arctan2(a21, a11)
    # What COLMAP writes if it knows the position only.
    unknown = (sigma == 1) & (radians == 0)
    return np.where(unknown, np.nan, sigma), np.where(unknown, np.nan, np.rad2deg(radians))


def _array(n: Any, columns: Any, data: Any, dtype: str) -> AnyArray | None:
    """Return stored numbers of four bytes as an array (n, columns), or None if damaged."""
    data = b"" if data is None else data
    if not all(isinstance(count, int) and count >= 0 for count in (n, columns)):
        return None
    if not isinstance(data, bytes) or len(data) != 4 * n * columns:
        return None
    return np.frombuffer(data, dtype).reshape(n, columns)


def _choose_table(database: sqlite3.Connection, verified: bool | None) -> str:
    """Choose the table to read; None takes verified matches if there are any."""
    if verified is False:
        return RAW
    table = _verified_table(database)
    if table and database.execute(f"SELECT 1 FROM {table} WHERE rows != 0 LIMIT 1").fetchone():
        return table
    if verified:
        raise NmfsyncError("contains no verified matches; read the others with verified=False")
    return RAW


def _verified_table(database: sqlite3.Connection) -> str:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    tables = {name for (name,) in database.execute(query)}
    return next((table for table in _VERIFIED if table in tables), "")


def _read_blocks(
    database: sqlite3.Connection,
    table: str,
    ids: tuple[int, ...],
    names: tuple[str, ...],
    sizes: list[int],
) -> Iterator[ImagePair]:
    """Read the matches of every pair of images, one pair at a time."""
    index_of = {image_id: i for i, image_id in enumerate(ids)}
    query = f"SELECT pair_id, rows, cols, data FROM {table} ORDER BY pair_id"
    for pair_id, n, columns, data in database.execute(query):
        if not isinstance(pair_id, int):
            raise NmfsyncError(f"{table} has the pair {shown(repr(pair_id))}, which is no number")
        if n == 0:  # as COLMAP notes that it found none
            continue
        pair = divmod(pair_id, MAX_IMAGES)
        for image_id in pair:
            if image_id not in index_of:
                raise NmfsyncError(
                    f"has matches of images {pair[0]} and {pair[1]}, "
                    f"but there is no image {image_id}"
                )
        i, j = (index_of[image_id] for image_id in pair)
        # COLMAP stores unsigned numbers; read as signed ones, an error message shows -1 as -1.
        stored = _array(n, columns, data, "<i4")
        if stored is None or columns != 2:
            raise NmfsyncError(
                f"the matches of {shown(names[i])} and {shown(names[j])} are damaged"
            )
        block = ImagePair(i, j, stored.astype(np.int64), np.ones(n))
        check_rows(block, names, sizes)
        yield block


def _digest(images: _Images) -> str:
    ids, names, xy = images
    return key_of(ids, names, *xy)


def _check_unchanged(images: _Images, source: ColmapSource) -> None:
    """Raise NmfsyncError if the images or keypoints are not those that matches were read with."""
    if _digest(images) != source.digest:
        raise NmfsyncError(
            "its images or keypoints are not those of these matches; read the matches again"
        )


def _copy_database(source: ColmapSource, copy: Path, added: int) -> None:
    """Copy the database with its pending changes, if it is still the one that was read.

    `added` is the number of bytes that will be written to the copy.
    """
    with open_read_only(source.path) as database:
        _check_integrity(database)
        _check_unchanged(_read_images(database), source)
        _check_cameras(database)
        check_space(copy.parent, _size(database) + added)
        with closing(sqlite3.connect(copy)) as target:
            try:
                database.backup(target)
            except sqlite3.Error as error:
                raise NmfsyncError(
                    f"cannot be copied beside the output ({error}); is the disk full, or the size "
                    "of files limited?"
                ) from None


def _check_cameras(database: sqlite3.Connection) -> None:
    """Raise NmfsyncError if an image has no camera."""
    orphan = database.execute(
        "SELECT name, camera_id FROM images WHERE camera_id NOT IN "
        "(SELECT camera_id FROM cameras) LIMIT 1"
    ).fetchone()
    if orphan:
        name, camera = map(shown, orphan)
        raise NmfsyncError(f"{name} has the camera {camera}, which does not exist")


def change_database(
    path: Path,
    ids: Sequence[int],
    blocks: Sequence[ImagePair],
    verify: bool,
    images: Mapping[str, Any] | None = None,
) -> None:
    """Let COLMAP write the matches of a database, in another process (see `colmap_process`).

    Parameters
    ----------
    path : Path
        A copy that nobody else uses. With `images`, it does not exist and is made.
    ids : sequence of int
        The image ids in the database.
    blocks : sequence of ImagePair
    verify : bool
        Let COLMAP verify the matches.
    images : dict of str to array, optional
        What `colmap_process` needs to know of new images.
    """
    arrays = path.with_suffix(".npz")
    pairs = np.array([(ids[b.i], ids[b.j]) for b in blocks], np.int64).reshape(-1, 2)
    rows = np.concatenate([np.empty((0, 2), np.uint32), *(b.rows for b in blocks)])
    counts = np.array([len(b.rows) for b in blocks], np.int64)
    np.savez(arrays, pairs=pairs, counts=counts, rows=rows.astype(np.uint32), **(images or {}))
    command = [sys.executable, "-P", "-m", "nmfsync.exchange.colmap_process"]
    command += [str(path), str(arrays), "verify" if verify else "keep", str(os.getpid())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=environment,
    ) as process:  # fmt: skip
        try:
            messages = process.stderr.read() if process.stderr else b""
            status = process.wait()
        except BaseException:
            process.kill()
            raise
    if status:
        raise NmfsyncError(f"COLMAP cannot write it ({_last_words(status, messages)})")


def _last_words(status: int, messages: bytes) -> str:
    """Say why a process ended."""
    lines = [line.strip() for line in messages.decode(errors="replace").splitlines()]
    thrown = [line for line in lines if line.startswith("what():")]
    said = (thrown or list(filter(None, lines)) or ["no reason given"])[-1]
    ended = f"{signal.Signals(-status).name}: " if status < 0 else ""
    return shown(ended + said.removeprefix("what():").strip(), 200)


def checkpoint(path: Path) -> None:
    """Move pending changes from the side files into the database itself."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
