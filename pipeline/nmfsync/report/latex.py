r"""Tables for papers, in LaTeX with the package booktabs.

A file has one `tabular`, which a paper takes in with \input. Names may have any letters; others
than Latin ones need XeLaTeX or LuaLaTeX.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nmfsync.errors import printable
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.best import best_methods
from nmfsync.report.figures.style import HEADLINE, style_of
from nmfsync.report.page import Cell, count, decimal, mark_best

_SPECIAL = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "{''}",
    # These two would belong to the end of the line before.
    "[": "{[}",
    "*": "{*}",
    "`": "{`}",
    "'": "{'}",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
}


class Block(NamedTuple):
    """Rows below each other in a table: a title or "", and names with their cells."""

    title: str
    rows: Sequence[tuple[str, Sequence[Cell]]]


def escape(text: str) -> str:
    """Return text from outside as LaTeX shows it."""
    text = re.sub(".", lambda letter: _SPECIAL.get(letter[0], letter[0]), printable(text))
    return text.replace(r" \%", r"\,\%")


def table(headings: Sequence[str], blocks: Sequence[Block]) -> str:
    """Return a table as LaTeX: the best values are bold.

    Parameters
    ----------
    headings : sequence of str
        Of all columns, that of the names included.
    blocks : sequence of Block

    Returns
    -------
    str
    """
    columns = "l" + "r" * (len(headings) - 1)
    lines = [
        r"% Needs \usepackage{booktabs}.",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _line(map(escape, headings)),
    ]
    for block in blocks:
        lines.append(r"\midrule")
        if block.title:
            lines.append(rf"\multicolumn{{{len(headings)}}}{{l}}{{{escape(block.title)}}} \\")
        lines += [_line([escape(name), *map(_cell, cells)]) for name, cells in block.rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def scene_table(evaluation: SceneEvaluation) -> str:
    """Return the table of the methods on a scene, one row a method, as LaTeX."""
    figures = list(evaluation.methods.values())
    compared = [name in best_methods([evaluation]) for name in evaluation.methods]
    truth = {
        "FCM 1 %": mark_best([m.fcm.get(HEADLINE) for m in figures], share, max, compared),
        "Prec. 1 %": mark_best([m.precision.get(HEADLINE) for m in figures], share, max, compared),
    }
    columns = {
        "Matches": [Cell(count(m.matchings)) for m in figures],
        **(truth if evaluation.truth != "none" else {}),
        "Est. prec.": [Cell(share(m.estimated_precision)) for m in figures],
        "Cycle-error": [Cell(decimal(m.cycle_error)) for m in figures],
        "Time (s)": [Cell(decimal(m.seconds)) for m in figures],
    }
    names = [style_of(name).name for name in evaluation.methods]
    rows = list(zip(names, zip(*columns.values(), strict=True), strict=True))
    return table(["Method", *columns], [Block("", rows)])


def share(value: float | None) -> str:
    """Write a share in percent, without the sign."""
    return "–" if value is None else f"{100 * value:.1f}"


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    return rf"\textbf{{{text}}}" if cell.best else text


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
