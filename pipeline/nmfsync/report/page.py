"""What all pages share: pictures, numbers as text, cells of tables, templates."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmfsync.errors import printable
from nmfsync.evaluation.summary import MethodEvaluation
from nmfsync.runtime.files import atomic_write

if TYPE_CHECKING:  # what is not written as a page needs no templates
    from jinja2 import Environment
    from markupsafe import Markup

    from nmfsync.report.drawing import Drawing


@dataclass(frozen=True)
class Picture:
    """A figure of a page.

    Attributes
    ----------
    file : str
        Name of its file beside the page.
    title, caption : str
    png : bytes
        Content of the file; empty until it is drawn.
    alt : str
        What those read who do not see it: the figures that it shows. By default the title.
    drawing : Drawing or None
        What is to be drawn, see `pictures.drawn`.
    """

    file: str
    title: str
    caption: str
    png: bytes = b""
    alt: str = ""
    drawing: "Drawing | None" = None

    @property
    def anchor(self) -> str:
        """Name of the picture in links within the page."""
        return Path(self.file).stem

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True)
class Heading:
    """The heading of a column: its text, which may have several lines, and its glossary's key."""

    text: str
    word: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and whether it is the best value of its column or row."""

    text: str
    best: bool = False


def mark_best(
    values: Sequence[float | None],
    write: Callable[[float | None], str],
    better: Callable[[list[float]], float],
    compared: Sequence[bool] | None = None,
) -> list[Cell]:
    """Turn values into cells and mark the best ones, if there are at least two to compare.

    Parameters
    ----------
    values : sequence of float or None
        None for values that are not known.
    write : callable
        Writes a value as text, for instance `percent`. Values with the text of
        the best one are marked too.
    better : callable
        `min` or `max`.
    compared : sequence of bool, optional
        Which values take part, see `best_methods`. By default all.

    Returns
    -------
    list of Cell
    """
    compared = [True] * len(values) if compared is None else compared
    rivals = zip(values, compared, strict=True)
    known = [value for value, takes_part in rivals if takes_part and value is not None]
    best = write(better(known)) if len(known) > 1 else None
    return [
        Cell(write(value), takes_part and write(value) == best)
        for value, takes_part in zip(values, compared, strict=True)
    ]


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def count(value: float) -> str:
    """Write a whole number with separators: 12,238."""
    return f"{value:,.0f}"


def many(number: int, noun: str) -> str:
    """Write a number with its noun in singular or plural: 1 match, 2 matches."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def percent(value: float | None) -> str:
    """Write a share with one decimal: 54.2 %."""
    return "–" if value is None else f"{100 * value:.1f} %"


def whole_percent(share: float) -> str:
    """Write a share without decimals: 54 %; 100 % is all, not nearly all."""
    rounded = round(100 * share)
    return f"{min(rounded, 99) if share < 1 else rounded} %"


def joined(words: Sequence[str]) -> str:
    """Join words with commas and a final "and": a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def decimal(value: float | None) -> str:
    """Write a measured value: two decimals below 10, one below 100, else none."""
    if value is None:
        return "–"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return "0" if value == 0 else f"{value:,.{digits}f}"


def judged_share(method: MethodEvaluation) -> float | None:
    """Return the share of the matches, in both directions, that the truth can judge."""
    return method.judged / (2 * method.matchings) if method.fcm and method.matchings else None


def unbroken(sentence: str) -> "Markup":
    """Keep numbers and their percent signs in one line; the text stays as it is."""
    from markupsafe import Markup

    parts = re.split(r"(\(?[\d.,]+ %)", printable(sentence))
    write = Markup('<span class="unbroken">{}</span>').format
    return Markup("").join(write(part) if part.endswith(" %") else part for part in parts)


def environment() -> "Environment":
    """Return the environment of the templates of one page, which escape all text put into them.

    A page whose `method_keys` are given lists the sources of these methods.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from nmfsync.report.glossary import Glossary
    from nmfsync.report.sources import sources_of

    environment = Environment(
        loader=PackageLoader("nmfsync.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable_lines,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = count
    environment.filters["decimal"] = decimal
    environment.filters["unbroken"] = unbroken
    environment.globals["glossary"] = Glossary()
    environment.globals["sources_of"] = sources_of
    environment.globals["method_keys"] = ()
    return environment


def _printable_lines(value: Any) -> Any:
    """Make a text printable; headings of tables have several lines."""
    return "\n".join(map(printable, value.split("\n"))) if type(value) is str else value


def flatten(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the rows (name, value) of a table; a nested setting is named "outer: inner"."""
    rows = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            rows += flatten(value, f"{prefix}{key}: ")
        elif isinstance(value, list | tuple):
            rows.append((f"{prefix}{key}", ", ".join(map(str, value))))
        else:
            rows.append((f"{prefix}{key}", "–" if value is None else str(value)))
    return rows
