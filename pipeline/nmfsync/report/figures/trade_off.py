"""The figure of FCM against precision, with what a ratio test alone reaches."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.figures.style import GRID, HEADLINE, INK, SOFT, style_of, unbox
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
    figure = Figure(figsize=(11, 5.2), dpi=150)
    axes = figure.add_axes((0.075, 0.115, 0.7, 0.86))
    _draw_ratio_test(axes, values)
    for name, (share, precision) in values.methods.items():
        style = style_of(name)
        filled = style.colour if values.consistent[name] else "white"
        axes.plot(
            100 * share,
            100 * precision,
            linestyle="",
            marker=style.marker or "*",
            markersize=12 if name == "input" else 10,
            markerfacecolor=filled,
            markeredgecolor="white" if values.consistent[name] else style.colour,
            markeredgewidth=1.0 if values.consistent[name] else 2.0,
            label=style.name,
            zorder=4,
        )
    axes.margins(0.07, 0.09)
    axes.set_xlabel("FCM at 1 %", color=INK, fontsize=10)
    axes.set_ylabel("precision at 1 %", color=INK, fontsize=10)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g} %")
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.grid(color=GRID, linewidth=0.7)
    unbox(axes)
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "fontsize": 10}
    axes.legend(**beside, frameon=False, labelcolor=INK, labelspacing=0.75)
    return figure


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


def _draw_ratio_test(axes: Axes, values: TradeOff) -> None:
    """Draw the curve, with a dot and its ratio at every tenth."""
    if not len(values.ratios):
        return
    x, y = 100 * values.fcm, 100 * values.precision
    axes.plot(x, y, color=SOFT, linewidth=1.6, label="input, ratio test", zorder=2)
    named = np.flatnonzero(np.isclose(values.ratios[:, None], _LABELLED).any(axis=1))
    axes.plot(x[named], y[named], ".", color=SOFT, markersize=7, zorder=3)
    for place in named[:-1]:  # the last one is the input itself
        axes.annotate(
            f"{values.ratios[place]:.1f}".lstrip("0"),
            (x[place], y[place]),
            xytext=(-4, -6),
            textcoords="offset points",
            ha="right",
            va="top",
            color=SOFT,
            fontsize=9,
        )
