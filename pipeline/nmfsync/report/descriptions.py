"""What the figures show, in words: the alternative texts of the pictures."""

from collections.abc import Mapping

import numpy as np

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.evaluation.tracks import TrackCounts
from nmfsync.report.figures.style import style_of
from nmfsync.report.page import count, decimal, many, percent
from nmfsync.scenes.scene import Scene
from nmfsync.types.matches import Matches, MultiMatching

_TOLD = ("0.005", "0.01", "0.05")  # thresholds of the curves


def curves_in_words(evaluation: SceneEvaluation, epipolar: bool = False) -> str:
    """Tell FCM and precision of every method at three thresholds."""
    kind = "by the distance to epipolar lines " if epipolar else ""
    told = [
        f"{style_of(name).name}: {'; '.join(_points(method, epipolar))}."
        for name, method in evaluation.methods.items()
    ]
    return f"Curves of FCM and precision {kind}over the threshold. {' '.join(told)}"


def _points(method: MethodEvaluation, epipolar: bool) -> list[str]:
    fcm = method.epipolar_fcm if epipolar else method.fcm
    precision = method.epipolar_precision if epipolar else method.precision
    return [
        f"at {100 * float(t):g} % FCM {percent(fcm.get(t))}, precision {percent(precision.get(t))}"
        for t in _TOLD
    ]


def tracks_in_words(counts: Mapping[str, TrackCounts]) -> str:
    """Tell how many features are in tracks, and how long these are."""
    return " ".join(
        f"{style_of(name).name}: {count(c.kept)} features in {many(len(c.lengths), 'track')}"
        f"{_range(c)}, {count(c.lost)} thrown away, {count(c.alone)} without a match."
        for name, c in counts.items()
    )


def _range(counts: TrackCounts) -> str:
    if not len(counts.lengths):
        return ""
    shortest, longest = counts.lengths[0], counts.lengths[-1]
    return (
        f" of {shortest} to {longest} images, {decimal(float(counts.lengths.mean()))} in the mean"
    )


def matrix_in_words(before: Matches, after: MultiMatching | None, name: str) -> str:
    """Tell how many matches the matrix W holds before and after."""
    text = f"Matrix of {many(before.match_count, 'match')} of the input"
    if after is not None:
        text += f" and {many(after.match_count, 'match')} of {style_of(name).name}"
    return f"{text} among {count(len(before.sizes))} images."


def cameras_in_words(scene: Scene) -> str:
    """Tell how many cameras there are, and over which box they extend."""
    centres = np.array([camera.centre for camera in scene.cameras or ()]).reshape(-1, 3)
    extent = " × ".join(decimal(float(size)) for size in np.ptp(centres, axis=0))
    return f"Positions of {count(len(centres))} cameras, which extend over {extent} units."
