"""A file of detector-free matches made into shared keypoints and tracks: `nmfsync merge`."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nmfsync.errors import NmfsyncError
from nmfsync.exchange.formats import COLMAP, HLOC, format_of
from nmfsync.exchange.new_database import NewImage, write_new_database
from nmfsync.exchange.new_hloc import HLOC_FILES, check_hloc_names, write_new_hloc
from nmfsync.exchange.photographs import files_below
from nmfsync.exchange.positions import read_positions
from nmfsync.exchange.stored_cameras import stored_cameras
from nmfsync.matching.merging import Merged, merge, verify_positions
from nmfsync.matching.options import check_geometry
from nmfsync.run.image_pairs import without_wrong_pairs
from nmfsync.run.new_images import new_images
from nmfsync.runtime.files import check_target
from nmfsync.types.arrays import Float32Array
from nmfsync.types.matches import PairwiseMatches, StoredKeypoints
from nmfsync.types.positions import PositionMatches


@dataclass(frozen=True)
class MergedFile:
    """What `merge_file` wrote.

    Attributes
    ----------
    path : Path
        The COLMAP database, or the folder of hloc's files.
    images : int
    pairs, pairs_kept : int
        Pairs of images in the file that was read, and those that were written.
    observations, observations_kept : int
        Positions in it, two of every match, and those of verified matches.
    places : int
        Different ones of the latter.
    keypoints, tracks, matches : int
        Keypoints in all images, which all are in a track; and matches of them.
    contradictions : int
        Places left out of tracks, as most matches that lead there end elsewhere in the image.
    radius : float
        Places nearer than this are one keypoint, in pixels.
    look_alikes : int
        Pairs of images that were left out as they show different places.
    """

    path: Path
    images: int
    pairs: int
    pairs_kept: int
    observations: int
    observations_kept: int
    places: int
    keypoints: int
    tracks: int
    matches: int
    contradictions: int
    radius: float
    look_alikes: int


def merge_file(
    path: Path | str,
    out: Path | str,
    images: Path | str,
    radius: float | None = None,
    geometry: str = "fundamental",
    disambiguate: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> MergedFile:
    """Make shared keypoints of matches whose positions belong to pairs of images.

    The matches of every pair are verified, and merged into tracks with one keypoint of an
    image. What is written is what a mapper reads at once.

    Parameters
    ----------
    path : Path or str
        See `nmfsync.exchange.positions`.
    out : Path or str
        A COLMAP database to write, if its name ends in .db; else a folder for hloc's files.
    images : Path or str
        The folder of the photographs.
    radius : float, optional
        As for `merge`.
    geometry : str
        What the matches of two images must agree with, see `verify`.
    disambiguate : bool
        Leave out pairs of images that show different places which look alike.
    overwrite : bool
        Replace what exists.
    progress : bool
        Show a progress bar for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    MergedFile

    Warns
    -----
    NmfsyncWarning
        As `read_positions`.

    Raises
    ------
    NmfsyncError
        If the file or a photograph cannot be used, or an output exists.
    """
    path, out, folder = Path(path), Path(out), Path(images)
    _check(path, out, geometry, radius, overwrite)
    found = read_positions(path, sorted(files_below(folder)) if format_of(path) is HLOC else ())
    new = _photographs(found, folder)
    if not _is_database(out):
        check_hloc_names([image.name for image in new])
    pairs = verify_positions(found.pairs, geometry)
    if not pairs:
        raise NmfsyncError(
            f"{path}: no pair of images has matches that agree with one {geometry} matrix"
        )
    verified = replace(found, pairs=tuple(pairs))
    merged = merge(pairs, len(found.names), radius, progress)
    new = [
        replace(image, keypoints=_keypoints(xy, image.size))
        for image, xy in zip(new, merged.xy, strict=True)
    ]
    matches, wrong = _matches_of(merged), 0
    if disambiguate:
        matches, verdicts = without_wrong_pairs(matches, [i.keypoints for i in new], progress)
        wrong = sum(not verdict.right for verdict in verdicts)
    if _is_database(out):
        write_new_database(out, new, matches, overwrite=overwrite)
    else:
        write_new_hloc(out, new, matches, overwrite)
    return MergedFile(
        path=out,
        images=len(new),
        pairs=len(found.pairs),
        pairs_kept=len(merged.rows) - wrong,
        observations=2 * found.match_count,
        observations_kept=2 * verified.match_count,
        places=sum(len(np.unique(xy, axis=0)) for xy in verified.of_images()),
        keypoints=sum(map(len, merged.xy)),
        tracks=1 + max((int(t.max(initial=-1)) for t in merged.track), default=-1),
        matches=matches.match_count,
        contradictions=merged.contradictions,
        radius=merged.radius,
        look_alikes=wrong,
    )


def _check(path: Path, out: Path, geometry: str, radius: float | None, overwrite: bool) -> None:
    check_geometry(geometry)
    if radius is not None and not radius > 0:
        raise NmfsyncError(f"--radius must be greater than 0 pixels, got {radius:g}")
    if not _is_database(out) and out.suffix.lower() in HLOC.endings:
        raise NmfsyncError(
            f"{out}: hloc has features and matches in two files; name a folder for them, or a "
            "COLMAP database, FILE.db"
        )
    for target in [out] if _is_database(out) else [out / name for name in HLOC_FILES]:
        check_target(target, [path], overwrite)


def _is_database(out: Path) -> bool:
    return out.suffix.lower() in COLMAP.endings


def _photographs(found: PositionMatches, folder: Path) -> list[NewImage]:
    """Return the images of a file; their keypoints are the positions, until these are merged."""
    cameras = stored_cameras(found.path) if format_of(found.path) is COLMAP else {}
    keypoints = [_keypoints(positions, None) for positions in found.of_images()]
    return new_images(found.names, keypoints, folder, cameras)


def _keypoints(xy: Float32Array, size: tuple[int, int] | None) -> StoredKeypoints:
    """Keypoints of which only the positions are known."""
    n = len(xy)
    return StoredKeypoints(xy, np.zeros(n, np.float32), np.full(n, np.nan, np.float32), size)


def _matches_of(merged: Merged) -> PairwiseMatches:
    sizes = [len(xy) for xy in merged.xy]
    matches = PairwiseMatches.from_pairs(merged.rows, sizes, merged.scores)
    matches.scored = True
    return matches
