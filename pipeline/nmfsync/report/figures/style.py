"""Colours, lines and labels that all figures share."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nmfsync.synchronisation.methods import METHODS

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


# By the `style` of a method's record: colour, marker, width. The colours are those of Okabe
# and Ito, which colour-blind people tell apart; the markers do the same on a gray print.
STYLES = {
    "green": ("#009E73", "v", 2.4),
    "blue": ("#0072B2", "o", 2.4),
    "orange": ("#E69F00", "s", 1.6),
    "pink": ("#CC79A7", "^", 1.6),
    "sky": ("#56B4E9", "D", 1.6),
    "olive": ("#8F8200", "X", 1.6),
    "gray": ("#999999", "P", 1.6),
}
_INPUT = MethodStyle("input", "#333333", "", 1.2)
_SPARE = [("#D55E00", "h"), ("#7A4FA3", "<"), ("#8C510A", ">")]


def style_of(method: str) -> MethodStyle:
    """Style of a method; one that has none in its record gets one by its name alone."""
    colour, marker = _SPARE[sum(method.encode()) % len(_SPARE)]
    return _own_style(method) or MethodStyle(_label_of(method), colour, marker)


def styles_of(methods: Sequence[str]) -> dict[str, MethodStyle]:
    """Styles of methods that stand in one picture: those without one of their own differ."""
    own = {name: style for name in methods if (style := _own_style(name))}
    taken = {style.colour for style in own.values()}
    free = [(colour, marker) for colour, marker, _ in STYLES.values() if colour not in taken]
    looks = free + _SPARE
    others = [name for name in methods if name not in own]
    spare = {n: MethodStyle(_label_of(n), *looks[i % len(looks)]) for i, n in enumerate(others)}
    return {name: own.get(name) or spare[name] for name in methods}


def _own_style(method: str) -> MethodStyle | None:
    if method == "input":
        return _INPUT
    record = METHODS.get(method)
    return MethodStyle(record.label, *STYLES[record.style]) if record and record.style else None


def _label_of(method: str) -> str:
    return METHODS[method].label if method in METHODS else method


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
