"""The figures of one scene, measured against the truth and estimated without."""

from collections.abc import Sequence

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
from nmfsync.evaluation.summary import ImagePairEvaluation, MethodEvaluation
from nmfsync.evaluation.tracks import track_counts
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching
from nmfsync.types.truth import Truth

MOST_PAIRS = 100_000  # of images, in `evaluation.json`


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
    tracks = track_counts(matches)
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
        tracks=len(tracks.lengths),
        mean_track_length=float(tracks.lengths.mean()) if len(tracks.lengths) else None,
        coverage=tracks.kept / max(int(matches.sizes.sum()), 1),
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
