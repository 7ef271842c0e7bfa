"""Stage 5: how good matches are, against ground truth and among themselves.

`fcm` and `precision_at` need the ground truth of a scene of photographs.
`gt_error`, `precision`, `recall` and `f_score` need the true matrix of matches.
`cycle_error` and `track_counts` need the matches alone. `estimate_confidence`
estimates how many matches are right without any truth.
"""

from nmfsync.evaluation.confidence import (
    Confidence,
    estimate_confidence,
    precision_by_image_pair,
    precision_by_track,
    reliability,
)
from nmfsync.evaluation.curves import THRESHOLDS, fcm, precision_at, ratio_curve
from nmfsync.evaluation.cycles import cycle_error
from nmfsync.evaluation.errors import MatchErrors, epipolar_errors, match_errors
from nmfsync.evaluation.image_graph import ImageGraph, graph_of_images
from nmfsync.evaluation.scores import f_score, gt_error, precision, recall
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation, evaluate
from nmfsync.evaluation.tracks import TrackCounts, track_counts

__all__ = [
    "THRESHOLDS",
    "Confidence",
    "ImageGraph",
    "MatchErrors",
    "MethodEvaluation",
    "SceneEvaluation",
    "TrackCounts",
    "cycle_error",
    "epipolar_errors",
    "estimate_confidence",
    "evaluate",
    "f_score",
    "fcm",
    "graph_of_images",
    "gt_error",
    "match_errors",
    "precision",
    "precision_at",
    "precision_by_image_pair",
    "precision_by_track",
    "ratio_curve",
    "recall",
    "reliability",
    "track_counts",
]
