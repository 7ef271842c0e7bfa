"""What every command that takes a file of matches and writes one does first."""

from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.exchange.formats import COLMAP, HLOC, NPZ, Format, format_of
from nmfsync.matching.verification import verify
from nmfsync.runtime.files import sha256_of
from nmfsync.types.matches import PairwiseMatches, Source


def output_format(path: Path, out: Path, database: bool = False) -> Format:
    """Return the format of a file of matches, in which `out` is going to be written.

    With `database`, `out` may also be a COLMAP database for matches of hloc.

    Raises
    ------
    NmfsyncError
        If the file has no known format, or the name of `out` is not one for it.
    """
    kind = format_of(path)
    if database and is_new_database(kind, out):
        return kind
    if out.suffix.lower() not in kind.endings:
        raise NmfsyncError(f"{out}: the name must end in {kind.endings[0]}: {path} is {kind.name}")
    return kind


def is_new_database(kind: Format, out: Path) -> bool:
    """Whether matches of hloc are to be written to a COLMAP database, which is a new one."""
    return kind is HLOC and out.suffix.lower() in COLMAP.endings


def check_photographs(path: Path, kind: Format, images: Path | str | None) -> None:
    """Raise NmfsyncError if photographs are given for a file without positions."""
    if images is not None and kind is NPZ:
        raise NmfsyncError(f"{path}: an .npz file has no positions to show on photographs; "
                           "leave out --images")  # fmt: skip


def digests_of(path: Path, features: Path | None) -> dict[str, str]:
    """Return the SHA-256 of the input files, by name."""
    found = {path.name: sha256_of(path)}
    return (
        found if features is None else {**found, f"features: {features.name}": sha256_of(features)}
    )


def verified(
    path: Path, matches: PairwiseMatches, geometry: str | None, progress: bool
) -> PairwiseMatches:
    """Return the matches that agree with a geometry, see `verify`; all without a geometry."""
    if geometry is None:
        return matches
    source = source_of(path, matches, "its matches cannot be verified; leave out --verify")
    keypoints = source.keypoints()
    sizes = [image.image_size for image in keypoints]
    return verify(matches, [image.xy for image in keypoints], geometry, progress, sizes=sizes)


def source_of(path: Path, matches: PairwiseMatches, therefore: str) -> Source:
    """Return where matches come from; a file without positions is an NmfsyncError."""
    if matches.source is None:
        raise NmfsyncError(f"{path}: an .npz file has no positions, so {therefore}")
    return matches.source
