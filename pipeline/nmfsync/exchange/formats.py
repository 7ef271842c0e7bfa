"""Files of matches of any known format: their content decides, not their name."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nmfsync.errors import NmfsyncError
from nmfsync.exchange import colmap, hloc
from nmfsync.types.matches import Matches, PairwiseMatches


class Format(NamedTuple):
    """A format of matches: how its files begin, how their names end, and how to write them."""

    name: str
    magic: bytes
    endings: tuple[str, ...]
    write: Callable[[Matches, Path], None]


COLMAP = Format(
    "a COLMAP database",
    colmap.MAGIC,
    (".db",),
    lambda matches, path: matches.to_colmap(path, added="all"),
)
HLOC = Format(
    "an HDF5 file",
    hloc.MAGIC,
    (".h5", ".hdf5"),
    lambda matches, path: matches.to_hloc(path, added="all"),
)
NPZ = Format("an .npz file", b"PK", (".npz",), lambda matches, path: matches.save(path))


def format_of(path: Path) -> Format:
    """Return the format of a file.

    Raises
    ------
    NmfsyncError
        If there is no such file, or it has another format.
    """
    if not path.is_file():
        raise NmfsyncError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}")
    with path.open("rb") as file:
        start = file.read(16)
    for known in (COLMAP, HLOC, NPZ):
        if start.startswith(known.magic):
            return known
    raise NmfsyncError(
        f"{path}: not a matches file: neither {COLMAP.name}, nor {HLOC.name}, nor {NPZ.name}"
    )


def read_matches(
    path: Path, features: Path | None = None, verified: bool | None = None
) -> PairwiseMatches:
    """Read a file of any format; that of hloc needs its file of features, the others none.

    `verified` is for a COLMAP database, see `PairwiseMatches.from_colmap`.

    Raises
    ------
    NmfsyncError
        If the file cannot be used, or `features` is missing or too much.
    """
    kind = format_of(path)
    if (features is not None) != (kind is HLOC):
        need = "needs" if kind is HLOC else "needs no"
        raise NmfsyncError(f"{path}: {kind.name} of matches {need} --features")
    if kind is COLMAP:
        return PairwiseMatches.from_colmap(path, verified)
    if features is not None:
        return PairwiseMatches.from_hloc(path, features)
    return PairwiseMatches.load(path)
