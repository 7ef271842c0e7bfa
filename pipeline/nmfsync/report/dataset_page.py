"""The page and the table over several scenes."""

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.figures.curves import dataset_figure
from nmfsync.report.figures.style import HEADLINE, style_of, to_png
from nmfsync.report.page import Cell, Picture, environment, mark_best, percent, write_bytes
from nmfsync.runtime.files import atomic_write

COLUMNS = (
    "scene", "images", "features", "universe_size", "truth", "method", "cycle_consistent",
    "matchings", "judged", "fcm_0.01", "precision_0.01", "epipolar_fcm_0.01",
    "epipolar_precision_0.01", "cycle_error", "seconds", "peak_memory_mb",
)  # fmt: skip


def write_dataset_report(
    folder: Path,
    title: str,
    evaluations: Sequence[SceneEvaluation],
    labels: Mapping[str, str] | None = None,
    left_out: Sequence[str] = (),
) -> None:
    """Write `report.html`, `evaluation.csv` and, with truth, `fcm.png` of several scenes.

    Parameters
    ----------
    folder : Path
        Where to write; the scenes' own reports are looked for in and beside it.
    title : str
        Heading of the report, for instance "graffiti".
    evaluations : sequence of SceneEvaluation
        One a scene.
    labels : dict of str to str, optional
        Headings of the scenes, where they are not their names.
    left_out : sequence of str
        What is said of scenes that could not be evaluated.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    folder = Path(folder)
    judged = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    (folder / "fcm.png").unlink(missing_ok=True)
    plots = []
    if judged:
        caption = (
            "FCM(t), one plot a scene; m is its number of features. "
            "Higher is better. Solid lines are cycle-consistent results, dashed ones are not; "
            "a method shown without a line in the legend is consistent on some scenes only."
        )
        plots = [
            Picture("fcm.png", "Correct matchings", caption, to_png(dataset_figure(judged, labels)))
        ]
        write_bytes(folder / "fcm.png", plots[0].png)
    methods = list(dict.fromkeys(name for e in evaluations for name in e.methods))
    html = (
        environment()
        .get_template("dataset.html")
        .render(
            title=title,
            methods=[(name, style_of(name)) for name in methods],
            scenes=[
                (
                    (labels or {}).get(evaluation.scene, evaluation.scene),
                    evaluation,
                    _link(folder, evaluation.scene),
                    _scene_cells(evaluation, methods),
                )
                for evaluation in evaluations
            ],
            means=_means(evaluations, methods),
            plots=plots,
            warnings=[
                *(("left out", text) for text in left_out),
                *((e.scene, text) for e in evaluations for text in e.warnings),
            ],
        )
    )
    _write_csv(folder / "evaluation.csv", evaluations)
    write_bytes(folder / "report.html", html.encode())


def _scene_cells(evaluation: SceneEvaluation, methods: Sequence[str]) -> list[Cell]:
    """FCM and precision at 1 % of every method: two cells each."""
    return _paired([_headlines(evaluation, methods, curve) for curve in ("fcm", "precision")])


def _means(
    evaluations: Sequence[SceneEvaluation], methods: Sequence[str]
) -> tuple[int, list[Cell]]:
    """Average over the scenes where every method has both values, so that the means compare.

    Returns the number of these scenes and the cells, two a method.
    """
    rows = [
        _headlines(evaluation, methods, "fcm") + _headlines(evaluation, methods, "precision")
        for evaluation in evaluations
    ]
    whole = [[value for value in row if value is not None] for row in rows if None not in row]
    if not whole:
        return 0, []
    means = [sum(column) / len(whole) for column in zip(*whole, strict=True)]
    return len(whole), _paired([means[: len(methods)], means[len(methods) :]])


def _headlines(
    evaluation: SceneEvaluation, methods: Sequence[str], curve: str
) -> list[float | None]:
    """Return the value of a curve at 1 % for every method; None where there is none."""
    found = [evaluation.methods.get(name) for name in methods]
    return [getattr(method, curve).get(HEADLINE) if method else None for method in found]


def _paired(columns: Sequence[Sequence[float | None]]) -> list[Cell]:
    """Mark the best FCM and the best precision, and put each method's two side by side."""
    marked = [mark_best(values, percent, max) for values in columns]
    return [cell for pair in zip(*marked, strict=True) for cell in pair]


def _link(folder: Path, scene: str) -> str:
    """Address of a scene's report as seen from the data set's one."""
    short = scene.rsplit("/", 1)[-1]
    places = [folder / short, folder / scene, folder.parent / scene]
    found = next((place for place in places if (place / "report.html").exists()), places[0])
    return quote(Path(os.path.relpath(found / "report.html", folder)).as_posix())


def _write_csv(path: Path, evaluations: Sequence[SceneEvaluation]) -> None:
    """One row a scene and method; what is not known stays empty."""
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for e in evaluations:
            scene = [e.scene, e.images, e.features, e.universe_size, e.truth]
            for name, m in e.methods.items():
                curves = (m.fcm, m.precision, m.epipolar_fcm, m.epipolar_precision)
                shares = [curve.get(HEADLINE) for curve in curves]
                consistent = str(m.cycle_consistent).lower()
                costs = [m.cycle_error, m.seconds, m.peak_memory_mb]
                writer.writerow([*scene, name, consistent, m.matchings, m.judged, *shares, *costs])
