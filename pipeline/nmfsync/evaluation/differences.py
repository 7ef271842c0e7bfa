"""Differences of two sides over the same scenes: paired, with 95 % intervals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from nmfsync.errors import NmfsyncError
from nmfsync.evaluation.summary import MethodEvaluation

LEVEL = 0.95
"""How often an interval contains the true mean, in the long run."""

# Sums in another order differ in the last bits, which is no difference.
_DECIMALS = 12


@dataclass(frozen=True)
class Metric:
    """A figure of a method on a scene that sides are compared by.

    Attributes
    ----------
    key, title : str
        Its name in Python, and in tables.
    value : callable
        Takes a `MethodEvaluation`; returns the figure, or None if it is not known.
    kind : str
        "share" from 0 to 1; "number"; or "ratio" for costs, which are compared by their
        ratio, and only where both are above 0.
    better : int
        1 if more is better, -1 if less is, 0 if neither.
    """

    key: str
    title: str
    value: Callable[[MethodEvaluation], float | None]
    kind: str = "share"
    better: int = 1


METRICS = (
    Metric("fcm", "FCM at 1 %", lambda m: m.fcm.get("0.01")),
    Metric("precision", "precision at 1 %", lambda m: m.precision.get("0.01")),
    Metric("estimated_precision", "estimated precision", lambda m: m.estimated_precision),
    Metric("cycle_error", "cycle-error", lambda m: m.cycle_error, "number", -1),
    Metric("matches", "matches", lambda m: m.matchings, "number", 0),
    Metric(
        "mean_track_length",
        "mean track length",
        lambda m: m.mean_track_length,
        "number",
        0,
    ),
    Metric("seconds", "seconds", lambda m: m.seconds, "ratio", -1),
    Metric("megabytes", "MB", lambda m: m.peak_memory_mb, "ratio", -1),
)


@dataclass(frozen=True)
class Difference:
    """By how much a figure differs between two sides, over the scenes where both have it.

    Attributes
    ----------
    metric : Metric
    scenes : tuple of str
        The n scenes.
    before, after : tuple of float
        The n values of either side.
    mean : float
        The mean of after - before; of a "ratio" the geometric mean of after / before.
    interval : tuple of (float, float) or None
        95 % interval of the mean, see `paired_interval`. None if it is not known.
    """

    metric: Metric
    scenes: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    mean: float
    interval: tuple[float, float] | None

    @property
    def neutral(self) -> float:
        """The mean if the sides are alike: 1 for ratios, else 0."""
        return 1.0 if self.metric.kind == "ratio" else 0.0

    @property
    def sign(self) -> int:
        """1 or -1 if the interval says that `after` is larger or smaller; else 0."""
        if self.interval is None:
            return 0
        low, high = self.interval
        return int(low > self.neutral) - int(high < self.neutral)


def paired_interval(differences: ArrayLike) -> tuple[float, tuple[float, float] | None]:
    """Return the mean of paired differences, and its 95 % interval.

    Student's t interval (Student 1908, "The probable error of a mean", Biometrika 6):
    mean ± t s / √n, with the standard deviation s of the n differences and the quantile t of
    n - 1 degrees of freedom. It is exact for differences with a normal distribution, and known
    to hold well otherwise unless they are very skewed. With the five to twenty scenes of a data
    set it is the safer choice: bootstrap intervals of so few values are too narrow (Hesterberg
    2015, "What teachers should know about the bootstrap", The American Statistician 69).

    Parameters
    ----------
    differences : (n,) floats
        One for every scene, n ≥ 1.

    Returns
    -------
    mean : float
    interval : tuple of (float, float) or None
        None if the spread is not known: of one scene, or of equal differences that are not 0.

    Raises
    ------
    NmfsyncError
        If there is no difference, or one is not finite.

    Examples
    --------
    >>> from nmfsync.evaluation.differences import paired_interval
    >>> mean, (low, high) = paired_interval([0.02, 0.05, 0.03])
    >>> print(f"{mean:.3f}, from {low:.3f} to {high:.3f}")
    0.033, from -0.005 to 0.071
    """
    d = np.atleast_1d(np.asarray(differences, np.float64))
    if not len(d) or not np.isfinite(d).all():
        raise NmfsyncError("differences must be finite numbers, at least one")
    d = d.round(_DECIMALS)
    mean = float(d.mean())
    if len(d) == 1 or (d == d[0]).all():
        return float(d[0]), (0.0, 0.0) if len(d) > 1 and d[0] == 0 else None
    half = float(stdtrit(len(d) - 1, (1 + LEVEL) / 2) * d.std(ddof=1) / np.sqrt(len(d)))
    return mean, (mean - half, mean + half)


def difference_of(
    metric: Metric,
    before: Mapping[str, MethodEvaluation],
    after: Mapping[str, MethodEvaluation],
) -> Difference | None:
    """Compare two sides by one metric, over the scenes where both have it.

    Ratios are compared by the logarithms of after / before, whose mean and interval are then
    turned back: twice and half as much cancel out.

    Parameters
    ----------
    metric : Metric
    before, after : dict of str to MethodEvaluation
        By scene.

    Returns
    -------
    Difference or None
        None if there is no such scene.
    """
    pairs = {scene: (metric.value(m), metric.value(after[scene]))
             for scene, m in before.items() if scene in after}  # fmt: skip
    known = {scene: (x, y) for scene, (x, y) in pairs.items() if x is not None and y is not None}
    if metric.kind == "ratio":
        known = {scene: (x, y) for scene, (x, y) in known.items() if min(x, y) > 0}
    if not known:
        return None
    x, y = np.array(list(known.values()), np.float64).T
    if metric.kind == "ratio":
        mean, interval = paired_interval(np.log(y) - np.log(x))
        mean, interval = float(np.exp(mean)), interval and _exp(*interval)
    else:
        mean, interval = paired_interval(y - x)
    return Difference(metric, tuple(known), tuple(x.tolist()), tuple(y.tolist()), mean, interval)


def _exp(low: float, high: float) -> tuple[float, float]:
    with np.errstate(over="ignore"):  # two scenes may allow anything
        return float(np.exp(low)), float(np.exp(high))
