"""The page and the CSV table about several scenes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.figures.curves import dataset_figure
from nmfsync.report.figures.style import HEADLINE, default_look, style_of, to_png
from nmfsync.report.page import Cell, Picture, environment, mark_best, percent, write_bytes
from nmfsync.report.pictures import reliability_picture, trade_off_picture
from nmfsync.runtime.publish import publication
from nmfsync.runtime.tables import write_table

COLUMNS = (
    "scene", "images", "features", "universe_size", "truth", "method", "cycle_consistent",
    "matchings", "judged", "fcm_0.01", "precision_0.01", "estimated_precision",
    "epipolar_fcm_0.01", "epipolar_precision_0.01", "cycle_error", "seconds", "peak_memory_mb",
)  # fmt: skip


@default_look()
def write_dataset_report(
    folder: Path,
    title: str,
    evaluations: Sequence[SceneEvaluation],
    labels: Mapping[str, str] | None = None,
    left_out: Sequence[str] = (),
) -> None:
    """Write `report.html`, `evaluation.csv` and, with truth, pictures of several scenes.

    The pictures are `fcm.png`, `trade-off.png` and `reliability.png`. All replace the files of
    the last run together.

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

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    folder = Path(folder)
    labels = labels or {}
    plots = _plots(evaluations, labels)
    estimated = list(dict.fromkeys(["input", *(evaluation.tracks for evaluation in evaluations)]))
    reliability = reliability_picture(evaluations, estimated)
    methods = list(dict.fromkeys(name for e in evaluations for name in e.methods))
    measured = any(evaluation.truth != "none" for evaluation in evaluations)
    scenes = [
        (labels.get(e.scene, e.scene), e, _link(folder, e.scene), _scene_cells(e, methods))
        for e in evaluations
    ]
    html = (
        environment()
        .get_template("dataset.html")
        .render(
            title=title,
            methods=[style_of(name).name for name in methods],
            scenes=scenes,
            means=_means(evaluations, methods),
            measured=measured,
            estimated=[style_of(name).name for name in estimated],
            estimates=[
                (labels.get(e.scene, e.scene), _estimate_cells(e, estimated, measured))
                for e in evaluations
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
            provenances=[
                (labels.get(e.scene, e.scene), e.provenance) for e in evaluations if e.provenance
            ],
            remarks=[f"{e.scene}: {text}" for e in evaluations for text in e.remarks],
        )
    )
    with publication(folder) as new:
        for picture in plots + reliability:
            write_bytes(new / picture.file, picture.png)
        _write_csv(new / "evaluation.csv", evaluations)
        write_bytes(new / "report.html", html.encode())


def _plots(evaluations: Sequence[SceneEvaluation], labels: Mapping[str, str]) -> list[Picture]:
    """Draw the plots of the scenes with truth."""
    with_truth = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    if not with_truth:
        return []
    caption = (
        "FCM(t), one plot a scene; m is its number of features. "
        "Higher is better. Solid lines are cycle-consistent results, dashed ones are not. "
        "A method without a line in the legend is cycle-consistent on some scenes only."
    )
    png = to_png(dataset_figure(with_truth, labels))
    curves = Picture("fcm.png", "Correct matchings", caption, png)
    return [*trade_off_picture(with_truth), curves]


def _scene_cells(evaluation: SceneEvaluation, methods: Sequence[str]) -> list[Cell]:
    """Return two cells for every method: FCM and precision at 1 %; none without truth."""
    if evaluation.truth == "none":
        return []
    return _paired([_headlines(evaluation, methods, curve) for curve in ("fcm", "precision")])


def _means(
    evaluations: Sequence[SceneEvaluation], methods: Sequence[str]
) -> tuple[int, list[Cell]]:
    """Average over the scenes where every method has both values, so that means are comparable.

    Returns the number of these scenes, and two cells for every method.
    """
    rows = [
        _headlines(evaluation, methods, "fcm") + _headlines(evaluation, methods, "precision")
        for evaluation in evaluations
    ]
    complete = [[value for value in row if value is not None] for row in rows if None not in row]
    if not complete:
        return 0, []
    means = [sum(column) / len(complete) for column in zip(*complete, strict=True)]
    return len(complete), _paired([means[: len(methods)], means[len(methods) :]])


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


def _headlines(
    evaluation: SceneEvaluation, methods: Sequence[str], curve: str
) -> list[float | None]:
    """Return the value of a curve at 1 % for every method; None where it is not known."""
    results = [evaluation.methods.get(name) for name in methods]
    return [getattr(result, curve).get(HEADLINE) if result else None for result in results]


def _paired(columns: Sequence[Sequence[float | None]]) -> list[Cell]:
    """Mark the best FCM and the best precision, and put both values of a method side by side."""
    marked = [mark_best(values, percent, max) for values in columns]
    return [cell for pair in zip(*marked, strict=True) for cell in pair]


def _link(folder: Path, scene: str) -> str:
    """Return the relative address of a scene's page from the page of the data set."""
    short = scene.rsplit("/", 1)[-1]
    places = [folder / short, folder / scene, folder.parent / scene]
    existing = (place for place in places if (place / "report.html").exists())
    target = next(existing, places[0]) / "report.html"
    return quote(Path(os.path.relpath(target, folder)).as_posix())


def _write_csv(path: Path, evaluations: Sequence[SceneEvaluation]) -> None:
    """Write one row for every scene and method; unknown values are empty."""
    rows: list[list[Any]] = []
    for e in evaluations:
        scene = [e.scene, e.images, e.features, e.universe_size, e.truth]
        for name, m in e.methods.items():
            shares = [m.fcm.get(HEADLINE), m.precision.get(HEADLINE), m.estimated_precision]
            shares += [m.epipolar_fcm.get(HEADLINE), m.epipolar_precision.get(HEADLINE)]
            consistent = str(m.cycle_consistent).lower()
            costs = [m.cycle_error, m.seconds, m.peak_memory_mb]
            rows.append([*scene, name, consistent, m.matchings, m.judged, *shares, *costs])
    write_table(path, COLUMNS, rows)
