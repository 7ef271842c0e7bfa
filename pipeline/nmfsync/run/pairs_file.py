"""A file of matches without look-alike pairs of images: what `nmfsync pairs` does."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmfsync.errors import NmfsyncWarning, collected_warnings
from nmfsync.exchange.formats import read_matches
from nmfsync.exchange.pairs_table import write_pairs
from nmfsync.matching.options import check_geometry
from nmfsync.report.estimates import names_of
from nmfsync.report.pairs_page import shown_images, write_pairs_report
from nmfsync.report.photographs import photographs as encode
from nmfsync.run.image_pairs import not_verified, without_wrong_pairs
from nmfsync.run.matches_input import (
    check_photographs,
    digests_of,
    output_format,
    source_of,
    verified,
)
from nmfsync.run.matches_viewer import Photographs
from nmfsync.runtime.provenance import Clock
from nmfsync.runtime.publish import publication_beside
from nmfsync.types.matches import PairwiseMatches, StoredKeypoints
from nmfsync.types.verdicts import PairVerdict

_PHOTOGRAPH = 30_000  # bytes of a photograph on the page, which is shown small


@dataclass(frozen=True)
class DisambiguatedFile:
    """What `disambiguate_file` wrote.

    Attributes
    ----------
    path, table, report : Path
        The file of matches, the table of all pairs of images, and the page about them.
    matches : PairwiseMatches
        Those of the right pairs of images.
    verdicts : list of PairVerdict
        On every pair of images that had matches, in order of i, then j.
    behind : int
        Matches that were left out before, as they lie behind the cameras.
    """

    path: Path
    table: Path
    report: Path
    matches: PairwiseMatches
    verdicts: list[PairVerdict]
    behind: int = 0


def disambiguate_file(
    path: Path | str,
    out: Path | str,
    features: Path | str | None = None,
    geometry: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
    images: Path | str | None = None,
    command: str = "Python: disambiguate_file",
) -> DisambiguatedFile:
    """Leave out the matches of look-alike pairs of images, and write a file of the same format.

    Beside `out` go a table of all pairs and a report; their names are that of `out` with
    `.pairs.csv` and `.report.html` after it. All are prepared aside and put in place together at
    the end. What is not about a wrong pair is copied unchanged, two-view geometries included.

    Parameters
    ----------
    path : Path or str
        A COLMAP database or matches of hloc. The matches should be verified.
    out : Path or str
    features : Path or str, optional
        The features that matches of hloc belong to.
    geometry : str, optional
        First keep only matches of two images that agree with one "fundamental" matrix or
        "homography", see `verify`; these are then what is written. Otherwise those that COLMAP
        verified are judged if there are any.
    overwrite : bool
        Replace what exists.
    progress : bool
        Show progress bars for what takes more than some seconds, if stderr is a terminal.
    images : Path or str, optional
        The folder of the photographs, for the report, see `synchronise_file`.
    command : str
        What the provenance says was called.

    Returns
    -------
    DisambiguatedFile

    Warns
    -----
    NmfsyncWarning
        What reading and verification warn of, and if the matches are not verified.

    Raises
    ------
    NmfsyncError
        If the file cannot be used, has no positions, an option is not valid, or an output exists.
    """
    clock, path, out = Clock(), Path(path), Path(out)
    features = None if features is None else Path(features)
    kind = output_format(path, out)
    table, report = (out.with_name(out.name + end) for end in (".pairs.csv", ".report.html"))
    if geometry is not None:
        check_geometry(geometry)
    check_photographs(path, kind, images)
    inputs = [path, *([features] if features else [])]
    with publication_beside((out, table, report), inputs, overwrite) as folder:
        with collected_warnings() as texts:
            reading = Clock()
            matches = read_matches(path, features, verified=False if geometry else None)
            source_of(path, matches, "its pairs of images cannot be judged")
            usable = verified(path, matches, geometry, progress)
            source = source_of(path, usable, "")
            keypoints = source.keypoints()
            photographs = Photographs(source, images)
            digests = digests_of(path, features)
            read, working = reading.costs("reading and verification"), Clock()
            kept, verdicts = without_wrong_pairs(usable, keypoints, progress)
            worked = working.costs("synchronisation and verdicts")
            behind = usable.match_count - sum(verdict.matches for verdict in verdicts)
            if geometry:
                kind.write(kept, folder / out.name)
            else:
                kind.write_part(matches, folder / out.name, kept)
        texts += not_verified(source)
        pictures = _photographs(photographs, keypoints, verdicts) if images else {}
        texts += photographs.warnings
        names = names_of(usable)
        write_pairs(folder / table.name, verdicts, source.names)
        write_pairs_report(
            folder / report.name,
            (path.name, out.name, table.name),
            verdicts,
            names,
            behind,
            pictures,
            texts,
            clock.provenance(command, digests, [read, worked]),
        )
    for text in texts:
        warnings.warn(text, NmfsyncWarning, stacklevel=2)
    return DisambiguatedFile(out, table, report, kept, verdicts, behind)


def _photographs(
    photographs: Photographs, keypoints: Sequence[StoredKeypoints], verdicts: Sequence[PairVerdict]
) -> dict[int, str]:
    """Return the photographs that the page shows, small, by number of the image."""
    chosen = shown_images(verdicts)
    images = photographs.images(keypoints)
    sources = encode([images[n] for n in chosen], _PHOTOGRAPH * len(chosen))
    return dict(zip(chosen, sources, strict=True))
