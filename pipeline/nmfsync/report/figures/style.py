"""Colours, lines and labels that all figures share.

Figures are made without pyplot: they belong to no window and no global state.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from nmfsync.errors import printable
from nmfsync.synchronisation.methods import METHODS

HEADLINE = "0.01"  # the threshold t of figures in tables, as a key of the curves

INK, SOFT, FAINT, GRID = "#222222", "#555555", "#8A8A8A", "#E4E4E4"  # from dark to light

RIGHT, WRONG, UNKNOWN = "#009E73", "#D55E00", "#444444"  # matches, by the ground truth

ADDED = "#0072B2"  # matches that the input does not have


@dataclass(frozen=True)
class MethodStyle:
    """Name, colour (#RRGGBB), marker and line width (points) of a method in every figure."""

    name: str
    colour: str
    marker: str
    width: float = 1.6


# Looks of methods by the `style` of their record: colour, marker, width. Most colours are from
# Okabe and Ito's palette, which colour-blind people can distinguish. The markers distinguish
# methods in a grey print.
STYLES = {
    "green": ("#009E73", "v", 2.4),
    "blue": ("#0072B2", "o", 2.4),
    "orange": ("#E69F00", "s", 1.6),
    "pink": ("#CC79A7", "^", 1.6),
    "sky": ("#56B4E9", "D", 1.6),
    "olive": ("#8F8200", "X", 1.6),
    "gray": ("#999999", "P", 1.6),
    "purple": ("#7A4FA3", "<", 1.6),
}

_INPUT = MethodStyle("input", "#333333", "", 1.2)

_SPARE = [("#D55E00", "h"), ("#01665E", "p"), ("#8C510A", ">")]  # of methods without a style


def style_of(method: str) -> MethodStyle:
    """Return the style of a method; without one in its record it depends on the name only."""
    colour, marker = _SPARE[sum(method.encode()) % len(_SPARE)]
    return _own_style(method) or MethodStyle(_label_of(method), colour, marker)


def styles_of(methods: Sequence[str]) -> dict[str, MethodStyle]:
    """Return the styles of the methods of one figure; others than known ones differ."""
    own = {name: style for name in methods if (style := _own_style(name))}
    used = {style.colour for style in own.values()}
    unused = [(colour, marker) for colour, marker, _ in STYLES.values() if colour not in used]
    looks = unused + _SPARE
    others = [name for name in methods if name not in own]
    spare = {n: MethodStyle(_label_of(n), *looks[i % len(looks)]) for i, n in enumerate(others)}
    return {name: own.get(name) or spare[name] for name in methods}


def judge(error: NDArray[np.float64]) -> NDArray[np.str_]:
    """Classify transfer errors as "right" (at most 1 %), "wrong" or "unknown" (NaN)."""
    known = np.where(error <= float(HEADLINE), "right", "wrong")
    return np.where(np.isfinite(error), known, "unknown")


@contextmanager
def default_look() -> Iterator[None]:
    """Draw figures the same for everybody, whatever the user's settings of matplotlib are."""
    with matplotlib.style.context("default"):
        yield


def to_png(figure: Figure) -> bytes:
    """Draw a figure; the same figure gives the same bytes, without date and version."""
    buffer = BytesIO()
    FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        # A name may have letters that the font lacks; they are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        _save_png(figure, buffer)
    return buffer.getvalue()


def _save_png(figure: Figure, buffer: BytesIO) -> None:
    # Level 3 takes half the time of the usual 6 for 7 % more bytes.
    figure.savefig(
        buffer,
        format="png",
        dpi=figure.dpi,
        metadata={"Software": None},
        pil_kwargs={"compress_level": 3},
    )


def line_of(style: MethodStyle, consistent: bool) -> dict[str, Any]:
    """Return the keywords of a method's line: solid if it is cycle-consistent, else dashed."""
    return {
        "color": style.colour,
        "linewidth": style.width,
        "linestyle": "-" if consistent else (0, (4, 2)),
        "marker": style.marker or None,
        "markersize": 5.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "label": style.name,
        # Wide lines are drawn below narrow ones, so that they do not hide them.
        "zorder": 3 - style.width / 10,
    }


def legend_of(figure: Figure, handles: list[Line2D], y: float) -> None:
    """Draw a legend below the plots: the lines, and the meaning of solid and dashed.

    `y` is its lower edge, as a share of the figure's height.
    """
    look: dict[str, Any] = {"color": FAINT, "linewidth": 1.6}
    solid = Line2D([], [], linestyle="-", label="solid: cycle-consistent", **look)
    dashed = Line2D([], [], linestyle=(0, (4, 2)), label="dashed: not", **look)
    handles = [*handles, solid, dashed]
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, y),
        ncols=max(2, min(len(handles), int(figure.get_figwidth() / 1.75))),
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handlelength=3.2,
        columnspacing=1.6,
    )


def small_multiples(plots: int, text: str) -> tuple[Figure, list[Axes]]:
    """Make a figure of several plots of one kind, with a text below them and room for a legend.

    One plot alone is as wide as two, so that text and legend fit.
    """
    columns = _grid_columns(plots)
    rows = -(-plots // columns)
    width, height = 3.4 * max(columns, 2) + 0.4, 2.75 * rows + 1.0  # inches, as all lengths below
    figure = Figure(figsize=(width, height), dpi=150)
    grid = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in grid[plots:]:
        axes.remove()
    figure.subplots_adjust(
        left=0.6 / width,
        right=1 - 0.15 / width,
        top=1 - 0.35 / height,
        bottom=1.25 / height,
        wspace=0.27,
        hspace=0.38,
    )
    middle = (0.6 + width - 0.15) / 2 / width
    figure.text(middle, 0.8 / height, text, ha="center", color=INK)
    return figure, grid[:plots]


def _grid_columns(plots: int) -> int:
    """Return the number of columns, at most four, that leaves the fewest places empty."""
    return min(plots, 4) if plots < 5 else min((4, 3), key=lambda columns: -plots % columns)


def name_axes(axes: Axes, title: str) -> None:
    """Write a title above the left end of the axes."""
    axes.set_title(title, loc="left", fontsize=11, color=INK)


def unbox(axes: Axes) -> None:
    """Hide the upper and right lines of the box around the axes, and soften the others."""
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=SOFT, labelsize=9)


def plain(text: str) -> str:
    """Escape text from outside so that matplotlib does not take it for a formula."""
    return printable(text).replace("$", r"\$")


def _own_style(method: str) -> MethodStyle | None:
    """Return the style in a method's record, or None."""
    if method == "input":
        return _INPUT
    record = METHODS.get(method)
    return MethodStyle(record.label, *STYLES[record.style]) if record and record.style else None


def _label_of(method: str) -> str:
    return METHODS[method].label if method in METHODS else method
