"""The methods: one record each, with everything that others need to know of it.

`synchronise`, the runs, the studies and the reports read these records, and
decide nothing about a method themselves.
"""

import inspect
import warnings
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from nmfsync.errors import NmfsyncError, NmfsyncWarning, collected_warnings
from nmfsync.synchronisation.numerics.effort import (
    MAX_MINUTES,
    NO_EFFORT,
    Effort,
    require_effort,
)

if TYPE_CHECKING:  # they bring NumPy and SciPy, which the names of the methods do without
    from numpy.typing import ArrayLike

    from nmfsync.types.matches import Matches, PairwiseMatches

Function = Callable[..., "Matches"]

ARGUMENTS = ("universe_size", "theta", "seed")


@dataclass(frozen=True)
class Method:
    """A method of synchronisation.

    Attributes
    ----------
    name : str
        Its key in `METHODS`.
    function : callable or str
        Called as ``function(matches, *arguments, **options)``; returns a
        `MultiMatching` if the method is consistent, else `PairwiseMatches`. A
        string "module:function" is imported when the method is first used.
    label : str
        The name in tables and legends; by default `name`.
    arguments : tuple of str
        Which of "universe_size", "theta" and "seed" the function takes, in this order.
    consistent : bool or None
        Whether every result is cycle-consistent; None if only the result tells.
    uses_weights : bool
        False for a method that is defined for 0/1 matrices: it gets every match
        with the weight 1. With its option "min_probability" it gets only matches of
        at least this weight.
    theta : float
        Default threshold, of a method that takes one.
    options : dict
        Options of the function, with their defaults.
    weighted_options : dict
        Values of theta and options that replace the defaults if the matches carry
        weights. Authors use other values on photographs than on synthetic 0/1
        matrices, and weights tell them apart: `match` gives them to the matches
        of photographs.
    style : str
        Colour and marker in figures: a key of `report.figures.style.STYLES`.
    compiles : bool
        Whether the first call on a machine compiles kernels, which takes some seconds.
    needs_descriptors : bool
        Whether the function reads the descriptors of the features, which only the
        matches that `match` made have.
    effort : callable or str, optional
        Called as ``effort(matches, settings)`` before the function; returns an
        `Effort`. What would take longer than the option "max_minutes", or more memory
        than there is, is refused. None if the cost grows only linearly.
    """

    name: str
    function: Function | str
    label: str = ""
    arguments: tuple[str, ...] = ARGUMENTS
    consistent: bool | None = None
    uses_weights: bool = True
    theta: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    weighted_options: Mapping[str, Any] = field(default_factory=dict)
    style: str = ""
    compiles: bool = False
    needs_descriptors: bool = False
    effort: Callable[["PairwiseMatches", Mapping[str, Any]], Effort] | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)

    def load(self) -> Function:
        """Return the function, imported if need be."""
        function: Function = _imported(self.function)
        return function

    def settings(
        self,
        matches: "PairwiseMatches",
        universe_size: int | str = "auto",
        theta: float | None = None,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return all that the function is called with for these matches.

        Parameters
        ----------
        matches : PairwiseMatches
        universe_size, theta, seed, options
            As for `synchronise`; what is left out gets its default, which may
            depend on whether the matches carry weights.

        Returns
        -------
        dict
            "method", "weights" (whether the method uses those that the matches
            carry), the arguments that the method takes, and its options.

        Raises
        ------
        NmfsyncError
            If a value is out of range, or the method has no such option.
        """
        check_arguments(universe_size, theta, seed)
        self._check_options(options or {})
        values = {"theta": self.theta, **self.options}
        if matches.weighted:
            values |= self.weighted_options
        values |= {} if theta is None else {"theta": theta}
        values |= {**(options or {}), "seed": seed}
        values["universe_size"] = resolve_universe_size(universe_size, matches.sizes)
        unused = set(ARGUMENTS) - set(self.arguments)
        return {
            "method": self.name,
            "weights": self.uses_weights and matches.weighted,
            **{name: value for name, value in sorted(values.items()) if name not in unused},
        }

    def solve(self, matches: "PairwiseMatches", settings: Mapping[str, Any]) -> "Matches":
        """Call the function with what `settings` returned for the matches.

        Raises
        ------
        NmfsyncError
            If the method needs descriptors, and the matches have none.
        TooLargeError
            If it would take too long, or more memory than there is.

        Warns
        -----
        NmfsyncWarning
            What the function warns of, once, with the name of the method.
        """
        if self.needs_descriptors and matches.descriptors is None:
            raise NmfsyncError(
                f"{self.name} needs the descriptors of the features, and these matches have none: "
                "use it on images (nmfsync run, or match), or another method"
            )
        options = {name: value for name, value in settings.items() if name not in _NO_OPTIONS}
        arguments = [settings[name] for name in self.arguments]
        used = _used(matches, self.uses_weights, settings.get(MIN_PROBABILITY, 0.0))
        most = settings.get(MAX_MINUTES_OPTION, MAX_MINUTES)
        require_effort(self.name, self.estimate(used, settings), most)
        with collected_warnings() as texts:
            result = self.load()(used, *arguments, **options)
        for text in dict.fromkeys(texts):
            warnings.warn(f"{self.name}: {text}", NmfsyncWarning, stacklevel=3)
        return result

    def estimate(self, matches: "PairwiseMatches", settings: Mapping[str, Any]) -> Effort:
        """Estimate what `solve` will take; nothing for a method without an estimate."""
        if self.effort is None:
            return NO_EFFORT
        effort: Effort = _imported(self.effort)(matches, settings)
        return effort

    def _check_options(self, options: Mapping[str, Any]) -> None:
        if not options:
            return
        known = set(inspect.signature(self.load()).parameters) - {"matches", *self.arguments}
        known |= set() if self.uses_weights else {MIN_PROBABILITY}
        known |= set() if self.effort is None else {MAX_MINUTES_OPTION}
        for name in options:
            if name not in known:
                raise NmfsyncError(f"{self.name} has no option {name!r}")
        minutes = options.get(MAX_MINUTES_OPTION, MAX_MINUTES)
        if not (isinstance(minutes, Real) and float(minutes) > 0):
            raise NmfsyncError(f"max_minutes must be a number greater than 0, got {minutes!r}")


def _imported(function: Any) -> Any:
    """Return a function, imported if it is named as "module:function"."""
    if not isinstance(function, str):
        return function
    module, name = function.split(":")
    return getattr(import_module(module), name)


# Option of every method for 0/1 matrices: less sure matches are left out.
MIN_PROBABILITY = "min_probability"

# Option of every method with an estimate of its effort: what is likely to take longer is refused.
MAX_MINUTES_OPTION = "max_minutes"

_NO_OPTIONS = {"method", "weights", MIN_PROBABILITY, MAX_MINUTES_OPTION, *ARGUMENTS}


def _used(matches: "PairwiseMatches", weights: bool, least: float) -> "PairwiseMatches":
    """Return the matches that a method gets; `weights` says whether it uses weights."""
    if matches.scored and (weights or least > 0):
        # Imported here, so that the names of the methods are known without any kernel.
        from nmfsync.synchronisation.calibration import calibrate_scores

        matches = calibrate_scores(matches)
    if weights and matches.weighted:
        return matches
    return matches.at_least(least).unweighted()


class Methods(UserDict[str, Method]):
    """Methods by name. A plain function put into it becomes a record with defaults."""

    def __setitem__(self, name: str, method: Method | Function) -> None:
        super().__setitem__(name, method_of(method, name))


def method_of(method: str | Method | Function, name: str = "") -> Method:
    """Return the record of a method.

    Parameters
    ----------
    method : str, Method or callable
        A name in `METHODS`, a record, or a function that is called as
        function(matches, universe_size, theta, seed); a default of its theta
        is the method's.
    name : str
        Name of a function; by default its own.

    Returns
    -------
    Method

    Raises
    ------
    NmfsyncError
        If there is no method of this name.
    """
    if isinstance(method, Method):
        return method
    if isinstance(method, str):
        if method not in METHODS:
            close = get_close_matches(method, METHODS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(METHODS)}"
            raise NmfsyncError(f"unknown method {method!r}: {hint}")
        return METHODS[method]
    theta = inspect.signature(method).parameters.get("theta")
    has_default = theta is not None and theta.default is not inspect.Parameter.empty
    return Method(
        name or getattr(method, "__name__", repr(method)),
        method,
        theta=float(theta.default) if theta is not None and has_default else 0.0,
    )


def resolve_universe_size(universe_size: int | str, sizes: "ArrayLike") -> int:
    """Return d as a number.

    Parameters
    ----------
    universe_size : int or "auto"
        "auto" is twice the mean number of features of the images that have any,
        the field's usual start (Maset et al. 2017).
    sizes : (k,) int array
        Number of features of every image.

    Returns
    -------
    int
        Never more than the number m of all features.

    Examples
    --------
    >>> resolve_universe_size("auto", [4, 6, 0])
    10
    """
    import numpy as np

    sizes = np.asarray(sizes)
    m = int(sizes.sum())
    if universe_size == "auto":
        seen = sizes[sizes > 0]
        return min(m, round(2 * seen.mean())) if len(seen) else 0
    return min(m, int(universe_size))


def check_arguments(universe_size: int | str, theta: float | None, seed: int) -> None:
    """Raise NmfsyncError if a value is out of range, whatever the method."""
    whole = isinstance(universe_size, Integral) and universe_size >= 1
    if universe_size != "auto" and not whole:
        raise NmfsyncError(
            f"universe size must be auto or a whole number from 1, got {universe_size!r}"
        )
    if theta is not None and not 0 <= theta <= 1:
        raise NmfsyncError(f"theta must be between 0 and 1, got {theta}")
    if seed < 0:
        raise NmfsyncError(f"seed must not be negative, got {seed}")


# What is put into METHODS, by the user or by an installed package through the
# entry-point group "nmfsync.methods", takes part in every run, report and study.
_HERE = "nmfsync.synchronisation"
METHODS = Methods()
DEFAULT_METHOD = "clustersync"
METHODS[DEFAULT_METHOD] = Method(
    DEFAULT_METHOD,
    f"{_HERE}.clustersync.method:clustersync",
    label="ClusterSync",
    arguments=("theta",),
    consistent=True,
    theta=0.4,
    style="green",
    compiles=True,
)
METHODS["nmfsync"] = Method(
    "nmfsync",
    f"{_HERE}.nmfsync.method:nmfsync",
    label="NmfSync",
    consistent=True,
    uses_weights=False,
    theta=0.0,  # the authors' default
    weighted_options={"theta": 0.4},  # the paper's value for the Graffiti photographs
    style="blue",
    compiles=True,
    effort=f"{_HERE}.nmfsync.method:effort",
)
METHODS["spectral"] = Method(
    "spectral",
    f"{_HERE}.baselines.spectral:spectral",
    label="Spectral",
    arguments=("universe_size", "seed"),
    consistent=True,
    uses_weights=False,
    style="orange",
    effort=f"{_HERE}.baselines.spectral:effort",
)
METHODS["matcheig"] = Method(
    "matcheig",
    f"{_HERE}.baselines.matcheig:matcheig",
    label="MatchEig",
    arguments=("universe_size", "seed"),
    consistent=False,
    uses_weights=False,
    options={"threshold": 0.25},  # the authors' value for synthetic data
    weighted_options={"threshold": 0.5},  # and for photographs
    style="pink",
    effort=f"{_HERE}.baselines.matcheig:effort",
)
METHODS["matchals"] = Method(
    "matchals",
    f"{_HERE}.baselines.matchals:matchals",
    label="MatchALS",
    arguments=("seed",),
    consistent=False,
    uses_weights=False,
    style="sky",
    compiles=True,
    effort=f"{_HERE}.baselines.matchals:effort",
)
METHODS["clear"] = Method(
    "clear",
    f"{_HERE}.baselines.clear:clear",
    label="CLEAR",
    arguments=("seed",),
    consistent=True,
    uses_weights=False,
    style="olive",
    effort=f"{_HERE}.baselines.clear:effort",
)
METHODS["unionfind"] = Method(
    "unionfind",
    f"{_HERE}.baselines.unionfind:unionfind",
    label="union-find",
    arguments=(),
    consistent=True,
    uses_weights=False,
    style="gray",
)
METHODS["quickmatch"] = Method(
    "quickmatch",
    f"{_HERE}.baselines.quickmatch:quickmatch",
    label="QuickMatch",
    arguments=(),
    consistent=True,
    uses_weights=False,
    options={
        "rho_density": 0.25,  # the authors' value
        "rho_edge": 0.9,
    },
    style="purple",
    needs_descriptors=True,
    effort=f"{_HERE}.baselines.quickmatch:effort",
)


def load_plugins() -> None:
    """Add the methods of installed packages to `METHODS`.

    Warns
    -----
    NmfsyncWarning
        If one of them cannot be loaded; the others are.
    """
    for entry in entry_points(group="nmfsync.methods"):
        if entry.name in METHODS:
            continue
        try:
            METHODS[entry.name] = entry.load()
        except Exception as error:
            warnings.warn(
                f"the method {entry.name} ({entry.value}) cannot be loaded: {error}; "
                "update or uninstall its package",
                NmfsyncWarning,
                stacklevel=2,
            )


load_plugins()
