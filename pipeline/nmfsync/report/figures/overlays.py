"""The figure of the matches between two images, drawn over the photographs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.report.figures.canvas import (
    FOOTER,
    Image,
    Photograph,
    Placement,
    new_canvas,
    photograph,
    shorten,
    show_canvas,
    stroke,
    text_width,
    write_text,
)
from nmfsync.report.figures.style import RIGHT, UNKNOWN, WRONG, current_look, judge, style_of
from nmfsync.scenes.scene import Scene
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.features import Features

# Colours and dashes of the matches, in the order of drawing: wrong ones are on top.
COLOURS = {"unknown": UNKNOWN, "right": RIGHT, "wrong": WRONG}

DASHES: dict[str, Any] = {"unknown": (0, (1, 1)), "right": "-", "wrong": (0, (3, 1.2))}

NEUTRAL = "#0072B2"  # colour of all matches if there is no truth

# Sizes in pixels: around a panel, between its two images, of the highest panel, of its title.
MARGIN, SEAM, PANEL_HEIGHT, PANEL_TITLE = 12, 8, 900, 52


class PairMatches(NamedTuple):
    """The matches of two images: positions (n, 2) in the left and the right one, errors (n,)."""

    left: AnyArray
    right: AnyArray
    error: FloatArray


def overlay_pairs(k: int) -> list[tuple[int, int]]:
    """Return the pairs of images to draw: the first with the second, a middle one and the last."""
    return [(0, j) for j in sorted({1, k // 2, k - 1}) if 0 < j < k]


def pair_figure(
    scene: Scene,
    features: Sequence[Features],
    errors: Mapping[str, MatchErrors],
    pair: tuple[int, int],
) -> Figure:
    """Draw the matches between two images, one panel a method.

    Parameters
    ----------
    scene : Scene
    features : sequence of Features, length k
    errors : dict of str to MatchErrors
        The matches of every method and their errors, "input" first.
    pair : (int, int)
        Left and right image, counted from 0.

    Returns
    -------
    matplotlib.figure.Figure
        At most 2400 pixels wide. A match is right if its error from the left
        to the right image is at most 1 % of the right one's larger dimension.
    """
    return overlay_figure(*pair_panels(scene, features, errors, pair))


def pair_panels(
    scene: Scene,
    features: Sequence[Features],
    errors: Mapping[str, MatchErrors],
    pair: tuple[int, int],
) -> tuple[list[Photograph], dict[str, PairMatches], bool]:
    """Return what `pair_figure` draws: photographs, matches by method, whether truth is known."""
    matches = {name: _matches_of(features, error, pair) for name, error in errors.items()}
    return [photograph(scene, i) for i in pair], matches, scene.truth is not None


def _matches_of(
    features: Sequence[Features], errors: MatchErrors, pair: tuple[int, int]
) -> PairMatches:
    """Pick the matches of two images."""
    offsets = np.cumsum([0, *(len(f.xy) for f in features)])
    sides = [(errors.p, pair[0]), (errors.q, pair[1])]
    of_pair = np.all([(p >= offsets[i]) & (p < offsets[i + 1]) for p, i in sides], axis=0)
    left, right = (features[i].xy[p[of_pair] - offsets[i]] for p, i in sides)
    return PairMatches(left, right, errors.error[of_pair])


def overlay_figure(
    photographs: Sequence[Photograph], matches: Mapping[str, PairMatches], truth_known: bool
) -> Figure:
    """Draw `pair_figure` from what `pair_panels` returns."""
    canvas, panels = _paint_panels([photo.read() for photo in photographs], len(matches))
    figure, axes = show_canvas(canvas)
    for (method, of_pair), placements in zip(matches.items(), panels, strict=True):
        _draw_matches(axes, placements, method, of_pair, truth_known)
    _draw_footer(axes, canvas, [photo.label for photo in photographs], truth_known)
    return figure


def _paint_panels(images: Sequence[Image], count: int) -> tuple[Image, list[list[Placement]]]:
    """Paint two images `count` times in a grid; return the canvas and their placements."""
    columns = 1 if current_look().narrow else min(2, count)
    width = current_look().photo_width // columns - 2 * MARGIN
    widths, height = _fit_side_by_side([image.shape for image in images], width)
    step_x, step_y = sum(widths) + SEAM + 2 * MARGIN, height + PANEL_TITLE + MARGIN
    canvas = new_canvas(columns * step_x, -(-count // columns) * step_y + FOOTER)
    panels = []
    for n in range(count):
        left = n % columns * step_x + MARGIN
        top = n // columns * step_y + PANEL_TITLE
        placements = [
            Placement(x, top, width, height, (image.shape[1], image.shape[0]))
            for x, width, image in zip((left, left + widths[0] + SEAM), widths, images, strict=True)
        ]
        for placement, image in zip(placements, images, strict=True):
            placement.paint(canvas, image)
        panels.append(placements)
    return canvas, panels


def _fit_side_by_side(shapes: Sequence[tuple[int, ...]], panel: int) -> tuple[list[int], int]:
    """Return the widths and the common height at which two images fill a panel's width."""
    aspects = [shape[1] / shape[0] for shape in shapes]
    height = max(1, min(PANEL_HEIGHT, int((panel - SEAM) / sum(aspects))))
    return [max(1, int(height * aspect)) for aspect in aspects], height


def _draw_matches(
    axes: Axes,
    placements: Sequence[Placement],
    method: str,
    matches: PairMatches,
    truth_known: bool,
) -> None:
    """Draw the matches of one method in a panel, and write their numbers as its title."""
    sides = zip(placements, (matches.left, matches.right), strict=True)
    ends = np.stack([placement.to_canvas(xy) for placement, xy in sides], axis=1)
    verdict = judge(matches.error)
    by_verdict = {name: ends[verdict == name] for name in COLOURS}
    for name, lines in by_verdict.items():
        colour = COLOURS[name] if truth_known else NEUTRAL
        look: dict[str, Any] = {"colors": colour, "linewidths": stroke(1.2), "alpha": 0.85}
        look["linestyles"] = DASHES[name] if truth_known else "-"
        axes.add_collection(LineCollection(list(lines), **look))
        points = lines.reshape(-1, 2)
        axes.scatter(points[:, 0], points[:, 1], s=stroke(3) ** 2, color=colour, linewidths=0)
    counts = [f"{len(by_verdict[name]):,} {name}" for name in ("right", "wrong", "unknown")]
    text = ", ".join(counts) if truth_known else f"{len(ends):,} matches, truth unknown"
    title = f"{style_of(method).name}: {text}"
    write_text(axes, placements[0].left, placements[0].top - PANEL_TITLE / 2 + 2, title, 30)


def _draw_footer(axes: Axes, canvas: Image, labels: Sequence[str], truth_known: bool) -> None:
    """Write the names of the images and the meaning of the colours below the panels."""
    height, width = canvas.shape[:2]
    y = height - FOOTER / 2
    meanings = {
        "unknown": "unknown: cannot be judged",
        "wrong": "wrong: farther away",
        "right": "right: within 1 % of the truth",
    }
    x: float = width - MARGIN
    for name, meaning in meanings.items() if truth_known else ():
        text = name if current_look().narrow else meaning
        x -= text_width(text, 22)
        write_text(axes, x, y, text, 22, ha="left")
        line: dict[str, Any] = {"color": COLOURS[name], "linestyle": DASHES[name]}
        axes.plot([x - 52, x - 10], [y, y], linewidth=stroke(3), **line)
        x -= 84
    names = [shorten(label, (x - MARGIN) / 2 - 50, 24) for label in labels]
    write_text(axes, MARGIN, y, " and ".join(names), 24)
