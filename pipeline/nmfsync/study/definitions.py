"""The studies: what is varied, which methods take part, and what the paper claims."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from scipy import sparse

from nmfsync import synthetic
from nmfsync.study.claims import Claim, Comparison, Consistency, Robustness, Verdict
from nmfsync.study.landmarks import landmark_matches, load_landmarks
from nmfsync.synchronisation.methods import METHODS, Method
from nmfsync.types.matches import PairwiseMatches

Setting = Mapping[str, Any]  # a value for every parameter of a problem


@dataclass(frozen=True)
class Problem:
    """Matches to be synchronised, and what they should become."""

    matches: PairwiseMatches
    W_gt: sparse.csr_array
    universe_size: int
    theta: float | None


@dataclass(frozen=True)
class Contestant:
    """A method with options, under the name that figures and tables show."""

    name: str
    method: Method
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    """A column of the figure: what is varied, and over which values."""

    name: str
    label: str
    values: tuple[Any, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # where it departs from the base


@dataclass(frozen=True)
class Study:
    """An experiment that can be run again.

    Attributes
    ----------
    name, title : str
    text : str
        One or two sentences on what is asked, with the place in the paper.
    base : dict
        The configuration from which one parameter at a time departs.
    parameters : tuple of Parameter
        Columns of the figure.
    metrics : tuple of str
        Rows of the figure: names in `METRICS`.
    contestants : callable
        Returns the methods that take part, those added to `METHODS` included.
    problem : callable
        (setting, seed) -> Problem.
    claims : callable
        Names of the contestants -> what is checked.
    samples : int
        Random samples a point, unless told otherwise.
    distinct : callable
        Setting -> number of different samples there are, at most.
    """

    name: str
    title: str
    text: str
    base: Setting
    parameters: tuple[Parameter, ...]
    metrics: tuple[str, ...]
    contestants: Callable[[], list[Contestant]]
    problem: Callable[[Setting, int], Problem]
    claims: Callable[[Sequence[str]], list[Claim]]
    samples: int = 100
    distinct: Callable[[Setting], float] = lambda _setting: float("inf")


# The axis texts of the metrics.
METRICS = {
    "cycle_error": "cycle-error",
    "gt_error": "gt-error",
    "precision": "precision",
    "recall": "recall",
    "f_score": "f-score",
    "matchings": "matchings",
}


def all_methods() -> list[Contestant]:
    """Every method in `METHODS`, with its default options."""
    return [Contestant(name, method) for name, method in METHODS.items()]


def methods_with_universe() -> list[Contestant]:
    """All methods but those that take neither d nor θ."""
    return [c for c in all_methods() if {"universe_size", "theta"} & set(c.method.arguments)]


def initialisations() -> list[Contestant]:
    """NmfSync from rotated eigenvectors, and from their positive part."""
    return [
        Contestant("rotated (SBRA)", METHODS["nmfsync"]),
        Contestant("positive part X₊", METHODS["nmfsync"], {"initialisation": "spectral"}),
    ]


def factors() -> list[Contestant]:
    """NmfSync rounding V, rounding H, and with a symmetric factorisation.

    The published rule stops the updates of V and H after a few; the symmetric
    ones are slower and go on to 100. So there is a V with 100 updates as well.
    """
    return [
        Contestant("V", METHODS["nmfsync"]),
        Contestant("H", METHODS["nmfsync"], {"factor": "H"}),
        Contestant("V, 100 updates", METHODS["nmfsync"], {"tolerance": 0.0}),
        Contestant("symmetric", METHODS["nmfsync"], {"factor": "symmetric"}),
    ]


def synthetic_problem(setting: Setting, seed: int) -> Problem:
    """Random multi-matching (the paper, Sec. 5.1); the d that is given may be wrong."""
    k, d, rho, sigma = (setting[name] for name in ("k", "d", "rho", "sigma"))
    W, W_gt, sizes = synthetic.generate(k, d, rho, sigma, seed)
    return Problem(PairwiseMatches(W, sizes), W_gt, setting["given_d"] or d, setting["theta"])


def landmark_problem(setting: Setting, seed: int) -> Problem:
    """Frames of a landmark sequence, chosen at random; every landmark is in every frame."""
    sequence = _sequence(setting["sequence"], setting["data"])
    matches, truth = landmark_matches(sequence, setting["frames"], seed)
    return Problem(matches, truth.W, sequence.xy.shape[1], None)


_sequence = cache(load_landmarks)  # Hotel's matches take 2 s to make

# A point where the methods differ, and from which each parameter can go both ways.
SYNTHETIC_BASE = {"k": 30, "d": 20, "rho": 0.6, "sigma": 0.6, "given_d": None, "theta": None}

SYNTHETIC_PARAMETERS = (
    Parameter("k", "images k", (10, 20, 30, 40, 50)),
    Parameter("rho", "visibility ρ", (0.4, 0.5, 0.6, 0.8, 1.0)),
    Parameter("sigma", "noise σ", (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    Parameter("d", "universe size d", (10, 15, 20, 25, 30)),
)

SYNTHETIC_METRICS = ("cycle_error", "gt_error", "f_score", "matchings")


def synthetic_claims(names: Sequence[str]) -> list[Claim]:
    """List what the paper says of NmfSync beside the other methods."""
    others = [name for name in names if name != "nmfsync"]
    return [
        Consistency("nmfsync", "results are guaranteed to be cycle-consistent (abstract)"),
        *(Comparison("nmfsync", other, "gt_error", "lower") for other in ("input", *others)),
        *(Comparison("nmfsync", other, "f_score", "higher") for other in ("input", *others)),
    ]


STUDIES = {
    study.name: study
    for study in (
        Study(
            name="synthetic",
            title="Synthetic multi-matchings",
            text="How good are the methods, and when? One parameter of the random problems varies "
            "at a time (the paper, Sec. 5.1 and its figure of quantitative results).",
            base=SYNTHETIC_BASE,
            parameters=SYNTHETIC_PARAMETERS,
            metrics=SYNTHETIC_METRICS,
            contestants=all_methods,
            problem=synthetic_problem,
            claims=synthetic_claims,
        ),
        Study(
            name="sensitivity",
            title="Sensitivity to θ and to a wrong universe size",
            text="What if the pruning threshold θ or the universe size d given to the methods is "
            "not the best? The true d is 20. MatchALS, CLEAR and union-find take neither and are "
            "left out; of the others, NmfSync and ClusterSync alone have a θ, and ClusterSync "
            "takes no d.",
            base=SYNTHETIC_BASE,
            parameters=(
                Parameter("theta", "threshold θ", (0.1, 0.2, 0.3, 0.4, 0.5)),
                Parameter("given_d", "given d (true: 20)", tuple(range(10, 31, 2))),
            ),
            metrics=SYNTHETIC_METRICS,
            contestants=methods_with_universe,
            problem=synthetic_problem,
            claims=lambda names: [
                Robustness("nmfsync", "theta", "f_score"),
                Robustness("nmfsync", "given_d", "f_score"),
                *(
                    Comparison("nmfsync", other, "f_score", "higher")
                    for other in names
                    if other != "nmfsync"
                ),
            ],
        ),
        Study(
            name="initialisation",
            title="Initialisation of the factorisation",
            text="Does it pay to rotate the eigenvectors before the factorisation (SBRA), or would "
            "their positive part X₊ do (the paper, Fig. 4)?",
            base=SYNTHETIC_BASE,
            parameters=SYNTHETIC_PARAMETERS,
            metrics=SYNTHETIC_METRICS,
            contestants=initialisations,
            problem=synthetic_problem,
            claims=lambda _names: [
                Comparison("rotated (SBRA)", "positive part X₊", "gt_error", "lower"),
                Comparison("rotated (SBRA)", "positive part X₊", "f_score", "higher"),
            ],
        ),
        Study(
            name="symmetry",
            title="Symmetric or free factors",
            text="W is symmetric: is it worth while to factorise it as VVᵀ, or are free factors "
            "VH as good, and does it matter which of them is rounded (the paper, Fig. 2)? The "
            "published rule stops V and H after a few updates; with 100, V has as many as the "
            "symmetric factorisation.",
            base=SYNTHETIC_BASE,
            parameters=SYNTHETIC_PARAMETERS,
            metrics=SYNTHETIC_METRICS,
            contestants=factors,
            problem=synthetic_problem,
            claims=lambda _names: [
                Comparison("V", "symmetric", "gt_error", "lower"),
                Comparison("H", "symmetric", "gt_error", "lower"),
                Comparison("V, 100 updates", "symmetric", "gt_error", "lower"),
                Comparison("V", "H", "gt_error", "lower"),
            ],
        ),
        Study(
            name="landmarks",
            title="CMU House and Hotel",
            text="The field's first real test: 30 landmarks in the frames of two image sequences, "
            "matched pair by pair by shape contexts; frames are chosen at random.",
            base={"sequence": "house", "frames": 20, "data": None},
            parameters=(
                Parameter("frames", "frames of House", (5, 10, 20, 40, 111), {"sequence": "house"}),
                Parameter("frames", "frames of Hotel", (5, 10, 20, 40, 101), {"sequence": "hotel"}),
            ),
            metrics=("precision", "recall", "f_score"),
            contestants=all_methods,
            problem=landmark_problem,
            claims=lambda names: [
                Comparison("nmfsync", other, "f_score", "higher")
                for other in ("input", *names)
                if other != "nmfsync"
            ],
            samples=10,
            distinct=lambda setting: (
                1
                if setting["frames"] == {"house": 111, "hotel": 101}[setting["sequence"]]
                else float("inf")
            ),
        ),
    )
}


@dataclass(frozen=True)
class Row:
    """A line of the table: one method, one metric, one point of the study.

    Attributes
    ----------
    study, parameter : str
    value : float
        Of the parameter; all others are those of the base.
    method, metric : str
    mean, standard_error : float
        Over the samples; the standard error of a single sample is 0.
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
    """What a study found: the table, and what becomes of the paper's claims."""

    rows: list[Row]
    verdicts: list[Verdict]
