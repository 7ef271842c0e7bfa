"""The evaluation of one scene: what `evaluation.json` holds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nmfsync.evaluation.curves import Curves, by_threshold
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
    epipolar_fcm: dict[str, float] = field(default_factory=dict)
    epipolar_precision: dict[str, float | None] = field(default_factory=dict)


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
    depth_quality : dict
        How good the depths of a plane sweep over the images are: what they were
        compared with (`against`), at how many features (`features`), and the
        fields of `DepthQuality`, which are None if nothing could be compared.
        Empty if the truth has no depths.
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
    progress : bool
        Show progress bars for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    MethodEvaluation
    """
    if errors is None:
        errors = match_errors(matches, features, truth, progress)
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
        epipolar_fcm=by_lines[0],
        epipolar_precision=by_lines[1],
    )
