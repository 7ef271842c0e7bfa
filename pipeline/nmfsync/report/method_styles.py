"""How every method is called and drawn, in figures, tables and sentences."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from nmfsync.synchronisation.methods import METHODS


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


# What figures show of the records of methods: label and style by name.
Records = dict[str, tuple[str, str]]

_used: ContextVar[Records | None] = ContextVar("records", default=None)


def records() -> Records:
    """Return what figures show of the records of all methods."""
    used = _used.get()
    return {n: (m.label, m.style) for n, m in METHODS.items()} if used is None else used


@contextmanager
def use_records(methods: Records) -> Iterator[None]:
    """Draw with these records, which may be those of another process."""
    before = _used.set(methods)
    try:
        yield
    finally:
        _used.reset(before)


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


def _own_style(method: str) -> MethodStyle | None:
    """Return the style in a method's record, or None."""
    if method == "input":
        return _INPUT
    label, style = records().get(method, (method, ""))
    return MethodStyle(label, *STYLES[style]) if style else None


def _label_of(method: str) -> str:
    return records().get(method, (method, ""))[0]
