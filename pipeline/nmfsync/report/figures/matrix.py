"""The figure of the matrix W before and after synchronisation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.report.figures.style import (
    ADDED,
    FAINT,
    INK,
    SOFT,
    WRONG,
    current_look,
    name_axes,
    new_figure,
    style_of,
)
from nmfsync.types.arrays import IntArray
from nmfsync.types.matches import Matches, MultiMatching

MATRIX_CELLS = 300  # largest number of rows and columns drawn; more features share a cell

MAX_EDGES = 60  # largest number of images whose borders are drawn

MAX_TICKS = 12  # largest number of images that are numbered


class Panel(NamedTuple):
    """A matrix that is drawn: its title, what its colours mean, and matches of every colour.

    Attributes
    ----------
    title, colours : str
    layers : list of ((cells, cells) int64 array, str)
        The number of matches in every cell, and the colour of these matches.
    """

    title: str
    colours: str
    layers: list[tuple[IntArray, str]]


def matrix_figure(
    before: Matches, after: MultiMatching | None, name: str, labels: Sequence[str]
) -> Figure:
    """Draw W of the input and of a cycle-consistent result, both in the result's order.

    Inside every image the features are ordered by track, the longest first, so
    that consistent matches line up. Matches are counted in cells, so no array
    is larger than 300 × 300.

    Parameters
    ----------
    before : PairwiseMatches or MultiMatching
        The input.
    after : MultiMatching or None
        The result. Without one only the input is drawn, in its own order.
    name : str
        The method of the result.
    labels : sequence of str, length k
        Names of the images.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return panels_figure(matrix_panels(before, after, name), before.offsets, labels)


def matrix_panels(before: Matches, after: MultiMatching | None, name: str) -> list[Panel]:
    """Count the matches that `matrix_figure` draws."""
    place = _track_order(after) if after is not None else np.arange(int(before.sizes.sum()))
    p, q = before.between_images().nonzero()
    old = _count(p, q, place)
    if after is None:
        return [Panel("Input", "", [(old, INK)])]
    stays = after.universe[p] == after.universe[q]
    kept = _count(p[stays], q[stays], place)
    new = _count_within_tracks(after, place)
    return [
        Panel("Input", "grey kept, orange removed", [(kept, INK), (old - kept, WRONG)]),
        Panel(style_of(name).name, "grey kept, blue added", [(kept, INK), (new - kept, ADDED)]),
    ]


def panels_figure(panels: Sequence[Panel], offsets: IntArray, labels: Sequence[str]) -> Figure:
    """Draw `matrix_figure` from counted matches.

    Parameters
    ----------
    panels : sequence of Panel
    offsets : (k + 1,) int64 array
        The first feature of every image, and m.
    labels : sequence of str, length k
    """
    figure = new_figure(0.53 if len(panels) > 1 else 0.95, narrow=0.6 if len(panels) > 1 else 1)
    grid = figure.subplots(1, len(panels), squeeze=False).ravel()
    for axes, (title, colours, layers) in zip(grid, panels, strict=True):
        _draw_matrix(axes, layers, offsets, labels)
        total = sum(int(counts.sum()) for counts, _ in layers) // 2
        lines = [f"{title}: {total:,} matches", *filter(None, [colours])]
        name_axes(axes, ("\n" if current_look().narrow else ", ").join(lines))
    return figure


def _track_order(matching: MultiMatching) -> IntArray:
    """Return the place (m,) of every feature in an order by image, then by track, longest first."""
    length = np.bincount(matching.universe, minlength=1)
    rank = np.empty_like(length)
    rank[np.argsort(-length, kind="stable")] = np.arange(len(length))
    place = np.empty(len(matching.universe), dtype=np.int64)
    order = np.lexsort((rank[matching.universe], matching.image_of))
    place[order] = np.arange(len(place))
    return place


def _count(p: IntArray, q: IntArray, place: IntArray) -> IntArray:
    """Return the number of matches (p, q) in every cell: (cells, cells)."""
    cells = _cells(place)
    row, column = _cell_of(p, place), _cell_of(q, place)
    return np.bincount(row * cells + column, minlength=cells**2).reshape(cells, cells)


def _count_within_tracks(matching: MultiMatching, place: IntArray) -> IntArray:
    """Return the number of all matches in every cell, without W."""
    cells, m = _cells(place), len(place)
    cell = _cell_of(np.arange(m), place)
    shape = (cells, matching.universe_size)
    members = sparse.csr_array((np.ones(m, np.int64), (cell, matching.universe)), shape=shape)
    counts = np.asarray((members @ members.T).toarray())
    counts[np.diag_indices(cells)] -= np.bincount(cell, minlength=cells)  # no feature with itself
    return counts


def _cells(place: IntArray) -> int:
    return min(max(len(place), 1), MATRIX_CELLS)


def _cell_of(features: IntArray, place: IntArray) -> IntArray:
    return np.asarray(place[features] * _cells(place) // max(len(place), 1))


def _draw_matrix(
    axes: Axes,
    layers: Sequence[tuple[IntArray, str]],
    offsets: IntArray,
    labels: Sequence[str],
) -> None:
    """Draw the matches of every layer in its colour, with the borders of the images."""
    m = int(offsets[-1])
    axes.imshow(
        _blend(layers),
        extent=(0, m, m, 0) if m else (0, 1, 1, 0),
        interpolation="nearest",
    )
    look = current_look()
    axes.set_aspect("equal")
    if len(labels) <= MAX_EDGES:
        for edge in offsets[1:-1]:
            axes.axhline(edge, color="#C8D3DC", linewidth=look.line(0.6))
            axes.axvline(edge, color="#C8D3DC", linewidth=look.line(0.6))
    middle = (offsets[:-1] + offsets[1:]) / 2
    step = -(-len(labels) // MAX_TICKS)
    numbers = [str(i + 1) for i in range(len(labels))]
    axes.set_xticks(middle[::step], numbers[::step])
    axes.set_yticks(middle[::step], numbers[::step])
    axes.tick_params(length=0, labelsize=look.small, pad=3 * look.scale, colors=SOFT, top=False)
    axes.spines[:].set(color=FAINT, linewidth=look.line(0.8))


def _blend(layers: Sequence[tuple[IntArray, str]]) -> NDArray[np.float64]:
    """Return the image (cells, cells, 3) of the matches, counted in cells and mixed by colour."""
    counts = np.array([count for count, _ in layers], dtype=np.float64)
    total = counts.sum(axis=0)
    # A cell with one match is clearly visible; a full cell is only somewhat darker.
    full = max(float(np.percentile(total[total > 0], 99)) if total.any() else 1.0, 1.0)
    ink = np.where(total > 0, 0.5 + 0.5 * np.minimum(total / full, 1), 0)
    share = counts / np.maximum(total, 1)
    colours = np.array([_rgb(colour) for _, colour in layers])
    return np.asarray(
        (1 - ink)[..., None] + ink[..., None] * np.einsum("lij,lc->ijc", share, colours)
    )


def _rgb(colour: str) -> list[float]:
    """Return the red, green and blue shares of a colour #RRGGBB."""
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
