"""The tables of a comparison, for its page and the terminal."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmfsync.errors import shown
from nmfsync.evaluation.comparison import Comparison, Contrast
from nmfsync.evaluation.differences import METRICS, Difference, Metric
from nmfsync.evaluation.summary import MethodEvaluation
from nmfsync.report.compare_words import (
    capital,
    change_text,
    interval_text,
    name_of,
    sign_text,
    subject_of,
    value_text,
)

SHARES = ("fcm", "precision", "estimated_precision")  # in the table of every scene


@dataclass(frozen=True)
class Bar:
    """Where a mean and its interval are drawn, as shares of the width of their plot."""

    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Row:
    """One difference as text, and as a bar."""

    subject: str
    side: str
    scenes: int
    before: str
    after: str
    change: str
    interval: str
    sign: str
    bar: Bar


@dataclass(frozen=True)
class Group:
    """The differences in one metric, on one scale: the texts at its ends, and where 0 is."""

    title: str
    unit: str
    rows: list[Row]
    low: str
    high: str
    neutral: float
    neutral_text: str


def groups(comparison: Comparison) -> list[Group]:
    """Return the table of differences, one group for every metric that any two sides have."""
    found = [
        (metric, [c for c in comparison.contrasts if metric.key in c.differences])
        for metric in METRICS
    ]
    return [_group(comparison, metric, contrasts) for metric, contrasts in found if contrasts]


def _group(comparison: Comparison, metric: Metric, contrasts: Sequence[Contrast]) -> Group:
    differences = [contrast.differences[metric.key] for contrast in contrasts]
    low, high = _scale(differences)
    back: Callable[[float], float] = math.exp if metric.kind == "ratio" else float
    units = {"share": "percentage points", "number": "", "ratio": "ratio"}

    def place(value: float) -> float:
        return min(max((_linear(metric, value) - low) / (high - low), 0.0), 1.0)

    rows = [
        Row(
            subject_of(comparison, contrast.subject),
            name_of(comparison, contrast.side),
            len(d.scenes),
            value_text(metric, _mean(metric, d.before)),
            value_text(metric, _mean(metric, d.after)),
            change_text(metric, d.mean),
            interval_text(d),
            sign_text(d),
            Bar(place(d.mean), d.interval and (place(d.interval[0]), place(d.interval[1]))),
        )
        for contrast, d in zip(contrasts, differences, strict=True)
    ]
    neutral = differences[0].neutral
    return Group(
        capital(metric.title),
        units[metric.kind],
        rows,
        change_text(metric, back(low)),
        change_text(metric, back(high)),
        place(neutral),
        change_text(metric, neutral),
    )


def _scale(differences: Sequence[Difference]) -> tuple[float, float]:
    """Return the ends of a scale for all means, and for intervals that are not much wider."""
    metric = differences[0].metric
    means = [_linear(metric, d.mean) for d in differences]
    reach = 3 * max(map(abs, means))
    ends = [_linear(metric, end) for d in differences for end in d.interval or ()]
    ends = [min(max(end, -reach), reach) for end in ends]
    low, high = min(0.0, *means, *ends), max(0.0, *means, *ends)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def _linear(metric: Metric, value: float) -> float:
    """Return a difference as it is averaged: ratios by their logarithm."""
    return math.log(max(value, 1e-300)) if metric.kind == "ratio" else value


def _mean(metric: Metric, values: Sequence[float]) -> float:
    if metric.kind == "ratio":
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


SceneRows = list[tuple[str, list[tuple[str, list[str]]]]]  # scene -> method -> cells


def scene_rows(comparison: Comparison) -> tuple[list[str], SceneRows]:
    """Return the table of every scene.

    Returns
    -------
    titles : list of str
        The metrics that anything is known of, of `SHARES`.
    rows : list of (str, list of (str, list of str))
        By scene, by method or "": for every metric the value of every side; of two sides the
        difference, too.
    """
    metrics = [m for m in METRICS if m.key in SHARES and _is_known(comparison, m)]
    rows = [(scene, _rows_of_scene(comparison, scene, metrics)) for scene in comparison.scenes]
    return [capital(metric.title) for metric in metrics], [row for row in rows if row[1]]


def _rows_of_scene(
    comparison: Comparison, scene: str, metrics: Sequence[Metric]
) -> list[tuple[str, list[str]]]:
    rows = []
    for subject in comparison.subjects:
        sides = [comparison.figures(subject, side).get(scene) for side in comparison.sides]
        if sum(figures is not None for figures in sides) > 1:
            cells = [text for metric in metrics for text in _scene_cells(metric, sides)]
            rows.append((subject_of(comparison, subject), cells))
    return rows


def _is_known(comparison: Comparison, metric: Metric) -> bool:
    return any(metric.key in contrast.differences for contrast in comparison.contrasts)


def _scene_cells(metric: Metric, sides: Sequence[MethodEvaluation | None]) -> list[str]:
    values = [None if figures is None else metric.value(figures) for figures in sides]
    texts = [value_text(metric, value) for value in values]
    known = [value for value in values if value is not None]
    if len(values) == 2:
        texts.append(change_text(metric, known[1] - known[0]) if len(known) == 2 else "–")
    return texts


_SHORT = {
    "fcm": "FCM\n1 %",
    "precision": "prec.\n1 %",
    "estimated_precision": "est.\nprec.",
    "cycle_error": "cycle-\nerror",
    "matches": "matches",
    "mean_track_length": "track\nlength",
    "seconds": "seconds",
    "megabytes": "MB",
}


def short_table(comparison: Comparison, side: str) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the differences of one side, for 80 columns.

    A star follows a difference whose interval excludes 0.
    """
    contrasts = [c for c in comparison.contrasts if c.side == side]
    keys = [m.key for m in METRICS if any(m.key in c.differences for c in contrasts)]
    rows = [
        [
            shown(comparison.method_of(contrast.subject, contrast.side), 14),
            *(_short_cell(contrast.differences.get(key)) for key in keys),
        ]
        for contrast in contrasts
    ]
    return [_SHORT[key] for key in keys], rows


def _short_cell(difference: Difference | None) -> str:
    if difference is None:
        return "–"
    return change_text(difference.metric, difference.mean) + ("*" if difference.sign else " ")
