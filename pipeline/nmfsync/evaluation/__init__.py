"""Stage 5: how good matches are, against ground truth and among themselves.

`fcm` and `precision_at` need the ground truth of a scene of photographs.
`gt_error`, `precision`, `recall` and `f_score` need the true matrix of matches.
`cycle_error` and `track_counts` need the matches alone.
"""

from nmfsync.evaluation.curves import THRESHOLDS, fcm, precision_at
from nmfsync.evaluation.cycles import cycle_error
from nmfsync.evaluation.errors import MatchErrors, epipolar_errors, match_errors
from nmfsync.evaluation.scores import f_score, gt_error, precision, recall
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation, evaluate
from nmfsync.evaluation.tracks import TrackCounts, track_counts

__all__ = [
    "THRESHOLDS",
    "MatchErrors",
    "MethodEvaluation",
    "SceneEvaluation",
    "TrackCounts",
    "cycle_error",
    "epipolar_errors",
    "evaluate",
    "f_score",
    "fcm",
    "gt_error",
    "match_errors",
    "precision",
    "precision_at",
    "recall",
    "track_counts",
]
