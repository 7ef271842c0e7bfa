"""Read a file of matches of any known format; its content decides the format, not its name."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nmfsync.errors import NmfsyncError
from nmfsync.exchange import colmap, hloc
from nmfsync.runtime.files import reading
from nmfsync.types.matches import Matches, PairwiseMatches


class Format(NamedTuple):
    """A file format of matches.

    Attributes
    ----------
    name : str
        Its name in messages.
    magic : bytes
        The bytes that its files start with.
    endings : tuple of str
        The endings that names of its files may have, the usual one first.
    write : callable
        (matches, path) -> None: writes matches that were read from such a file.
    write_part : callable
        (matches, path, part) -> None: copies the file that matches were read from, with no
        others of them than `part`, and else unchanged.
    """

    name: str
    magic: bytes
    endings: tuple[str, ...]
    write: Callable[[Matches, Path], None]
    write_part: Callable[[PairwiseMatches, Path, PairwiseMatches], None]


COLMAP = Format(
    "a COLMAP database",
    colmap.MAGIC,
    (".db",),
    lambda matches, path: matches.to_colmap(path, added="all"),
    colmap.write_colmap_part,
)

HLOC = Format(
    "an HDF5 file",
    hloc.MAGIC,
    (".h5", ".hdf5"),
    lambda matches, path: matches.to_hloc(path, added="all"),
    hloc.write_hloc_part,
)

NPZ = Format(
    "an .npz file",
    b"PK",
    (".npz",),
    lambda matches, path: matches.save(path),
    lambda _matches, path, part: part.save(path),
)


def format_of(path: Path) -> Format:
    """Return the format of a file.

    Raises
    ------
    NmfsyncError
        If the file does not exist, or its format is none of the three.
    """
    with reading(path, "cannot be read"), path.open("rb") as file:
        start = file.read(16)
    for kind in (COLMAP, HLOC, NPZ):
        if start.startswith(kind.magic):
            return kind
    raise NmfsyncError(
        f"{path}: not a matches file: neither {COLMAP.name}, nor {HLOC.name}, nor {NPZ.name}"
    )


def read_matches(
    path: Path, features: Path | None = None, verified: bool | None = None
) -> PairwiseMatches:
    """Read a file of matches of any known format.

    Parameters
    ----------
    path : Path
    features : Path, optional
        The file of features that matches of hloc belong to; required for these,
        not allowed for other formats.
    verified : bool, optional
        For a COLMAP database, see `PairwiseMatches.from_colmap`.

    Returns
    -------
    PairwiseMatches

    Raises
    ------
    NmfsyncError
        If the file cannot be used, or `features` is missing or not allowed.
    """
    kind = format_of(path)
    if kind is HLOC:
        if features is None:
            raise NmfsyncError(
                f"{path}: {kind.name}; name the file of features that belongs to it with --features"
            )
        return PairwiseMatches.from_hloc(path, features)
    if features is not None:
        raise NmfsyncError(
            f"{path}: {kind.name}; --features is for HDF5 files of hloc only, leave it out"
        )
    if kind is COLMAP:
        return PairwiseMatches.from_colmap(path, verified)
    return PairwiseMatches.load(path)
