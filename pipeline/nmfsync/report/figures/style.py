"""Colours, lines and labels that all figures share.

Figures are made without pyplot: they belong to no window and no global state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

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


# Most colours are from Okabe and Ito's palette, which colour-blind people can distinguish. The
# markers distinguish methods in a grey print.
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

_SPARE = [("#D55E00", "h"), ("#7A4FA3", "<"), ("#8C510A", ">")]  # of methods without a style


def style_of(method: str) -> MethodStyle:
    """Return the style of a method; an unknown one gets a style that depends on its name only."""
    colour, marker = _SPARE[sum(method.encode()) % len(_SPARE)]
    return _STYLES.get(method, MethodStyle(method, colour, marker))


def styles_of(methods: Sequence[str]) -> dict[str, MethodStyle]:
    """Return the styles of the methods of one figure, in which unknown methods differ."""
    known = {name for name in methods if name in _STYLES}
    unused = [s for name, s in _STYLES.items() if name != "input" and name not in known]
    looks = [(s.colour, s.marker) for s in unused] + _SPARE
    unknown = [name for name in methods if name not in known]
    spare = {name: MethodStyle(name, *looks[n % len(looks)]) for n, name in enumerate(unknown)}
    return {name: _STYLES[name] if name in known else spare[name] for name in methods}


def judge(error: NDArray[np.float64]) -> NDArray[np.str_]:
    """Classify transfer errors as "right" (at most 1 %), "wrong" or "unknown" (NaN)."""
    known = np.where(error <= float(HEADLINE), "right", "wrong")
    return np.where(np.isfinite(error), known, "unknown")


def to_png(figure: Figure) -> bytes:
    """Draw a figure; the same figure gives the same bytes, without date and version."""
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
        ncols=max(2, min(len(handles), int(figure.get_figwidth() / 1.5))),
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
        handlelength=3.2,
        columnspacing=1.6,
    )


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
    """Escape text so that matplotlib does not take it for a formula."""
    return text.replace("$", r"\$")
