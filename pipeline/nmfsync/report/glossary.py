"""The words of the pages, each explained once: where it stands, and in "How to read the figures".

A page asks for its words while it is written, and its last section lists those that it used.
"""

from typing import NamedTuple

from markupsafe import Markup

from nmfsync.errors import printable
from nmfsync.evaluation.confidence import RIGHT
from nmfsync.report.best import BEST_RULE


class Word(NamedTuple):
    """A word as the last section of a page writes it, and what it means."""

    title: str
    meaning: str


GLOSSARY = {
    "match": Word(
        "Match",
        "Two features of different images that are taken for the same point of the scene. "
        "A match counts once, though it can be read in both directions.",
    ),
    "kept": Word(
        "Kept, removed, added",
        "A method keeps a match of the input, removes it, or adds one that the input lacks.",
    ),
    "inlier": Word(
        "Verification, inlier",
        "Geometric verification keeps the matches of two images that agree with one geometry, "
        "the inliers. A pair of images with too few of them loses all its matches.",
    ),
    "right": Word(
        "Right",
        "A match is right if the ground truth moves one feature to within "
        f"{100 * RIGHT:g} % of the larger dimension of the other image from the other "
        "feature, and else wrong.",
    ),
    "judged": Word(
        "Judged",
        "The share of the matches that the ground truth can call right or wrong. A point that is "
        "outside the other image or has no known depth is not judged.",
    ),
    "transfer-error": Word(
        "Transfer error",
        "The distance between a feature and where the ground truth moves the feature that is "
        "matched to it.",
    ),
    "fcm": Word(
        "FCM, the fraction of correct matchings",
        "The number of matches with a transfer error of at most t, divided by the number of image "
        "features (the smaller number of two images, summed over all ordered pairs of images). "
        "The threshold t is a share of the largest image dimension, 1\u00a0% in tables.",
    ),
    "precision": Word(
        "Precision",
        "The number of right matches, divided by the number of returned matches that the truth "
        "can judge.",
    ),
    "estimated-precision": Word(
        "Estimated precision",
        "The share of right matches, without any ground truth: the mean of the probabilities that "
        "the matches are right. These follow from the input: from what its matches look like, and "
        "from other matches in a row that lead to the same feature. All matches count, also those "
        "that a ground truth could not judge. The estimate is too high where things look alike: "
        "windows of a façade, or two equal houses, are matched in the same wrong way in many "
        "images, and so confirm each other.",
    ),
    "epipolar": Word(
        "Epipolar distance",
        "How far a feature is from the line in its image on which the matched feature of the "
        "other image must appear, by the cameras. It needs no depth, but does not detect a match "
        "that is wrong along the line.",
    ),
    "cycle-error": Word(
        "Cycle-error",
        "How much the matches through a third image disagree with the direct matches, over all "
        "triples of images. It is 0 if every cycle agrees; then the matches form tracks.",
    ),
    "consistent": Word(
        "Cycle-consistent",
        "Every way of matches through other images leads back to the feature where it began, so "
        "that the matches form tracks.",
    ),
    "track": Word(
        "Track",
        "Features of at least two images that are connected by matches, with at most one feature "
        "of every image: one point of the scene.",
    ),
    "track-length": Word("Track length", "The number of images in which a track is seen."),
    "inconsistent": Word(
        "Inconsistent track, inconsistent component",
        "Connected features, two or more of them in the same image: at least one match is wrong. "
        "These do not count as tracks.",
    ),
    "near-duplicate": Word(
        "Near-duplicate",
        "A feature at most 3\u00a0pixels from another one of its image, with the same neighbours: "
        "the same point at another scale or in another orientation. Both count as one feature, "
        "and keep their matches in the file.",
    ),
    "coverage": Word(
        "Coverage",
        "The share of the features that are in a track. A method can be precise by returning "
        "hardly anything; coverage shows it.",
    ),
    "universe": Word(
        "Universe, universe size",
        "The points of the scene that features are matched to. Its size d is the number of points "
        "that a method may use, for the methods that need to know it.",
    ),
    "theta": Word(
        "θ",
        "How sure matches must be, from 0 to 1, for the methods that take it: a larger θ keeps "
        "fewer, surer matches.",
    ),
    "ratio": Word(
        "Distance ratio, ratio test",
        "The distance of the matched feature's descriptor, divided by that of the second-best "
        "one: small is distinctive. A ratio test keeps the matches below a limit.",
    ),
    "best": Word("★", f"The best value, {BEST_RULE}. Time and memory are not compared."),
    "gt-error": Word(
        "gt-error",
        "‖W − W_gt‖_F: the square root of the number of entries in which the result and the truth "
        "differ.",
    ),
    "recall": Word(
        "Precision, recall, f-score of a study",
        "The share of the ones of W that are right, the share of the true ones that are found, "
        "and the harmonic mean of both. The diagonal counts, as in the paper.",
    ),
    "tracks-file": Word(
        "tracks.csv",
        "The tracks of the whole result, one row a feature; x and y are in pixels, and the centre "
        "of the top-left pixel is (0, 0). COLMAP's positions are half a pixel larger.",
    ),
}


class Glossary:
    """The words of one page, in the order of the glossary whatever their order on the page."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def term(self, key: str, text: str) -> Markup:
        """Write a word that shows its meaning to a mouse, a keyboard and a finger."""
        self._used.add(key)
        lines = Markup("<br>").join(printable(line) for line in text.split("\n"))
        link = '<a class="term" href="#word-{0}" aria-describedby="word-{0}">{1}</a>'
        return Markup(link).format(key, lines)

    def use(self, *keys: str) -> str:
        """Have words explained that stand in captions and sentences; writes nothing."""
        self._used.update(keys)
        return ""

    @property
    def used(self) -> dict[str, Word]:
        """The words that the page has used so far."""
        return {key: word for key, word in GLOSSARY.items() if key in self._used}
