"""What the commands print of their results."""

import shlex
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from nmfsync.cli.streams import say
from nmfsync.errors import printable, shortened, shown
from nmfsync.evaluation.comparison import Comparison
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.change_page import change_rows
from nmfsync.report.compare_settings import differing_settings, remarks
from nmfsync.report.compare_tables import short_table
from nmfsync.report.compare_words import multiplicity, name_of, verdicts
from nmfsync.report.estimates import (
    doubtful_rows,
    doubtful_sentence,
    image_pairs_of,
    names_of,
    scene_sentence,
)
from nmfsync.report.page import flatten, many, percent
from nmfsync.report.wrong_pairs import behind_sentence, remedy, verdict_sentences, worst_first
from nmfsync.run.export import images_of
from nmfsync.run.matches_file import SynchronisedFile
from nmfsync.run.merge_file import MergedFile
from nmfsync.run.pairs_file import DisambiguatedFile
from nmfsync.run.tracks_file import TracksFile
from nmfsync.scenes.catalogue import is_in_catalogue
from nmfsync.scenes.scene import scene_folder

NARROWEST = 40  # columns: a narrower terminal breaks lines

LONGEST_NAME, LONGEST_IMAGE = 16, 30  # letters of the name of a method and of an image

MOST_LINES = 5  # doubtful pairs of images that are printed


def new_console() -> Console:
    """Return a console that prints brackets and colons as they are, not as markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    console.width = max(console.width, NARROWEST)
    return console


def _print_text(console: Console, text: str, style: str = "") -> None:
    """Print a sentence from anywhere; on a terminal, lines break between words."""
    console.print(printable(text), style=style, soft_wrap=not console.is_terminal)


def _print_columns(
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
    _print_text(console, f"{scene}: {evaluation.images:,} images, {evaluation.features:,} features")
    if sentence := scene_sentence(evaluation):
        _print_text(console, sentence)
    rows = [_cells(figures) for figures in evaluation.methods.values()]
    columns = list(zip(_HEADINGS, zip(*rows, strict=True), strict=True))
    known = [column for column in columns if any(cell != "–" for cell in column[1])]
    _print_columns(console, [shortened(m, LONGEST_NAME) for m in evaluation.methods], known)
    for warning in evaluation.warnings:
        _print_text(console, f"Warning: {warning}", style="yellow")
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
            command = ["colmap", "mapper", "--database_path", str(colmap)]
            command += ["--image_path", str(images_of(target)), "--output_path", "sparse"]
            say(f"Next: mkdir -p sparse && {shlex.join(command)}")


def print_comparison(comparison: Comparison) -> None:
    """Print the verdicts of a comparison of runs, and its short tables."""
    console = new_console()
    for sentence in [*verdicts(comparison), *remarks(comparison)]:
        console.print(printable(sentence))
    _print_settings(comparison)
    for side in comparison.sides[1:]:
        headings, rows = short_table(comparison, side)
        if not rows:
            continue
        names = name_of(comparison, side), name_of(comparison, comparison.sides[0])
        _print_text(console, f"{names[0]} against {names[1]}")
        methods, *columns = zip(*rows, strict=True)
        _print_columns(console, methods, list(zip(headings, columns, strict=True)))
    if text := multiplicity(comparison):
        console.print(f"* the 95 % interval excludes no difference. {text}")


def _print_settings(comparison: Comparison) -> None:
    rows = differing_settings(comparison)
    say("What differs in the settings:" if rows else "Same settings.")
    for name, values in rows[:MOST_LINES]:
        say(f"  {name}: {' | '.join(shown(value, 30) for value in values)}")
    if len(rows) > MOST_LINES:
        say(f"  and {len(rows) - MOST_LINES} more")


def print_change(done: SynchronisedFile) -> None:
    """Print what became of the matches of a file."""
    console, change = new_console(), done.change
    for sentence in (
        f"{change.images:,} images, {change.features:,} features, "
        f"{change.pairs:,} pairs of images with matches",
        f"{change.kept:,} kept, {change.removed:,} removed, {change.added:,} added",
        *done.remarks,
    ):
        _print_text(console, sentence)
    table = Table()
    table.add_column("")
    for heading in ("before", "after"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in change_rows(change, done.precision):
        table.add_row(*row)
    console.print(table)
    settings = flatten(done.result.settings or {})
    _print_text(console, ", ".join(f"{name}: {value}" for name, value in settings))
    _print_doubtful(console, done)


def _print_doubtful(console: Console, done: SynchronisedFile) -> None:
    pairs = image_pairs_of(done.confidence, done.result.image_of)
    names = [shortened(name, LONGEST_IMAGE) for name in names_of(done.result)]
    if rows := doubtful_rows(pairs, names, MOST_LINES):
        _print_text(console, doubtful_sentence(pairs))
    for a, b, matches, precision in rows:
        _print_text(console, f"  {a} and {b}: {precision} of {matches} matches")


def print_wrong_pairs(done: DisambiguatedFile) -> None:
    """Print the verdict on the pairs of images, and the worst ones."""
    console, names = new_console(), names_of(done.matches)
    _print_text(console, " ".join(verdict_sentences(done.verdicts, names)))
    wrong = worst_first(done.verdicts)
    for v in wrong[:MOST_LINES]:
        a, b = (shortened(names[n], LONGEST_IMAGE) for n in (v.i, v.j))
        _print_text(console, f"  {a} and {b}: {many(v.matches, 'match')}, {v.reason}")
    if len(wrong) > MOST_LINES:
        _print_text(console, f"  and {len(wrong) - MOST_LINES:,} more")
    for text in (behind_sentence(done.behind), remedy(done.verdicts, len(names))):
        if text:
            _print_text(console, text)


def print_merged(done: MergedFile) -> None:
    """Print what became of the positions of a detector-free matcher."""
    console = new_console()
    look_alikes = f", {done.look_alikes:,} are look-alikes" if done.look_alikes else ""
    for sentence in (
        f"{done.images:,} images; {done.pairs_kept:,} of {done.pairs:,} pairs of images "
        f"kept{look_alikes}",
        f"{done.observations_kept:,} of {done.observations:,} positions agree with the geometry "
        "of their pair",
        f"{done.places:,} different positions became {done.keypoints:,} keypoints in "
        f"{done.tracks:,} tracks; those within {done.radius:.1f} pixels are one",
        f"{done.matches:,} matches of keypoints, at most one of an image in a track",
        f"{done.contradictions:,} places left out, as most matches that lead there lead elsewhere "
        "in the same image",
    ):
        _print_text(console, sentence)


def print_tracks(done: TracksFile) -> None:
    """Print what became of a collection."""
    console = new_console()
    for sentence in (
        f"{many(done.images, 'image')}, {many(done.features, 'feature')}, "
        f"{many(done.pairs, 'pair')} of images",
        f"{done.found:,} matches, of which {done.kept:,} are probable enough and verified",
        f"{many(done.tracks, 'track')} of {many(done.in_tracks, 'feature')}; estimated precision "
        f"of their matches: {percent(done.precision)}",
        f"Synchronised in {many(done.parts, 'part')}"
        + (
            f", as {many(done.cut, 'component')} had to be cut: {percent(done.across)} of the "
            "matches lie across a cut (fewer with a larger --part)"
            if done.cut
            else ""
        ),
        *done.warnings,
    ):
        _print_text(console, sentence)
