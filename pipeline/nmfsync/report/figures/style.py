"""Colours, lines and labels that all figures share."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

HEADLINE = "0.01"  # the threshold t that tables quote, as a key of the curves

INK, FAINT = "#222222", "#8A8A8A"

RIGHT, WRONG, UNKNOWN = "#009E73", "#D55E00", "#444444"

ADDED = "#0072B2"


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


def name_axes(axes: Axes, title: str) -> None:
    """Write a title above the left end of the axes."""
    axes.set_title(title, loc="left", fontsize=11, color=INK)


def unbox(axes: Axes) -> None:
    """Leave two quiet axes of the box."""
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors="#555555", labelsize=9)


def plain(text: str) -> str:
    """Text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")
