"""The page about pairs of images: which show different places that look alike, and why."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmfsync.report.figures.style import default_look
from nmfsync.report.page import environment, write_bytes
from nmfsync.report.wrong_pairs import (
    behind_sentence,
    evidence_headings,
    evidence_of,
    numbered,
    worst_first,
    wrong_pairs,
)
from nmfsync.types.verdicts import PairVerdict

MOST_ROWS = 3000  # pairs of images in the table of all; the CSV file has the others

MOST_SHOWN = 30  # wrong pairs whose photographs are shown


@default_look()
def write_pairs_report(
    path: Path,
    files: tuple[str, str, str],
    verdicts: Sequence[PairVerdict],
    names: Sequence[str],
    behind: int,
    photographs: Mapping[int, str],
    warnings: Sequence[str],
    provenance: Mapping[str, Any],
) -> None:
    """Write a self-contained page about the pairs of images of a file.

    Parameters
    ----------
    path : Path
        The HTML file to write.
    files : tuple of str
        Names of the file with the input matches, of the one written from it, and of the table.
    verdicts : sequence of PairVerdict
    names : sequence of str
        Of all images.
    behind : int
        Matches that were left out before, as they lie behind the cameras.
    photographs : dict of int to str
        Data URLs of the images whose photographs are shown, see `shown_images`.
    warnings : sequence of str
    provenance : dict
        See `Clock.provenance`.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    wrong = wrong_pairs(verdicts, names)
    html = (
        environment()
        .get_template("pairs.html")
        .render(
            input_name=files[0],
            output_name=files[1],
            table_name=files[2],
            images=len(names),
            pairs=len(verdicts),
            wrong=wrong and wrong.drawn(),
            behind=behind_sentence(behind),
            wrong_count=sum(not v.right for v in verdicts),
            looks=_looks(verdicts, numbered(names), photographs),
            headings=evidence_headings(),
            rows=_rows(verdicts, numbered(names))[:MOST_ROWS],
            warnings=warnings,
            provenance=provenance,
        )
    )
    write_bytes(path, html.encode())


def shown_images(verdicts: Sequence[PairVerdict]) -> list[int]:
    """Return the images whose photographs a page shows: those of the first wrong pairs."""
    return sorted({n for v in worst_first(verdicts)[:MOST_SHOWN] for n in (v.i, v.j)})


def _looks(
    verdicts: Sequence[PairVerdict], names: Sequence[str], photographs: Mapping[int, str]
) -> list[list[tuple[str, str]]]:
    """Return name and photograph of both images of the first wrong pairs that have both."""
    pairs = [(v.i, v.j) for v in worst_first(verdicts)[:MOST_SHOWN]]
    return [
        [(names[n], photographs[n]) for n in pair]
        for pair in pairs
        if all(photographs.get(n) for n in pair)
    ]


def _rows(
    verdicts: Sequence[PairVerdict], names: Sequence[str]
) -> list[tuple[str, str, list[str], bool, str]]:
    """Return two names, evidence, verdict and reason of every pair, wrong ones first."""
    ordered = [*worst_first(verdicts), *(v for v in verdicts if v.right)]
    return [(names[v.i], names[v.j], evidence_of(v), v.right, v.reason) for v in ordered]
