"""Plots of figures: FCM and precision, track lengths, the matrix W.

Every function returns a `Figure` that belongs to no window and no global
state, and `to_png` turns it into the same bytes every time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.evaluation import MethodEvaluation, SceneEvaluation
from nmfsync.matches import IntArray, Matches, MultiMatching

HEADLINE = "0.01"  # the threshold t that tables quote, as a key of the curves
INK, FAINT = "#222222", "#8A8A8A"
RIGHT, WRONG, UNKNOWN = "#009E73", "#D55E00", "#444444"
ADDED = "#0072B2"
MATRIX_CELLS = 300


@dataclass(frozen=True)
class MethodStyle:
    """How a method is written and drawn, the same in every picture."""

    name: str
    colour: str
    marker: str
    width: float = 1.6


# The colours are those of Okabe and Ito, which colour-blind people tell apart;
# the markers do the same on a gray print.
_STYLES = {
    "input": MethodStyle("input", "#333333", "", 1.2),
    "clustersync": MethodStyle("ClusterSync", "#009E73", "v", 2.4),
    "nmfsync": MethodStyle("NmfSync", "#0072B2", "o", 2.4),
    "spectral": MethodStyle("Spectral", "#E69F00", "s"),
    "matcheig": MethodStyle("MatchEig", "#CC79A7", "^"),
    "matchals": MethodStyle("MatchALS", "#56B4E9", "D"),
    "clear": MethodStyle("CLEAR", "#8F8200", "X"),
    "unionfind": MethodStyle("union-find", "#999999", "P"),
}
_SPARE = [("#D55E00", "h"), ("#7A4FA3", "<"), ("#8C510A", ">")]


def style_of(method: str) -> MethodStyle:
    """Style of a method; one that is not known gets a style by its name alone."""
    colour, marker = _SPARE[sum(method.encode()) % len(_SPARE)]
    return _STYLES.get(method, MethodStyle(method, colour, marker))


def styles_of(methods: Sequence[str]) -> dict[str, MethodStyle]:
    """Styles of methods that stand in one picture: those not known get different ones."""
    known = {name for name in methods if name in _STYLES}
    free = [s for name, s in _STYLES.items() if name != "input" and name not in known]
    looks = [(s.colour, s.marker) for s in free] + _SPARE
    unknown = [name for name in methods if name not in known]
    spare = {name: MethodStyle(name, *looks[n % len(looks)]) for n, name in enumerate(unknown)}
    return {name: _STYLES[name] if name in known else spare[name] for name in methods}


def to_png(figure: Figure) -> bytes:
    """Draw a figure; the bytes carry no date and no version."""
    buffer = BytesIO()
    FigureCanvasAgg(figure)
    # Level 3 takes half the time of the usual 6 for 7 % more bytes.
    figure.savefig(
        buffer,
        format="png",
        dpi=figure.dpi,
        metadata={"Software": None},
        pil_kwargs={"compress_level": 3},
    )
    return buffer.getvalue()


# FCM and precision ---------------------------------------------------------------------


def fcm_figure(evaluation: SceneEvaluation, by: str = "") -> Figure:
    """FCM(t) and precision(t) of every method; solid where cycle-consistent.

    Parameters
    ----------
    evaluation : SceneEvaluation
        Of a scene with truth.
    by : str
        "epipolar_" to draw the curves by epipolar distance instead.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = Figure(figsize=(11, 4.7), dpi=150)
    left, right = figure.subplots(1, 2)
    _draw_curves(left, evaluation.methods, by + "fcm")
    _draw_curves(right, evaluation.methods, by + "precision")
    how = " by epipolar distance" if by else ""
    _name_axes(left, f"Fraction of correct matchings, FCM(t){how}")
    _name_axes(right, f"Precision(t){how}")
    for axes in (left, right):
        axes.set_xlabel("threshold t, % of the largest image dimension", color=INK, fontsize=10)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.92, bottom=0.2, wspace=0.17)
    _legend(figure, evaluation.methods, y=0.005)
    return figure


def dataset_figure(
    evaluations: Sequence[SceneEvaluation], labels: Mapping[str, str] | None = None
) -> Figure:
    """FCM(t) of every method, one plot a scene.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        Of scenes with truth, at least one.
    labels : dict of str to str, optional
        Headings of the scenes, where they are not their names.

    Returns
    -------
    matplotlib.figure.Figure
    """
    columns = _grid_columns(len(evaluations))
    rows = -(-len(evaluations) // columns)
    width, height = 3.4 * columns + 0.4, 2.75 * rows + 1.0
    figure = Figure(figsize=(width, height), dpi=150)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, evaluation in zip(grid, evaluations, strict=False):
        _draw_curves(axes, evaluation.methods, "fcm")
        label = (labels or {}).get(evaluation.scene, evaluation.scene)
        _name_axes(axes, f"{_plain(label)}, m = {evaluation.features:,}")
    for axes in grid[len(evaluations) :]:
        axes.set_axis_off()
    figure.subplots_adjust(
        left=0.6 / width,
        right=1 - 0.15 / width,
        top=1 - 0.35 / height,
        bottom=1.25 / height,
        wspace=0.27,
        hspace=0.38,
    )
    centre = (0.6 + width - 0.15) / 2 / width
    figure.text(
        centre,
        0.8 / height,
        "FCM(t) over the threshold t, % of the largest image dimension",
        ha="center",
        color=INK,
    )
    methods = {name: m for e in evaluations for name, m in e.methods.items()}
    mixed = {
        name
        for name in methods
        if len({e.methods[name].cycle_consistent for e in evaluations if name in e.methods}) > 1
    }
    _legend(figure, methods, y=0.005, mixed=mixed)
    return figure


def _grid_columns(plots: int) -> int:
    """Columns of a grid, at most four, that leave the fewest places empty."""
    return min(plots, 4) if plots < 5 else min((4, 3), key=lambda columns: -plots % columns)


def _draw_curves(axes: Axes, methods: Mapping[str, MethodEvaluation], what: str) -> None:
    """One line a method, and the headline threshold."""
    axes.axvline(100 * float(HEADLINE), color=FAINT, linewidth=0.8, zorder=0)
    for shift, (name, method) in enumerate(methods.items()):
        curve: Mapping[str, float | None] = getattr(method, what)
        t = [100 * float(key) for key in curve]
        share = [np.nan if value is None else 100 * value for value in curve.values()]
        # Shifted markers keep curves that lie on each other apart.
        axes.plot(t, share, **_line(name, method), markevery=(2 + 2 * shift, 12))
    axes.set_xlim(0, 5)
    axes.set_ylim(bottom=0)
    axes.annotate(
        "1 %",
        (100 * float(HEADLINE), 0),
        xytext=(3, 4),
        textcoords="offset points",
        color=FAINT,
        fontsize=8,
    )
    _tidy(axes)


def _line(name: str, method: MethodEvaluation) -> dict[str, Any]:
    return line_of(style_of(name), method.cycle_consistent)


def line_of(style: MethodStyle, consistent: bool) -> dict[str, Any]:
    """Keywords of a line: solid where the method is cycle-consistent, dashed where not."""
    return {
        "color": style.colour,
        "linewidth": style.width,
        "linestyle": "-" if consistent else (0, (4, 2)),
        "marker": style.marker or None,
        "markersize": 5.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "label": style.name,
        # The heavy line goes below, so that it cannot hide another one.
        "zorder": 3 - style.width / 10,
    }


def _legend(
    figure: Figure,
    methods: Mapping[str, MethodEvaluation],
    y: float,
    mixed: set[str] | None = None,
) -> None:
    """Name the methods and the meaning of solid and dashed below the plots."""
    handles = [Line2D([], [], **_line(name, method)) for name, method in methods.items()]
    for handle, name in zip(handles, methods, strict=True):
        if name in (mixed or set()):
            handle.set_linestyle("")
    legend_of(figure, handles, y)


def legend_of(figure: Figure, handles: list[Line2D], y: float) -> None:
    """Name the lines, and the meaning of solid and dashed, below the plots."""
    plain: dict[str, Any] = {"color": FAINT, "linewidth": 1.6}
    solid = Line2D([], [], linestyle="-", label="solid: cycle-consistent", **plain)
    dashed = Line2D([], [], linestyle=(0, (4, 2)), label="dashed: not", **plain)
    handles = [*handles, solid, dashed]
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, y),
        ncols=max(2, min(len(handles), int(figure.get_figwidth() / 1.5))),
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handlelength=3.2,
        columnspacing=1.6,
    )


def _name_axes(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK)


def _tidy(axes: Axes) -> None:
    """Quiet axes in percent: a light grid, no box."""
    axes.xaxis.set_major_formatter("{x:g} %")
    axes.yaxis.set_major_formatter("{x:g} %")
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
    unbox(axes)


def unbox(axes: Axes) -> None:
    """Leave two quiet axes of the box."""
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors="#555555", labelsize=9)


def _plain(text: str) -> str:
    """Text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")


# Track lengths -------------------------------------------------------------------------


@dataclass(frozen=True)
class TrackCounts:
    """What becomes of the m features: in a track, thrown away, or alone.

    Attributes
    ----------
    lengths : (n,) int array
        Number of features of every consistent track with at least two.
    lost : int
        Features in components that hold two features of one image.
    alone : int
        Features without a match.
    """

    lengths: IntArray
    lost: int
    alone: int

    @property
    def kept(self) -> int:
        """Features in consistent tracks."""
        return int(self.lengths.sum())


def track_counts(matches: Matches) -> TrackCounts:
    """Count the tracks of a result, or those that union-find makes of pairwise matches.

    Union-find joins whatever is connected. A component that then holds two
    features of one image contradicts itself; reconstruction programs throw it
    away as a whole.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching

    Returns
    -------
    TrackCounts
        `lost` is 0 for a cycle-consistent result.
    """
    if isinstance(matches, MultiMatching):
        label = matches.universe
    else:
        _, label = connected_components(matches.W, directed=False)
    k = len(matches.sizes)
    size = np.bincount(label, minlength=1)
    views = np.bincount(np.unique(label * np.int64(k) + matches.image_of) // k, minlength=len(size))
    consistent = size == views
    return TrackCounts(
        lengths=np.sort(size[consistent & (size > 1)]),
        lost=int(size[~consistent].sum()),
        alone=int((size == 1).sum()),
    )


def lengths_figure(counts: Mapping[str, TrackCounts]) -> Figure:
    """Draw what becomes of the features, and how long the tracks are.

    Parameters
    ----------
    counts : dict of str to TrackCounts
        "input" (its union-find) and the cycle-consistent methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = Figure(figsize=(11, 4.2), dpi=150)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_fates(left, counts)
    _draw_lengths(right, counts)
    figure.subplots_adjust(left=0.1, right=0.985, top=0.9, bottom=0.2, wspace=0.16)
    return figure


def _row_name(method: str) -> str:
    return "input (united)" if method == "input" else style_of(method).name


def _draw_fates(axes: Axes, counts: Mapping[str, TrackCounts]) -> None:
    """Draw a bar of features a method: kept, thrown away, alone."""
    names = [_row_name(name) for name in counts]
    rows = np.array([(c.kept, c.lost, c.alone) for c in counts.values()])
    ends = np.cumsum(rows, axis=1)
    total = max(int(ends.max()), 1)
    looks = [
        ("in consistent tracks", "#0072B2", "white", ""),
        ("thrown away", "#F3B58A", INK, "////"),
        ("without a match", "#DDDDDD", INK, ""),
    ]
    for part, (label, colour, ink, hatch) in enumerate(looks):
        starts = ends[:, part] - rows[:, part]
        bars: dict[str, Any] = {
            "height": 0.62,
            "color": colour,
            "edgecolor": "white",
            "hatch": hatch,
        }
        axes.barh(names, rows[:, part], left=starts, label=label, linewidth=0.8, **bars)
        for y, (x, value) in enumerate(zip(starts, rows[:, part], strict=True)):
            if value > 0.085 * total:  # else the number would not fit
                text = axes.text(x + value / 2, y, f"{value:,}", ha="center", va="center")
                text.set(color=ink, fontsize=9, fontweight="bold")
                text.set_bbox({"facecolor": colour, "edgecolor": "none", "pad": 1.5})
    axes.invert_yaxis()
    axes.set_xlim(0, total)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    _name_axes(axes, "What becomes of the features")
    unbox(axes)
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=10)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1), "ncols": 3}
    axes.legend(**below, frameon=False, fontsize=9, handlelength=1.4)


def _draw_lengths(axes: Axes, counts: Mapping[str, TrackCounts]) -> None:
    """Bars of the number of tracks by length, one colour a method."""
    longest = max(int(c.lengths.max(initial=2)) for c in counts.values())
    edges = _length_edges(longest)
    width = 0.8 / len(counts)
    for shift, (name, count) in enumerate(counts.items()):
        number, _ = np.histogram(count.lengths, bins=edges)
        at = np.arange(len(number)) + (shift + 0.5) * width - 0.4
        colour = "#B5B5B5" if name == "input" else style_of(name).colour
        axes.bar(at, number, width * 0.92, color=colour, label=_row_name(name))
    axes.set_xticks(range(len(edges) - 1), [_span(*pair) for pair in pairwise(edges)])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
    axes.set_xlabel("images in which a track is seen", color=INK, fontsize=10)
    _name_axes(axes, "Number of consistent tracks, by length")
    unbox(axes)
    axes.legend(frameon=False, fontsize=9.5, labelcolor=INK)


def _length_edges(longest: int) -> list[int]:
    """One bin a length up to 12; for longer tracks bins that double: 2, 3, 4, 5–8, 9–16 …."""
    if longest <= 12:
        return list(range(2, longest + 2))
    edges = [2, 3, 4, 5]
    while edges[-1] <= longest:
        edges.append(2 * edges[-1] - 1)
    return edges


def _span(start: int, stop: int) -> str:
    return f"{start}" if stop == start + 1 else f"{start}–{stop - 1}"


# The matrix W --------------------------------------------------------------------------


def matrix_figure(
    before: Matches, after: MultiMatching | None, name: str, labels: Sequence[str]
) -> Figure:
    """W of the input and of a cycle-consistent result, both in the result's order.

    Inside every image the features are ordered by track, the longest first, so
    that consistent matches line up. Matches are counted in cells: no
    array larger than 300 × 300 is made.

    Parameters
    ----------
    before : PairwiseMatches or MultiMatching
        The input.
    after : MultiMatching or None
        Without a result only the input is drawn, in its own order.
    name : str
        The method of the result.
    labels : sequence of str, length k
        Names of the images.

    Returns
    -------
    matplotlib.figure.Figure
    """
    place = _track_order(after) if after is not None else np.arange(int(before.sizes.sum()))
    old = _between(before)
    if after is None:
        panels = [("Input", [(old, INK)])]
    else:
        new = _between(after)
        kept = old.multiply(new).tocsr()
        panels = [
            ("Input: gray stays, orange goes", [(kept, INK), (_less(old, kept), WRONG)]),
            (
                f"{style_of(name).name}: gray stays, blue is new",
                [(kept, INK), (_less(new, kept), ADDED)],
            ),
        ]
    figure = Figure(figsize=(5.6 * len(panels) + 0.3, 5.9), dpi=150)
    grid = figure.subplots(1, len(panels), squeeze=False).ravel()
    for axes, (title, layers) in zip(grid, panels, strict=True):
        _draw_matrix(axes, layers, place, before, labels)
        total = sum(layer.nnz for layer, _ in layers) // 2
        _name_axes(axes, f"{title} ({total:,} matches)")
    figure.subplots_adjust(left=0.05, right=0.99, top=0.93, bottom=0.03, wspace=0.1)
    return figure


def _track_order(matching: MultiMatching) -> IntArray:
    """Place of every feature when those of an image go by track, the longest track first."""
    length = np.bincount(matching.universe, minlength=1)
    rank = np.empty_like(length)
    rank[np.argsort(-length, kind="stable")] = np.arange(len(length))
    place = np.empty(len(matching.universe), dtype=np.int64)
    order = np.lexsort((rank[matching.universe], matching.image_of))
    place[order] = np.arange(len(place))
    return place


def _between(matches: Matches) -> sparse.csr_array:
    """Return the 0/1 matches between different images."""
    W = matches.W.copy()
    W.data = np.ones_like(W.data)
    W.setdiag(0)
    W.eliminate_zeros()
    return W


def _less(all_of: sparse.csr_array, part: sparse.csr_array) -> sparse.csr_array:
    rest = (all_of - part).tocsr()
    rest.eliminate_zeros()
    return rest


def _draw_matrix(
    axes: Axes,
    layers: Sequence[tuple[sparse.csr_array, str]],
    place: IntArray,
    matches: Matches,
    labels: Sequence[str],
) -> None:
    m = len(place)
    axes.imshow(
        _blend(layers, place),
        extent=(0, m, m, 0) if m else (0, 1, 1, 0),
        interpolation="nearest",
    )
    offsets = matches.offsets
    axes.set_aspect("equal")
    if len(labels) <= 60:
        for edge in offsets[1:-1]:
            axes.axhline(edge, color="#C8D3DC", linewidth=0.6)
            axes.axvline(edge, color="#C8D3DC", linewidth=0.6)
    middle = (offsets[:-1] + offsets[1:]) / 2
    step = -(-len(labels) // 12)
    axes.set_xticks(middle[::step], [str(i + 1) for i in range(len(labels))][::step])
    axes.set_yticks(middle[::step], [str(i + 1) for i in range(len(labels))][::step])
    axes.tick_params(length=0, labelsize=9, colors="#555555", top=False)
    axes.spines[:].set_color(FAINT)


def _blend(layers: Sequence[tuple[sparse.csr_array, str]], place: IntArray) -> NDArray[np.float64]:
    """White paper with the cells' counts of every layer in its colour."""
    m = max(len(place), 1)
    cells = min(m, MATRIX_CELLS)
    counts = np.zeros((len(layers), cells, cells))
    for count, (layer, _) in zip(counts, layers, strict=True):
        entries = layer.tocoo()
        row, column = (place[at] * cells // m for at in (entries.row, entries.col))
        count += np.bincount(row * cells + column, minlength=cells**2).reshape(cells, cells)
    total = counts.sum(axis=0)
    # One match in a cell is seen at once; a full cell is only somewhat darker.
    full = max(float(np.percentile(total[total > 0], 99)) if total.any() else 1.0, 1.0)
    ink = np.where(total > 0, 0.5 + 0.5 * np.minimum(total / full, 1), 0)
    share = counts / np.maximum(total, 1)
    colours = np.array([_rgb(colour) for _, colour in layers])
    return (1 - ink)[..., None] + ink[..., None] * np.einsum("lij,lc->ijc", share, colours)


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
