"""What becomes of the features, and how long the tracks are."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfsync.evaluation.tracks import TrackCounts
from nmfsync.report.figures.style import INK, name_axes, style_of, unbox


def lengths_figure(counts: Mapping[str, TrackCounts]) -> Figure:
    """Draw what becomes of the features, and how long the tracks are.

    Parameters
    ----------
    counts : dict of str to TrackCounts
        "input" (its union-find) and the cycle-consistent methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = Figure(figsize=(11, 4.2), dpi=150)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_fates(left, counts)
    _draw_lengths(right, counts)
    figure.subplots_adjust(left=0.1, right=0.985, top=0.9, bottom=0.2, wspace=0.16)
    return figure


def _row_name(method: str) -> str:
    return "input (united)" if method == "input" else style_of(method).name


def _draw_fates(axes: Axes, counts: Mapping[str, TrackCounts]) -> None:
    """Draw a bar of features a method: kept, thrown away, alone."""
    names = [_row_name(name) for name in counts]
    rows = np.array([(c.kept, c.lost, c.alone) for c in counts.values()])
    ends = np.cumsum(rows, axis=1)
    total = max(int(ends.max()), 1)
    looks = [
        ("in consistent tracks", "#0072B2", "white", ""),
        ("thrown away", "#F3B58A", INK, "////"),
        ("without a match", "#DDDDDD", INK, ""),
    ]
    for part, (label, colour, ink, hatch) in enumerate(looks):
        starts = ends[:, part] - rows[:, part]
        bars: dict[str, Any] = {
            "height": 0.62,
            "color": colour,
            "edgecolor": "white",
            "hatch": hatch,
        }
        axes.barh(names, rows[:, part], left=starts, label=label, linewidth=0.8, **bars)
        for y, (x, value) in enumerate(zip(starts, rows[:, part], strict=True)):
            if value > 0.085 * total:  # else the number would not fit
                text = axes.text(x + value / 2, y, f"{value:,}", ha="center", va="center")
                text.set(color=ink, fontsize=9, fontweight="bold")
                text.set_bbox({"facecolor": colour, "edgecolor": "none", "pad": 1.5})
    axes.invert_yaxis()
    axes.set_xlim(0, total)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    name_axes(axes, "What becomes of the features")
    unbox(axes)
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=10)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1), "ncols": 3}
    axes.legend(**below, frameon=False, fontsize=9, handlelength=1.4)


def _draw_lengths(axes: Axes, counts: Mapping[str, TrackCounts]) -> None:
    """Bars of the number of tracks by length, one colour a method."""
    longest = max(int(c.lengths.max(initial=2)) for c in counts.values())
    edges = _length_edges(longest)
    width = 0.8 / len(counts)
    for shift, (name, count) in enumerate(counts.items()):
        number, _ = np.histogram(count.lengths, bins=edges)
        at = np.arange(len(number)) + (shift + 0.5) * width - 0.4
        colour = "#B5B5B5" if name == "input" else style_of(name).colour
        axes.bar(at, number, width * 0.92, color=colour, label=_row_name(name))
    axes.set_xticks(range(len(edges) - 1), [_span(*pair) for pair in pairwise(edges)])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
    axes.set_xlabel("images in which a track is seen", color=INK, fontsize=10)
    name_axes(axes, "Number of consistent tracks, by length")
    unbox(axes)
    axes.legend(frameon=False, fontsize=9.5, labelcolor=INK)


def _length_edges(longest: int) -> list[int]:
    """One bin a length up to 12; for longer tracks bins that double: 2, 3, 4, 5–8, 9–16 …."""
    if longest <= 12:
        return list(range(2, longest + 2))
    edges = [2, 3, 4, 5]
    while edges[-1] <= longest:
        edges.append(2 * edges[-1] - 1)
    return edges


def _span(start: int, stop: int) -> str:
    return f"{start}" if stop == start + 1 else f"{start}–{stop - 1}"
