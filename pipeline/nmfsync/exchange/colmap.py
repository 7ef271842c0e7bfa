"""COLMAP databases: read with SQLite alone, written by pycolmap.

pycolmap upgrades whatever it opens, so it gets to see copies only.
"""

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

MAX_IMAGES = 2147483647  # pair_id = MAX_IMAGES * smaller id + larger id

BATCH = 100  # pairs of images: COLMAP heeds Ctrl-C between two batches

VERIFIED, RAW = "two_view_geometries", "matches"

# The kinds of two-view geometry that say how the two cameras stand to each other.
_GEOMETRIES = ("CALIBRATED", "UNCALIBRATED", "PLANAR", "PANORAMIC", "PLANAR_OR_PANORAMIC")


@dataclass(frozen=True, eq=False)
class ColmapSource(Source):
    """A COLMAP database.

    Attributes
    ----------
    ids : tuple of int, length k
        The image ids there, ascending.
    table : str
        Where the matches were read: "two_view_geometries" or "matches".
    """

    ids: tuple[int, ...]
    table: str

    @property
    def unverified(self) -> bool:
        """Whether nobody has verified the matches yet."""
        return self.table == RAW and not self.verified

    def xy(self) -> list[NDArray[np.float32]]:
        """Positions in pixels as `Source.xy` says: those stored, less COLMAP's half pixel."""
        query = (
            "SELECT keypoints.rows, cols, data FROM images LEFT JOIN keypoints USING (image_id) "
            "ORDER BY image_id"
        )
        with _reading(self.path) as database:
            return [
                np.frombuffer(data or b"", "<f4").reshape(rows or 0, cols or 2)[:, :2]
                - np.float32(0.5)
                for rows, cols, data in database.execute(query)
            ]


def read_colmap(path: Path | str, verified: bool | None = None) -> PairwiseMatches:
    """Read the matches of a COLMAP database, which stays as it is.

    Images are in order of image id, and an image without keypoints has 0
    features. `source` remembers names and ids.

    Parameters
    ----------
    path : Path or str
    verified : bool, optional
        Read the verified matches (`two_view_geometries`) or all (`matches`).
        None reads the verified ones if there are any in the database.

    Returns
    -------
    PairwiseMatches
        Every match has the weight 1.

    Warns
    -----
    NmfsyncWarning
        If rows were dropped: repeated ones, and all but the first of those
        that match a feature twice in one image.

    Raises
    ------
    NmfsyncError
        If the file is missing, no COLMAP database or damaged, or matches
        name images or keypoints that do not exist.
    """
    path = Path(path)
    with _reading(path) as database:
        ids, names, sizes = _images(database, path)
        table = _table(database, path, verified)
        blocks = list(_blocks(database, path, table, ids, names, sizes))
    matches, dropped = to_matches(blocks, sizes)
    if dropped:
        warnings.warn(f"{path}: {dropped}", NmfsyncWarning, stacklevel=3)
    matches.source = ColmapSource(path, names, ids, table)
    return matches


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that nothing changes, not even beside it."""
    if not path.is_file():
        raise NmfsyncError(f"{path}: no such file")
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise NmfsyncError(f"{path}: not a COLMAP database")
    # A database with pending changes must be read with its side files. Without any, SQLite
    # need not make them, which would fail in a folder that is read only.
    beside = (path.with_name(path.name + ending) for ending in SIDE_FILES)
    pending = any(side.exists() and side.stat().st_size for side in beside)
    options = "?mode=ro" if pending else "?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(path.resolve().as_uri() + options, uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise NmfsyncError(f"{path}: SQLite cannot read or copy it ({error})") from None


def _images(
    database: sqlite3.Connection, path: Path
) -> tuple[tuple[int, ...], tuple[str, ...], list[int]]:
    """Ids, names and numbers of keypoints, in order of id."""
    rows = database.execute(
        "SELECT image_id, name, rows, cols, length(data) FROM images "
        "LEFT JOIN keypoints USING (image_id) ORDER BY image_id"
    ).fetchall()
    if not rows:
        raise NmfsyncError(f"{path}: holds no images")
    for _, name, n, columns, size in rows:
        if n and (columns not in (2, 4, 6) or size != 4 * n * columns):
            raise NmfsyncError(
                f"{path}: the keypoints of {name} are damaged: "
                f"{n} rows of {columns} columns in {size} bytes"
            )
    ids, names, sizes, *_ = zip(*rows, strict=True)
    return ids, names, [n or 0 for n in sizes]


def _table(database: sqlite3.Connection, path: Path, verified: bool | None) -> str:
    if verified is False:
        return RAW
    if database.execute(f"SELECT 1 FROM {VERIFIED} WHERE rows > 0 LIMIT 1").fetchone():
        return VERIFIED
    if verified:
        raise NmfsyncError(f"{path}: holds no verified matches; read the others (verified=False)")
    return RAW


def _blocks(
    database: sqlite3.Connection,
    path: Path,
    table: str,
    ids: tuple[int, ...],
    names: tuple[str, ...],
    sizes: list[int],
) -> Iterator[ImagePair]:
    place = {image_id: i for i, image_id in enumerate(ids)}
    query = f"SELECT pair_id, rows, cols, data FROM {table} WHERE rows > 0 ORDER BY pair_id"
    for pair_id, n, columns, data in database.execute(query):
        pair = divmod(pair_id, MAX_IMAGES)
        for image_id in pair:
            if image_id not in place:
                raise NmfsyncError(
                    f"{path}: matches of images {pair[0]} and {pair[1]}, "
                    f"but there is no image {image_id}"
                )
        i, j = (place[image_id] for image_id in pair)
        if columns != 2 or len(data or b"") != 8 * n:
            raise NmfsyncError(f"{path}: the matches of {names[i]} and {names[j]} are damaged")
        # As signed numbers, so that a -1 is called -1.
        rows = np.frombuffer(data, "<i4").reshape(n, 2).astype(np.int64)
        block = ImagePair(i, j, rows, np.ones(n))
        check_rows(path, block, names, sizes)
        yield block


def write_colmap(
    matches: Matches,
    path: Path | str,
    verify: bool | None = None,
    added: str = "none",
    overwrite: bool = False,
) -> None:
    """Write the COLMAP database that they come from, with these matches in place of its own.

    Everything else stays as it is, and so does the original. Needs
    `pip install 'nmfsync[colmap]'`.

    Parameters
    ----------
    path : Path or str
    verify : bool, optional
        Let COLMAP verify the matches, with a fixed seed, which makes the
        two-view geometries that its mappers read. Otherwise these hold the
        matches as they are: with the geometry of the original where it has
        one, else without any, as CALIBRATED if the focal lengths of both
        cameras are known there and UNCALIBRATED if not. `mapper` can do with
        that, `global_mapper` cannot do without the geometry. None: only if they
        have not been verified yet, by COLMAP or by `verification.verify`.
    added : str
        Which of the matches that synchronising added to write: "none",
        those between images that are "matched" already, or "all".
    overwrite : bool
        Replace `path` if it exists.

    Raises
    ------
    NmfsyncError
        If the matches come from elsewhere (`source`), the original is not
        what it was, or `path` is the original or exists.
    """
    source = matches.source
    if not isinstance(source, ColmapSource):
        raise NmfsyncError("these matches do not come from PairwiseMatches.from_colmap")
    path = Path(path)
    check_target(path, [source.path], overwrite)
    pycolmap = optional("pycolmap", "colmap")
    if verify is None:
        verify = source.unverified
    blocks = choose(matches, added).by_image_pair()
    with staging(path) as folder:
        copy = folder / "database.db"
        _copy(source, matches.sizes.tolist(), copy)
        try:
            with _quiet(pycolmap):
                _replace_matches(pycolmap, copy, source.ids, blocks, verify)
            _settle(copy)
        except (RuntimeError, ValueError, IndexError, TypeError, sqlite3.Error) as error:
            raise NmfsyncError(f"{source.path}: its copy cannot be written: {error}") from None
        put(copy, path)


def _copy(source: ColmapSource, sizes: list[int], copy: Path) -> None:
    """Copy the database, pending changes and all, if it is still the one that was read."""
    with _reading(source.path) as database:
        ids, names, now = _images(database, source.path)
        if (ids, names, now) != (source.ids, source.names, sizes):
            raise NmfsyncError(
                f"{source.path}: its images or keypoints are not those of these matches (any more)"
            )
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
        raise NmfsyncError(f"{path}: {orphan[0]} has the camera {orphan[1]}, which is not there")


def _replace_matches(
    pycolmap: Any, path: Path, ids: tuple[int, ...], blocks: Iterator[ImagePair], verify: bool
) -> None:
    with closing(pycolmap.Database.open(path)) as database:
        known = {} if verify else dict(zip(*database.read_two_view_geometries(), strict=True))
        calibrated = _calibrated(database)
        with pycolmap.DatabaseTransaction(database):
            database.clear_matches()
            database.clear_two_view_geometries()
            for i, j, rows, _ in blocks:
                pair = ids[i], ids[j]
                features = rows.astype(np.uint32)
                database.write_matches(*pair, features)
                if not verify:
                    geometry = _geometry(pycolmap, known, pair, calibrated)
                    geometry.inlier_matches = features
                    database.write_two_view_geometry(*pair, geometry)
    if verify:
        options = pycolmap.TwoViewGeometryOptions()
        options.ransac.random_seed = 0
        batches = pycolmap.ExistingMatchedPairingOptions()
        batches.batch_size = BATCH
        # Not verify_matches: its file of pairs cannot hold names with spaces.
        pycolmap.geometric_verification(
            path, pairing_options=batches, two_view_geometry_options=options
        )


def _calibrated(database: Any) -> set[int]:
    """Ids of the images whose camera has a focal length that is more than a guess."""
    known = {c.camera_id for c in database.read_all_cameras() if c.has_prior_focal_length}
    return {image.image_id for image in database.read_all_images() if image.camera_id in known}


def _geometry(
    pycolmap: Any, known: dict[int, Any], pair: tuple[int, int], calibrated: set[int]
) -> Any:
    """Take the geometry that the database has for a pair, or one that the mapper accepts."""
    kinds = pycolmap.TwoViewGeometryConfiguration
    geometry = known.get(MAX_IMAGES * pair[0] + pair[1])
    if geometry is None or kinds(int(geometry.config)).name not in _GEOMETRIES:
        geometry = pycolmap.TwoViewGeometry()
        geometry.config = kinds.CALIBRATED if calibrated.issuperset(pair) else kinds.UNCALIBRATED
    return geometry


@contextmanager
def _quiet(pycolmap: Any) -> Iterator[None]:
    """Let pycolmap say only what is an error."""
    level = pycolmap.logging.minloglevel
    pycolmap.logging.minloglevel = 2
    try:
        yield
    finally:
        pycolmap.logging.minloglevel = level


def _settle(path: Path) -> None:
    """Put everything that SQLite holds beside the database into it."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def count_verified(path: Path) -> tuple[int, int]:
    """Count the verified matches of a database, and the pairs of images that have some."""
    with _reading(path) as database:
        query = f"SELECT coalesce(sum(rows), 0), count(*) FROM {VERIFIED} WHERE rows > 0"
        matches, pairs = database.execute(query).fetchone()
        return matches, pairs
