"""Synchronisation: from pairwise matches to matches that agree, by one of several methods."""

import inspect
from difflib import get_close_matches
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.progress import showing
from nmfsync.synchronisation.methods import METHODS, Method
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches


def synchronise(
    matches: PairwiseMatches,
    method: str | Method = "clustersync",
    universe_size: int | str = "auto",
    theta: float | None = None,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> Matches:
    """Make pairwise matches agree with each other.

    Same input and seed give the same bits, whatever the number of threads: the
    linear algebra runs on one.

    Parameters
    ----------
    matches : PairwiseMatches
    method : str or callable
        A name in `METHODS`: all give cycle-consistent results but "matcheig"
        and "matchals". Or a function method(matches, universe_size, theta, seed)
        that returns a `MultiMatching` or `PairwiseMatches`.
    universe_size : int or "auto"
        d, the number of different universe features to look for; see
        `resolve_universe_size` for "auto". At most m are used. "clustersync",
        "clear" and "unionfind" need none.
    theta : float, optional
        In [0, 1], for "clustersync" and "nmfsync": larger keeps fewer, surer
        matches. None takes the method's own default.
    seed : int
    progress : bool
        Show a bar for what takes more than some seconds, if stderr is a terminal.
    **options
        Further options of the method, as its own docstring says.

    Returns
    -------
    MultiMatching or PairwiseMatches
        Cycle-consistent or not, as the method promises.

    Raises
    ------
    NmfsyncError
        If the method or an option is unknown, or a value is out of range.

    Examples
    --------
    >>> from nmfsync import synthetic
    >>> W, W_gt, sizes = synthetic.generate(k=10, d=8, rho=0.7, sigma=0.2, seed=0)
    >>> result = synchronise(PairwiseMatches(W, sizes), universe_size=8)
    >>> bool((result.W != W_gt).nnz)
    False
    """
    check_arguments(method, universe_size, theta, seed)
    solve = METHODS[method] if isinstance(method, str) else method
    for name in options:
        if name not in inspect.signature(solve).parameters:
            raise NmfsyncError(f"{_name(method)} has no option {name!r}")
    d = resolve_universe_size(universe_size, matches.sizes)
    if matches.W.shape[0] == 0:
        empty = MultiMatching([], matches.sizes)
        empty.source, empty.given = matches.source, matches
        return empty
    with threadpool_limits(1, user_api="blas"), showing(progress):
        result = solve(matches, d, resolve_theta(method, theta), seed, **options)
    if not isinstance(result, Matches) or not np.array_equal(result.sizes, matches.sizes):
        raise NmfsyncError(
            f"{_name(method)} must return a MultiMatching or PairwiseMatches of the same images"
        )
    result.source, result.given = matches.source, matches
    return result


def resolve_theta(method: str | Method, theta: float | None) -> float:
    """Return theta as a number: the method's own default for None, or 0 if it has none."""
    if theta is not None:
        return theta
    solve = METHODS[method] if isinstance(method, str) else method
    parameter = inspect.signature(solve).parameters.get("theta")
    if parameter is None or parameter.default is inspect.Parameter.empty:
        return 0.0
    return float(parameter.default)


def _name(method: str | Method) -> str:
    return method if isinstance(method, str) else getattr(method, "__name__", repr(method))


def resolve_universe_size(universe_size: int | str, sizes: Any) -> int:
    """Return d as a number.

    "auto" is twice the mean number of features of the images that have any, the
    field's usual start (Maset et al. 2017). Never more than m.

    Parameters
    ----------
    universe_size : int or "auto"
    sizes : (k,) ints

    Returns
    -------
    int

    """
    sizes = np.asarray(sizes)
    m = int(sizes.sum())
    if universe_size == "auto":
        seen = sizes[sizes > 0]
        return min(m, round(2 * seen.mean())) if len(seen) else 0
    return min(m, int(universe_size))


def check_arguments(
    method: str | Method, universe_size: int | str, theta: float | None, seed: int
) -> None:
    """Raise NmfsyncError if `synchronise` cannot take these arguments."""
    if isinstance(method, str) and method not in METHODS:
        close = get_close_matches(method, METHODS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(METHODS)}"
        raise NmfsyncError(f"unknown method {method!r}: {hint}")
    whole = isinstance(universe_size, int | np.integer) and universe_size >= 1
    if universe_size != "auto" and not whole:
        raise NmfsyncError(f"the universe size must be auto or at least 1, not {universe_size!r}")
    if theta is not None and not 0 <= theta <= 1:
        raise NmfsyncError(f"theta must lie between 0 and 1, not {theta}")
    if seed < 0:
        raise NmfsyncError(f"the seed must not be negative, not {seed}")
