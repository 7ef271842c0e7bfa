"""Verdicts on pairs of images as a table: `OUT.pairs.csv`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nmfsync.runtime.tables import write_table
from nmfsync.types.verdicts import EVIDENCE, PairVerdict


def evidence_fields() -> list[str]:
    """Return the fields of `PairVerdict` with evidence, matches and tracks first."""
    counts = ["matches", "tracks"]
    return counts + [field for field in EVIDENCE if field not in counts]


def write_pairs(path: Path, verdicts: Sequence[PairVerdict], names: Sequence[str]) -> None:
    """Write one row for every pair of images: names, evidence, verdict and reason.

    Parameters
    ----------
    path : Path
    verdicts : sequence of PairVerdict
    names : sequence of str
        Of all images.
    """
    header = ("image_a", "image_b", *evidence_fields(), "verdict", "reason")
    write_table(path, header, _rows(verdicts, names))


def _rows(verdicts: Sequence[PairVerdict], names: Sequence[str]) -> Iterator[Sequence[Any]]:
    for v in verdicts:
        evidence = (getattr(v, field) for field in evidence_fields())
        verdict = "right" if v.right else "wrong"
        yield [names[v.i], names[v.j], *map(_number, evidence), verdict, v.reason]


def _number(value: Any) -> Any:
    """Write a fraction with six digits, which is more than is known, and yes or no as 1 or 0."""
    if isinstance(value, bool):
        return int(value)
    return f"{value:.6g}" if isinstance(value, float) else value
