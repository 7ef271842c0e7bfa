"""What a study measures and finds: values, rows of the table, verdicts on claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmfsync.types.arrays import FloatArray

# What was measured at one point of a study, by method and metric: (samples,) values.
Values = Mapping[str, Mapping[str, FloatArray]]

# Column of the figure, value of its parameter, and what was measured there.
Points = Sequence[tuple[str, float, Values]]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds in the measurements, and by how much.

    Attributes
    ----------
    claim : str
    outcome : str
        "holds", "holds in part", "mostly does not hold", "does not hold" or
        "no difference".
    detail : str
        The figures behind the outcome, in sentences.
    """

    claim: str
    outcome: str
    detail: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.outcome}. {self.detail}"


@dataclass(frozen=True)
class Row:
    """A row of `results.csv`: one method and one metric at one point of the study.

    Attributes
    ----------
    study, parameter : str
    value : float
        Value of the parameter; all other parameters have the values of the base.
    method, metric : str
    mean, standard_error : float
        Over the samples. The standard error of a single sample is 0.
    samples : int
    """

    study: str
    parameter: str
    value: float
    method: str
    metric: str
    mean: float
    standard_error: float
    samples: int


@dataclass(frozen=True)
class Results:
    """What a study found: the rows of its table, and the verdicts on the paper's claims."""

    rows: list[Row]
    verdicts: list[Verdict]

    def means(self, metric: str) -> dict[str, dict[str, float]]:
        """Return the mean of a metric over all values of a parameter, by parameter and method."""
        values: dict[str, dict[str, list[float]]] = {}
        for row in self.rows:
            if row.metric == metric:
                values.setdefault(row.parameter, {}).setdefault(row.method, []).append(row.mean)
        return {
            parameter: {method: sum(means) / len(means) for method, means in methods.items()}
            for parameter, methods in values.items()
        }
