"""The figures of the pages for papers: as PDF and SVG, as wide as a column or the text."""

import nmfsync.report.figures  # noqa: F401  # isort: skip  imports matplotlib first

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.evaluation.tracks import track_counts
from nmfsync.report.figures.cameras import cameras_figure
from nmfsync.report.figures.curves import dataset_figure, fcm_figure
from nmfsync.report.figures.image_graph import image_graph_figure
from nmfsync.report.figures.matrix import matrix_figure
from nmfsync.report.figures.overlays import overlay_pairs, pair_figure
from nmfsync.report.figures.reliability import reliability_figure, reliability_of
from nmfsync.report.figures.style import COLUMN, TEXT, default_look, paper, to_pdf, to_svg
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.figures.track_sheet import tracks_figure
from nmfsync.report.figures.trade_off import scenes_trade_off_figure, trade_off, trade_off_figure
from nmfsync.report.latex import Block, scene_table, table
from nmfsync.report.page import write_bytes
from nmfsync.runtime.publish import FIGURES
from nmfsync.scenes.scene import Scene
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching

Drawing = tuple[str, float, Callable[[], Figure | None]]  # name, width in inches, what draws it


def write_scene_figures(
    folder: Path,
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    errors: Mapping[str, MatchErrors],
    evaluation: SceneEvaluation,
) -> None:
    """Write the figures of a scene's page and `table.tex` to the folder `figures`.

    Parameters
    ----------
    folder, scene, features, results, errors, evaluation
        As for `write_scene_report`.
    """
    _write(folder, _plots([evaluation]))
    _write(folder, _plots_of_scene(scene, features, results, evaluation))
    _write(folder, _photographs(scene, features, results, errors, evaluation))
    write_bytes(folder / FIGURES / "table.tex", scene_table(evaluation).encode())


def write_dataset_figures(
    folder: Path,
    evaluations: Sequence[SceneEvaluation],
    titles: Mapping[str, str],
    methods: Sequence[str],
    blocks: Sequence[Block],
) -> None:
    """Write the figures of a data set's page and `table.tex` to the folder `figures`.

    Parameters
    ----------
    folder : Path
    evaluations : sequence of SceneEvaluation
    titles : dict of str to str
        Scene -> its name.
    methods : sequence of str
        The headings of the table.
    blocks : sequence of Block
        Its rows.
    """
    known = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    _write(folder, _plots(evaluations))
    if known:
        _write(folder, [("fcm", TEXT, lambda: dataset_figure(known, titles))])
    if len(known) > 1 and trade_off(known).scenes:
        _write(folder, [("trade-offs", TEXT, lambda: scenes_trade_off_figure(known, titles))])
    write_bytes(folder / FIGURES / "table.tex", table(["Scene", *methods], blocks).encode())


def _plots(evaluations: Sequence[SceneEvaluation]) -> Iterator[Drawing]:
    """Yield what the pages of scenes and of data sets have in common."""
    evaluations = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    values = trade_off(evaluations)
    if values.scenes:
        yield "trade-off", COLUMN, lambda: trade_off_figure(values)
    estimated = dict.fromkeys(["input", *(evaluation.tracks for evaluation in evaluations)])
    known = [name for name in estimated if reliability_of(evaluations, name)]
    if known:
        width = COLUMN if len(known) < 3 else TEXT
        yield "reliability", width, lambda: reliability_figure(evaluations, known)


def _plots_of_scene(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    evaluation: SceneEvaluation,
) -> Iterator[Drawing]:
    if evaluation.truth != "none":
        yield "fcm", COLUMN, lambda: fcm_figure(evaluation)
    if scene.cameras:
        yield "epipolar", COLUMN, lambda: fcm_figure(evaluation, epipolar=True)
        yield "cameras", COLUMN, lambda: cameras_figure(scene, features)
    if evaluation.image_graph.ties:
        yield "images", COLUMN, lambda: image_graph_figure(evaluation.image_graph, scene.labels)
    counts = {
        name: track_counts(matches)
        for name, matches in results.items()
        if name == "input" or isinstance(matches, MultiMatching)
    }
    yield "lengths", COLUMN, lambda: lengths_figure(counts)
    name, result = evaluation.tracks, _tracks_of(results, evaluation)
    yield "matrix", TEXT, lambda: matrix_figure(results["input"], result, name, scene.labels)


def _photographs(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    errors: Mapping[str, MatchErrors],
    evaluation: SceneEvaluation,
) -> Iterator[Drawing]:
    for pair in overlay_pairs(len(features)):
        name = f"overlay-{pair[0] + 1}-{pair[1] + 1}"
        yield name, TEXT, lambda pair=pair: pair_figure(scene, features, errors, pair)  # type: ignore[misc]
    result = _tracks_of(results, evaluation)
    if result is not None:
        known = errors[evaluation.tracks]
        yield "overlay-tracks", TEXT, lambda: tracks_figure(scene, features, result, known)


def _tracks_of(results: Mapping[str, Matches], evaluation: SceneEvaluation) -> MultiMatching | None:
    """Return the result whose tracks are shown, if there is one."""
    result = results[evaluation.tracks]
    return result if isinstance(result, MultiMatching) else None


def _write(folder: Path, drawings: Iterator[Drawing] | Sequence[Drawing]) -> None:
    """Draw figures one after the other, and write each in both formats."""
    for name, width, draw in drawings:
        with default_look(paper(width)):
            figure = draw()
            if figure is not None:
                write_bytes(folder / FIGURES / f"{name}.pdf", to_pdf(figure))
                write_bytes(folder / FIGURES / f"{name}.svg", to_svg(figure))
