"""The kinds of claims that studies check: consistency, comparison, robustness."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nmfsync.study.results import Points, Verdict
from nmfsync.types.arrays import FloatArray


class Claim(Protocol):
    """A claim that can be checked against the measurements of a study."""

    def check(self, points: Points) -> Verdict:
        """Return whether the claim holds in the measurements."""
        ...


@dataclass(frozen=True)
class Consistency:
    """The results of a method have no cycle-error in any sample.

    `statement` is the claim in words.
    """

    method: str
    statement: str

    def check(self, points: Points) -> Verdict:
        """Compare the largest cycle-error of all samples with 0."""
        worst = max(values[self.method]["cycle_error"].max() for _, _, values in points)
        samples = sum(len(values[self.method]["cycle_error"]) for _, _, values in points)
        outcome = "holds" if worst == 0 else "does not hold"
        detail = f"The largest cycle-error of {samples:,} samples is {worst:g}."
        return Verdict(f"{self.method}: {self.statement}", outcome, detail)


@dataclass(frozen=True)
class Comparison:
    """A method has a better value of a metric than another method.

    Both methods solve the same problems, so their differences are computed
    sample by sample. A mean difference counts if it exceeds two standard errors.
    `better` is "lower" or "higher".
    """

    method: str
    other: str
    metric: str
    better: str

    def check(self, points: Points) -> Verdict:
        """Count the points at which the method is better, worse, or neither."""
        wins: list[str] = []
        losses: list[str] = []
        for column, value, values in points:
            gain = self._significant_gain(
                values[self.method][self.metric], values[self.other][self.metric]
            )
            if gain:
                (wins if gain > 0 else losses).append(f"{column} = {value:g}")
        if wins and losses:
            outcome = "holds in part" if len(wins) >= len(losses) else "mostly does not hold"
        else:
            outcome = "holds" if wins else "does not hold" if losses else "no difference"
        metric = self.metric.replace("_", "-")
        claim = f"{self.method} has a {self.better} {metric} than {self.other}"
        return Verdict(claim, outcome, self._detail(points, wins, losses))

    def _significant_gain(self, own: FloatArray, other: FloatArray) -> float:
        """Return the mean gain over the samples, or 0 if it is within two standard errors."""
        gain = own - other if self.better == "higher" else other - own
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
        mean = float(gain.mean())
        return mean if abs(mean) > 2 * error else 0.0

    def _detail(self, points: Points, wins: Sequence[str], losses: Sequence[str]) -> str:
        means = [
            np.mean([values[name][self.metric].mean() for _, _, values in points])
            for name in (self.method, self.other)
        ]
        worse = {"lower": "higher", "higher": "lower"}[self.better]
        detail = (
            f"{self.better.capitalize()} at {len(wins)} of {len(points)} points, {worse} at "
            f"{len(losses)}, the rest within two standard errors; on average "
            f"{means[0]:.3g} against {means[1]:.3g}."
        )
        if losses:
            detail += f" {worse.capitalize()} at {', '.join(losses)}."
        return detail


@dataclass(frozen=True)
class Robustness:
    """A metric of a method hardly depends on a parameter: it loses at most a tenth.

    `parameter` is a column of the figure. A higher metric is better.
    """

    method: str
    parameter: str
    metric: str

    def check(self, points: Points) -> Verdict:
        """Compare the worst value of the parameter with the best one."""
        means = {
            value: values[self.method][self.metric].mean()
            for column, value, values in points
            if column == self.parameter
        }
        best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        outcome = "holds" if means[worst] >= 0.9 * means[best] else "does not hold"
        metric, parameter = self.metric.replace("_", "-"), self.parameter.replace("_", " ")
        detail = (
            f"Best {means[best]:.3f} at {best:g}, worst {means[worst]:.3f} at {worst:g}: "
            f"{1 - means[worst] / means[best]:.0%} less."
        )
        claim = f"{metric} of {self.method} loses at most a tenth over the range of {parameter}"
        return Verdict(claim, outcome, detail)
