"""The figures of the pages for papers: as PDF and SVG, as wide as a column or the text."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.evaluation.tracks import track_counts
from nmfsync.report.drawing import Drawing, draw
from nmfsync.report.figures.cameras import views_figure, views_of
from nmfsync.report.figures.curves import (
    curves_figure,
    curves_of,
    scene_curves,
    scenes_figure,
)
from nmfsync.report.figures.image_graph import image_graph_figure
from nmfsync.report.figures.matrix import matrix_panels, panels_figure
from nmfsync.report.figures.overlays import overlay_figure, overlay_pairs, pair_panels
from nmfsync.report.figures.reliability import reliabilities_figure, reliability_of
from nmfsync.report.figures.style import COLUMN, TEXT, paper
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.figures.track_sheet import sheet_figure, track_sheet
from nmfsync.report.figures.trade_off import (
    scene_trade_offs,
    trade_off,
    trade_off_figure,
    trade_offs_figure,
)
from nmfsync.report.latex import Block, scene_table, table
from nmfsync.report.page import write_bytes
from nmfsync.runtime.publish import FIGURES
from nmfsync.scenes.scene import Scene
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching


def write_scene_figures(
    folder: Path,
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    errors: Mapping[str, MatchErrors],
    evaluation: SceneEvaluation,
    kept: Path | None = None,
) -> None:
    """Write the figures of a scene's page and `table.tex` to the folder `figures`.

    Parameters
    ----------
    folder, scene, features, results, errors, evaluation, kept
        As for `write_scene_report`.
    """
    drawings = [
        *_plots([evaluation]),
        *_plots_of_scene(scene, features, results, evaluation),
        *_photographs(scene, features, results, errors, evaluation),
    ]
    _write(folder, drawings, kept)
    write_bytes(folder / FIGURES / "table.tex", scene_table(evaluation).encode())


def write_dataset_figures(
    folder: Path,
    evaluations: Sequence[SceneEvaluation],
    titles: Mapping[str, str],
    methods: Sequence[str],
    blocks: Sequence[Block],
    kept: Path | None = None,
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
    kept : Path, optional
        As for `write_dataset_report`.
    """
    known = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    drawings = [*_plots(evaluations)]
    if known:
        drawings.append(_drawing("fcm", TEXT, scenes_figure, scene_curves(known, titles)))
    if len(known) > 1 and trade_off(known).scenes:
        values = scene_trade_offs(known, titles)
        drawings.append(_drawing("trade-offs", TEXT, trade_offs_figure, values))
    _write(folder, drawings, kept)
    write_bytes(folder / FIGURES / "table.tex", table(["Scene", *methods], blocks).encode())


def _plots(evaluations: Sequence[SceneEvaluation]) -> Iterator[Drawing]:
    """Yield what the pages of scenes and of data sets have in common."""
    evaluations = [evaluation for evaluation in evaluations if evaluation.truth != "none"]
    values = trade_off(evaluations)
    if values.scenes:
        yield _drawing("trade-off", COLUMN, trade_off_figure, values)
    estimated = dict.fromkeys(["input", *(evaluation.tracks for evaluation in evaluations)])
    known = {name: found for name in estimated if (found := reliability_of(evaluations, name))}
    if known:
        yield _drawing(
            "reliability", COLUMN if len(known) < 3 else TEXT, reliabilities_figure, known
        )


def _plots_of_scene(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    evaluation: SceneEvaluation,
) -> Iterator[Drawing]:
    if evaluation.truth != "none":
        yield _drawing("fcm", COLUMN, curves_figure, curves_of(evaluation.methods), False)
    if scene.cameras:
        curves = curves_of(evaluation.methods, epipolar=True)
        yield _drawing("epipolar", COLUMN, curves_figure, curves, True)
        yield _drawing("cameras", COLUMN, views_figure, *views_of(scene, features))
    if evaluation.image_graph.ties:
        yield _drawing("images", COLUMN, image_graph_figure, evaluation.image_graph, scene.labels)
    counts = {
        name: track_counts(matches)
        for name, matches in results.items()
        if name == "input" or isinstance(matches, MultiMatching)
    }
    yield _drawing("lengths", COLUMN, lengths_figure, counts)
    before = results["input"]
    panels = matrix_panels(before, _tracks_of(results, evaluation), evaluation.tracks)
    yield _drawing("matrix", TEXT, panels_figure, panels, before.offsets, scene.labels)


def _photographs(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    errors: Mapping[str, MatchErrors],
    evaluation: SceneEvaluation,
) -> Iterator[Drawing]:
    for pair in overlay_pairs(len(features)):
        name = f"overlay-{pair[0] + 1}-{pair[1] + 1}"
        yield _drawing(name, TEXT, overlay_figure, *pair_panels(scene, features, errors, pair))
    result = _tracks_of(results, evaluation)
    if result is not None:
        sheet = track_sheet(scene, features, result, errors[evaluation.tracks])
        if sheet is not None:
            yield _drawing("overlay-tracks", TEXT, sheet_figure, sheet)


def _tracks_of(results: Mapping[str, Matches], evaluation: SceneEvaluation) -> MultiMatching | None:
    """Return the result whose tracks are shown, if there is one."""
    result = results[evaluation.tracks]
    return result if isinstance(result, MultiMatching) else None


def _drawing(name: str, width: float, function: Callable[..., Any], *arguments: Any) -> Drawing:
    """Plan a figure of this width in inches, in both formats."""
    return Drawing(f"{FIGURES}/{name}", function, arguments, paper(width), ("pdf", "svg"))


def _write(folder: Path, drawings: Iterable[Drawing], kept: Path | None) -> None:
    for name, content in draw([*drawings], kept).items():
        write_bytes(folder / name, content)
