"""The page and the CSV table about several scenes."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from nmfsync.evaluation.ranks import mean_ranks
from nmfsync.evaluation.summary import COLUMNS, MethodEvaluation, SceneEvaluation
from nmfsync.report.best import best_methods
from nmfsync.report.drawing import Drawing
from nmfsync.report.figures.curves import scene_curves, scenes_figure
from nmfsync.report.figures.style import HEADLINE, style_of
from nmfsync.report.figures.trade_off import scene_trade_offs, trade_offs_figure
from nmfsync.report.latex import Block
from nmfsync.report.page import (
    Cell,
    Picture,
    count,
    decimal,
    environment,
    mark_best,
    percent,
    write_bytes,
)
from nmfsync.report.paper import write_dataset_figures
from nmfsync.report.pictures import drawn, reliability_picture, trade_off_picture
from nmfsync.runtime.publish import publication
from nmfsync.runtime.tables import write_table


class Metric(NamedTuple):
    """A figure of methods, which has a table of its own.

    Attributes
    ----------
    name : str
        In a sentence.
    word : str
        Its place in the glossary, or "".
    title, note : str
        Of the table.
    value : callable
        Returns the figure of a `MethodEvaluation`, None where it is not known.
    write : callable
        Writes it as text.
    marked : bool
        Whether the best values are marked, and methods ranked: not by what they cost.
    """

    name: str
    word: str
    title: str
    note: str
    value: Callable[[MethodEvaluation], float | None]
    write: Callable[[float | None], str]
    marked: bool = True


class Table(NamedTuple):
    """A metric by scene and method.

    Attributes
    ----------
    word, title, note : str
        Of the metric.
    rows : list of list of Cell
        One a scene, with a cell a method.
    complete : int
        The scenes on which every method has a value.
    means : list of Cell
        Over these scenes; empty if there are none.
    ranks : list of Cell
        The mean rank of every method; empty where methods are not ranked.
    """

    word: str
    title: str
    note: str
    rows: list[list[Cell]]
    complete: int
    means: list[Cell]
    ranks: list[Cell]


METRICS = (
    Metric(
        "FCM at 1 %",
        "fcm",
        "FCM at 1 %",
        "Right matches, as a share of the number of features, in percent.",
        lambda method: method.fcm.get(HEADLINE),
        lambda share: "–" if share is None else f"{100 * share:.1f}",
    ),
    Metric(
        "precision at 1 %",
        "precision",
        "Precision at 1 %",
        "Right matches, as a share of the returned ones that the truth can judge, in percent.",
        lambda method: method.precision.get(HEADLINE),
        lambda share: "–" if share is None else f"{100 * share:.1f}",
    ),
    Metric(
        "time",
        "",
        "Time in seconds",
        "Wall time of the method alone; of the input, of the matching.",
        lambda method: method.seconds,
        decimal,
        marked=False,
    ),
)


def write_dataset_report(
    folder: Path,
    title: str,
    evaluations: Sequence[SceneEvaluation],
    labels: Mapping[str, str] | None = None,
    left_out: Sequence[str] = (),
    figures: bool = False,
    origin: str | None = None,
    kept: Path | None = None,
) -> None:
    """Write `report.html`, `evaluation.csv` and, with truth, pictures of several scenes.

    The pictures are `fcm.png`, `trade-off.png`, `trade-offs.png` (of several scenes) and
    `reliability.png`. All replace the files of the last run together.

    Parameters
    ----------
    folder : Path
        The folder to write to. The pages of the scenes, which are linked, are
        looked for in it and beside it.
    title : str
        Heading of the page, for instance "graffiti".
    evaluations : sequence of SceneEvaluation
        One item for every scene.
    labels : dict of str to str, optional
        Scene -> its name on the page. Other scenes keep their names.
    left_out : sequence of str
        Messages about scenes that could not be evaluated.
    figures : bool
        Also write the figures for papers.
    origin : str, optional
        See `publication`.
    kept : Path, optional
        Folder with the pictures of the last run, see `drawing.draw`.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    folder = Path(folder)
    titles = {e.scene: (labels or {}).get(e.scene, e.scene) for e in evaluations}
    plots = _plots(evaluations, titles)
    estimated = list(dict.fromkeys(["input", *(evaluation.tracks for evaluation in evaluations)]))
    pictures = drawn([*plots, *reliability_picture(evaluations, estimated)], kept)
    plots, reliability = pictures[: len(plots)], pictures[len(plots) :]
    methods = list(dict.fromkeys(name for e in evaluations for name in e.methods))
    measured = any(evaluation.truth != "none" for evaluation in evaluations)
    tables = [table for metric in METRICS if (table := _table(metric, evaluations, methods))]
    html = (
        environment()
        .get_template("dataset.html")
        .render(
            title=title,
            verdict=verdict(evaluations),
            methods=[style_of(name).name for name in methods],
            method_keys=methods,
            scenes=[(titles[e.scene], e, _link(folder, e.scene)) for e in evaluations],
            tables=tables,
            measured=measured,
            estimated=[style_of(name).name for name in estimated],
            estimates=[
                (titles[e.scene], _estimate_cells(e, estimated, measured)) for e in evaluations
            ],
            differences=_mean_differences(evaluations, estimated),
            reliability=reliability,
            plots=plots,
            warnings=[
                *(f"left out: {text}" for text in left_out),
                *(
                    f"{e.scene}: {text}"
                    for e in evaluations
                    for text in e.warnings
                    if text not in e.remarks
                ),
            ],
            provenances=[(titles[e.scene], e.provenance) for e in evaluations if e.provenance],
            remarks=[f"{e.scene}: {text}" for e in evaluations for text in e.remarks],
        )
    )
    with publication(folder, origin) as new:
        for picture in pictures:
            write_bytes(new / picture.file, picture.png)
        _write_csv(new / "evaluation.csv", evaluations)
        write_bytes(new / "report.html", html.encode())
        if figures:
            names = [style_of(name).name for name in methods]
            blocks = _blocks(tables, list(titles.values()))
            write_dataset_figures(new, evaluations, titles, names, blocks, kept)


def _blocks(tables: Sequence[Table], scenes: Sequence[str]) -> list[Block]:
    """Return the blocks of the table for papers: scenes, and the mean of several."""
    means = [[("Mean", t.means)] if t.means and len(scenes) > 1 else [] for t in tables]
    return [
        Block(table.title, [*zip(scenes, table.rows, strict=True), *mean])
        for table, mean in zip(tables, means, strict=True)
    ]


def verdict(evaluations: Sequence[SceneEvaluation]) -> str:
    """Say which method leads in the mean over the scenes with truth; "" without such scenes."""
    known = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    leads: dict[str, list[str]] = {}
    for metric in METRICS[:2]:
        for name, text in _leaders(metric, known).items():
            leads.setdefault(style_of(name).name, []).append(text)
    if not leads:
        return ""
    several = len(known) > 1
    scenes, highest = (
        (f"the {count(len(known))} scenes", "highest mean")
        if several
        else ("this scene", "highest")
    )
    told = [f"{name} has the {highest} {' and '.join(texts)}" for name, texts in leads.items()]
    return f"Of the methods with a consistent result on {scenes}, {', and '.join(told)}."


def _leaders(metric: Metric, evaluations: Sequence[SceneEvaluation]) -> dict[str, str]:
    """Return the methods with the best mean of those that compete on every scene, and the mean."""
    competing = best_methods(evaluations)
    means = {
        name: _mean([metric.value(e.methods[name]) for e in evaluations])
        for name in (evaluations[0].methods if evaluations else ())
        if name in competing or name == "input"
    }
    known = [value for name, value in means.items() if name in competing and value is not None]
    text = f"{metric.name} ({{}}; input {percent(means.get('input'))})"
    return {
        name: text.format(percent(value))
        for name, value in means.items()
        if name in competing and known and value == max(known)
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _plots(evaluations: Sequence[SceneEvaluation], titles: Mapping[str, str]) -> list[Picture]:
    """Plan the plots of the scenes with truth."""
    with_truth = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    if not with_truth:
        return []
    plots = trade_off_picture(with_truth)
    if plots and len(with_truth) > 1:
        values = scene_trade_offs(with_truth, titles)
        caption = (
            "One plot a scene, drawn as above. The line is the input under a ratio test; "
            "above it a method is better than that test alone. Scales differ."
        )
        drawing = Drawing("trade-offs", trade_offs_figure, (values,))
        plots.append(
            Picture("trade-offs.png", "The same, scene by scene", caption, drawing=drawing)
        )
    caption = (
        "FCM(t), one plot a scene; m is its number of features. "
        "Higher is better. Solid lines are cycle-consistent results, dashed ones are not. "
        "A method without a line in the legend is cycle-consistent on some scenes only."
    )
    drawing = Drawing("fcm", scenes_figure, (scene_curves(with_truth, titles),))
    return [*plots, Picture("fcm.png", "Correct matchings", caption, drawing=drawing)]


def _table(
    metric: Metric, evaluations: Sequence[SceneEvaluation], methods: Sequence[str]
) -> Table | None:
    """Return the table of a metric; None where no method has a value."""
    rows = [[_value(metric, e, name) for name in methods] for e in evaluations]
    if all(value is None for row in rows for value in row):
        return None
    complete = [row for row in rows if None not in row]
    means = [_mean(column) for column in zip(*complete, strict=True)]
    everywhere = best_methods(
        e for e, row in zip(evaluations, rows, strict=True) if None not in row
    )
    return Table(
        metric.word,
        metric.title,
        metric.note,
        [
            _marked(metric, row, methods, best_methods([e]))
            for e, row in zip(evaluations, rows, strict=True)
        ],
        len(complete),
        _marked(metric, means, methods, everywhere) if complete else [],
        _rank_cells(metric, evaluations, methods) if len(evaluations) > 1 else [],
    )


def _value(metric: Metric, evaluation: SceneEvaluation, method: str) -> float | None:
    figures = evaluation.methods.get(method)
    return metric.value(figures) if figures else None


def _marked(
    metric: Metric,
    values: Sequence[float | None],
    methods: Sequence[str],
    competing: Collection[str],
) -> list[Cell]:
    """Write the values, and mark the best of the methods that compete."""
    if not metric.marked:
        return [Cell(metric.write(value)) for value in values]
    return mark_best(values, metric.write, max, [name in competing for name in methods])


def _rank_cells(
    metric: Metric, evaluations: Sequence[SceneEvaluation], methods: Sequence[str]
) -> list[Cell]:
    """Return the mean rank of every method with consistent results; [] of a metric of costs."""
    known = [e for e in evaluations if any(_value(metric, e, name) is not None for name in methods)]
    ranked = [
        name
        for name in methods
        if name != "input"
        and all(name in e.methods and e.methods[name].cycle_consistent for e in known)
    ]
    if not metric.marked or len(ranked) < 2:
        return []
    ranks = mean_ranks(
        [
            {
                name: _value(metric, e, name) if name in best_methods([e]) else None
                for name in ranked
            }
            for e in known
        ]
    )
    best = min(f"{rank:.1f}" for rank in ranks.values())
    texts = [f"{ranks[name]:.1f}" if name in ranks else "–" for name in methods]
    return [Cell(text, text == best) for text in texts]


def _estimate_cells(
    evaluation: SceneEvaluation, methods: Sequence[str], measured: bool
) -> list[Cell]:
    """Return three cells for every method: precision, estimated, measured, and the difference.

    Only the first one unless the truth of any scene on the page is known.
    """
    texts = [_estimate_texts(evaluation.methods.get(name)) for name in methods]
    return [Cell(text) for three in texts for text in three[: 3 if measured else 1]]


def _estimate_texts(method: MethodEvaluation | None) -> list[str]:
    if method is None:
        return ["–"] * 3
    difference = _difference(method)
    shares = percent(method.estimated_precision), percent(method.precision.get(HEADLINE))
    return [*shares, "–" if difference is None else f"{100 * difference:+.1f}".replace("-", "−")]


def _mean_differences(evaluations: Sequence[SceneEvaluation], methods: Sequence[str]) -> list[str]:
    """Return the mean absolute difference of estimated and measured precision of every method."""
    texts = []
    for name in methods:
        found = [_difference(e.methods[name]) for e in evaluations if name in e.methods]
        known = [abs(value) for value in found if value is not None]
        texts.append(f"{100 * sum(known) / len(known):.1f}" if known else "–")
    return texts


def _difference(method: MethodEvaluation) -> float | None:
    """Return by how much the estimated precision is too high, if both are known."""
    estimated, measured = method.estimated_precision, method.precision.get(HEADLINE)
    return None if estimated is None or measured is None else estimated - measured


def _link(folder: Path, scene: str) -> str:
    """Return the relative address of a scene's page from the page of the data set."""
    short = scene.rsplit("/", 1)[-1]
    places = [folder / short, folder / scene, folder.parent / scene]
    existing = (place for place in places if (place / "report.html").exists())
    target = next(existing, places[0]) / "report.html"
    return quote(Path(os.path.relpath(target, folder)).as_posix())


def _write_csv(path: Path, evaluations: Sequence[SceneEvaluation]) -> None:
    """Write one row for every scene and method; unknown values are empty."""
    rows = [row for evaluation in evaluations for row in evaluation.rows()]
    write_table(path, COLUMNS, [[_plain(value) for value in row] for row in rows])


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
