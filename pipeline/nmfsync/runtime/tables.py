"""Writing tables as CSV files."""

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nmfsync.runtime.files import atomic_write

# What a spreadsheet takes for a formula, numbers included.
_FORMULA = re.compile(r"[\t\r\n]|\s*[=+\-@]")
_NUMBER = re.compile(r"[+-][0-9.]+(e[+-]?[0-9]+)?")


def write_table(path: Path | str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file in UTF-8, completely or not at all.

    A text that a spreadsheet would take for a formula, such as an image name that
    starts with =, gets a leading apostrophe. None is an empty cell.

    Parameters
    ----------
    path : Path or str
    header : sequence of str
        Names of the columns.
    rows : iterable of sequences
        Numbers or texts, one for every column.
    """
    with (
        atomic_write(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        table = csv.writer(file)
        table.writerow(header)
        table.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
