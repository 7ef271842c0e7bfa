"""Reports: one self-contained HTML file a scene, and one a data set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.evaluation.tracks import TrackCounts, track_counts
from nmfsync.report.figures.cameras import cameras_figure
from nmfsync.report.figures.curves import fcm_figure
from nmfsync.report.figures.matrix import matrix_figure
from nmfsync.report.figures.overlays import overlay_pairs, pair_figure
from nmfsync.report.figures.style import HEADLINE, style_of, to_png
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.figures.track_sheet import tracks_figure
from nmfsync.report.page import (
    Cell,
    Picture,
    count,
    decimal,
    environment,
    flat,
    judged_share,
    mark_best,
    percent,
    write_bytes,
)
from nmfsync.scenes.scene import Scene
from nmfsync.truth.depths import DepthMaps, FeatureDepths
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching


def write_scene_report(
    folder: Path,
    scene: Scene,
    features: Sequence[Features],
    results: dict[str, Matches],
    errors: Mapping[str, MatchErrors],
    evaluation: SceneEvaluation,
) -> None:
    """Write `report.html` and its pictures.

    The pictures are `fcm.png` (with truth only), `lengths.png`, `matrix.png`,
    `overlay-<a>-<b>.png` for up to three pairs of images counted from 1, and
    `overlay-tracks.png` (where a cycle-consistent result has a track). Those
    of an earlier run that no longer apply are removed.

    Parameters
    ----------
    folder : Path
        Where to write; it is made if need be.
    scene : Scene
    features : sequence of Features, length k
    results : dict of str to PairwiseMatches or MultiMatching
        "input" first, then the methods.
    errors : dict of str to MatchErrors
        Those of the same matches.
    evaluation : SceneEvaluation
        Of the same methods.

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
    overlays = _overlays(scene, features, results, errors)
    names = ["fcm.png", "epipolar.png", "cameras.png"]
    for old in [*(folder / name for name in names), *folder.glob("overlay-*.png")]:
        old.unlink(missing_ok=True)
    for picture in plots + overlays:
        write_bytes(folder / picture.file, picture.png)
    page = environment().get_template("scene.html")
    html = page.render(
        evaluation=evaluation,
        rows=_method_rows(evaluation),
        verdicts=[
            verdict(name, evaluation.methods, counts)
            # Those that are consistent by nature first: the report opens with one.
            for name in sorted(evaluation.methods, key=lambda name: name not in counts)
            if name != "input"
        ],
        tracks_kept=_tracks_kept(counts),
        plots=plots,
        overlays=overlays,
        images=_image_rows(scene, features),
        depths_known=_depths_known(scene, features),
        depth_figures=_depth_figures(evaluation.depth_quality),
        settings=flat(evaluation.settings),
    )
    write_bytes(folder / "report.html", html.encode())


def _plots(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    evaluation: SceneEvaluation,
    counts: Mapping[str, TrackCounts],
) -> list[Picture]:
    first = _first_consistent(results)
    after = results[first] if first else None
    plots = []
    if evaluation.truth != "none":
        caption = (
            "Left: how many matches are right, relative to the number of image features. "
            "Right: how many of the matches returned are right. Higher is better in both. "
            "Solid lines are cycle-consistent results, dashed ones are not."
        )
        figure = fcm_figure(evaluation)
        plots.append(Picture("fcm.png", "Correct matchings", caption, to_png(figure)))
    if scene.cameras:
        caption = (
            "The same by the distance to the epipolar lines of the given cameras. This needs no "
            "depth, so it judges every match, but it lets pass what is wrong along the line."
        )
        figure = fcm_figure(evaluation, by="epipolar_")
        plots.append(Picture("epipolar.png", "Epipolar distance", caption, to_png(figure)))
        plots.append(
            Picture(
                "cameras.png", "Cameras", _CAMERAS_CAPTION, to_png(cameras_figure(scene, features))
            )
        )
    caption = (
        "Union-find joins whatever the input connects and must throw away every component "
        "that holds two features of one image; synchronisation splits it instead. "
        "Right: how many tracks remain, by the number of images in which they are seen."
    )
    plots.append(Picture("lengths.png", "Tracks", caption, to_png(lengths_figure(counts))))
    caption = (
        "One block a pair of images, one point a match. The features of an image are ordered "
        "by track, the longest first, so that consistent matches line up."
        if first
        else "One block a pair of images, one point a match."
    )
    assert after is None or isinstance(after, MultiMatching)
    figure = matrix_figure(results["input"], after, first, scene.labels)
    plots.append(Picture("matrix.png", "The matrix W", caption, to_png(figure)))
    return plots


_CAMERAS_CAPTION = (
    "Where the cameras stand, with their lines of sight, and the points whose depth is known at "
    "the features: from two sides, in units of the calibration."
)


def _depths_known(scene: Scene, features: Sequence[Features]) -> str:
    """Say for how many features a truth from depths knows the depth."""
    if not isinstance(scene.truth, DepthMaps | FeatureDepths):
        return ""
    points = [scene.truth.points(i, f.xy)[:, 0] for i, f in enumerate(features)]
    known = sum(int(np.isfinite(column).sum()) for column in points)
    return f"{known:,} of {sum(len(column) for column in points):,} features"


def _first_consistent(results: Mapping[str, Matches]) -> str:
    """Name of the first cycle-consistent method, or ""."""
    names = (n for n, m in results.items() if n != "input" and isinstance(m, MultiMatching))
    return next(names, "")


def _overlays(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    errors: Mapping[str, MatchErrors],
) -> list[Picture]:
    pictures = []
    for a, b in overlay_pairs(len(features)):
        title = f"Matches of {scene.labels[a]} and {scene.labels[b]}"
        pictures.append(
            _overlay(
                f"overlay-{a + 1}-{b + 1}.png",
                title,
                _pair_caption(scene),
                pair_figure(scene, features, errors, (a, b)),
            )
        )
    first = _first_consistent(results)
    matching = results.get(first)
    if isinstance(matching, MultiMatching):
        figure = tracks_figure(scene, features, matching, errors[first])
        if figure is not None:
            title = f"Some tracks of {style_of(first).name}"
            pictures.append(_overlay("overlay-tracks.png", title, _TRACKS_CAPTION, figure))
    return pictures


_TRACKS_CAPTION = (
    "Above, the images with numbered marks; below, one strip a track with the patch around its "
    "feature in every image, at the feature's scale and turned as in the first view. An empty "
    "frame: the track is not seen there. The tracks are the longest, those taken that lie far "
    "apart; whether they are right plays no part in the choice."
)


def _pair_caption(scene: Scene) -> str:
    if scene.truth is None:
        return "One panel a method, a line a match. The truth is unknown."
    return (
        "One panel a method, a line a match, wrong ones on top. Right: the left feature, moved "
        "to the right image by the truth, lands within 1 % of that image's larger dimension."
    )


def _overlay(file: str, title: str, caption: str, figure: Figure) -> Picture:
    return Picture(file, title, caption, to_png(figure), photograph=True)


def verdict(
    method: str,
    methods: Mapping[str, MethodEvaluation],
    counts: Mapping[str, TrackCounts],
) -> str:
    """Say in a sentence what a method made of the input.

    Parameters
    ----------
    method : str
    methods : dict of str to MethodEvaluation
        The method, and "input" to compare it with.
    counts : dict of str to TrackCounts
        Of the cycle-consistent methods.

    Returns
    -------
    str
    """
    after, before = methods[method], methods["input"]
    name = style_of(method).name
    if method in counts:
        tracks = _many(len(counts[method].lengths), "consistent track")
        what = f"{name} returns {_many(after.matchings, 'match')} in {tracks}"
    else:
        consistent = "cycle-consistent" if after.cycle_consistent else "not cycle-consistent"
        what = f"{name} returns {_many(after.matchings, 'match')}, {consistent}"
    what += f" (input: {before.matchings:,})"
    changes = [
        _change(words, getattr(before, curve).get(HEADLINE), getattr(after, curve).get(HEADLINE))
        for words, curve in (("precision at 1 %", "precision"), ("FCM at 1 %", "fcm"))
    ]
    return "; ".join([what, *filter(None, changes)]) + "."


def _many(number: int, noun: str) -> str:
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def _change(what: str, before: float | None, after: float | None) -> str:
    """Say how a share moved, judged by the digits that are shown."""
    if before is None or after is None:
        return ""
    old, new = round(100 * before, 1), round(100 * after, 1)
    if old == new:
        return f"{what} stays at {new:.1f} %"
    return f"{what} {'rises' if new > old else 'falls'} from {old:.1f} % to {new:.1f} %"


def _tracks_kept(counts: Mapping[str, TrackCounts]) -> str:
    """Compare the features in tracks with what union-find would keep of the input."""
    union = counts["input"]
    text = (
        f"Union-find on the input keeps {_many(union.kept, 'feature')} in "
        f"{_many(len(union.lengths), 'consistent track')} and throws away "
        f"{_many(union.lost, 'feature')} in components that hold two features of one image"
    )
    others = [
        f"{style_of(name).name} keeps {_many(count.kept, 'feature')} in "
        f"{_many(len(count.lengths), 'track')}"
        for name, count in counts.items()
        if name != "input"
    ]
    return "; ".join([text, *others]) + "."


def _method_rows(evaluation: SceneEvaluation) -> list[tuple[str, bool, list[Cell]]]:
    """Name, cycle-consistency and the seven figures of every method."""
    methods = evaluation.methods
    columns = [
        [Cell(count(m.matchings)) for m in methods.values()],
        [Cell(percent(judged_share(m))) for m in methods.values()],
        mark_best([m.fcm.get(HEADLINE) for m in methods.values()], percent, max),
        mark_best([m.precision.get(HEADLINE) for m in methods.values()], percent, max),
        mark_best([m.cycle_error for m in methods.values()], decimal, min),
        _costs({name: m.seconds for name, m in methods.items()}),
        _costs({name: m.peak_memory_mb for name, m in methods.items()}),
    ]
    return [
        (style_of(name).name, method.cycle_consistent, [column[row] for column in columns])
        for row, (name, method) in enumerate(methods.items())
    ]


def _costs(values: Mapping[str, float]) -> list[Cell]:
    """Print what the methods took; the input's cost is no achievement, so never the best."""
    own = {name: value for name, value in values.items() if name != "input"}
    best = dict(zip(own, mark_best(list(own.values()), decimal, min), strict=True))
    return [best.get(name, Cell(decimal(value))) for name, value in values.items()]


def _depth_figures(quality: Mapping[str, Any]) -> list[str]:
    """Print the quality of reconstructed depths: one row, empty where there is none."""
    if not quality:
        return []
    judged, share = quality["judged"], quality["reconstructed"]
    found = "–" if share is None else f"{count(judged * share)} ({percent(share)})"
    within, in_all = percent(quality["within"]), percent(quality["within_in_all"])
    return [quality["against"], count(judged), found, within, in_all, decimal(quality["median"])]


def _image_rows(scene: Scene, features: Sequence[Features]) -> list[list[str]]:
    """Name, size, keypoints, distinct positions and features used of every image."""
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
