"""The matrix W before and after."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.report.figures.style import ADDED, FAINT, INK, WRONG, name_axes, style_of
from nmfsync.types.arrays import IntArray
from nmfsync.types.matches import Matches, MultiMatching

MATRIX_CELLS = 300


def matrix_figure(
    before: Matches, after: MultiMatching | None, name: str, labels: Sequence[str]
) -> Figure:
    """W of the input and of a cycle-consistent result, both in the result's order.

    Inside every image the features are ordered by track, the longest first, so
    that consistent matches line up. Matches are counted in cells: no
    array larger than 300 × 300 is made.

    Parameters
    ----------
    before : PairwiseMatches or MultiMatching
        The input.
    after : MultiMatching or None
        Without a result only the input is drawn, in its own order.
    name : str
        The method of the result.
    labels : sequence of str, length k
        Names of the images.

    Returns
    -------
    matplotlib.figure.Figure
    """
    place = _track_order(after) if after is not None else np.arange(int(before.sizes.sum()))
    old = _between(before)
    if after is None:
        panels = [("Input", [(old, INK)])]
    else:
        new = _between(after)
        kept = old.multiply(new).tocsr()
        panels = [
            ("Input: gray stays, orange goes", [(kept, INK), (_less(old, kept), WRONG)]),
            (
                f"{style_of(name).name}: gray stays, blue is new",
                [(kept, INK), (_less(new, kept), ADDED)],
            ),
        ]
    figure = Figure(figsize=(5.6 * len(panels) + 0.3, 5.9), dpi=150)
    grid = figure.subplots(1, len(panels), squeeze=False).ravel()
    for axes, (title, layers) in zip(grid, panels, strict=True):
        _draw_matrix(axes, layers, place, before, labels)
        total = sum(layer.nnz for layer, _ in layers) // 2
        name_axes(axes, f"{title} ({total:,} matches)")
    figure.subplots_adjust(left=0.05, right=0.99, top=0.93, bottom=0.03, wspace=0.1)
    return figure


def _track_order(matching: MultiMatching) -> IntArray:
    """Place of every feature when those of an image go by track, the longest track first."""
    length = np.bincount(matching.universe, minlength=1)
    rank = np.empty_like(length)
    rank[np.argsort(-length, kind="stable")] = np.arange(len(length))
    place = np.empty(len(matching.universe), dtype=np.int64)
    order = np.lexsort((rank[matching.universe], matching.image_of))
    place[order] = np.arange(len(place))
    return place


def _between(matches: Matches) -> sparse.csr_array:
    """Return the 0/1 matches between different images."""
    W = matches.W.copy()
    W.data = np.ones_like(W.data)
    W.setdiag(0)
    W.eliminate_zeros()
    return W


def _less(all_of: sparse.csr_array, part: sparse.csr_array) -> sparse.csr_array:
    rest = (all_of - part).tocsr()
    rest.eliminate_zeros()
    return rest


def _draw_matrix(
    axes: Axes,
    layers: Sequence[tuple[sparse.csr_array, str]],
    place: IntArray,
    matches: Matches,
    labels: Sequence[str],
) -> None:
    m = len(place)
    axes.imshow(
        _blend(layers, place),
        extent=(0, m, m, 0) if m else (0, 1, 1, 0),
        interpolation="nearest",
    )
    offsets = matches.offsets
    axes.set_aspect("equal")
    if len(labels) <= 60:
        for edge in offsets[1:-1]:
            axes.axhline(edge, color="#C8D3DC", linewidth=0.6)
            axes.axvline(edge, color="#C8D3DC", linewidth=0.6)
    middle = (offsets[:-1] + offsets[1:]) / 2
    step = -(-len(labels) // 12)
    axes.set_xticks(middle[::step], [str(i + 1) for i in range(len(labels))][::step])
    axes.set_yticks(middle[::step], [str(i + 1) for i in range(len(labels))][::step])
    axes.tick_params(length=0, labelsize=9, colors="#555555", top=False)
    axes.spines[:].set_color(FAINT)


def _blend(layers: Sequence[tuple[sparse.csr_array, str]], place: IntArray) -> NDArray[np.float64]:
    """White paper with the cells' counts of every layer in its colour."""
    m = max(len(place), 1)
    cells = min(m, MATRIX_CELLS)
    counts = np.zeros((len(layers), cells, cells))
    for count, (layer, _) in zip(counts, layers, strict=True):
        entries = layer.tocoo()
        row, column = (place[at] * cells // m for at in (entries.row, entries.col))
        count += np.bincount(row * cells + column, minlength=cells**2).reshape(cells, cells)
    total = counts.sum(axis=0)
    # One match in a cell is seen at once; a full cell is only somewhat darker.
    full = max(float(np.percentile(total[total > 0], 99)) if total.any() else 1.0, 1.0)
    ink = np.where(total > 0, 0.5 + 0.5 * np.minimum(total / full, 1), 0)
    share = counts / np.maximum(total, 1)
    colours = np.array([_rgb(colour) for _, colour in layers])
    return np.asarray(
        (1 - ink)[..., None] + ink[..., None] * np.einsum("lij,lc->ijc", share, colours)
    )


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
