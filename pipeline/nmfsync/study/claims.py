"""What the paper claims, and whether it holds in our measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# For every point of a study, by method and metric: one value a sample.
Values = Mapping[str, Mapping[str, NDArray[np.float64]]]

# Column of the figure, value of its parameter, and what was measured there.
Points = Sequence[tuple[str, float, Values]]


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds here, and by how much."""

    claim: str
    outcome: str  # "holds", "holds in part", "mostly does not hold", "does not hold", …
    detail: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.outcome}. {self.detail}"


class Claim(Protocol):
    """Something that can be checked against the measurements of a study."""

    def check(self, points: Points) -> Verdict:
        """Return what the measurements say."""
        ...


@dataclass(frozen=True)
class Consistency:
    """A method's results have no cycle-error at all."""

    method: str
    says: str

    def check(self, points: Points) -> Verdict:
        """Look at the largest cycle-error of any sample."""
        worst = max(values[self.method]["cycle_error"].max() for _, _, values in points)
        samples = sum(len(values[self.method]["cycle_error"]) for _, _, values in points)
        outcome = "holds" if worst == 0 else "does not hold"
        detail = f"The largest cycle-error of {samples:,} samples is {worst:g}."
        return Verdict(f"{self.method}: {self.says}", outcome, detail)


@dataclass(frozen=True)
class Comparison:
    """A method is better than another by some metric.

    Differences are taken sample by sample, since both solve the same problems,
    and count if they exceed two standard errors.
    """

    method: str
    other: str
    metric: str
    better: str  # "lower" or "higher"

    def check(self, points: Points) -> Verdict:
        """Count the points where the method is better, worse, or neither."""
        sign = 1 if self.better == "higher" else -1
        wins: list[str] = []
        losses: list[str] = []
        for column, value, values in points:
            mine, theirs = (values[name][self.metric] for name in (self.method, self.other))
            gain = sign * (mine - theirs)
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
            if abs(gain.mean()) > 2 * error:
                (wins if gain.mean() > 0 else losses).append(f"{column} = {value:g}")
        if wins and losses:
            outcome = "holds in part" if len(wins) >= len(losses) else "mostly does not hold"
        else:
            outcome = "holds" if wins else "does not hold" if losses else "no difference"
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
        metric = self.metric.replace("_", "-")
        return Verdict(
            f"{self.method} has a {self.better} {metric} than {self.other}", outcome, detail
        )


@dataclass(frozen=True)
class Robustness:
    """A metric of a method hardly depends on a parameter: it loses at most a tenth."""

    method: str
    parameter: str
    metric: str

    def check(self, points: Points) -> Verdict:
        """Compare the worst value of the parameter with the best."""
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
