"""Figures of FCM and precision over the threshold, for one scene and for a data set."""

from collections.abc import Collection, Mapping, Sequence
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
    current_look,
    grid_of,
    labelled_part,
    legend_of,
    line_of,
    name_axes,
    new_figure,
    plain,
    small_multiples,
    style_of,
    unbox,
)


def fcm_figure(evaluation: SceneEvaluation, epipolar: bool = False) -> Figure:
    """Draw FCM(t) and precision(t) of every method; solid lines are cycle-consistent.

    Parameters
    ----------
    evaluation : SceneEvaluation
        With truth, or with cameras if `epipolar`.
    epipolar : bool
        Draw the curves by epipolar distance instead.

    Returns
    -------
    matplotlib.figure.Figure
    """
    prefix, how = ("epipolar_", ", epipolar") if epipolar else ("", "")
    figure = new_figure(0.43, narrow=0.78)
    part = labelled_part(figure, "threshold t, % of the largest image dimension")
    left, right = part.subplots(1, 2)
    _draw_curves(left, evaluation.methods, prefix + "fcm")
    _draw_curves(right, evaluation.methods, prefix + "precision")
    long = "" if current_look().narrow else "Fraction of correct matchings, "
    name_axes(left, f"{long}FCM(t){how}")
    name_axes(right, f"Precision(t){how}")
    _draw_legend(figure, evaluation.methods)
    return figure


def dataset_figure(
    evaluations: Sequence[SceneEvaluation], labels: Mapping[str, str] | None = None
) -> Figure:
    """Draw FCM(t) of every method, one plot a scene.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        Scenes with truth, at least one.
    labels : dict of str to str, optional
        Scene -> title of its plot. Other scenes get their names.

    Returns
    -------
    matplotlib.figure.Figure
    """
    text = "FCM(t) over the threshold t, % of the largest image dimension"
    figure, grid = small_multiples(len(evaluations), text)
    gap = "\n" if current_look().narrow else ", "
    for axes, evaluation in zip(grid, evaluations, strict=True):
        _draw_curves(axes, evaluation.methods, "fcm")
        label = (labels or {}).get(evaluation.scene, evaluation.scene)
        name_axes(axes, f"{plain(label)}{gap}m = {evaluation.features:,}")
    methods = {name: m for e in evaluations for name, m in e.methods.items()}
    _draw_legend(figure, methods, _sometimes_consistent(evaluations))
    return figure


def _sometimes_consistent(evaluations: Sequence[SceneEvaluation]) -> set[str]:
    """Return the methods that are cycle-consistent on some scenes but not on all."""
    outcomes: dict[str, set[bool]] = {}
    for evaluation in evaluations:
        for name, method in evaluation.methods.items():
            outcomes.setdefault(name, set()).add(method.cycle_consistent)
    return {name for name, values in outcomes.items() if len(values) > 1}


def _draw_curves(axes: Axes, methods: Mapping[str, MethodEvaluation], curve: str) -> None:
    """Draw a curve of every method, an attribute of `MethodEvaluation`, and mark 1 %."""
    look = current_look()
    axes.axvline(100 * float(HEADLINE), color=FAINT, linewidth=look.line(0.8), zorder=0)
    for shift, (name, method) in enumerate(methods.items()):
        values: Mapping[str, float | None] = getattr(method, curve)
        t = [100 * float(threshold) for threshold in values]
        share = [np.nan if value is None else 100 * value for value in values.values()]
        # Shifted markers distinguish curves that cover each other.
        axes.plot(t, share, **_line(name, method), markevery=(2 + 2 * shift, 12))
    axes.set_xlim(0, 5)
    axes.set_ylim(bottom=0)
    axes.annotate(
        "1 %",
        (100 * float(HEADLINE), 0),
        xytext=(3, 4),
        textcoords="offset points",
        color=FAINT,
        fontsize=look.small,
    )
    _format_percent(axes)


def _line(name: str, method: MethodEvaluation) -> dict[str, Any]:
    return line_of(style_of(name), method.cycle_consistent)


def _draw_legend(
    figure: Figure, methods: Mapping[str, MethodEvaluation], mixed: Collection[str] = ()
) -> None:
    """Draw the legend, in which the methods in `mixed` have no line, neither solid nor dashed."""
    handles = [Line2D([], [], **_line(name, method)) for name, method in methods.items()]
    for handle, name in zip(handles, methods, strict=True):
        if name in mixed:
            handle.set_linestyle("")
    legend_of(figure, handles)


def _format_percent(axes: Axes) -> None:
    """Label both axes in percent, and draw a light grid without a box."""
    axes.xaxis.set_major_formatter("{x:g} %")
    axes.yaxis.set_major_formatter("{x:g} %")
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    grid_of(axes, "y")
    unbox(axes)
