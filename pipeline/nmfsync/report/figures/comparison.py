"""Curves of several runs, or of several methods, laid over each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmfsync.errors import shown
from nmfsync.evaluation.comparison import Comparison
from nmfsync.evaluation.summary import MethodEvaluation
from nmfsync.report.figures.style import (
    FAINT,
    GRID,
    HEADLINE,
    INK,
    SOFT,
    name_axes,
    plain,
    style_of,
    unbox,
)
from nmfsync.types.arrays import FloatArray

FEW = 4  # scenes that get plots of their own

CURVES = {"fcm": "FCM(t)", "precision": "Precision(t)"}

# Lines of runs; more runs than these share them.
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.6)), (0, (6, 2, 1, 2)), (0, (8, 4)))

_LAYOUT = ConstrainedLayoutEngine(h_pad=0.1)  # inches: titles keep off the numbers above them

_Side = tuple[str, str]  # a subject and a side of a comparison


def scenes_with_curves(comparison: Comparison) -> list[str]:
    """Return the scenes on which every side has both curves."""
    figures = sides_with_figures(comparison)
    return [
        scene
        for scene in comparison.scenes
        if all(scene in f and _is_whole(f[scene]) for f in figures.values())
    ]


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw FCM(t) and precision(t) of every method: the colour is the method, the line the run.

    Parameters
    ----------
    comparison : Comparison
        With at least one of `scenes_with_curves`. Up to four get plots of their own;
        of more, the means are drawn.

    Returns
    -------
    matplotlib.figure.Figure
    """
    scenes = scenes_with_curves(comparison)
    parts = [[scene] for scene in scenes] if len(scenes) <= FEW else [scenes]
    side_by_side = len(parts) == 1
    rows, columns = (1, 2) if side_by_side else (2, len(parts))
    width = max(3.2 * columns + 0.4, 11.0)
    figure = Figure(figsize=(width, 3.0 * rows + 1.3), dpi=150, layout=_LAYOUT)
    grid = figure.subplots(rows, columns, squeeze=False).reshape(2, len(parts))
    for panels, (curve, title) in zip(grid, CURVES.items(), strict=True):
        for axes, part in zip(panels, parts, strict=True):
            _draw(axes, comparison, part, curve)
            where = "" if len(part) > 1 else f", {plain(shown(part[0], 40))}"
            name_axes(axes, f"{title}{where}")
    for axes in grid.ravel() if side_by_side else grid[-1]:
        axes.set_xlabel("threshold t, % of the largest image dimension", color=INK, fontsize=10)
    _draw_legend(figure, comparison)
    return figure


def curve_at(comparison: Comparison, curve: str, side: _Side, scenes: Sequence[str]) -> FloatArray:
    """Return a curve of one side, the mean of scenes: (t, 2) thresholds and shares."""
    figures = sides_with_figures(comparison)[side]
    curves = [getattr(figures[scene], curve) for scene in scenes]
    names = [name for name in curves[0] if all(name in other for other in curves)]
    shares = [[one[name] for name in names] for one in curves]
    return np.column_stack([np.array(names, np.float64), np.mean(np.array(shares, float), axis=0)])


def sides_with_figures(comparison: Comparison) -> dict[_Side, Mapping[str, MethodEvaluation]]:
    """Return what is drawn: the figures of every subject and side, by scene."""
    return {
        (subject, side): found
        for subject in comparison.subjects
        for side in comparison.sides
        if (found := comparison.figures(subject, side))
    }


def _is_whole(figures: MethodEvaluation) -> bool:
    """Say whether both curves are known, at 1 % at least."""
    curves = (figures.fcm, figures.precision)
    return all(HEADLINE in curve and None not in curve.values() for curve in curves)


def _draw(axes: Axes, comparison: Comparison, scenes: Sequence[str], curve: str) -> None:
    for subject, side in sides_with_figures(comparison):
        t, share = 100 * curve_at(comparison, curve, (subject, side), scenes).T
        axes.plot(t, share, **_line(comparison, subject, side))
    axes.axvline(100 * float(HEADLINE), color=FAINT, linewidth=0.8, zorder=0)
    axes.set_xlim(0, 5)
    axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g} %")
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], min_n_ticks=4))
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    unbox(axes)


def _line(comparison: Comparison, subject: str, side: str) -> dict[str, Any]:
    method = comparison.method_of(subject, side)
    style = style_of(method)
    place = 0 if comparison.between_methods else comparison.sides.index(side)
    return {
        "color": style.colour,
        "linewidth": style.width,
        "linestyle": _DASHES[place % len(_DASHES)],
        "marker": style.marker or None,
        # Shifted markers distinguish curves that cover each other.
        "markevery": (3 + 2 * comparison.methods.index(method), 15),
        "markersize": 5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "label": plain(style.name),
    }


def _draw_legend(figure: Figure, comparison: Comparison) -> None:
    """Name the methods by their colour, and runs by their line."""
    first = {comparison.method_of(*side): side for side in reversed(sides_with_figures(comparison))}
    lines = [_line(comparison, *first[method]) for method in comparison.methods]
    handles = [Line2D([], [], **{**line, "linestyle": "-"}) for line in lines]
    if not comparison.between_methods:
        handles += [
            Line2D(
                [],
                [],
                color=SOFT,
                linestyle=_DASHES[n % len(_DASHES)],
                label=plain(shown(label, 40)),
            )
            for n, label in enumerate(comparison.sides)
        ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=max(2, min(len(handles), int(figure.get_figwidth() / 1.6))),
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handlelength=3.2,
        columnspacing=1.6,
    )
