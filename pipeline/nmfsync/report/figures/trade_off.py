"""The figure of FCM against precision, with what a ratio test alone reaches."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.figures.style import (
    HEADLINE,
    INK,
    SOFT,
    current_look,
    grid_of,
    legend_below,
    name_axes,
    new_figure,
    plain,
    small_multiples,
    style_of,
    unbox,
)
from nmfsync.types.arrays import FloatArray

_LABELLED = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # ratios named beside the curve


class TradeOff(NamedTuple):
    """FCM and precision at 1 %, means over scenes.

    Attributes
    ----------
    scenes : int
        The scenes of the means: those where every method has both values.
    methods : dict of str to (float, float)
        FCM and precision of "input" and every method.
    consistent : dict of str to bool
        Whether a method is cycle-consistent on all of these scenes.
    ratios, fcm, precision : (n,) float64 arrays
        The input under a ratio test with these limits; FCM ascends. Empty where it is not known.
    """

    scenes: int
    methods: dict[str, tuple[float, float]]
    consistent: dict[str, bool]
    ratios: FloatArray
    fcm: FloatArray
    precision: FloatArray

    def lies_above(self, method: str) -> bool:
        """Say whether a method's precision is above the ratio test's with the method's FCM.

        So is a method's whose FCM the ratio test does not reach.
        """
        share, precision = self.methods[method]
        reached = self.ratio_test_at(share)
        return reached is None or precision > reached

    def ratio_test_at(self, share: float) -> float | None:
        """Return the precision of the ratio test with this FCM; None if it does not reach it.

        Between the points of the curve along straight lines. Where the curve begins at a larger
        FCM, its first precision counts.
        """
        if share > self.fcm.max(initial=-np.inf):
            return None
        # Of limits with the same FCM the strictest, which has the highest precision.
        x, first = np.unique(self.fcm, return_index=True)
        return float(np.interp(share, x, self.precision[first]))

    @property
    def compared(self) -> list[str]:
        """The methods that `lies_above` judges; none without a curve."""
        return [name for name in self.methods if name != "input" and len(self.fcm)]


def trade_off(evaluations: Sequence[SceneEvaluation]) -> TradeOff:
    """Average FCM and precision of methods, and the ratio test of the input, over scenes."""
    names = list(dict.fromkeys(name for e in evaluations for name in e.methods))
    points = {e.scene: _points(e, names) for e in evaluations}
    complete = [e for e in evaluations if np.isfinite(points[e.scene]).all()]
    if not complete:
        empty = np.empty(0)
        return TradeOff(0, {}, {}, empty, empty, empty)
    means = np.mean([points[e.scene] for e in complete], axis=0)
    return TradeOff(
        len(complete),
        {name: (float(x), float(y)) for name, (x, y) in zip(names, means, strict=True)},
        {name: all(e.methods[name].cycle_consistent for e in complete) for name in names},
        *_mean_curve(complete),
    )


def trade_off_figure(values: TradeOff) -> Figure:
    """Draw one point a method, and the ratio test of the input as a line.

    Parameters
    ----------
    values : TradeOff
        Of at least one scene.

    Returns
    -------
    matplotlib.figure.Figure
    """
    look = current_look()
    figure = new_figure(0.47, narrow=1.0)
    axes = figure.subplots()
    _draw_trade_off(axes, values)
    axes.set_xlabel("FCM at 1 %", color=INK, fontsize=look.text)
    axes.set_ylabel("precision at 1 %", color=INK, fontsize=look.text)
    if look.narrow:
        legend_below(figure, axes.get_legend_handles_labels()[0])
    else:
        beside: dict[str, Any] = {"loc": "outside right upper", "fontsize": look.text}
        figure.legend(**beside, frameon=False, labelcolor=INK, labelspacing=0.75)
    return figure


def scenes_trade_off_figure(
    evaluations: Sequence[SceneEvaluation], labels: Mapping[str, str] | None = None
) -> Figure:
    """Draw the trade-off of every scene that has all values, one plot a scene.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        At least one of them with FCM and precision of every method of that scene.
    labels : dict of str to str, optional
        Scene -> title of its plot. Other scenes get their names.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return trade_offs_figure(scene_trade_offs(evaluations, labels or {}))


def scene_trade_offs(
    evaluations: Sequence[SceneEvaluation], labels: Mapping[str, str]
) -> list[tuple[str, TradeOff]]:
    """Return the title of every scene that has all values, and its trade-off."""
    scenes = [(labels.get(e.scene, e.scene), trade_off([e])) for e in evaluations]
    return [(title, values) for title, values in scenes if values.scenes]


def trade_offs_figure(scenes: Sequence[tuple[str, TradeOff]]) -> Figure:
    """Draw `scenes_trade_off_figure` from what is drawn of every scene."""
    text = "precision (upwards) over FCM (to the right), at 1 %"
    figure, grid = small_multiples(len(scenes), text)
    handles: dict[str, Artist] = {}
    for axes, (title, values) in zip(grid, scenes, strict=True):
        _draw_trade_off(axes, values, small=True)
        name_axes(axes, plain(title))
        lines, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, lines, strict=True))
    legend_below(figure, list(handles.values()))
    return figure


def _draw_trade_off(axes: Axes, values: TradeOff, small: bool = False) -> None:
    """Draw the points of the methods, and the curve of the ratio test."""
    look = current_look()
    _draw_ratio_test(axes, values, named=not small)
    for name, (share, precision) in values.methods.items():
        style, consistent = style_of(name), values.consistent[name]
        size = look.scale * (12 if name == "input" else 10)
        axes.plot(
            100 * share,
            100 * precision,
            linestyle="",
            marker=style.marker or "*",
            markersize=0.75 * size if small else size,
            markerfacecolor=style.colour if consistent else "white",
            markeredgecolor="white" if consistent else style.colour,
            markeredgewidth=look.scale * (1.0 if consistent else 2.0),
            label=style.name,
            zorder=4,
        )
    axes.margins(0.07, 0.09)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g} %")
        axis.set_major_locator(MaxNLocator(4 if small else 6, steps=[1, 2, 5, 10]))
    grid_of(axes)
    unbox(axes)


def _points(evaluation: SceneEvaluation, names: Sequence[str]) -> FloatArray:
    """FCM and precision of every method (n, 2); NaN where they are not known."""
    missing: Mapping[str, float | None] = {}
    rows = []
    for name in names:
        method = evaluation.methods.get(name)
        curves = (method.fcm, method.precision) if method else (missing, missing)
        rows.append([curve.get(HEADLINE) for curve in curves])
    return np.array(rows, dtype=np.float64)


def _mean_curve(evaluations: Sequence[SceneEvaluation]) -> tuple[FloatArray, ...]:
    """Limits of the ratio test, mean FCM and mean precision, where every scene knows them."""
    if not all(e.ratio_curve for e in evaluations):
        return np.empty(0), np.empty(0), np.empty(0)
    curves = np.array(
        [[e.ratio_curve[key] for key in ("ratio", "fcm", "precision")] for e in evaluations],
        dtype=np.float64,
    ).mean(axis=0)
    ratios, fcm, precision = curves[:, np.isfinite(curves).all(axis=0)]
    return ratios, fcm, precision


def _draw_ratio_test(axes: Axes, values: TradeOff, named: bool = True) -> None:
    """Draw the curve, with a dot at every tenth, and its ratio beside it if `named`."""
    if not len(values.ratios):
        return
    look = current_look()
    x, y = 100 * values.fcm, 100 * values.precision
    axes.plot(x, y, color=SOFT, linewidth=look.line(1.6), label="input, ratio test", zorder=2)
    tenths = np.flatnonzero(np.isclose(values.ratios[:, None], _LABELLED).any(axis=1))
    size = look.scale * (7 if named else 4)
    axes.plot(x[tenths], y[tenths], ".", color=SOFT, markersize=size, zorder=3)
    for place in tenths[:-1] if named else ():  # the last one is the input itself
        axes.annotate(
            f"{values.ratios[place]:.1f}".lstrip("0"),
            (x[place], y[place]),
            xytext=(-4, -6),
            textcoords="offset points",
            ha="right",
            va="top",
            color=SOFT,
            fontsize=look.small,
        )
