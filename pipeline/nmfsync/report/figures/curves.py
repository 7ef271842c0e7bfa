"""Plots of figures: FCM and precision, track lengths, the matrix W.

Every function returns a `Figure` that belongs to no window and no global
state, and `to_png` turns it into the same bytes every time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.figures.style import (
    FAINT,
    HEADLINE,
    INK,
    legend_of,
    line_of,
    name_axes,
    plain,
    style_of,
    unbox,
)


def fcm_figure(evaluation: SceneEvaluation, by: str = "") -> Figure:
    """FCM(t) and precision(t) of every method; solid where cycle-consistent.

    Parameters
    ----------
    evaluation : SceneEvaluation
        Of a scene with truth.
    by : str
        "epipolar_" to draw the curves by epipolar distance instead.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = Figure(figsize=(11, 4.7), dpi=150)
    left, right = figure.subplots(1, 2)
    _draw_curves(left, evaluation.methods, by + "fcm")
    _draw_curves(right, evaluation.methods, by + "precision")
    how = " by epipolar distance" if by else ""
    name_axes(left, f"Fraction of correct matchings, FCM(t){how}")
    name_axes(right, f"Precision(t){how}")
    for axes in (left, right):
        axes.set_xlabel("threshold t, % of the largest image dimension", color=INK, fontsize=10)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.92, bottom=0.2, wspace=0.17)
    _legend(figure, evaluation.methods, y=0.005)
    return figure


def dataset_figure(
    evaluations: Sequence[SceneEvaluation], labels: Mapping[str, str] | None = None
) -> Figure:
    """FCM(t) of every method, one plot a scene.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        Of scenes with truth, at least one.
    labels : dict of str to str, optional
        Headings of the scenes, where they are not their names.

    Returns
    -------
    matplotlib.figure.Figure
    """
    columns = _grid_columns(len(evaluations))
    rows = -(-len(evaluations) // columns)
    width, height = 3.4 * columns + 0.4, 2.75 * rows + 1.0
    figure = Figure(figsize=(width, height), dpi=150)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, evaluation in zip(grid, evaluations, strict=False):
        _draw_curves(axes, evaluation.methods, "fcm")
        label = (labels or {}).get(evaluation.scene, evaluation.scene)
        name_axes(axes, f"{plain(label)}, m = {evaluation.features:,}")
    for axes in grid[len(evaluations) :]:
        axes.set_axis_off()
    figure.subplots_adjust(
        left=0.6 / width,
        right=1 - 0.15 / width,
        top=1 - 0.35 / height,
        bottom=1.25 / height,
        wspace=0.27,
        hspace=0.38,
    )
    centre = (0.6 + width - 0.15) / 2 / width
    figure.text(
        centre,
        0.8 / height,
        "FCM(t) over the threshold t, % of the largest image dimension",
        ha="center",
        color=INK,
    )
    methods = {name: m for e in evaluations for name, m in e.methods.items()}
    mixed = {
        name
        for name in methods
        if len({e.methods[name].cycle_consistent for e in evaluations if name in e.methods}) > 1
    }
    _legend(figure, methods, y=0.005, mixed=mixed)
    return figure


def _grid_columns(plots: int) -> int:
    """Columns of a grid, at most four, that leave the fewest places empty."""
    return min(plots, 4) if plots < 5 else min((4, 3), key=lambda columns: -plots % columns)


def _draw_curves(axes: Axes, methods: Mapping[str, MethodEvaluation], what: str) -> None:
    """One line a method, and the headline threshold."""
    axes.axvline(100 * float(HEADLINE), color=FAINT, linewidth=0.8, zorder=0)
    for shift, (name, method) in enumerate(methods.items()):
        curve: Mapping[str, float | None] = getattr(method, what)
        t = [100 * float(key) for key in curve]
        share = [np.nan if value is None else 100 * value for value in curve.values()]
        # Shifted markers keep curves that lie on each other apart.
        axes.plot(t, share, **_line(name, method), markevery=(2 + 2 * shift, 12))
    axes.set_xlim(0, 5)
    axes.set_ylim(bottom=0)
    axes.annotate(
        "1 %",
        (100 * float(HEADLINE), 0),
        xytext=(3, 4),
        textcoords="offset points",
        color=FAINT,
        fontsize=8,
    )
    _tidy(axes)


def _line(name: str, method: MethodEvaluation) -> dict[str, Any]:
    return line_of(style_of(name), method.cycle_consistent)


def _legend(
    figure: Figure,
    methods: Mapping[str, MethodEvaluation],
    y: float,
    mixed: set[str] | None = None,
) -> None:
    """Name the methods and the meaning of solid and dashed below the plots."""
    handles = [Line2D([], [], **_line(name, method)) for name, method in methods.items()]
    for handle, name in zip(handles, methods, strict=True):
        if name in (mixed or set()):
            handle.set_linestyle("")
    legend_of(figure, handles, y)


def _tidy(axes: Axes) -> None:
    """Quiet axes in percent: a light grid, no box."""
    axes.xaxis.set_major_formatter("{x:g} %")
    axes.yaxis.set_major_formatter("{x:g} %")
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
    unbox(axes)
