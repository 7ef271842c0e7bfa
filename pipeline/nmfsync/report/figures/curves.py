"""Figures of FCM and precision over the threshold, for one scene and for a data set."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

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


class Curves(NamedTuple):
    """What is drawn of a method: shares by threshold, and whether its result is consistent."""

    fcm: Mapping[str, float | None]
    precision: Mapping[str, float | None]
    cycle_consistent: bool


class SceneCurves(NamedTuple):
    """What is drawn of a scene: its title, its number of features, and the methods' curves."""

    title: str
    features: int
    methods: dict[str, Curves]


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
    return curves_figure(curves_of(evaluation.methods, epipolar), epipolar)


def curves_of(methods: Mapping[str, MethodEvaluation], epipolar: bool = False) -> dict[str, Curves]:
    """Return what is drawn of every method."""
    prefix = "epipolar_" if epipolar else ""
    return {
        name: Curves(
            getattr(method, prefix + "fcm"),
            getattr(method, prefix + "precision"),
            method.cycle_consistent,
        )
        for name, method in methods.items()
    }


def curves_figure(methods: Mapping[str, Curves], epipolar: bool) -> Figure:
    """Draw `fcm_figure` from what is drawn of every method."""
    how = ", epipolar" if epipolar else ""
    figure = new_figure(0.43, narrow=0.78)
    part = labelled_part(figure, "threshold t, % of the largest image dimension")
    left, right = part.subplots(1, 2)
    _draw_curves(left, {name: curves.fcm for name, curves in methods.items()}, methods)
    _draw_curves(right, {name: curves.precision for name, curves in methods.items()}, methods)
    long = "" if current_look().narrow else "Fraction of correct matchings, "
    name_axes(left, f"{long}FCM(t){how}")
    name_axes(right, f"Precision(t){how}")
    _draw_legend(figure, methods)
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
    return scenes_figure(scene_curves(evaluations, labels or {}))


def scene_curves(
    evaluations: Sequence[SceneEvaluation], labels: Mapping[str, str]
) -> list[SceneCurves]:
    """Return what is drawn of every scene."""
    return [
        SceneCurves(labels.get(e.scene, e.scene), e.features, curves_of(e.methods))
        for e in evaluations
    ]


def scenes_figure(scenes: Sequence[SceneCurves]) -> Figure:
    """Draw `dataset_figure` from what is drawn of every scene."""
    text = "FCM(t) over the threshold t, % of the largest image dimension"
    figure, grid = small_multiples(len(scenes), text)
    gap = "\n" if current_look().narrow else ", "
    for axes, scene in zip(grid, scenes, strict=True):
        _draw_curves(axes, {name: m.fcm for name, m in scene.methods.items()}, scene.methods)
        name_axes(axes, f"{plain(scene.title)}{gap}m = {scene.features:,}")
    methods = {name: m for scene in scenes for name, m in scene.methods.items()}
    _draw_legend(figure, methods, _sometimes_consistent(scenes))
    return figure


def _sometimes_consistent(scenes: Sequence[SceneCurves]) -> set[str]:
    """Return the methods that are cycle-consistent on some scenes but not on all."""
    outcomes: dict[str, set[bool]] = {}
    for scene in scenes:
        for name, method in scene.methods.items():
            outcomes.setdefault(name, set()).add(method.cycle_consistent)
    return {name for name, values in outcomes.items() if len(values) > 1}


def _draw_curves(
    axes: Axes, shares: Mapping[str, Mapping[str, float | None]], methods: Mapping[str, Curves]
) -> None:
    """Draw a curve of every method, shares by threshold, and mark 1 %."""
    look = current_look()
    axes.axvline(100 * float(HEADLINE), color=FAINT, linewidth=look.line(0.8), zorder=0)
    for shift, (name, values) in enumerate(shares.items()):
        t = [100 * float(threshold) for threshold in values]
        share = [np.nan if value is None else 100 * value for value in values.values()]
        # Shifted markers distinguish curves that cover each other.
        axes.plot(t, share, **_line(name, methods[name]), markevery=(2 + 2 * shift, 12))
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


def _line(name: str, method: Curves) -> dict[str, Any]:
    return line_of(style_of(name), method.cycle_consistent)


def _draw_legend(
    figure: Figure, methods: Mapping[str, Curves], mixed: Collection[str] = ()
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
