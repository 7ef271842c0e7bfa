"""How right matches are by the estimate that needs no ground truth: sentences and rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmfsync.errors import printable
from nmfsync.evaluation.summary import HEADLINE, ImagePairEvaluation, SceneEvaluation
from nmfsync.report.method_styles import style_of
from nmfsync.report.page import count, percent, whole_percent
from nmfsync.types.arrays import IntArray

if TYPE_CHECKING:  # a run with nothing to do prints a sentence of these, and needs no more
    from nmfsync.evaluation.confidence import Confidence
    from nmfsync.types.matches import Matches

# A pair of images is doubtful if less than this share of its matches is right, by the estimate. A
# pair with fewer matches says nothing.
DOUBTFUL, ENOUGH_MATCHES = 0.8, 8

MOST_ROWS = 10  # doubtful pairs of images on a page


def scene_sentence(evaluation: SceneEvaluation) -> str:
    """Say how right the tracks of a scene are: estimated, and with truth also measured.

    Of the input if no method makes tracks; "" without matches.
    """
    name = evaluation.tracks
    method = evaluation.methods[name]
    what = f"matches in the tracks of {style_of(name).name}"
    what = "matches of the input" if name == "input" else what
    if method.estimated_precision is None:
        return ""
    text = estimate_text(method.estimated_precision, method.matchings, what)
    measured = method.precision.get(HEADLINE)
    if measured is None:
        return f"{text} (estimated)."
    return (
        f"{text} (estimated); measured against the ground truth: {whole_percent(measured)} of "
        "those that it can judge."
    )


def estimate_text(precision: float, matches: int, what: str) -> str:
    """Begin a sentence: About 91 % of the 12,345 matches are right."""
    return f"About {whole_percent(precision)} of the {count(matches)} {what} are right"


def result_sentence(confidence: "Confidence", source: str) -> str:
    """Say how right the matches of a result are, estimated from `source`; "" without matches."""
    if confidence.precision is None:
        return ""
    text = estimate_text(confidence.precision, len(confidence.p), "matches of the result")
    return f"{text} (estimated from {source})."


def names_of(matches: "Matches") -> Sequence[str]:
    """Return the names of the images, or else their numbers from 0, as in `tracks.csv`."""
    source = matches.source
    return (
        [printable(n) for n in source.names]
        if source is not None
        else [str(i) for i in range(len(matches.sizes))]
    )


def image_pairs_of(confidence: "Confidence", image_of: IntArray) -> list[ImagePairEvaluation]:
    """Return the pairs of images of matches without truth.

    Parameters
    ----------
    confidence : Confidence
    image_of : (m,) ints
        The image of every feature.
    """
    from nmfsync.evaluation.confidence import precision_by_image_pair

    columns = (column.tolist() for column in precision_by_image_pair(confidence, image_of))
    return [
        ImagePairEvaluation((a, b), matches, precision, None)
        for (a, b), matches, precision in zip(*columns, strict=True)
    ]


def doubtful_pairs(pairs: Sequence[ImagePairEvaluation], most: int) -> list[ImagePairEvaluation]:
    """Return the most doubtful pairs of images, the worst first, and at most `most`."""
    doubtful = [pair for pair in _with_enough(pairs) if pair.estimated_precision < DOUBTFUL]
    return sorted(doubtful, key=lambda pair: pair.estimated_precision)[:most]


def doubtful_sentence(pairs: Sequence[ImagePairEvaluation], left_out: int = 0) -> str:
    """Say how many pairs of images are doubtful; "" if none has enough matches.

    Parameters
    ----------
    pairs : sequence of ImagePairEvaluation
    left_out : int
        Number of other pairs, which are less doubtful.
    """
    enough = len(_with_enough(pairs))
    doubtful = len(doubtful_pairs(pairs, enough))
    if not enough:
        return ""
    more = f" {count(left_out)} pairs that are less doubtful are left out." if left_out else ""
    return (
        f"Doubtful pairs of images, with at least {ENOUGH_MATCHES} matches and an estimated "
        f"precision below {whole_percent(DOUBTFUL)}: {count(doubtful) if doubtful else 'none'} of "
        f"{count(enough)}.{more}"
    )


def doubtful_rows(
    pairs: Sequence[ImagePairEvaluation], names: Sequence[str], most: int
) -> list[list[str]]:
    """Return the rows about the most doubtful pairs of images.

    Two names, the number of matches, the estimated precision, and the measured one
    if the truth knows that of any pair.
    """
    rows = doubtful_pairs(pairs, most)
    measured = any(pair.precision is not None for pair in pairs)
    return [_row(pair, names)[: 5 if measured else 4] for pair in rows]


def doubtful_links(pairs: Sequence[ImagePairEvaluation], most: int) -> list[str]:
    """Return the addresses of the same pairs within a page that has the viewer."""
    return ["#pair={}-{}".format(*pair.images) for pair in doubtful_pairs(pairs, most)]


def _with_enough(pairs: Sequence[ImagePairEvaluation]) -> list[ImagePairEvaluation]:
    return [pair for pair in pairs if pair.matchings >= ENOUGH_MATCHES]


def _row(pair: ImagePairEvaluation, names: Sequence[str]) -> list[str]:
    a, b = pair.images
    shares = map(percent, (pair.estimated_precision, pair.precision))
    return [names[a], names[b], count(pair.matchings), *shares]
