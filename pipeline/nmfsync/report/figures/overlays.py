"""Matches and tracks drawn over the photographs.

Every picture is one canvas whose coordinates are its own pixels: a feature is
drawn where its image stands on the canvas, plus its scaled position. Nothing
is placed by fractions of a figure, so that lines cannot drift off the images.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.report.figures.canvas import Image, Placed, new_canvas, show_image, write_text
from nmfsync.report.figures.style import HEADLINE, RIGHT, UNKNOWN, WRONG, style_of
from nmfsync.scenes.scene import Scene
from nmfsync.types.features import Features

COLOURS = {"unknown": UNKNOWN, "right": RIGHT, "wrong": WRONG}  # in the order of drawing

NEUTRAL = "#0072B2"

MARGIN, SEAM = 12, 8

PANEL_WIDTH, PANEL_HEIGHT, PANEL_TITLE = 1176, 900, 52

FOOTER = 56


def judge(error: NDArray[np.float64]) -> NDArray[np.str_]:
    """Sort transfer errors into "right" (at most 1 %), "wrong" and "unknown" (NaN)."""
    known = np.where(error <= float(HEADLINE), "right", "wrong")
    return np.where(np.isfinite(error), known, "unknown")


def overlay_pairs(k: int) -> list[tuple[int, int]]:
    """Pairs to draw: the first image with the second, a middle one and the last."""
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
        Matches of every method, "input" first.
    pair : (int, int)
        Left and right image, counted from 0.

    Returns
    -------
    matplotlib.figure.Figure
        At most 2400 pixels wide. A match is right if its error from the left
        to the right image is at most 1 % of the right one's larger dimension.
    """
    images = [scene.images[i] for i in pair]
    columns = min(2, len(errors))
    widths, height = _side_by_side([image.shape for image in images])
    step_x, step_y = sum(widths) + SEAM + 2 * MARGIN, height + PANEL_TITLE + MARGIN
    rows = -(-len(errors) // columns)
    canvas = new_canvas(columns * step_x, rows * step_y + FOOTER)
    panels = []
    for n in range(len(errors)):
        left = n % columns * step_x + MARGIN
        top = n // columns * step_y + PANEL_TITLE
        places = [
            Placed(x, top, width, height, (image.shape[1], image.shape[0]))
            for x, width, image in zip((left, left + widths[0] + SEAM), widths, images, strict=True)
        ]
        for placed, image in zip(places, images, strict=True):
            placed.paint(canvas, image)
        panels.append(places)
    figure, axes = show_image(canvas)
    for (method, error), places in zip(errors.items(), panels, strict=True):
        _draw_pair(axes, places, pair, features, method, error, scene.truth is not None)
    _pair_legend(axes, canvas, [scene.labels[i] for i in pair], scene.truth is not None)
    return figure


def _side_by_side(shapes: Sequence[tuple[int, ...]]) -> tuple[list[int], int]:
    """Widths and common height at which two images fill a panel."""
    aspects = [shape[1] / shape[0] for shape in shapes]
    height = max(1, min(PANEL_HEIGHT, int((PANEL_WIDTH - SEAM) / sum(aspects))))
    return [max(1, int(height * aspect)) for aspect in aspects], height


def _draw_pair(
    axes: Axes,
    places: Sequence[Placed],
    pair: tuple[int, int],
    features: Sequence[Features],
    method: str,
    errors: MatchErrors,
    truth_known: bool,
) -> None:
    """Lines of one method, unknown below right below wrong, and their numbers as a title."""
    offsets = np.cumsum([0, *(len(f.xy) for f in features)])
    of = [(errors.p, pair[0]), (errors.q, pair[1])]
    here = np.all([(at >= offsets[i]) & (at < offsets[i + 1]) for at, i in of], axis=0)
    ends = np.stack(
        [
            placed.at(features[i].xy[at[here] - offsets[i]])
            for placed, (at, i) in zip(places, of, strict=True)
        ],
        axis=1,
    )
    verdict = judge(errors.error[here])
    parts = {name: ends[verdict == name] for name in COLOURS}
    for name, lines in parts.items():
        colour = COLOURS[name] if truth_known else NEUTRAL
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=1.2, alpha=0.85))
        points = lines.reshape(-1, 2)
        axes.scatter(points[:, 0], points[:, 1], s=9, color=colour, linewidths=0)
    counts = [f"{len(parts[name]):,} {name}" for name in ("right", "wrong", "unknown")]
    text = ", ".join(counts) if truth_known else f"{len(ends):,} matches, truth unknown"
    title = f"{style_of(method).name}: {text}"
    write_text(axes, places[0].left, places[0].top - PANEL_TITLE / 2 + 2, title, 30)


def _pair_legend(axes: Axes, canvas: Image, labels: Sequence[str], truth_known: bool) -> None:
    """Names of the images, and what the colours mean, below the panels."""
    height, width = canvas.shape[:2]
    y = height - FOOTER / 2
    write_text(axes, MARGIN, y, f"{labels[0]} and {labels[1]}", 24)
    if not truth_known:
        return
    meanings = {
        "unknown": "unknown: cannot be judged",
        "wrong": "wrong: further away",
        "right": "right: within 1 % of the truth",
    }
    x = width - MARGIN
    for name, meaning in meanings.items():
        x -= 13 * len(meaning)
        write_text(axes, x, y, meaning, 22, ha="left")
        axes.plot([x - 52, x - 10], [y, y], color=COLOURS[name], linewidth=4)
        x -= 84
