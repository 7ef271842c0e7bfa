"""How good matches are: against ground truth, and against each other.

FCM and precision are the measures for images, gt-error, recall and f-score
those for data whose true W is known, and cycle-error needs no truth at all.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nmfsync.evaluation.curves import by_threshold
from nmfsync.evaluation.cycles import cycle_error
from nmfsync.evaluation.errors import MatchErrors, epipolar_errors, match_errors
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches
from nmfsync.types.truth import Truth


@dataclass(frozen=True)
class MethodEvaluation:
    """The figures of one method on one scene.

    Attributes
    ----------
    fcm, precision : dict of str to float
        By threshold, written as in "0.01". Empty without truth; a precision
        is None where no match could be judged.
    matchings : int
        Matches between different images, each counted once.
    judged : int
        Matches (each direction counted on its own) that the truth can judge.
    cycle_error : float
    cycle_consistent : bool
        True if every cycle of matches agrees.
    seconds : float
        Wall time of the method alone.
    peak_memory_mb : float
        Memory the method had allocated at its peak, beyond its input (10⁶ bytes).
    epipolar_fcm, epipolar_precision : dict of str to float
        As `fcm` and `precision`, by the distance to the epipolar lines of the
        given cameras: this needs no depth, but lets pass what is wrong along
        the line. Empty without cameras.
    """

    fcm: dict[str, float]
    precision: dict[str, float | None]
    matchings: int
    judged: int
    cycle_error: float
    cycle_consistent: bool
    seconds: float
    peak_memory_mb: float
    epipolar_fcm: dict[str, float] = field(default_factory=dict)
    epipolar_precision: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class SceneEvaluation:
    """All there is to say about one scene; the content of `evaluation.json`.

    Attributes
    ----------
    scene : str
    images : int
        Number k of images.
    features : int
        Number m of features in all images.
    sizes : list of int
        Features of every image.
    universe_size : int
        The d given to the methods.
    truth : str
        What the truth comes from, or "none".
    settings : dict
        The settings that led here, and the versions of the libraries.
    methods : dict of str to MethodEvaluation
        "input" first, then the methods in the order they were asked for.
    warnings : list of str
        What degraded the result.
    depth_quality : dict
        How good depths reconstructed from the images are: what they were
        compared with (`against`), for how many features (`features`), and the
        fields of `DepthQuality`, None where nothing could be compared. Empty
        where the truth has no depths.
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
    depth_quality: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings, ready for JSON."""
        return asdict(self)


def evaluate(
    matches: Matches,
    features: Sequence[Features],
    truth: Truth | None,
    seconds: float,
    peak_memory_mb: float,
    cameras: Sequence[Camera] | None = None,
    errors: MatchErrors | None = None,
    progress: bool = False,
) -> MethodEvaluation:
    """Measure one method's matches on one scene.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    features : sequence of Features
    truth : Truth or None
    seconds, peak_memory_mb : float
        What the method took.
    cameras : sequence of Camera, optional
        For the distances to epipolar lines.
    errors : MatchErrors, optional
        Those that `match_errors` finds, if they are known already.
    progress : bool
        Show a bar for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    MethodEvaluation
    """
    errors = errors or match_errors(matches, features, truth, progress)
    disagreement = cycle_error(matches.W, matches.sizes, progress)
    shares, precisions = by_threshold(errors, matches.sizes) if truth else ({}, {})
    lines = None
    if cameras:
        distances = epipolar_errors(matches, features, cameras, progress)
        lines = by_threshold(distances, matches.sizes)
    return MethodEvaluation(
        fcm=shares,
        precision=precisions,
        matchings=len(errors.p) // 2,
        judged=int(np.isfinite(errors.error).sum()),
        cycle_error=disagreement,
        cycle_consistent=disagreement == 0.0,
        seconds=seconds,
        peak_memory_mb=peak_memory_mb,
        epipolar_fcm=lines[0] if lines else {},
        epipolar_precision=lines[1] if lines else {},
    )
