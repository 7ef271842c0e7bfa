"""What the commands print of files of matches, and of comparisons."""

from rich.console import Console
from rich.table import Table

from nmfsync.cli.scenes import new_console, print_columns, print_text
from nmfsync.cli.streams import say
from nmfsync.errors import printable, shortened, shown
from nmfsync.evaluation.comparison import Comparison
from nmfsync.report.change_page import change_rows
from nmfsync.report.compare_settings import differing_settings, remarks
from nmfsync.report.compare_tables import short_table
from nmfsync.report.compare_words import multiplicity, name_of, verdicts
from nmfsync.report.estimates import (
    doubtful_rows,
    doubtful_sentence,
    image_pairs_of,
    names_of,
)
from nmfsync.report.page import flatten, many, percent
from nmfsync.report.wrong_pairs import behind_sentence, remedy, verdict_sentences, worst_first
from nmfsync.run.matches_file import SynchronisedFile
from nmfsync.run.merge_file import MergedFile
from nmfsync.run.pairs_file import DisambiguatedFile
from nmfsync.run.tracks_file import TracksFile

LONGEST_IMAGE = 30  # letters of the name of an image

MOST_LINES = 5  # doubtful pairs of images that are printed


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
        print_text(console, f"{names[0]} against {names[1]}")
        methods, *columns = zip(*rows, strict=True)
        print_columns(console, methods, list(zip(headings, columns, strict=True)))
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
        print_text(console, sentence)
    table = Table()
    table.add_column("")
    for heading in ("before", "after"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in change_rows(change, done.precision):
        table.add_row(*row)
    console.print(table)
    settings = flatten(done.result.settings or {})
    print_text(console, ", ".join(f"{name}: {value}" for name, value in settings))
    _print_doubtful(console, done)


def _print_doubtful(console: Console, done: SynchronisedFile) -> None:
    pairs = image_pairs_of(done.confidence, done.result.image_of)
    names = [shortened(name, LONGEST_IMAGE) for name in names_of(done.result)]
    if rows := doubtful_rows(pairs, names, MOST_LINES):
        print_text(console, doubtful_sentence(pairs))
    for a, b, matches, precision in rows:
        print_text(console, f"  {a} and {b}: {precision} of {matches} matches")


def print_wrong_pairs(done: DisambiguatedFile) -> None:
    """Print the verdict on the pairs of images, and the worst ones."""
    console, names = new_console(), names_of(done.matches)
    print_text(console, " ".join(verdict_sentences(done.verdicts, names)))
    wrong = worst_first(done.verdicts)
    for v in wrong[:MOST_LINES]:
        a, b = (shortened(names[n], LONGEST_IMAGE) for n in (v.i, v.j))
        print_text(console, f"  {a} and {b}: {many(v.matches, 'match')}, {v.reason}")
    if len(wrong) > MOST_LINES:
        print_text(console, f"  and {len(wrong) - MOST_LINES:,} more")
    for text in (behind_sentence(done.behind), remedy(done.verdicts, len(names))):
        if text:
            print_text(console, text)


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
        print_text(console, sentence)


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
        *(f"Warning: {text}" for text in done.warnings),
    ):
        print_text(console, sentence)
