"""Colours, lines and labels that all figures share.

Figures are made without pyplot: they belong to no window and no global state.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import BarContainer
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from nmfsync.errors import printable
from nmfsync.evaluation.summary import HEADLINE as HEADLINE
from nmfsync.report.method_styles import STYLES as STYLES
from nmfsync.report.method_styles import MethodStyle as MethodStyle
from nmfsync.report.method_styles import style_of as style_of
from nmfsync.report.method_styles import styles_of as styles_of

INK, SOFT, FAINT, GRID = "#222222", "#555555", "#8A8A8A", "#E4E4E4"  # from dark to light

RIGHT, WRONG, UNKNOWN = "#009E73", "#D55E00", "#444444"  # matches, by the ground truth

ADDED = "#0072B2"  # matches that the input does not have

RASTER_DPI = 300  # of clouds of points in figures of lines

# Width of letters, and of the line and the space of an entry of a legend, in sizes of its letters.
_LETTER, _HANDLE, _SPACE = 0.53, 2.4, 1.0

_DASHED = (0, (4, 2))


@dataclass(frozen=True)
class Look:
    """How large figures and what is in them are: on a page, or in print.

    Attributes
    ----------
    width : float
        Of a figure, in inches.
    title, text, small : float
        Sizes of letters in points: titles, labels of axes, and numbers and legends.
    scale : float
        Of lines and markers, whose sizes in the code are those of a page.
    thinnest : float
        Width of the thinnest line, in points.
    photo_width, photo_dpi : int
        Width of figures with photographs in pixels, and how many of these are an inch.
    """

    width: float = 11.0
    title: float = 11.0
    text: float = 10.0
    small: float = 9.0
    scale: float = 1.0
    thinnest: float = 0.5
    photo_width: int = 2400
    photo_dpi: int = 100

    @property
    def narrow(self) -> bool:
        """Whether a figure is as wide as a column of text, so that titles must be short."""
        return self.width < 5

    def line(self, width: float) -> float:
        """Return the width of a line in points, from that on a page."""
        return max(self.scale * width, self.thinnest)


PAGE = Look()

COLUMN, TEXT = 3.5, 7.16  # widths of papers in two columns, in inches

_PHOTO_DPI = 335  # 2400 pixels are as wide as the text of a paper


def paper(width: float) -> Look:
    """Return the look of figures in a paper, which have this width in inches."""
    return Look(width, 8.0, 7.5, 7.0, 0.6, 0.6, round(width * _PHOTO_DPI), _PHOTO_DPI)


_current: ContextVar[Look] = ContextVar("look", default=PAGE)


def current_look() -> Look:
    """Return the look that figures are drawn with now."""
    return _current.get()


class Plot(Figure):
    """A figure that notebooks show, with or without matplotlib's own support for them."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def new_figure(height: float, narrow: float) -> Figure:
    """Make a figure as wide as the look says; what is in it is laid out to fit.

    Parameters
    ----------
    height, narrow : float
        Its height as a share of its width, and that where it is as wide as a column of text.
    """
    look = current_look()
    share = narrow if look.narrow else height
    return Plot(figsize=(look.width, share * look.width), dpi=150, layout="constrained")


def judge(error: NDArray[np.float64]) -> NDArray[np.str_]:
    """Classify transfer errors as "right" (at most 1 %), "wrong" or "unknown" (NaN)."""
    known = np.where(error <= float(HEADLINE), "right", "wrong")
    return np.where(np.isfinite(error), known, "unknown")


@contextmanager
def default_look(look: Look = PAGE) -> Iterator[None]:
    """Draw figures the same for everybody, whatever the user's settings of matplotlib are."""
    before = _current.set(look)
    try:
        with matplotlib.style.context("default"):
            yield
    finally:
        _current.reset(before)


def to_png(figure: Figure) -> bytes:
    """Draw a figure; the same figure gives the same bytes, without date and version."""
    FigureCanvasAgg(figure)
    # Level 3 takes half the time of the usual 6 for 7 % more bytes.
    options = {"dpi": figure.dpi, "pil_kwargs": {"compress_level": 3}}
    return _saved(figure, "png", {"Software": None}, {}, **options)


def to_pdf(figure: Figure) -> bytes:
    """Draw a figure as PDF with its fonts, as `to_png` without date and version."""
    nothing = {"CreationDate": None, "Producer": None, "Creator": None}
    return _saved(figure, "pdf", nothing, {"pdf.fonttype": 42}, dpi=RASTER_DPI)


def to_svg(figure: Figure) -> bytes:
    """Draw a figure as SVG, as `to_png` without date and version.

    Letters are outlines, so that they look the same where their font is missing.
    """
    nothing = {"Date": None, "Creator": None}
    settings = {"svg.fonttype": "path", "svg.hashsalt": "nmfsync"}
    return _saved(figure, "svg", nothing, settings, dpi=RASTER_DPI)


def _saved(
    figure: Figure,
    kind: str,
    metadata: dict[str, None],
    settings: Any,
    **options: Any,
) -> bytes:
    buffer = BytesIO()
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        # A name may have letters that the font lacks; they are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format=kind, metadata=metadata, **options)
    return buffer.getvalue()


def line_of(style: MethodStyle, consistent: bool) -> dict[str, Any]:
    """Return the keywords of a method's line: solid if it is cycle-consistent, else dashed."""
    look = current_look()
    return {
        "color": style.colour,
        "linewidth": look.line(style.width),
        "linestyle": "-" if consistent else _DASHED,
        "marker": style.marker or None,
        "markersize": 5.5 * look.scale,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6 * look.scale,
        "label": style.name,
        # Wide lines are drawn below narrow ones, so that they do not hide them.
        "zorder": 3 - style.width / 10,
    }


def legend_of(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Draw a legend below the plots: the lines, and the meaning of solid and dashed."""
    line: dict[str, Any] = {"color": FAINT, "linewidth": current_look().line(1.6)}
    solid = Line2D([], [], linestyle="-", label="solid: consistent", **line)
    dashed = Line2D([], [], linestyle=_DASHED, label="dashed: inconsistent", **line)
    legend_below(figure, [*handles, solid, dashed])


def legend_below(figure: Figure, handles: Sequence[Artist | BarContainer]) -> None:
    """Draw a legend below the plots, in as many columns as fit."""
    size = current_look().small
    labels = [str(handle.get_label()) for handle in handles]
    figure.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=_fitting_columns(labels, 72 * figure.get_figwidth() / size),
        frameon=False,
        fontsize=size,
        labelcolor=INK,
        handlelength=_HANDLE,
        columnspacing=_SPACE,
        borderaxespad=0.2,
    )


def _fitting_columns(labels: Sequence[str], width: float) -> int:
    """Return the largest number of columns of a legend in this width, in sizes of its letters."""
    for columns in range(len(labels), 1, -1):
        widest = [max(map(len, part)) for part in np.array_split(np.array(labels), columns)]
        if sum(_LETTER * n + _HANDLE + 0.8 + _SPACE for n in widest) <= width:
            return columns
    return 1


def small_multiples(plots: int, text: str) -> tuple[Figure, list[Axes]]:
    """Make a figure of several plots of one kind, with a text below them and room for a legend.

    One plot alone is as wide as two, so that text and legend fit.
    """
    look = current_look()
    columns = min(2, plots) if look.narrow else _grid_columns(plots)
    rows = -(-plots // columns)
    # Inches on a page, where a plot has always the same size.
    width, height = 3.4 * max(columns, 2) + 0.4, 2.75 * rows + 1.0
    if look != PAGE:
        width, height = look.width, look.width / max(columns, 2) * 0.78 * rows + 0.7
    figure = Plot(figsize=(width, height), dpi=150, layout="constrained")
    part = labelled_part(figure, text)
    grid = list(part.subplots(rows, columns, squeeze=False).ravel())
    for axes in grid[plots:]:
        axes.remove()
    return figure, grid[:plots]


def labelled_part(figure: Figure, text: str) -> SubFigure:
    """Return the part of a figure for plots, with a label below all of them; a legend is below."""
    part = figure.add_subfigure(figure.add_gridspec(1, 1)[0, 0])
    part.supxlabel(text, fontsize=current_look().text, color=INK)
    return part


def _grid_columns(plots: int) -> int:
    """Return the number of columns, at most four, that leaves the fewest places empty."""
    return min(plots, 4) if plots < 5 else min((4, 3), key=lambda columns: -plots % columns)


def name_axes(axes: Axes, title: str) -> None:
    """Write a title above the left end of the axes."""
    axes.set_title(title, loc="left", fontsize=current_look().title, color=INK, pad=4)


def unbox(axes: Axes) -> None:
    """Hide the upper and right lines of the box around the axes, and soften the others."""
    look = current_look()
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=FAINT, linewidth=look.line(0.8))
    ticks: dict[str, Any] = {
        "width": look.line(0.8),
        "length": 3.5 * look.scale,
        "pad": 3.5 * look.scale,
    }
    axes.tick_params(colors=SOFT, labelsize=look.small, **ticks)


def grid_of(axes: Axes, axis: Literal["both", "x", "y"] = "both") -> None:
    """Draw a light grid."""
    axes.grid(axis=axis, color=GRID, linewidth=current_look().line(0.7))


def plain(text: str) -> str:
    """Escape text from outside so that matplotlib does not take it for a formula."""
    return printable(text).replace("$", r"\$")
