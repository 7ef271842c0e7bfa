"""The figure of the images as a graph: which hang together, and by how much."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from threadpoolctl import threadpool_limits

from nmfsync.errors import shortened
from nmfsync.evaluation.summary import ImageGraph
from nmfsync.report.figures.style import (
    COLUMN,
    INK,
    PAGE,
    SOFT,
    STYLES,
    WRONG,
    Plot,
    current_look,
    plain,
)
from nmfsync.types.arrays import FloatArray, IntArray

APART = 0.1  # what a wrong tie counts beside a right one where images are placed

HALF = 5.0  # inches: a figure beside another one

MOST_LABELS = 30  # images; of more, only those that stand out are named

FEW = 12  # images, which are drawn larger

LONGEST = 18  # letters of a name

MOST_NUMBERS = 60  # images; of more, numbers would overlap

MOST_NAMED = 12  # of many images, those that stand out and are named

PIVOTS = 100  # images from which distances are measured; with fewer images the layout is exact

MARGIN = 0.16  # around the points, as a share of their extent

STEPS, REFINED = 30, 500  # of the stress of parts with at most so many images

Tie = tuple[int, int, float]  # two images, and the strength

# Colour and marker of a part; the next ones repeat them.
LOOKS = [STYLES[name][:2] for name in ("blue", "orange", "green", "pink", "sky", "olive", "purple")]


def image_graph_figure(graph: ImageGraph, labels: Sequence[str]) -> Figure:
    """Draw one point an image and one line a tie; the same graph gives the same figure.

    Parameters
    ----------
    graph : ImageGraph
    labels : sequence of str
        Short names of all images.

    Returns
    -------
    matplotlib.figure.Figure
    """
    look = current_look()
    on_page = look == PAGE
    width = 7.0 if on_page and len(labels) <= FEW else look.width
    return _figure(graph, _places(graph, len(labels)), labels, width, 1650 if on_page else 0)


def pair_graph_figure(
    everything: ImageGraph, right: ImageGraph, wrong: Sequence[Tie], images: int, after: bool
) -> Figure:
    """Draw numbered images with or without wrong ties, each at the same place in both.

    Parameters
    ----------
    everything : ImageGraph
        By all ties: its parts.
    right : ImageGraph
        By the right ties, which say the colour and the shape of an image: those of its part.
    wrong : sequence of (int, int, float)
        All wrong ties and their strength.
    images : int
    after : bool
        Leave wrong ties out; otherwise they are dashed.
    """
    weaker = [(i, j, APART * strength) for i, j, strength in wrong]
    places = _places(replace(everything, ties=[*right.ties, *weaker]), images)
    labels = [str(n) for n in range(1, images + 1)]
    bridges = [(i, j) for i, j, _ in wrong]
    graph = right if after else replace(right, ties=[*right.ties, *wrong], bridges=bridges)
    return _figure(graph, places, labels, HALF if current_look() == PAGE else COLUMN, 1100)


def _figure(
    graph: ImageGraph, places: FloatArray, labels: Sequence[str], width: float, pixels: int
) -> Figure:
    """Draw a graph with its images at these places; 0 pixels for 150 an inch."""
    look = current_look()
    dpi = pixels / width if pixels else 150
    figure = Plot(figsize=(width, width * _height(places)), dpi=dpi)
    axes = figure.add_axes((0, 0, 1, 1))
    _draw_ties(axes, graph, places)
    size = look.scale**2 * float(np.clip(2400 / len(labels), 22, 130))
    for number, part in enumerate(graph.parts):
        colour, marker = LOOKS[number % len(LOOKS)]
        _draw_points(axes, places[part], s=size, c=colour, marker=marker, edgecolors="white")
    single = places[_single(graph, len(labels))]
    _draw_points(
        axes,
        single,
        s=max(size, 50 * look.scale**2),
        c=WRONG,
        marker="x",
        linewidths=look.line(1.8),
    )
    ring = {"facecolors": "none", "edgecolors": WRONG, "linewidths": look.line(1.6)}
    _draw_points(axes, places[graph.weak], s=3.2 * size, **ring)
    _name(axes, graph, places, labels)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(MARGIN, MARGIN)
    axes.axis("off")
    return figure


def _draw_points(axes: Axes, places: FloatArray, **look: Any) -> None:
    axes.scatter(
        places[:, 0], places[:, 1], zorder=3, **{"linewidths": current_look().line(0.6), **look}
    )


def _height(places: FloatArray) -> float:
    """Return the height of a figure that the points fill, as a share of its width."""
    width, height = np.ptp(places, axis=0) if len(places) else (1.0, 1.0)
    return float(np.clip(height / max(width, 1e-9), 0.24, 0.62))


def _single(graph: ImageGraph, images: int) -> IntArray:
    """Return the images that no tie reaches."""
    linked = [i for part in graph.parts for i in part]
    return np.setdiff1d(np.arange(images), linked)


def _places(graph: ImageGraph, images: int) -> FloatArray:
    """Return the position (images, 2) of every image: part beside part, then single images."""
    places, edge = np.zeros((images, 2)), 0.0
    with threadpool_limits(1, "blas"):  # more threads add in another order
        layouts = [_layout(part, graph) for part in graph.parts]
    for part, layout in zip(graph.parts, layouts, strict=True):
        side = len(part) ** 0.5
        places[part] = side * layout + [edge + side / 2, 0.0]
        edge += side + 0.6
    single = _single(graph, images)
    height = max(len(graph.parts[0]) ** 0.5 if graph.parts else 1.0, len(single) ** 0.5 / 2)
    rows = max(int(2 * height) + 1, 1)
    column, row = divmod(np.arange(len(single)), rows)
    used = np.minimum(rows, len(single) - column * rows)
    places[single] = np.column_stack([edge + 0.4 + column * 0.7, (used - 1) / 4 - row / 2])
    return places


def _layout(part: Sequence[int], graph: ImageGraph) -> FloatArray:
    """Place the images of a part (n, 2) in a square of side 1: strong ties are short."""
    distances = _distances(part, graph)
    places = _unit(_scaled(distances))
    if len(part) <= REFINED and distances.shape[0] == len(part):
        places = _unit(_with_less_stress(places, distances))
    return places


def _distances(part: Sequence[int], graph: ImageGraph) -> FloatArray:
    """Return the lengths of the shortest paths from some images of a part to all (pivots, n)."""
    own = {image: n for n, image in enumerate(part)}
    ties = [(own[i], own[j], strength) for i, j, strength in graph.ties if i in own]
    i, j, strength = np.array(ties, dtype=np.float64).T
    ends = i.astype(np.int32), j.astype(np.int32)
    # Ties differ in strength by a hundred; lengths by three.
    lengths = sparse.csr_array((strength**-0.25, ends), shape=(len(part), len(part)))
    pivots = np.arange(len(part))
    if len(part) > REFINED:
        pivots = pivots[:: -(-len(part) // PIVOTS)]
    return np.asarray(dijkstra(lengths, directed=False, indices=pivots))


def _scaled(distances: FloatArray) -> FloatArray:
    """Place points (n, 2) by their distances (pivots, n): multidimensional scaling by pivots."""
    squares = distances**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    _, values, vectors = np.linalg.svd(-centred / 2, full_matrices=False)
    axes = np.zeros((2, distances.shape[1]))
    axes[: len(vectors[:2])] = (vectors * np.sqrt(values)[:, None])[:2]
    signs = np.where(axes[:, :1] > 0, -1, 1)  # the first image is at the left
    return np.asarray((axes * signs).T)


def _with_less_stress(places: FloatArray, distances: FloatArray) -> FloatArray:
    """Move points so that near ones keep their distances: stress majorisation."""
    n = len(places)
    weights = np.divide(1.0, distances**2, out=np.zeros((n, n)), where=distances > 0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    places = places * distances.max()
    for _ in range(STEPS):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        ratio = np.divide(weights * distances, apart, out=np.zeros((n, n)), where=apart > 1e-9)
        places = inverse @ (np.diag(ratio.sum(axis=1)) - ratio) @ places
    return places


def _unit(places: FloatArray) -> FloatArray:
    """Move and scale points into a square of side 1 around 0."""
    low, high = places.min(axis=0), places.max(axis=0)
    return np.asarray((places - (low + high) / 2) / max((high - low).max(), 1e-9))


def _draw_ties(axes: Axes, graph: ImageGraph, places: FloatArray) -> None:
    if not graph.ties:
        return
    ends = [(i, j) for i, j, _ in graph.ties]
    share = np.sqrt([strength for _, _, strength in graph.ties])
    share /= share.max()
    weak = {tuple(pair) for pair in graph.bridges}
    lines = LineCollection(
        [places[list(pair)] for pair in ends],
        linewidths=current_look().line(1) * (0.6 + 4 * share * min(1, (60 / len(places)) ** 0.5)),
        colors=[WRONG if pair in weak else SOFT for pair in ends],
        linestyles=["--" if pair in weak else "-" for pair in ends],
        alpha=list(np.clip(0.25 + 0.5 * share, 0, 1)),
        zorder=2,
    )
    axes.add_collection(lines)


def _name(axes: Axes, graph: ImageGraph, places: FloatArray, labels: Sequence[str]) -> None:
    """Write names or numbers beside points: of all images, or of those that stand out."""
    k = len(labels)
    single = _single(graph, k).tolist()
    named = list(range(k)) if k <= MOST_LABELS else [*single, *graph.weak][:MOST_NAMED]
    for i in named:
        strong = i in single or i in graph.weak
        _write(axes, places[i], plain(shortened(labels[i], LONGEST)), WRONG if strong else INK)
    if MOST_LABELS < k <= MOST_NUMBERS:
        for i in set(range(k)) - set(named):
            _write(axes, places[i], str(i + 1), SOFT)


def _write(axes: Axes, place: FloatArray, text: str, colour: str) -> None:
    note = axes.annotate(
        text,
        (float(place[0]), float(place[1])),
        xytext=(0, 8),
        ha="center",
        textcoords="offset points",
        fontsize=current_look().small,
        color=colour,
        zorder=5,
    )
    note.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
