"""The page and the CSV table about several scenes."""

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
    (folder / "fcm.png").unlink(missing_ok=True)
    plots = _plots(evaluations, labels)
    for picture in plots:
        write_bytes(folder / picture.file, picture.png)
    methods = list(dict.fromkeys(name for e in evaluations for name in e.methods))
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
            plots=plots,
            warnings=[
                *(f"left out: {text}" for text in left_out),
                *(f"{e.scene}: {text}" for e in evaluations for text in e.warnings),
            ],
        )
    )
    _write_csv(folder / "evaluation.csv", evaluations)
    write_bytes(folder / "report.html", html.encode())


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
    return [Picture("fcm.png", "Correct matchings", caption, png)]


def _scene_cells(evaluation: SceneEvaluation, methods: Sequence[str]) -> list[Cell]:
    """Return two cells for every method: FCM and precision at 1 %."""
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
