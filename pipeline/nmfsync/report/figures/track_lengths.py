"""The figure of the tracks: how many features are in tracks, and how long the tracks are."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfsync.evaluation.tracks import TrackCounts
from nmfsync.report.figures.style import (
    INK,
    current_look,
    grid_of,
    legend_below,
    name_axes,
    new_figure,
    style_of,
    unbox,
)

# Parts of a bar of features: label, colours of the part and of its number, hatching.
_PARTS = (
    ("in consistent tracks", "#0072B2", "white", ""),
    ("thrown away", "#F3B58A", INK, "////"),
    ("without a match", "#DDDDDD", INK, ""),
)

_SINGLE_LENGTHS = 12  # longest track up to which every length has a bin of its own


def lengths_figure(counts: Mapping[str, TrackCounts]) -> Figure:
    """Draw how many features are in tracks, and how long the tracks are.

    Parameters
    ----------
    counts : dict of str to TrackCounts
        "input" (the tracks that union-find makes of it) and the cycle-consistent methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    look = current_look()
    narrow = look.narrow
    figure = new_figure(0.38, narrow=0.75 + 0.06 * len(counts))
    left, right = figure.subplots(2, 1) if narrow else figure.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_features(left, counts)
    _draw_lengths(right, counts)
    handles = [bars for bars in right.containers if isinstance(bars, BarContainer)]
    if narrow:
        legend_below(figure, handles)
    else:
        right.legend(handles=handles, frameon=False, fontsize=look.small, labelcolor=INK)
    return figure


def _label(method: str) -> str:
    return "input (joined)" if method == "input" else style_of(method).name


def _draw_features(axes: Axes, counts: Mapping[str, TrackCounts]) -> None:
    """Draw one bar a method: its features in tracks, thrown away, and without a match."""
    look = current_look()
    names = [_label(name) for name in counts]
    # Of a letter, as a share of the axes.
    letter = 0.65 * look.small / (72 * look.width * (0.7 if look.narrow else 0.36))
    rows = np.array([(c.kept, c.lost, c.alone) for c in counts.values()])
    ends = np.cumsum(rows, axis=1)
    total = max(int(ends.max()), 1)
    for part, (label, colour, ink, hatch) in enumerate(_PARTS):
        starts = ends[:, part] - rows[:, part]
        bars: dict[str, Any] = {
            "height": 0.62,
            "color": colour,
            "edgecolor": "white",
            "hatch": hatch,
        }
        axes.barh(names, rows[:, part], left=starts, label=label, linewidth=look.line(0.8), **bars)
        for y, (x, value) in enumerate(zip(starts, rows[:, part], strict=True)):
            if value > (len(f"{value:,}") + 1) * letter * total:
                text = axes.text(x + value / 2, y, f"{value:,}", ha="center", va="center")
                text.set(color=ink, fontsize=look.small, fontweight="bold")
                text.set_bbox({"facecolor": colour, "edgecolor": "none", "pad": 1.5})
    axes.invert_yaxis()
    axes.set_xlim(0, total)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    name_axes(axes, "Features in tracks")
    unbox(axes)
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=look.text)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.4, -0.1), "ncols": 3}
    below |= {"handlelength": 1.2, "columnspacing": 1.0, "handletextpad": 0.5}
    axes.legend(**below, frameon=False, fontsize=look.small)


def _draw_lengths(axes: Axes, counts: Mapping[str, TrackCounts]) -> None:
    """Draw the number of tracks by length, one colour a method."""
    longest = max(int(c.lengths.max(initial=2)) for c in counts.values())
    edges = _length_edges(longest)
    width = 0.8 / len(counts)
    for shift, (name, count) in enumerate(counts.items()):
        number, _ = np.histogram(count.lengths, bins=edges)
        x = np.arange(len(number)) + (shift + 0.5) * width - 0.4
        colour = "#B5B5B5" if name == "input" else style_of(name).colour
        axes.bar(x, number, width * 0.92, color=colour, label=_label(name))
    axes.set_xticks(range(len(edges) - 1), [_bin_label(*pair) for pair in pairwise(edges)])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylim(bottom=0)
    grid_of(axes, "y")
    look = current_look()
    axes.set_xlabel("images in which a track is seen", color=INK, fontsize=look.text)
    name_axes(axes, "Number of consistent tracks, by length")
    unbox(axes)


def _length_edges(longest: int) -> list[int]:
    """Return the edges of the bins: one for every length, or bins that double in width.

    With tracks longer than 12 the bins are 2, 3, 4, 5–8, 9–16 and so on.
    """
    if longest <= _SINGLE_LENGTHS:
        return list(range(2, longest + 2))
    edges = [2, 3, 4, 5]
    while edges[-1] <= longest:
        edges.append(2 * edges[-1] - 1)
    return edges


def _bin_label(start: int, stop: int) -> str:
    return f"{start}" if stop == start + 1 else f"{start}–{stop - 1}"
