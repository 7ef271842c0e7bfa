"""Tracks as a table: `tracks.csv`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.runtime.tables import write_table
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.matches import MultiMatching, Source


def write_tracks(
    path: Path | str,
    result: MultiMatching,
    names: Sequence[str],
    xy: Sequence[AnyArray],
    precision: FloatArray | None = None,
) -> None:
    """Write tracks to a CSV file: one row for every feature of every track (see `write_table`).

    Parameters
    ----------
    path : Path or str
    result : MultiMatching
    names : sequence of str
        Names of the images.
    xy : sequence of (n_i, 2) arrays
        Positions of the features of every image in pixels; the centre of the
        top-left pixel is (0, 0).
    precision : (d,) float64 array, optional
        The estimated precision of every universe feature, see
        `evaluation.precision_by_track`; a column without entries otherwise.
    """
    header = ["track", "image", "feature", "x", "y", "estimated_precision"]
    write_table(path, header, _rows(result, names, xy, precision))


def _rows(
    result: MultiMatching,
    names: Sequence[str],
    xy: Sequence[AnyArray],
    precision: FloatArray | None,
) -> Iterator[Sequence[Any]]:
    for number, track in enumerate(result.tracks()):
        (image, feature), estimate = track[0], ""
        if precision is not None:
            point = result.universe[result.offsets[image] + feature]
            estimate = f"{precision[point]:.3f}"
        for image, feature in track.tolist():
            x, y = xy[image][feature]
            yield [number, names[image], feature, f"{x:.3f}", f"{y:.3f}", estimate]


def write_source_tracks(
    path: Path,
    result: MultiMatching,
    source: Source | None,
    precision: FloatArray | None = None,
) -> None:
    """Write tracks as `write_tracks` does, with the names and positions of a source of matches.

    The centre of the top-left pixel is (0, 0), so COLMAP's own positions are
    half a pixel larger.

    Parameters
    ----------
    path : Path
    result : MultiMatching
    source : Source or None
        Without a source, images are named by their number, from 0, and
        positions are NaN.
    precision : (d,) float64 array, optional
        As for `write_tracks`.
    """
    if source is None:
        names = tuple(map(str, range(len(result.sizes))))
        xy = [np.full((n, 2), np.nan, np.float32) for n in result.sizes]
    else:
        names, xy = source.names, source.xy()
    write_tracks(path, result, names, xy, precision)
