"""The evaluation of one scene: what `evaluation.json` holds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nmfsync.evaluation.confidence import (
    RIGHT,
    Confidence,
    precision_by_image_pair,
    reliability,
)
from nmfsync.evaluation.curves import Curves, by_threshold
from nmfsync.evaluation.cycles import cycle_error
from nmfsync.evaluation.errors import MatchErrors, epipolar_errors, match_errors
from nmfsync.evaluation.image_graph import ImageGraph
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching
from nmfsync.types.truth import Truth

MOST_PAIRS = 100_000  # of images, in `evaluation.json`


@dataclass(frozen=True)
class MethodEvaluation:
    """The figures of one method on one scene.

    Attributes
    ----------
    fcm, precision : dict of str to float
        Values by threshold, which is written as "0.01". Empty without truth. A
        precision is None if no match can be judged.
    matchings : int
        Matches between different images, each counted once.
    judged : int
        Matches that the truth can judge; each direction counts as a match.
    cycle_error : float
    cycle_consistent : bool
        True if every cycle of matches agrees.
    seconds : float
        Wall time of the method alone.
    peak_memory_mb : float
        Memory that the method had allocated at its peak beyond its input, in
        10⁶ bytes.
    estimated_precision : float or None
        The share of right matches, estimated without truth (`Confidence`). None
        without matches.
    reliability : dict of str to list
        How the probabilities of the matches compare with the truth, see
        `confidence.reliability`. Empty without truth, or where only the input's matches
        are estimated.
    epipolar_fcm, epipolar_precision : dict of str to float
        As `fcm` and `precision`, but by the distance to the epipolar lines of
        the scene's cameras. This needs no depth, but does not detect a match
        that is wrong along the epipolar line. Empty without cameras.
    """

    fcm: dict[str, float]
    precision: dict[str, float | None]
    matchings: int
    judged: int
    cycle_error: float
    cycle_consistent: bool
    seconds: float
    peak_memory_mb: float
    estimated_precision: float | None = None
    reliability: dict[str, list[float]] = field(default_factory=dict)
    epipolar_fcm: dict[str, float] = field(default_factory=dict)
    epipolar_precision: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ImagePairEvaluation:
    """The matches of two images.

    Attributes
    ----------
    images : tuple of int
        The two images, counted from 0.
    matchings : int
    estimated_precision : float
        The share of right matches, estimated without truth.
    precision : float or None
        At 1 % of the image; None if the truth can judge no match.
    """

    images: tuple[int, int]
    matchings: int
    estimated_precision: float
    precision: float | None


@dataclass(frozen=True)
class SceneEvaluation:
    """The figures of all methods on one scene; the content of `evaluation.json`.

    Attributes
    ----------
    scene : str
    images : int
        Number k of images.
    features : int
        Number m of features in all images.
    sizes : list of int
        Number of features of every image.
    universe_size : int
        The universe size d that the methods were run with.
    truth : str
        The kind of ground truth (`Truth.kind`), or "none".
    settings : dict
        The settings of the run and the versions of the libraries.
    methods : dict of str to MethodEvaluation
        "input" first, then the methods in the order of the settings.
    warnings : list of str
        What degraded the result.
    ratio_curve : dict of str to list
        FCM and precision of the input at 1 % under a ratio test, see `curves.ratio_curve`.
        Empty without truth.
    tracks : str
        The method whose tracks `tracks.csv` holds, the first one with a consistent
        result; "input" without any.
    image_pairs : list of ImagePairEvaluation
        The matches of this method, by pair of images: those that have matches. Of
        more than 100,000 pairs, the most doubtful ones.
    image_pairs_left_out : int
        How many pairs these are not.
    depth_quality : dict
        How good the depths of a plane sweep over the images are: what they were
        compared with (`against`), at how many features (`features`), and the
        fields of `DepthQuality`, which are None if nothing could be compared.
        Empty if the truth has no depths.
    left_out : dict of str to str
        What is in the folder of the images and was not read: path -> reason.
    image_graph : ImageGraph
        How the images hang together by the matches of this method.
    provenance : dict
        Command, date, versions, input files and times, see `Clock.provenance`. Empty in
        files of versions that did not write it. Evaluations are equal whatever it is.
    """

    scene: str
    images: int
    features: int
    sizes: list[int]
    universe_size: int
    truth: str
    settings: dict[str, Any]
    methods: dict[str, MethodEvaluation]
    warnings: list[str] = field(default_factory=list)
    ratio_curve: dict[str, list[float | None]] = field(default_factory=dict)
    tracks: str = "input"
    image_pairs: list[ImagePairEvaluation] = field(default_factory=list)
    image_pairs_left_out: int = 0
    depth_quality: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    image_graph: ImageGraph = field(default_factory=ImageGraph)
    provenance: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def remarks(self) -> list[str]:
        """The warnings of single methods, apart from the one whose tracks are shown."""
        others = tuple(f"{name}: " for name in self.methods if name != self.tracks)
        return [text for text in self.warnings if text.startswith(others)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists, numbers and strings, ready for JSON."""
        return asdict(self)


def evaluate(
    matches: Matches,
    features: Sequence[Features],
    truth: Truth | None,
    seconds: float,
    peak_memory_mb: float,
    cameras: Sequence[Camera] | None = None,
    errors: MatchErrors | None = None,
    confidence: Confidence | None = None,
    progress: bool = False,
) -> MethodEvaluation:
    """Measure one method's matches on one scene.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    features : sequence of Features
        One item for every image.
    truth : Truth or None
    seconds, peak_memory_mb : float
        Time and memory of the method, see `MethodEvaluation`.
    cameras : sequence of Camera, optional
        One item for every image; needed for the distances to epipolar lines.
    errors : MatchErrors, optional
        The result of `match_errors`, if it is known already.
    confidence : Confidence, optional
        The result of `estimate_confidence`, if anything is known of how likely
        the matches are right.
    progress : bool
        Show progress bars for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    MethodEvaluation
    """
    if errors is None:
        errors = match_errors(matches, features, truth, progress)
    # Of very long tracks, not every match is estimated.
    complete = confidence is not None and 2 * len(confidence.p) == len(errors.p)
    disagreement = 0.0
    if not isinstance(matches, MultiMatching):
        disagreement = cycle_error(matches.W, matches.sizes, progress)
    by_truth: Curves = by_threshold(errors, matches.sizes) if truth else ({}, {})
    by_lines: Curves = ({}, {})
    if cameras:
        distances = epipolar_errors(matches, features, cameras, progress)
        by_lines = by_threshold(distances, matches.sizes)
    return MethodEvaluation(
        fcm=by_truth[0],
        precision=by_truth[1],
        matchings=len(errors.p) // 2,
        judged=int(np.isfinite(errors.error).sum()),
        cycle_error=disagreement,
        cycle_consistent=disagreement == 0.0,
        seconds=seconds,
        peak_memory_mb=peak_memory_mb,
        estimated_precision=confidence.precision if confidence else None,
        reliability=reliability(confidence, errors) if confidence and truth and complete else {},
        epipolar_fcm=by_lines[0],
        epipolar_precision=by_lines[1],
    )


def evaluate_image_pairs(
    matches: Matches, confidence: Confidence, errors: MatchErrors
) -> tuple[list[ImagePairEvaluation], int]:
    """Estimate and measure the precision of every pair of images.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    confidence : Confidence
        From `estimate_confidence`, for these matches.
    errors : MatchErrors
        From `match_errors`, for these matches.

    Returns
    -------
    list of ImagePairEvaluation
        Of the pairs of images with matches, in their order. Of more than 100,000,
        those with the smallest estimates.
    left_out : int
        The number of the others.
    """
    k, image_of = len(matches.sizes), matches.image_of
    pairs, counts, estimates = precision_by_image_pair(confidence, image_of)
    kept = np.sort(np.argsort(estimates, kind="stable")[:MOST_PAIRS])
    judged = np.isfinite(errors.error)
    i, j = np.sort([image_of[errors.p[judged]], image_of[errors.q[judged]]], axis=0)
    measured, place = np.unique(i * k + j, return_inverse=True)
    total = np.bincount(place, minlength=len(measured))
    right = np.bincount(place, errors.error[judged] <= RIGHT, len(measured))
    precision = dict(zip(measured.tolist(), (right / total).tolist(), strict=True))
    return [
        ImagePairEvaluation((a, b), count, estimate, precision.get(a * k + b))
        for (a, b), count, estimate in zip(
            pairs[kept].tolist(), counts[kept].tolist(), estimates[kept].tolist(), strict=True
        )
    ], len(pairs) - len(kept)
