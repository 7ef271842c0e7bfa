"""How notebooks show results: as small tables."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from nmfsync.errors import printable


def html_facts(title: str, facts: Mapping[str, object]) -> str:
    """Return a table of names and values as HTML; a number of images is written 1,234."""
    rows = "".join(
        f"<tr><th>{_text(name)}</th>{_cell(value)}</tr>" for name, value in facts.items()
    )
    return _table(title, rows)


def html_rows(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a line of headings as HTML; the first cell of a row is its name."""
    head = "".join(f"<th>{_text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr><th>{_text(n)}</th>{''.join(map(_cell, row))}</tr>" for n, *row in rows)
    return _table(title, f"<tr>{head}</tr>{body}")


def shown_share(value: float | None) -> str:
    """Write a share in percent; a dash where it is not known."""
    return "–" if value is None or value != value else f"{100 * value:.1f} %"


def _table(title: str, rows: str) -> str:
    return f"<table><caption>{_text(title)}</caption>{rows}</table>"


def _cell(value: object) -> str:
    return f"<td>{_text(f'{value:,}' if isinstance(value, int) else value)}</td>"


def _text(value: object) -> str:
    return escape(printable(str(value)))
