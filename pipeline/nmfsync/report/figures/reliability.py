"""The figure that compares the probabilities of matches with the truth."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmfsync.evaluation.confidence import CLASSES, in_classes
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.figures.style import (
    FAINT,
    INK,
    current_look,
    grid_of,
    labelled_part,
    name_axes,
    new_figure,
    style_of,
    unbox,
)
from nmfsync.types.arrays import FloatArray

FEW = 10  # matches of a class that say little: its point is hollow, and no line leads to it

Reliability = Mapping[str, Sequence[float]]  # as `MethodEvaluation.reliability`


def reliability_figure(evaluations: Sequence[SceneEvaluation], methods: Sequence[str]) -> Figure:
    """Draw the share of right matches over their probability, one column a method.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        The matches of all are taken together; with more than one scene, thin
        lines show each.
    methods : sequence of str
        The methods that get a plot; each known in at least one scene.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return reliabilities_figure({name: reliability_of(evaluations, name) for name in methods})


def reliabilities_figure(methods: Mapping[str, Sequence[Reliability]]) -> Figure:
    """Draw `reliability_figure` from the reliability of every method in every scene."""
    look = current_look()
    figure = new_figure(0.55, narrow=0.85)
    columns = max(1 if look.narrow else 2, len(methods))
    shape: dict[str, Any] = {"sharex": "col", "sharey": "row", "height_ratios": [4, 1]}
    part = labelled_part(figure, "probability of being right, estimated")
    grid = part.subplots(2, columns, **shape, squeeze=False)
    for (upper, lower), (method, scenes) in zip(grid.T, methods.items(), strict=False):
        _draw_method(upper, lower, method, scenes)
    grid[0, 0].set_ylabel("right matches", color=INK, fontsize=look.text)
    grid[1, 0].set_ylabel("share of\nthe matches", color=INK, fontsize=look.text)
    for axes in grid[:, len(methods) :].ravel():
        axes.set_axis_off()
    return figure


def reliability_of(evaluations: Sequence[SceneEvaluation], method: str) -> list[Reliability]:
    """Return the reliability of a method in every scene where it is known."""
    methods = [e.methods[method] for e in evaluations if method in e.methods]
    return [m.reliability for m in methods if m.reliability.get("judged")]


def pooled(scenes: Sequence[Reliability]) -> Reliability:
    """Take the matches of several scenes together, class by class.

    Parameters
    ----------
    scenes : sequence of dict
        As `MethodEvaluation.reliability`.

    Returns
    -------
    dict
        In the same form.
    """
    probability, right, judged = (
        np.concatenate([np.asarray(scene[key], dtype=np.float64) for scene in scenes])
        for key in ("probability", "right", "judged")
    )
    return in_classes(probability, right, judged)


def _draw_method(upper: Axes, lower: Axes, method: str, scenes: Sequence[Reliability]) -> None:
    style, look = style_of(method), current_look()
    upper.plot(
        [0, 100], [0, 100], color=FAINT, linewidth=look.line(1.0), linestyle=(0, (2, 2)), zorder=1
    )
    if len(scenes) > 1:
        for scene in scenes:
            x, y, judged = _values(scene)
            thin: dict[str, Any] = {
                "color": style.colour,
                "linewidth": look.line(0.7),
                "alpha": 0.45,
            }
            upper.plot(x[judged >= FEW], y[judged >= FEW], **thin, zorder=2)
    x, y, judged = _values(pooled(scenes))
    many, few = judged >= FEW, judged < FEW
    point: dict[str, Any] = {"color": style.colour, "marker": style.marker or "o"}
    point |= {"markersize": 7 * look.scale, "markeredgewidth": look.scale}
    upper.plot(
        x[many], y[many], **point, markeredgecolor="white", linewidth=look.line(2.0), zorder=4
    )
    upper.plot(x[few], y[few], **point, markerfacecolor="white", linestyle="", zorder=3)
    lower.bar(x, 100 * judged / judged.sum(), width=0.55 * 100 / CLASSES, color=style.colour)
    gap = "\n" if look.narrow else " "
    name_axes(upper, f"{style.name}:{gap}{judged.sum():,.0f} matches judged")
    upper.set_ylim(-3, 103)
    lower.set_xlim(-3, 103)
    for axes in (upper, lower):
        axes.yaxis.set_major_formatter("{x:g} %")
        grid_of(axes)
        unbox(axes)
    lower.xaxis.set_major_formatter("{x:g} %")


def _values(reliability: Reliability) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probability and share of right matches in percent, and the number of judged ones."""
    columns = (np.asarray(reliability[key]) for key in ("probability", "right", "judged"))
    probability, right, judged = (column.astype(np.float64) for column in columns)
    return 100 * probability, 100 * right, judged
