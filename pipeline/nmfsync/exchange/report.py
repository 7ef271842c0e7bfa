"""What synchronising did to matches: figures, a page, and the tracks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.exchange.source import Source
from nmfsync.matches import Matches, MultiMatching, PairwiseMatches
from nmfsync.report.html import Picture, count, decimal, environment, write_bytes
from nmfsync.report.plots import TrackCounts, lengths_figure, style_of, to_png, track_counts
from nmfsync.run import write_tracks


@dataclass(frozen=True)
class Change:
    """What became of matches and tracks.

    Tracks are the connected components of the matches with at least two
    features; one that holds two features of an image is inconsistent, and does
    not count as a track.

    Attributes
    ----------
    images, features : int
    pairs : int
        Pairs of images that had matches.
    kept, removed, added : int
        Matches that are in both, only before, only after.
    elsewhere : int
        How many of those added are between images that had no matches.
    tracks : tuple of TrackCounts
        Before and after.
    inconsistent : tuple of int
        Number of inconsistent tracks before and after.
    """

    images: int
    features: int
    pairs: int
    kept: int
    removed: int
    added: int
    elsewhere: int
    tracks: tuple[TrackCounts, TrackCounts]
    inconsistent: tuple[int, int]

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The table: what, before, after."""
        before, after = self.tracks
        mean = decimal(_mean(before.lengths)), decimal(_mean(after.lengths))
        return [
            ("matches", count(self.kept + self.removed), count(self.kept + self.added)),
            ("tracks", count(len(before.lengths)), count(len(after.lengths))),
            ("mean length", *mean),
            ("inconsistent tracks", count(self.inconsistent[0]), count(self.inconsistent[1])),
            ("features in these", count(before.lost), count(after.lost)),
            ("features without a match", count(before.alone), count(after.alone)),
        ]


def _mean(lengths: NDArray) -> float | None:
    return float(lengths.mean()) if len(lengths) else None


def compare(before: PairwiseMatches, after: Matches) -> Change:
    """Say what became of matches and tracks.

    Parameters
    ----------
    before : PairwiseMatches
    after : PairwiseMatches or MultiMatching
        Of the same images.

    Returns
    -------
    Change
    """
    k, image_of = len(before.sizes), before.image_of
    was = sparse.triu(before.W.astype(bool), k=1, format="csr")
    now = sparse.triu(after.W.astype(bool), k=1, format="csr")
    kept = int(was.multiply(now).nnz)
    matched, pairs = (image_of[W.row] * k + image_of[W.col] for W in (was.tocoo(), now.tocoo()))
    return Change(
        images=k,
        features=len(image_of),
        pairs=len(np.unique(matched)),
        kept=kept,
        removed=was.nnz - kept,
        added=now.nnz - kept,
        elsewhere=int(np.isin(pairs, matched, invert=True).sum()),
        tracks=(track_counts(before), track_counts(after)),
        inconsistent=(_inconsistent(before), _inconsistent(after)),
    )


def _inconsistent(matches: Matches) -> int:
    """Count the components that hold two features of one image."""
    if isinstance(matches, MultiMatching):
        return 0
    number, label = connected_components(matches.W, directed=False)
    k = len(matches.sizes)
    images = np.bincount(np.unique(label * np.int64(k) + matches.image_of) // k, minlength=number)
    return int((np.bincount(label, minlength=number) > images).sum())


def write_change_report(
    path: Path,
    names: tuple[str, str],
    method: str,
    change: Change,
    remarks: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> None:
    """Write a page, with everything in it, about what synchronising did.

    Parameters
    ----------
    path : Path
    names : tuple of str
        Those of the file with the matches and of the file made from it.
    method : str
    change : Change
    remarks, warnings : sequence of str
        Sentences below and above the table.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    before, after = change.tracks
    picture = Picture(
        "lengths.png",
        "Tracks before and after",
        "The input is united: whatever is connected is one track, and programs such as OpenMVG "
        "and OpenSfM throw it away if it holds two features of one image.",
        to_png(lengths_figure({"input": before, method: after})),
    )
    html = (
        environment()
        .get_template("change.html")
        .render(
            given=names[0],
            made=names[1],
            method=style_of(method).name,
            change=change,
            picture=picture,
            remarks=remarks,
            warnings=warnings,
        )
    )
    write_bytes(path, html.encode())


def write_source_tracks(path: Path, result: MultiMatching, source: Source | None) -> None:
    """Write tracks as `write_tracks` does, with names and positions from where the matches were.

    The centre of the top-left pixel is at (0, 0), so that COLMAP's positions
    are half a pixel larger.

    Parameters
    ----------
    path : Path
    result : MultiMatching
    source : Source or None
        None leaves images with a number, from 0, and positions with NaN.
    """
    if source is None:
        names = tuple(map(str, range(len(result.sizes))))
        xy = [np.full((n, 2), np.nan, np.float32) for n in result.sizes]
    else:
        names, xy = source.names, source.xy()
    write_tracks(path, result, names, xy)
