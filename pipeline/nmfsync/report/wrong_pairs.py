"""The verdicts on pairs of images in words, rows and two pictures: for pages and the terminal."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmfsync.evaluation.image_graph import linked_images
from nmfsync.evaluation.summary import ImageGraph
from nmfsync.exchange.pairs_table import evidence_fields
from nmfsync.report.drawing import Drawing
from nmfsync.report.figures.image_graph import MOST_NUMBERS, pair_graph_figure
from nmfsync.report.image_graph import names_in_words
from nmfsync.report.page import Picture, count, joined, many
from nmfsync.report.pictures import drawn
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.verdicts import EVIDENCE, PairVerdict

MOST_WRONG = 50  # wrong pairs in the table of a section

_COUNTS = {
    "matches": ("Matches", "The verified matches of the two images."),
    "tracks": ("Tracks", "The tracks that both images show."),
}

_BEFORE = (
    "One point an image; the more matches, the wider the line. Dashed lines are the pairs that are "
    "left out; of the others, the strongest of every image are drawn, and those that hold a part "
    "together."
)

_AFTER = (
    "The same images at the same places. Each part that still hangs together has its colour and "
    "shape, in both figures; a cross is an image that is left without a match."
)


class WrongPairs(NamedTuple):
    """What a page shows of the verdicts on pairs of images.

    Attributes
    ----------
    sentences : list of str
        How many are wrong, how the images hang together without them, and what to do.
    pictures : list of Picture
        The graph of the images before and after, to be drawn; none if no pair is wrong.
    rows : list of list of str
        Of wrong pairs, those with most matches first: two names, matches, tracks, reason.
    left_out : int
        Wrong pairs without a row.
    """

    sentences: list[str]
    pictures: list[Picture]
    rows: list[list[str]]
    left_out: int

    def drawn(self) -> "WrongPairs":
        """Return the same with drawn pictures."""
        return self._replace(pictures=drawn(self.pictures))


def wrong_pairs(verdicts: Sequence[PairVerdict], names: Sequence[str]) -> WrongPairs | None:
    """Gather what a page shows of verdicts; None without any.

    Parameters
    ----------
    verdicts : sequence of PairVerdict
    names : sequence of str
        Of all images.
    """
    if not verdicts:
        return None
    wrong, shown = worst_first(verdicts), numbered(names)
    rows = [
        [shown[v.i], shown[v.j], count(v.matches), count(v.tracks), v.reason]
        for v in wrong[:MOST_WRONG]
    ]
    sentences = [*verdict_sentences(verdicts, names), remedy(verdicts, len(names))]
    pictures = _pictures(verdicts, len(names), sentences[0]) if wrong else []
    return WrongPairs(list(filter(None, sentences)), pictures, rows, len(wrong) - len(rows))


def worst_first(verdicts: Sequence[PairVerdict]) -> list[PairVerdict]:
    """Return the wrong pairs, those with most matches first."""
    return sorted((v for v in verdicts if not v.right), key=lambda v: -v.matches)


def numbered(names: Sequence[str]) -> list[str]:
    """Put its number before the name of every image: the figures have no room for names."""
    return [f"{n}: {name}" for n, name in enumerate(names, start=1)]


def verdict_sentences(verdicts: Sequence[PairVerdict], names: Sequence[str]) -> list[str]:
    """Say how many pairs of images are wrong, and how the images hang together without them."""
    wrong = worst_first(verdicts)
    if not wrong:
        return [
            f"Of {many(len(verdicts), 'pair')} of images with matches, none looks wrong: all stay."
        ]
    matches = sum(v.matches for v in wrong)
    total = sum(v.matches for v in verdicts)
    first = (
        f"{count(len(wrong))} of {many(len(verdicts), 'pair')} of images with matches "
        f"{'shows' if len(wrong) == 1 else 'show'} different places that look alike; "
        f"{'its' if len(wrong) == 1 else 'their'} {count(matches)} of {many(total, 'match')} are "
        "left out."
    )
    return [first, *_connection(verdicts, names)]


def behind_sentence(behind: int) -> str:
    """Say how many matches were left out as they lie behind the cameras; "" if none was."""
    if not behind:
        return ""
    return (
        f"Left out before as well: {many(behind, 'match')} behind the cameras, of pairs most of "
        "whose matches are in front."
    )


def remedy(verdicts: Sequence[PairVerdict], images: int) -> str:
    """Say what to do with wrong pairs; "" without any."""
    if all(v.right for v in verdicts):
        return ""
    before, after = (len(_parts(verdicts, images, only)) for only in (False, True))
    if after > before:
        return (
            "If the parts are different places, map them one by one; if they are one place, add "
            "photographs in between and match again."
        )
    return (
        "Compare the photographs of these pairs; if one is right after all, use the matches as "
        "they were, or add photographs in between."
    )


def evidence_headings() -> list[tuple[str, str]]:
    """Return heading and explanation of every column of evidence."""
    return [EVIDENCE.get(field) or _COUNTS[field] for field in evidence_fields()]


def evidence_of(verdict: PairVerdict) -> list[str]:
    """Return the cells of the columns of evidence."""
    return [_in_words(getattr(verdict, field)) for field in evidence_fields()]


def _in_words(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return count(value) if isinstance(value, int) else f"{value:.3g}"


def _connection(verdicts: Sequence[PairVerdict], names: Sequence[str]) -> list[str]:
    """Say into which parts the images fall without wrong pairs, and which are left alone."""
    before, after = (_parts(verdicts, len(names), only) for only in (False, True))
    lost = sorted({i for p in before for i in p} - {i for p in after for i in p})
    if not lost and len(before) == len(after):
        return ["The other pairs hold the same images together."]
    sizes = joined([count(len(part)) for part in after[:5]] or ["0"])
    more = f", and {count(len(after) - 5)} smaller ones" if len(after) > 5 else ""
    parts = f"{many(len(after), 'part')} ({sizes} images{more}; before: {count(len(before))})"
    sentences = [f"Without them, the images hang together in {parts}."]
    if lost:
        sentences.append(f"Left without a match: {names_in_words(lost, names)}.")
    return sentences


def _parts(verdicts: Sequence[PairVerdict], images: int, right_only: bool) -> list[list[int]]:
    return _graph([v for v in verdicts if v.right or not right_only], images).parts


def _graph(verdicts: Sequence[PairVerdict], images: int) -> ImageGraph:
    """Link images by these pairs."""
    pairs: IntArray = np.array([(v.i, v.j) for v in verdicts], np.int64).reshape(-1, 2)
    strength: FloatArray = np.array([v.matches for v in verdicts], np.float64)
    return linked_images(pairs, strength, images)


def _pictures(verdicts: Sequence[PairVerdict], images: int, alt: str) -> list[Picture]:
    everything = _graph(verdicts, images)
    right = _graph([v for v in verdicts if v.right], images)
    wrong = [(v.i, v.j, float(v.matches)) for v in worst_first(verdicts)]
    before, after = (
        Drawing(name, pair_graph_figure, (everything, right, wrong, images, name == "pairs-after"))
        for name in ("pairs-before", "pairs-after")
    )
    numbers = " Numbers are those of the tables." if images <= MOST_NUMBERS else ""
    return [
        Picture(
            "pairs-before.png", "Before", _BEFORE + numbers, alt=f"Before. {alt}", drawing=before
        ),
        Picture("pairs-after.png", "After", _AFTER, alt=f"After. {alt}", drawing=after),
    ]
