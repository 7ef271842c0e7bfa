"""Tracks as a table: `tracks.csv`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.extras import optional
from nmfsync.runtime.tables import write_table
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.matches import MultiMatching, Source

HEADER = ("track", "image", "feature", "x", "y", "estimated_precision")


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
    write_table(path, HEADER, _rows(result, names, xy, precision))


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


def tracks_dataframe(
    result: MultiMatching,
    names: Sequence[str] | None,
    xy: Sequence[AnyArray] | None,
    precision: FloatArray | None,
) -> Any:
    """Return the tracks as a pandas DataFrame; see `MultiMatching.to_dataframe`."""
    pandas = optional("pandas", "pandas")
    own_names, own_xy = _names_and_positions(result, result.source)
    names, xy = names or own_names, xy or own_xy
    if [len(names), *map(len, xy)] != [len(result.sizes), *result.sizes]:
        raise NmfsyncError("names and xy must have one item for every image, xy one row a feature")
    tracks = [np.empty((0, 2), np.int64), *result.tracks()]
    image, feature = np.concatenate(tracks).T
    place = result.offsets[image] + feature
    estimates = np.full(len(place), np.nan)
    if precision is not None:
        estimates = np.asarray(precision, np.float64)[result.universe[place]]
    x, y = np.concatenate([np.asarray(one, np.float64).reshape(-1, 2) for one in xy])[place].T
    number = np.repeat(np.arange(-1, len(tracks) - 1), [len(track) for track in tracks])
    labels = [names[i] for i in image.tolist()]
    columns = (number, labels, feature, x, y, estimates)
    return pandas.DataFrame(dict(zip(HEADER, columns, strict=True)))


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
    write_tracks(path, result, *_names_and_positions(result, source), precision)


def _names_and_positions(
    result: MultiMatching, source: Source | None
) -> tuple[Sequence[str], Sequence[AnyArray]]:
    """Return the names of the images and the positions of their features that are known."""
    if source is None:
        names = tuple(map(str, range(len(result.sizes))))
        return names, [np.full((n, 2), np.nan, np.float32) for n in result.sizes]
    return source.names, source.xy()
