"""The page about a study, and its figure."""

import nmfsync.report.figures  # noqa: F401  # isort: skip  imports matplotlib first

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nmfsync.report.figures.style import (
    GRID,
    INK,
    MethodStyle,
    default_look,
    legend_of,
    line_of,
    styles_of,
    to_pdf,
    to_png,
    unbox,
)
from nmfsync.report.page import Cell, Picture, environment, mark_best, write_bytes
from nmfsync.study.definitions import METRICS, Parameter, Study
from nmfsync.study.results import Results, Row

PANELS = 6  # in a line; more make the figure too wide for a page

# Metrics with a table of means: which value is best, and the number of digits.
BEST = {"gt_error": (min, 1), "f_score": (max, 3)}


@default_look()
def write_study_report(folder: Path, study: Study, results: Results) -> None:
    """Write `figure.png`, `figure.pdf` and `report.html`.

    Parameters
    ----------
    folder : Path
    study : Study
    results : Results

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    figure = study_figure(study, results.rows)
    picture = Picture(
        "figure.png",
        study.title,
        "One column a parameter, one row a metric. Lines are means; bands are two standard errors "
        "on either side. Solid lines are cycle-consistent in every sample, dashed ones are not. "
        "Scales differ between panels; errors of the input may be above the panel.",
        to_png(figure),
    )
    counts = sorted({row.samples for row in results.rows})
    html = (
        environment()
        .get_template("study.html")
        .render(
            study=study,
            figure=picture,
            verdicts=results.verdicts,
            methods=_methods(results.rows),
            method_keys=_methods(results.rows),
            points=len({(row.parameter, row.value) for row in results.rows}),
            samples=" or ".join(map(str, counts)),
            settings=[(k, v) for k, v in study.base.items() if v is not None and k != "digests"],
            tables=[_means_table(results, metric) for metric in study.metrics if metric in BEST],
        )
    )
    write_bytes(folder / "figure.png", picture.png)
    write_bytes(folder / "figure.pdf", to_pdf(figure))
    write_bytes(folder / "report.html", html.encode())


def study_figure(study: Study, rows: Sequence[Row]) -> Figure:
    """Draw every metric over every parameter.

    Parameters
    ----------
    study : Study
    rows : sequence of Row
        The table of the study.

    Returns
    -------
    matplotlib.figure.Figure
    """
    styles, consistent = styles_of(_methods(rows)), _consistent_methods(rows)
    every = range(0, len(study.parameters), PANELS)
    lines = [study.parameters[first : first + PANELS] for first in every]
    width = min(len(study.parameters), PANELS)
    size = np.array([2.9 * width + 0.7, 2.1 * len(study.metrics) + 0.9])  # of a line, inches
    figure = Figure(figsize=(size[0], size[1] * len(lines)), dpi=150)
    parts = figure.subfigures(len(lines), squeeze=False)[:, 0]
    for part, parameters in zip(parts, lines, strict=True):
        _draw_line(part, study.metrics, parameters, rows, styles, consistent)
        inch_x, inch_y = 1 / size
        part.subplots_adjust(
            left=0.75 * inch_x, right=1 - 0.1 * inch_x, bottom=1.0 * inch_y, top=1 - 0.15 * inch_y,
            wspace=0.22, hspace=0.16,
        )  # fmt: skip
    handles = [Line2D([], [], **line_of(styles[name], name in consistent)) for name in styles]
    legend_of(figure, handles)
    return figure


def _draw_line(
    part: SubFigure,
    metrics: Sequence[str],
    parameters: Sequence[Parameter],
    rows: Sequence[Row],
    styles: dict[str, MethodStyle],
    consistent: set[str],
) -> None:
    """Draw every metric over some of the parameters, next to each other."""
    width = min(PANELS, len({row.parameter for row in rows}))
    grid = part.subplots(len(metrics), width, squeeze=False, sharex="col")
    for panels, metric in zip(grid, metrics, strict=True):
        for axes, parameter in zip(panels, parameters, strict=False):
            panel = [r for r in rows if (r.metric, r.parameter) == (metric, parameter.column)]
            _draw_panel(axes, panel, styles, consistent)
            if metric == metrics[-1]:
                axes.set_xlabel(parameter.label, color=INK)
        panels[0].set_ylabel(METRICS[metric], color=INK)
        for axes in panels[len(parameters) :]:
            axes.remove()


def _means_table(results: Results, metric: str) -> tuple[str, list[tuple[str, list[Cell]]]]:
    """Return the name of the metric, and its mean over every parameter with the best marked."""
    better, digits = BEST[metric]
    table = [
        (parameter, mark_best(list(means.values()), lambda x: f"{x:.{digits}f}", better))
        for parameter, means in results.means(metric).items()
    ]
    return METRICS[metric], table


def _methods(rows: Sequence[Row]) -> list[str]:
    """Return the names of the methods in order of appearance, "input" included."""
    return list(dict.fromkeys(row.method for row in rows))


def _consistent_methods(rows: Sequence[Row]) -> set[str]:
    """Return the methods without any cycle-error in the whole study."""
    inconsistent = {row.method for row in rows if row.metric == "cycle_error" and row.mean > 0}
    return set(_methods(rows)) - inconsistent


def _draw_panel(
    axes: Axes, rows: Sequence[Row], styles: dict[str, MethodStyle], consistent: set[str]
) -> None:
    """Draw one metric of every method over one parameter."""
    for method, style in styles.items():
        own = [row for row in rows if row.method == method]
        x, mean, error = np.array([(r.value, r.mean, r.standard_error) for r in own]).T
        axes.fill_between(
            x, mean - 2 * error, mean + 2 * error, color=style.colour, alpha=0.2, linewidth=0
        )
        axes.plot(x, mean, **line_of(style, method in consistent))
    # The errors of the input are so large that the methods could not be distinguished.
    highest = [row.mean + 2 * row.standard_error for row in rows if row.method != "input"]
    if rows[0].metric in ("cycle_error", "gt_error"):
        axes.set_ylim(0, 1.15 * max(*highest, 0.05))
    axes.xaxis.set_major_locator(MaxNLocator(6, min_n_ticks=3))
    axes.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=3))
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    unbox(axes)
