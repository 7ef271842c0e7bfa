"""COLMAP databases: read with SQLite alone, written with pycolmap.

pycolmap upgrades every database that it opens, so it only ever opens copies.
"""

import hashlib
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.exchange.blocks import check_rows, choose, to_matches
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import SIDE_FILES, check_target, put, staging
from nmfsync.types.matches import ImagePair, Matches, PairwiseMatches, Source

MAGIC = b"SQLite format 3\0"

MAX_IMAGES = 2147483647  # pair_id = MAX_IMAGES * smaller image id + larger image id

# Pairs of images that COLMAP verifies in one batch. It reacts to Ctrl-C between batches only.
BATCH = 100

VERIFIED, RAW = "two_view_geometries", "matches"  # tables with verified matches and with all

# The kinds of two-view geometry that contain the relative pose of the two cameras.
_GEOMETRIES = ("CALIBRATED", "UNCALIBRATED", "PLANAR", "PANORAMIC", "PLANAR_OR_PANORAMIC")


@dataclass(frozen=True, eq=False)
class ColmapSource(Source):
    """A COLMAP database that matches were read from.

    Attributes
    ----------
    ids : tuple of int, length k
        The image ids in the database, ascending.
    table : str
        The table that the matches were read from: "two_view_geometries" or "matches".
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

    def xy(self) -> list[NDArray[np.float32]]:
        """Positions as `Source.xy` defines them: those stored, minus COLMAP's half pixel."""
        query = (
            "SELECT keypoints.rows, cols, data FROM images LEFT JOIN keypoints USING (image_id) "
            "ORDER BY image_id"
        )
        with _open_read_only(self.path) as database:
            _check_unchanged(database, self)
            return [
                np.frombuffer(data or b"", "<f4").reshape(rows or 0, cols or 2)[:, :2]
                - np.float32(0.5)
                for rows, cols, data in database.execute(query)
            ]


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
        Every match has the weight 1.

    Warns
    -----
    NmfsyncWarning
        If rows were dropped: repeated rows, and all but the first of several
        matches of a feature in the same image.

    Raises
    ------
    NmfsyncError
        If the file is missing, damaged or no COLMAP database, or if matches
        name images or keypoints that do not exist.
    """
    path = Path(path)
    with _open_read_only(path) as database:
        ids, names, sizes = _read_images(database, path)
        table = _choose_table(database, path, verified)
        blocks = list(_read_blocks(database, path, table, ids, names, sizes))
        digest = _digest_of_keypoints(database)
    matches, dropped = to_matches(blocks, sizes)
    if dropped:
        warnings.warn(f"{path}: {dropped}", NmfsyncWarning, stacklevel=3)
    matches.source = ColmapSource(path, names, ids, table, digest)
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
        if it has one. Without a pose they are CALIBRATED if the focal lengths of
        both cameras are known and UNCALIBRATED if not; `mapper` accepts this,
        `global_mapper` does not. None verifies if neither COLMAP nor
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
    source = matches.source
    if not isinstance(source, ColmapSource):
        raise NmfsyncError(
            "these matches do not come from a COLMAP database; "
            "to_colmap needs matches read with PairwiseMatches.from_colmap"
        )
    path = Path(path)
    check_target(path, [source.path], overwrite)
    pycolmap = optional("pycolmap", "colmap")
    if verify is None:
        verify = source.unverified
    blocks = choose(matches, added).by_image_pair()
    with staging(path) as folder:
        copy = folder / "database.db"
        _copy_database(source, copy)
        try:
            with _errors_only(pycolmap):
                _replace_matches(pycolmap, copy, source.ids, blocks, verify)
            _checkpoint(copy)
        except (RuntimeError, ValueError, IndexError, TypeError, sqlite3.Error) as error:
            raise NmfsyncError(f"{source.path}: cannot write a copy: {error}") from None
        put(copy, path)


def count_verified(path: Path) -> tuple[int, int]:
    """Count the verified matches of a database, and the pairs of images that have any."""
    with _open_read_only(path) as database:
        query = f"SELECT coalesce(sum(rows), 0), count(*) FROM {VERIFIED} WHERE rows > 0"
        matches, pairs = database.execute(query).fetchone()
        return matches, pairs


@contextmanager
def _open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database without changing it or creating files beside it."""
    if not path.is_file():
        raise NmfsyncError(f"{path}: no such file")
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise NmfsyncError(f"{path}: not a COLMAP database")
    # A database with pending changes must be read together with its side files. Without pending
    # changes "immutable" keeps SQLite from creating them, which fails in a read-only folder.
    side_files = (path.with_name(path.name + ending) for ending in SIDE_FILES)
    pending = any(file.exists() and file.stat().st_size for file in side_files)
    options = "?mode=ro" if pending else "?mode=ro&immutable=1"
    before = path.stat()
    try:
        with closing(sqlite3.connect(path.resolve().as_uri() + options, uri=True)) as database:
            database.execute("BEGIN")  # all that is read is of one moment
            yield database
        after = path.stat()
        if not pending and (before.st_mtime_ns, before.st_size) != (
            after.st_mtime_ns,
            after.st_size,
        ):
            raise NmfsyncError(f"{path}: has changed while it was used; run again")
    except sqlite3.Error as error:
        raise NmfsyncError(f"{path}: SQLite cannot read or copy this database ({error})") from None


def _read_images(
    database: sqlite3.Connection, path: Path
) -> tuple[tuple[int, ...], tuple[str, ...], list[int]]:
    """Read ids, names and numbers of keypoints of all images, in order of id."""
    rows = database.execute(
        "SELECT image_id, name, rows, cols, length(data) FROM images "
        "LEFT JOIN keypoints USING (image_id) ORDER BY image_id"
    ).fetchall()
    if not rows:
        raise NmfsyncError(f"{path}: contains no images")
    for _, name, n, columns, size in rows:
        if n and (columns not in (2, 4, 6) or size != 4 * n * columns):
            raise NmfsyncError(
                f"{path}: the keypoints of {name} are damaged: "
                f"{n} rows of {columns} columns in {size} bytes"
            )
    ids, names, sizes, *_ = zip(*rows, strict=True)
    return ids, names, [n or 0 for n in sizes]


def _choose_table(database: sqlite3.Connection, path: Path, verified: bool | None) -> str:
    """Choose the table to read; None takes verified matches if there are any."""
    if verified is False:
        return RAW
    if database.execute(f"SELECT 1 FROM {VERIFIED} WHERE rows > 0 LIMIT 1").fetchone():
        return VERIFIED
    if verified:
        raise NmfsyncError(
            f"{path}: contains no verified matches; read the others with verified=False"
        )
    return RAW


def _read_blocks(
    database: sqlite3.Connection,
    path: Path,
    table: str,
    ids: tuple[int, ...],
    names: tuple[str, ...],
    sizes: list[int],
) -> Iterator[ImagePair]:
    """Read the matches of every pair of images, one pair at a time."""
    index_of = {image_id: i for i, image_id in enumerate(ids)}
    query = f"SELECT pair_id, rows, cols, data FROM {table} WHERE rows > 0 ORDER BY pair_id"
    for pair_id, n, columns, data in database.execute(query):
        pair = divmod(pair_id, MAX_IMAGES)
        for image_id in pair:
            if image_id not in index_of:
                raise NmfsyncError(
                    f"{path}: has matches of images {pair[0]} and {pair[1]}, "
                    f"but there is no image {image_id}"
                )
        i, j = (index_of[image_id] for image_id in pair)
        if columns != 2 or len(data or b"") != 8 * n:
            raise NmfsyncError(f"{path}: the matches of {names[i]} and {names[j]} are damaged")
        # COLMAP stores unsigned numbers; read as signed ones, an error message shows -1 as -1.
        rows = np.frombuffer(data, "<i4").reshape(n, 2).astype(np.int64)
        block = ImagePair(i, j, rows, np.ones(n))
        check_rows(path, block, names, sizes)
        yield block


def _digest_of_keypoints(database: sqlite3.Connection) -> str:
    """Digest ids, names and keypoints of all images."""
    query = (
        "SELECT image_id, name, rows, cols, data FROM images "
        "LEFT JOIN keypoints USING (image_id) ORDER BY image_id"
    )
    hashed = hashlib.sha256()
    for *numbers, data in database.execute(query):
        hashed.update(repr(numbers).encode())
        hashed.update(data if isinstance(data, bytes) else repr(data).encode())
    return hashed.hexdigest()


def _check_unchanged(database: sqlite3.Connection, source: ColmapSource) -> None:
    """Raise NmfsyncError if the images or keypoints are not those that matches were read with."""
    if _digest_of_keypoints(database) != source.digest:
        raise NmfsyncError(
            f"{source.path}: its images or keypoints are not those of these matches; "
            "read the matches again"
        )


def _copy_database(source: ColmapSource, copy: Path) -> None:
    """Copy the database with its pending changes, if it is still the one that was read."""
    with _open_read_only(source.path) as database:
        _check_unchanged(database, source)
        _check_cameras(database, source.path)
        with closing(sqlite3.connect(copy)) as target:
            database.backup(target)


def _check_cameras(database: sqlite3.Connection, path: Path) -> None:
    """Raise NmfsyncError if an image has no camera."""
    orphan = database.execute(
        "SELECT name, camera_id FROM images WHERE camera_id NOT IN "
        "(SELECT camera_id FROM cameras) LIMIT 1"
    ).fetchone()
    if orphan:
        raise NmfsyncError(f"{path}: {orphan[0]} has the camera {orphan[1]}, which does not exist")


def _replace_matches(
    pycolmap: Any, path: Path, ids: tuple[int, ...], blocks: Iterator[ImagePair], verify: bool
) -> None:
    """Replace all matches of a database, and its two-view geometries.

    With `verify` COLMAP estimates new geometries; otherwise a pair keeps its old one.
    """
    with closing(pycolmap.Database.open(path)) as database:
        old = {} if verify else dict(zip(*database.read_two_view_geometries(), strict=True))
        calibrated = _calibrated(database)
        with pycolmap.DatabaseTransaction(database):
            database.clear_matches()
            database.clear_two_view_geometries()
            for i, j, rows, _ in blocks:
                pair = ids[i], ids[j]
                features = rows.astype(np.uint32)
                database.write_matches(*pair, features)
                if not verify:
                    geometry = _geometry(pycolmap, old, pair, calibrated)
                    geometry.inlier_matches = features
                    database.write_two_view_geometry(*pair, geometry)
    if verify:
        _verify(pycolmap, path)


def _calibrated(database: Any) -> set[int]:
    """Return the ids of the images whose camera has a known focal length, not a guessed one."""
    cameras = {c.camera_id for c in database.read_all_cameras() if c.has_prior_focal_length}
    return {image.image_id for image in database.read_all_images() if image.camera_id in cameras}


def _geometry(
    pycolmap: Any, old: dict[int, Any], pair: tuple[int, int], calibrated: set[int]
) -> Any:
    """Return the old two-view geometry of a pair, or else one that COLMAP's mapper accepts."""
    kinds = pycolmap.TwoViewGeometryConfiguration
    geometry = old.get(MAX_IMAGES * pair[0] + pair[1])
    if geometry is None or kinds(int(geometry.config)).name not in _GEOMETRIES:
        geometry = pycolmap.TwoViewGeometry()
        geometry.config = kinds.CALIBRATED if calibrated.issuperset(pair) else kinds.UNCALIBRATED
    return geometry


def _verify(pycolmap: Any, path: Path) -> None:
    """Let COLMAP verify all matches of a database, with a fixed seed."""
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    batches = pycolmap.ExistingMatchedPairingOptions()
    batches.batch_size = BATCH
    # Not verify_matches, whose file of pairs cannot contain names with spaces.
    pycolmap.geometric_verification(
        path, pairing_options=batches, two_view_geometry_options=options
    )


@contextmanager
def _errors_only(pycolmap: Any) -> Iterator[None]:
    """Let pycolmap log errors only."""
    level = pycolmap.logging.minloglevel
    pycolmap.logging.minloglevel = 2
    try:
        yield
    finally:
        pycolmap.logging.minloglevel = level


def _checkpoint(path: Path) -> None:
    """Move pending changes from the side files into the database itself."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
