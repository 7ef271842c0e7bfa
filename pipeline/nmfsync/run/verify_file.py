"""A file of matches verified geometrically: what `nmfsync verify` does."""

from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.exchange.formats import NPZ, format_of
from nmfsync.run.matches_file import SynchronisedFile, synchronise_file
from nmfsync.run.settings import EVIDENCE


def verify_file(
    path: Path | str,
    out: Path | str,
    features: Path | str | None = None,
    geometry: str = "fundamental",
    overwrite: bool = False,
    progress: bool = False,
    images: Path | str | None = None,
    command: str = "Python: verify_file",
    match: bool = False,
    evidence: float = EVIDENCE,
) -> SynchronisedFile:
    """Keep the matches of a file that agree with one geometry, and write a file of the same format.

    As `synchronise_file`, without synchronisation: the parameters are those of that
    function, and there are no tracks. All matches of a COLMAP database are
    verified, not only those that COLMAP has verified.

    Returns
    -------
    SynchronisedFile
        `result` contains the verified matches.

    Raises
    ------
    NmfsyncError
        As `synchronise_file`; also for an `.npz` file, which has no positions.
    """
    if format_of(Path(path)) is NPZ:
        raise NmfsyncError(
            f"{path}: {NPZ.name} has no positions, so its matches cannot be verified"
        )
    return synchronise_file(
        path,
        out,
        features,
        method=None,
        geometry=geometry,
        overwrite=overwrite,
        progress=progress,
        images=images,
        command=command,
        match=match,
        evidence=evidence,
    )
