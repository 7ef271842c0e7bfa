"""The studies: what each one varies, its methods, and the claims that it checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from scipy import sparse

from nmfsync import synthetic
from nmfsync.study.claims import Claim, Comparison, Consistency, Robustness
from nmfsync.study.landmarks import FRAMES, LandmarkSequence, landmark_matches, load_landmarks
from nmfsync.synchronisation.methods import DEFAULT_METHOD, METHODS, Method
from nmfsync.types.matches import PairwiseMatches

Setting = Mapping[str, Any]  # a value for every parameter of a problem

# Names of the metrics on the axes of figures.
METRICS = {
    "cycle_error": "cycle-error",
    "gt_error": "gt-error",
    "precision": "precision",
    "recall": "recall",
    "f_score": "f-score",
    "matchings": "matchings",
}

# A point where the methods differ, and from which every parameter can be varied up and down.
SYNTHETIC_BASE = {"k": 30, "d": 20, "rho": 0.6, "sigma": 0.6, "given_d": None, "theta": None}

# Problems that most methods solve, were it not for the one difficulty that is added.
ROBUSTNESS_BASE = {"k": 20, "d": 20, "rho": 0.6, "sigma": 0.3}


@dataclass(frozen=True)
class Problem:
    """Matches to be synchronised, and the true result.

    Attributes
    ----------
    matches : PairwiseMatches
    W_gt : scipy.sparse.csr_array, shape (m, m)
        The true matches.
    universe_size : int
        The d that the methods get; it may differ from the true one.
    theta : float or None
        The θ that the methods get; None for their defaults.
    """

    matches: PairwiseMatches
    W_gt: sparse.csr_array
    universe_size: int
    theta: float | None


@dataclass(frozen=True)
class MethodVariant:
    """A method with options, and its name in figures and tables."""

    name: str
    method: Method
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    """A column of the figure: the parameter that varies, and its values.

    Attributes
    ----------
    name : str
        Key of the parameter in a setting.
    label : str
        Text of the axis.
    values : tuple
    fixed : dict
        Other parameters whose values differ from the base in this column.
    title : str
        Name of the column in tables; by default the fixed values, if any, and `name`.
    """

    name: str
    label: str
    values: tuple[Any, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""

    @property
    def column(self) -> str:
        """The name of the column in tables."""
        return self.title or " ".join([*map(str, self.fixed.values()), self.name])


@dataclass(frozen=True)
class Study:
    """A reproducible experiment.

    Attributes
    ----------
    name, title : str
    text : str
        The question in one or two sentences, with the place in the paper.
    base : dict
        The setting in which one parameter at a time is varied.
    parameters : tuple of Parameter
        Columns of the figure.
    metrics : tuple of str
        Rows of the figure: names in `METRICS`.
    methods : callable
        () -> list of MethodVariant: the methods to compare. Called when the study
        runs, so that methods added to `METHODS` can be among them.
    problem : callable
        (setting, seed) -> Problem.
    claims : callable
        (names of the methods) -> list of Claim.
    samples : int
        Default number of random samples at a point.
    distinct : callable
        (setting) -> largest number of different samples, or infinity.
    """

    name: str
    title: str
    text: str
    base: Setting
    parameters: tuple[Parameter, ...]
    metrics: tuple[str, ...]
    methods: Callable[[], list[MethodVariant]]
    problem: Callable[[Setting, int], Problem]
    claims: Callable[[Sequence[str]], list[Claim]]
    samples: int = 100
    distinct: Callable[[Setting], float] = lambda _setting: float("inf")


def all_methods() -> list[MethodVariant]:
    """Return every method in `METHODS`, with its default options.

    Those that need descriptors are left out: the features of the studies have none.
    """
    return [
        MethodVariant(name, method)
        for name, method in METHODS.items()
        if not method.needs_descriptors
    ]


def methods_with_universe() -> list[MethodVariant]:
    """Return all methods except those that use neither d nor θ."""
    return [v for v in all_methods() if {"universe_size", "theta"} & set(v.method.arguments)]


def initialisations() -> list[MethodVariant]:
    """Return NmfSync initialised by rotated eigenvectors, and by their positive part."""
    return [
        MethodVariant("rotated (SBRA)", METHODS["nmfsync"]),
        MethodVariant("positive part X₊", METHODS["nmfsync"], {"initialisation": "spectral"}),
    ]


def factors() -> list[MethodVariant]:
    """Return NmfSync that rounds V, that rounds H, and with a symmetric factorisation.

    The published rule stops the updates of V and H after a few. The symmetric
    updates converge more slowly and go on to 100, so there is also a V with 100
    updates.
    """
    return [
        MethodVariant("V", METHODS["nmfsync"]),
        MethodVariant("H", METHODS["nmfsync"], {"factor": "H"}),
        MethodVariant("V, 100 updates", METHODS["nmfsync"], {"tolerance": 0.0}),
        MethodVariant("symmetric", METHODS["nmfsync"], {"factor": "symmetric"}),
    ]


def synthetic_problem(setting: Setting, seed: int) -> Problem:
    """Make a random multi-matching (the paper, Sec. 5.1); `given_d` may be a wrong d."""
    k, d, rho, sigma = (setting[name] for name in ("k", "d", "rho", "sigma"))
    W, W_gt, sizes = synthetic.generate(k, d, rho, sigma, seed)
    return Problem(PairwiseMatches(W, sizes), W_gt, setting["given_d"] or d, setting["theta"])


def hard_problem(setting: Setting, seed: int) -> Problem:
    """Make a problem of `synthetic.hard`; the methods get its true d."""
    W, W_gt, sizes = synthetic.hard(**setting, seed=seed)
    return Problem(PairwiseMatches(W, sizes), W_gt, setting["d"], None)


def landmark_problem(setting: Setting, seed: int) -> Problem:
    """Choose frames of a landmark sequence at random; every landmark is in every frame."""
    sequence = _load_sequence(setting["sequence"], setting["data"], setting.get("content"))
    matches, truth = landmark_matches(sequence, setting["frames"], seed)
    return Problem(matches, truth.W, sequence.xy.shape[1], None)


@cache
def _load_sequence(name: str, data: Path | str | None, _content: str | None) -> LandmarkSequence:
    return load_landmarks(name, data)  # matching the frames of Hotel takes 2 s


def distinct_landmark_problems(setting: Setting) -> float:
    """Return 1 if the problem consists of the whole sequence, else infinity."""
    return 1 if setting["frames"] == FRAMES[setting["sequence"]] else float("inf")


def synthetic_claims(names: Sequence[str]) -> list[Claim]:
    """Return the paper's claims about NmfSync and the other methods."""
    others = [name for name in names if name != "nmfsync"]
    return [
        Consistency("nmfsync", "results are guaranteed to be cycle-consistent (abstract)"),
        *(Comparison("nmfsync", other, "gt_error", "lower") for other in ("input", *others)),
        *(Comparison("nmfsync", other, "f_score", "higher") for other in ("input", *others)),
    ]


SYNTHETIC_PARAMETERS = (
    Parameter("k", "images k", (10, 20, 30, 40, 50)),
    Parameter("rho", "visibility ρ", (0.4, 0.5, 0.6, 0.8, 1.0)),
    Parameter("sigma", "noise σ", (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    Parameter("d", "universe size d", (10, 15, 20, 25, 30)),
)

SYNTHETIC_METRICS = ("cycle_error", "gt_error", "f_score", "matchings")

_CLEAN = {"sigma": 0.0}
# As many points as make images about as full as those of the other columns; and features without a
# partner, of which there are many, find a wrong one.
_SHORT = {"d": 50, "spurious": 0.3}
ROBUSTNESS_PARAMETERS = (
    Parameter("sigma", "probability that a match is wrong", (0.2, 0.4, 0.6, 0.7), {}, "wrong"),
    Parameter("random_pairs", "share of random blocks", (0.2, 0.4, 0.6), _CLEAN, "random blocks"),
    Parameter("missing", "probability that a match is missing", (0.2, 0.4, 0.6)),
    Parameter("spurious", "probability of a spurious match", (0.2, 0.5, 1.0)),
    Parameter("outliers", "outlier features / d", (0.25, 0.5, 1.0)),
    Parameter("aliases", "share of look-alike points", (0.25, 0.5, 1.0), _CLEAN, "look-alikes"),
    Parameter("spread", "inequality of visibility", (0.0, 0.5, 1.0), {}, "visibility"),
    Parameter("zipf", "exponent of track lengths", (0.5, 1.0, 1.5), _SHORT, "track lengths"),
    Parameter("k", "images k", (3, 4, 6, 10), {}, "few images"),
    Parameter("matched", "share of pairs matched", (0.1, 0.15, 0.2, 0.4), {}, "view graph"),
    Parameter("neighbours", "neighbours matched", (1, 2, 4, 8), {}, "sequence"),
    Parameter("neighbours", "neighbours matched", (1, 2, 4, 8), {"closed": True}, "ring"),
)

STUDIES = {
    study.name: study
    for study in (
        Study(
            name="synthetic",
            title="Synthetic multi-matchings",
            text="How good are the methods, and under which conditions? One parameter of the "
            "random problems is varied at a time (the paper, Sec. 5.1 and its figure of "
            "quantitative results).",
            base=SYNTHETIC_BASE,
            parameters=SYNTHETIC_PARAMETERS,
            metrics=SYNTHETIC_METRICS,
            methods=all_methods,
            problem=synthetic_problem,
            claims=synthetic_claims,
        ),
        Study(
            name="sensitivity",
            title="Sensitivity to θ and to a wrong universe size",
            text="How do the results depend on the pruning threshold θ, and on a wrong universe "
            "size d? The true d is 20. MatchALS, CLEAR and union-find use neither θ nor d and are "
            "left out. Of the other methods, only NmfSync and ClusterSync use θ, and ClusterSync "
            "does not use d.",
            base=SYNTHETIC_BASE,
            parameters=(
                Parameter("theta", "threshold θ", (0.1, 0.2, 0.3, 0.4, 0.5)),
                Parameter("given_d", "given d (true: 20)", tuple(range(10, 31, 2))),
            ),
            metrics=SYNTHETIC_METRICS,
            methods=methods_with_universe,
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
            text="Is it worth rotating the eigenvectors before the factorisation (SBRA), or is "
            "their positive part X₊ enough (the paper, Fig. 4)?",
            base=SYNTHETIC_BASE,
            parameters=SYNTHETIC_PARAMETERS,
            metrics=SYNTHETIC_METRICS,
            methods=initialisations,
            problem=synthetic_problem,
            claims=lambda _names: [
                Comparison("rotated (SBRA)", "positive part X₊", "gt_error", "lower"),
                Comparison("rotated (SBRA)", "positive part X₊", "f_score", "higher"),
            ],
        ),
        Study(
            name="symmetry",
            title="Symmetric or free factors",
            text="W is symmetric. Is it better to factorise it as VVᵀ than as VH with free "
            "factors, and does it matter which factor is rounded (the paper, Fig. 2)? The "
            "published rule stops V and H after a few updates; V with 100 updates has as many as "
            "the symmetric factorisation.",
            base=SYNTHETIC_BASE,
            parameters=SYNTHETIC_PARAMETERS,
            metrics=SYNTHETIC_METRICS,
            methods=factors,
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
            text="How good are the methods on real data? 30 landmarks in the frames of two image "
            "sequences are matched pair by pair by shape contexts; frames are chosen at random.",
            base={"sequence": "house", "frames": 20, "data": None},
            parameters=(
                Parameter(
                    "frames",
                    "frames of House",
                    (5, 10, 20, 40, FRAMES["house"]),
                    {"sequence": "house"},
                ),
                Parameter(
                    "frames",
                    "frames of Hotel",
                    (5, 10, 20, 40, FRAMES["hotel"]),
                    {"sequence": "hotel"},
                ),
            ),
            metrics=("precision", "recall", "f_score"),
            methods=all_methods,
            problem=landmark_problem,
            claims=lambda names: [
                Comparison("nmfsync", other, "f_score", "higher")
                for other in ("input", *names)
                if other != "nmfsync"
            ],
            samples=10,
            distinct=distinct_landmark_problems,
        ),
        Study(
            name="robustness",
            title="Other kinds of noise",
            text="Which method to take when? Real matches are wrong in other ways than those of "
            "the paper's problems. Every column adds one difficulty to problems with 30 % wrong "
            "matches (none in two columns); synthetic.hard in the package says which. The methods "
            "that want it are told the true universe size, which no user knows.",
            base=ROBUSTNESS_BASE,
            parameters=ROBUSTNESS_PARAMETERS,
            metrics=("gt_error", "f_score"),
            methods=all_methods,
            problem=hard_problem,
            claims=lambda names: [
                Comparison(DEFAULT_METHOD, other, "f_score", "higher")
                for other in ("input", *names)
                if other != DEFAULT_METHOD
            ],
            samples=5,
        ),
    )
}
