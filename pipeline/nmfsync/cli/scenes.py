"""What `nmfsync run` prints of scenes, and how all commands print texts and tables.

Imports no more than that, so that a run with nothing to do is quick.
"""

import shlex
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from nmfsync.cli.streams import say
from nmfsync.errors import printable, shortened
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.estimates import scene_sentence
from nmfsync.scenes.catalogue import is_in_catalogue
from nmfsync.scenes.scene import scene_folder

NARROWEST = 40  # columns: a narrower terminal breaks lines

LONGEST_NAME = 16  # letters of the name of a method


def new_console() -> Console:
    """Return a console that prints brackets and colons as they are, not as markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    console.width = max(console.width, NARROWEST)
    return console


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print a sentence from anywhere; on a terminal, lines break between words."""
    console.print(printable(text), style=style, soft_wrap=not console.is_terminal)


def print_columns(
    console: Console, names: Sequence[str], columns: Sequence[tuple[str, Sequence[str]]]
) -> None:
    """Print a table of methods: on a narrow terminal several, so that no line breaks.

    A column is its heading and a cell for every method.
    """
    gap = 2
    if _how_many_fit(columns, names, console.width, gap) < len(columns):
        gap = 1
    while columns:
        fitting = columns[: _how_many_fit(columns, names, console.width, gap)]
        columns = columns[len(fitting) :]
        table = Table(box=SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False)
        table.add_column("method", no_wrap=True)
        for heading, _ in fitting:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in zip(names, *(cells for _, cells in fitting), strict=True):
            table.add_row(*row)
        console.print(table)


def _how_many_fit(
    columns: Sequence[tuple[str, Sequence[str]]], names: Sequence[str], width: int, gap: int
) -> int:
    """Return how many of the columns fit beside the names, at least one."""
    widths = [_width(["method", *names])]
    widths += [_width([*heading.split("\n"), *cells]) for heading, cells in columns]
    ends = accumulate(own + gap for own in widths)
    return max(1, sum(end <= width for end in ends) - 1)


def _width(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts))


_HEADINGS = ("con-\nsistent", "matches", "FCM\n1 %", "prec.\n1 %", "est.\nprec.", "cycle-\nerror",
             "seconds", "MB")  # fmt: skip


def print_scene(console: Console, evaluation: SceneEvaluation, out: Path) -> None:
    """Print what was found of a scene: a sentence, a table of the methods, warnings."""
    scene = shortened(evaluation.scene, console.width // 2)
    print_text(console, f"{scene}: {evaluation.images:,} images, {evaluation.features:,} features")
    if sentence := scene_sentence(evaluation):
        print_text(console, sentence)
    rows = [_cells(figures) for figures in evaluation.methods.values()]
    columns = list(zip(_HEADINGS, zip(*rows, strict=True), strict=True))
    known = [column for column in columns if any(cell != "–" for cell in column[1])]
    print_columns(console, [shortened(m, LONGEST_NAME) for m in evaluation.methods], known)
    for warning in evaluation.warnings:
        print_text(console, f"Warning: {warning}", style="yellow")
    say(f"Report: {scene_folder(out, evaluation.scene) / 'report.html'}")
    say("")


def _cells(figures: MethodEvaluation) -> list[str]:
    measured = [figures.fcm.get("0.01"), figures.precision.get("0.01")]
    shares = [*measured, figures.estimated_precision]
    return [
        "yes" if figures.cycle_consistent else "no",
        f"{figures.matchings:,}",
        *("–" if share is None else f"{share:.1%}" for share in shares),
        f"{figures.cycle_error:.3f}",
        f"{figures.seconds:.2f}",
        f"{figures.peak_memory_mb:,.0f}",
    ]


def print_exports(colmap: Path | None, hloc: Path | None, target: str) -> None:
    """Say which files for mappers were written, and what reads them."""
    if hloc is not None:
        say(f"Files of hloc: {hloc}")
    if colmap is not None:
        say(f"Database: {colmap}")
        if not is_in_catalogue(target):
            from nmfsync.run.export import images_of

            command = ["colmap", "mapper", "--database_path", str(colmap)]
            command += ["--image_path", str(images_of(target)), "--output_path", "sparse"]
            say(f"Next: mkdir -p sparse && {shlex.join(command)}")
