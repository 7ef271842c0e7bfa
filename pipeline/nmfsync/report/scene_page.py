"""The page about one scene: one self-contained HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.evaluation.confidence import Confidence
from nmfsync.evaluation.errors import MatchErrors
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.evaluation.tracks import TrackCounts, track_counts
from nmfsync.report.best import BEST_RULE, best_methods
from nmfsync.report.descriptions import (
    cameras_in_words,
    curves_in_words,
    matrix_in_words,
    tracks_in_words,
)
from nmfsync.report.drawing import Drawing
from nmfsync.report.estimates import (
    MOST_ROWS,
    doubtful_links,
    doubtful_rows,
    doubtful_sentence,
)
from nmfsync.report.figures.cameras import views_figure, views_of
from nmfsync.report.figures.curves import curves_figure, curves_of
from nmfsync.report.figures.matrix import matrix_panels, panels_figure
from nmfsync.report.figures.overlays import overlay_figure, overlay_pairs, pair_panels
from nmfsync.report.figures.style import HEADLINE, style_of
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.figures.track_sheet import sheet_figure, track_sheet
from nmfsync.report.image_graph import graph_picture, graph_sentences
from nmfsync.report.page import (
    Cell,
    Heading,
    Picture,
    count,
    decimal,
    environment,
    flatten,
    judged_share,
    many,
    mark_best,
    percent,
    write_bytes,
)
from nmfsync.report.pictures import drawn, reliability_picture, trade_off_picture
from nmfsync.report.takeaway import take_away
from nmfsync.report.viewer_data import scene_viewer_data, viewer_json
from nmfsync.report.wrong_pairs import wrong_pairs
from nmfsync.scenes.scene import Scene
from nmfsync.truth.depths import DepthMaps, FeatureDepths
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching

_FCM_CAPTION = (
    "Left: how many matches are right, relative to the number of image features. "
    "Right: how many of the returned matches are right. Higher is better in both. "
    "Solid lines are cycle-consistent results, dashed ones are not."
)

_EPIPOLAR_CAPTION = (
    "The same by the distance to the epipolar lines of the scene's cameras. This needs no depth, "
    "so it judges every match, but it does not detect matches that are wrong along the line."
)

_CAMERAS_CAPTION = (
    "The positions of the cameras with their viewing directions, and the features whose depth is "
    "known, seen from two sides. The unit is that of the calibration."
)

_LENGTHS_CAPTION = (
    "Union-find joins whatever the input connects, and must throw away every component "
    "that contains two features of one image; synchronisation splits it instead. "
    "Right: how many tracks remain, by the number of images in which they are seen."
)

_MATRIX_CAPTION = "One block a pair of images, one point a match."

_ORDER_CAPTION = (
    " The features of an image are ordered by track, the longest first, so that consistent "
    "matches line up."
)


def write_scene_report(
    folder: Path,
    scene: Scene,
    features: Sequence[Features],
    results: dict[str, Matches],
    errors: Mapping[str, MatchErrors],
    confidences: Mapping[str, Confidence],
    evaluation: SceneEvaluation,
    kept: Path | None = None,
) -> None:
    """Write `report.html` and its pictures.

    The pictures are `fcm.png`, `trade-off.png` and `reliability.png` (with truth),
    `epipolar.png` and `cameras.png` (with cameras), `lengths.png`, `matrix.png`,
    `images.png` (if images are linked), `pairs-before.png` and `pairs-after.png` (if pairs of
    images were left out),
    `overlay-<a>-<b>.png` for up to three pairs of images counted from 1, and
    `overlay-tracks.png` (if a cycle-consistent result has a track).

    Parameters
    ----------
    folder : Path
        The folder to write to; it is created if necessary.
    scene : Scene
    features : sequence of Features, length k
    results : dict of str to PairwiseMatches or MultiMatching
        "input" first, then the methods.
    errors : dict of str to MatchErrors
        The errors of `results`.
    confidences : dict of str to Confidence
        How likely the matches of `results` are right.
    evaluation : SceneEvaluation
        The evaluation of `results`.
    kept : Path, optional
        Folder with the pictures of the last run, see `drawing.draw`.

    Raises
    ------
    NmfsyncError
        If an image cannot be read.
    OSError
        If the folder cannot be written.
    """
    folder = Path(folder)
    counts = {
        name: track_counts(matches)
        for name, matches in results.items()
        if name == "input" or isinstance(matches, MultiMatching)
    }
    plots = _plots(scene, features, results, evaluation, counts)
    graph = graph_picture(evaluation.image_graph, scene.names, scene.labels)
    wrong = wrong_pairs(evaluation.verdicts, scene.names)
    overlays = _overlays(scene, features, results, errors)
    pairs = wrong.pictures if wrong else []
    pictures = {p.file: p for p in drawn([*plots, *graph, *pairs, *overlays], kept)}
    for picture in pictures.values():
        write_bytes(folder / picture.file, picture.png)
    data = scene_viewer_data(
        scene, features, results, evaluation.tracks, confidences, errors, evaluation.truth
    )
    # Methods that are always consistent first: the page opens with one of them.
    methods = sorted(evaluation.methods, key=lambda name: name not in counts)
    columns = _columns(evaluation)
    page = environment().get_template("scene.html")
    html = page.render(
        evaluation=evaluation,
        warnings=[text for text in evaluation.warnings if text not in evaluation.remarks],
        lead=take_away(evaluation),
        headings=[heading for heading, _ in columns],
        starred=any(cell.best for _, cells in columns for cell in cells),
        rows=_method_rows(evaluation, columns),
        doubtful=doubtful_sentence(evaluation.image_pairs, evaluation.image_pairs_left_out),
        doubtful_rows=doubtful_rows(evaluation.image_pairs, scene.names, MOST_ROWS),
        doubtful_links=doubtful_links(evaluation.image_pairs, MOST_ROWS),
        verdicts=[verdict(m, evaluation.methods, counts) for m in methods if m != "input"],
        tracks_kept=_tracks_kept(counts),
        graph=[pictures[picture.file] for picture in graph],
        wrong=wrong and wrong._replace(pictures=[pictures[picture.file] for picture in pairs]),
        graph_sentences=graph_sentences(evaluation.image_graph, scene.names),
        plots=[pictures[picture.file] for picture in plots],
        overlays=[picture.file for picture in overlays],
        viewer_json=viewer_json(data),
        images=_image_rows(scene, features),
        depths_known=_depths_known(scene, features),
        depth_row=_depth_row(evaluation.depth_quality),
        truth_from_plane_sweep=evaluation.truth == FeatureDepths.kind,
        settings=[(name, _word_of(name), value) for name, value in flatten(evaluation.settings)],
        best_rule=BEST_RULE,
        verification=_verification(evaluation.verification),
        cameras=scene.cameras is not None,
        method_keys=list(evaluation.methods),
    )
    write_bytes(folder / "report.html", html.encode())


def verdict(
    method: str,
    methods: Mapping[str, MethodEvaluation],
    counts: Mapping[str, TrackCounts],
) -> str:
    """Describe in a sentence the result of a method, compared with the input.

    Parameters
    ----------
    method : str
    methods : dict of str to MethodEvaluation
        Contains the method and "input".
    counts : dict of str to TrackCounts
        The tracks of the cycle-consistent methods.

    Returns
    -------
    str
    """
    after, before = methods[method], methods["input"]
    name = style_of(method).name
    if method in counts:
        tracks = many(len(counts[method].lengths), "consistent track")
        result = f"{name} returns {many(after.matchings, 'match')} in {tracks}"
    else:
        consistent = "cycle-consistent" if after.cycle_consistent else "not cycle-consistent"
        result = f"{name} returns {many(after.matchings, 'match')}, {consistent}"
    result += f" (input: {before.matchings:,})"
    changes = [
        _change("precision at 1 %", before.precision.get(HEADLINE), after.precision.get(HEADLINE)),
        _change("FCM at 1 %", before.fcm.get(HEADLINE), after.fcm.get(HEADLINE)),
    ]
    return "; ".join([result, *filter(None, changes)]) + "."


def _plots(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    evaluation: SceneEvaluation,
    counts: Mapping[str, TrackCounts],
) -> list[Picture]:
    """Plan the plots of a scene, in the order of the page."""
    plots: list[Picture] = []
    tracks, methods = evaluation.tracks, evaluation.methods

    def plot(name: str, title: str, caption: str, alt: str, draw: Any, *arguments: Any) -> None:
        drawing = Drawing(name, draw, arguments)
        plots.append(Picture(f"{name}.png", title, caption, alt=alt, drawing=drawing))

    if evaluation.truth != "none":
        alt = curves_in_words(evaluation)
        curves = curves_of(methods)
        plot("fcm", "Correct matchings", _FCM_CAPTION, alt, curves_figure, curves, False)
        plots += trade_off_picture([evaluation])
        plots += reliability_picture([evaluation], list(dict.fromkeys(["input", tracks])))
    if scene.cameras:
        alt = curves_in_words(evaluation, epipolar=True)
        curves = curves_of(methods, epipolar=True)
        plot("epipolar", "Epipolar distance", _EPIPOLAR_CAPTION, alt, curves_figure, curves, True)
        alt, views = cameras_in_words(scene), views_of(scene, features)
        plot("cameras", "Cameras", _CAMERAS_CAPTION, alt, views_figure, *views)
    plot("lengths", "Tracks", _LENGTHS_CAPTION, tracks_in_words(counts), lengths_figure, counts)
    name, result = _first_consistent(results)
    caption = _MATRIX_CAPTION + (_ORDER_CAPTION if result is not None else "")
    alt = matrix_in_words(results["input"], result, name)
    panels, offsets = matrix_panels(results["input"], result, name), results["input"].offsets
    plot("matrix", "The matrix W", caption, alt, panels_figure, panels, offsets, scene.labels)
    return plots


def _overlays(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    errors: Mapping[str, MatchErrors],
) -> list[Picture]:
    """Plan the pictures with photographs, which are files beside the page."""
    drawings = [
        Drawing(
            f"overlay-{a + 1}-{b + 1}", overlay_figure, pair_panels(scene, features, errors, (a, b))
        )
        for a, b in overlay_pairs(len(features))
    ]
    name, result = _first_consistent(results)
    sheet = track_sheet(scene, features, result, errors[name]) if result is not None else None
    if sheet is not None:
        drawings.append(Drawing("overlay-tracks", sheet_figure, (sheet,)))
    return [Picture(f"{d.name}.png", "", "", drawing=d) for d in drawings]


def _first_consistent(results: Mapping[str, Matches]) -> tuple[str, MultiMatching | None]:
    """Return the first method with a cycle-consistent result, and the result; or "" and None."""
    for name, matches in results.items():
        if name != "input" and isinstance(matches, MultiMatching):
            return name, matches
    return "", None


def _change(what: str, before: float | None, after: float | None) -> str:
    """Describe how a share changed, by the digits that are shown; "" if one is not known."""
    if before is None or after is None:
        return ""
    old, new = round(100 * before, 1), round(100 * after, 1)
    if old == new:
        return f"{what} stays at {new:.1f} %"
    return f"{what} {'rises' if new > old else 'falls'} from {old:.1f} % to {new:.1f} %"


def _tracks_kept(counts: Mapping[str, TrackCounts]) -> str:
    """Compare the features in tracks with those that union-find keeps of the input."""
    union = counts["input"]
    text = (
        f"Union-find on the input keeps {many(union.kept, 'feature')} in "
        f"{many(len(union.lengths), 'consistent track')} and throws away "
        f"{many(union.lost, 'feature')} in components that contain two features of one image"
    )
    others = [
        f"{style_of(name).name} keeps {many(count.kept, 'feature')} in "
        f"{many(len(count.lengths), 'track')}"
        for name, count in counts.items()
        if name != "input"
    ]
    return "; ".join([text, *others]) + "."


def _depths_known(scene: Scene, features: Sequence[Features]) -> str:
    """Say at how many features the truth knows a depth; "" if it does not consist of depths."""
    if not isinstance(scene.truth, DepthMaps | FeatureDepths):
        return ""
    points = [scene.truth.points(i, f.xy)[:, 0] for i, f in enumerate(features)]
    known = sum(int(np.isfinite(column).sum()) for column in points)
    return f"{known:,} of {sum(len(column) for column in points):,} features"


def _method_rows(
    evaluation: SceneEvaluation, columns: Sequence[tuple[Heading, list[Cell]]]
) -> list[tuple[str, str, bool, list[Cell]]]:
    """Return key, name, cycle-consistency and the cells of every method."""
    return [
        (name, style_of(name).name, method.cycle_consistent, [cells[row] for _, cells in columns])
        for row, (name, method) in enumerate(evaluation.methods.items())
    ]


def _columns(evaluation: SceneEvaluation) -> list[tuple[Heading, list[Cell]]]:
    """Return the columns of the table of methods, one cell a method; none that is empty."""
    figures = list(evaluation.methods.values())
    rivals = best_methods([evaluation])
    compared = [name in rivals for name in evaluation.methods]

    def shares(values: list[float | None]) -> list[Cell]:
        return mark_best(values, percent, max, compared)

    measured = [
        (Heading("Judged", "judged"), [Cell(percent(judged_share(m))) for m in figures]),
        (Heading("FCM\n1 %", "fcm"), shares([m.fcm.get(HEADLINE) for m in figures])),
        (
            Heading("Precision\n1 %", "precision"),
            shares([m.precision.get(HEADLINE) for m in figures]),
        ),
    ]
    columns = [
        (Heading("Matches", "match"), [Cell(count(m.matchings)) for m in figures]),
        (Heading("Tracks", "track"), [Cell(_count_or_dash(m.tracks)) for m in figures]),
        (
            Heading("Mean\nlength", "track-length"),
            [Cell(decimal(m.mean_track_length)) for m in figures],
        ),
        (Heading("Coverage", "coverage"), [Cell(percent(m.coverage)) for m in figures]),
        *(measured if evaluation.truth != "none" else []),
        # Not marked: the largest estimate need not be the best result.
        (
            Heading("Estimated\nprecision", "estimated-precision"),
            [Cell(percent(m.estimated_precision)) for m in figures],
        ),
        (Heading("Cycle-\nerror", "cycle-error"), [Cell(decimal(m.cycle_error)) for m in figures]),
        (Heading("Time,\ns"), [Cell(decimal(m.seconds)) for m in figures]),
        (Heading("Memory,\nMB"), [Cell(decimal(m.peak_memory_mb)) for m in figures]),
    ]
    return [column for column in columns if any(cell.text != "–" for cell in column[1])]


def _count_or_dash(value: int | None) -> str:
    return "–" if value is None else count(value)


# Settings that the glossary explains.
_SETTING_WORDS = {
    "theta": "theta",
    "ratio": "ratio",
    "universe_size": "universe",
    "geometry": "inlier",
}


def _word_of(setting: str) -> str:
    """Return the glossary's key of a setting of the run; "" if there is none."""
    return _SETTING_WORDS.get(setting.split(": ")[0], "")


def _verification(counts: Mapping[str, int]) -> str:
    """Say what geometric verification left of the matches; "" if nothing was verified."""
    if not counts:
        return ""
    share = counts["matches_kept"] / counts["matches"] if counts["matches"] else None
    return (
        f"{count(counts['pairs_kept'])} of {many(counts['pairs'], 'pair')} of images passed, with "
        f"{count(counts['matches_kept'])} of {many(counts['matches'], 'match')} "
        f"({percent(share)} inliers)."
    )


def _depth_row(quality: Mapping[str, Any]) -> list[str]:
    """Return the row about the depths of a plane sweep; empty without `depth_quality`."""
    if not quality:
        return []
    judged, share = quality["judged"], quality["reconstructed"]
    swept = "–" if share is None else f"{count(judged * share)} ({percent(share)})"
    within, in_all = percent(quality["within"]), percent(quality["within_in_all"])
    return [quality["against"], count(judged), swept, within, in_all, decimal(quality["median"])]


def _image_rows(scene: Scene, features: Sequence[Features]) -> list[list[str]]:
    """Return name, size, keypoints, different positions and features used of every image."""
    return [
        [
            path.name,
            f"{f.image_size[0]} × {f.image_size[1]}",
            count(f.keypoints),
            count(f.positions),
            count(len(f.xy)),
        ]
        for path, f in zip(scene.paths, features, strict=True)
    ]
