"""`synchronise`: the one way from pairwise matches to consistent ones, for all front ends."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.progress import showing
from nmfsync.synchronisation.methods import DEFAULT_METHOD, Function, Method, method_of
from nmfsync.types.arrays import IntArray
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches


def synchronise(
    matches: PairwiseMatches,
    method: str | Method | Function = DEFAULT_METHOD,
    universe_size: int | str = "auto",
    theta: float | None = None,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> Matches:
    """Make pairwise matches agree with each other.

    Near-duplicates that are marked (`duplicate_of`) count as the feature that stands
    for them: that is in a track, and they are alone in the result, but `kept_of`
    keeps the matches of all of them.

    Same matches, method and seed give the same bits, whatever the number of
    threads (the linear algebra runs on one) and from wherever this is called:
    the command line does the same.

    Parameters
    ----------
    matches : PairwiseMatches
    method : str, Method or callable
        A name in `METHODS`, whose records say what each method does. Or a
        function of (matches, universe_size, theta, seed) that returns a
        `MultiMatching` or `PairwiseMatches`.
    universe_size : int or "auto"
        d, the number of different universe features to look for, of methods
        that need one; "auto" is twice the mean number of features of an image.
        At most m are used.
    theta : float, optional
        Between 0 and 1, of methods that take one: larger keeps fewer, surer
        matches. None takes the method's default for such matches.
    seed : int
    progress : bool
        Show a progress bar for what takes more than some seconds, if stderr is a terminal.
    **options
        Further options of the method, as its own docstring says.

    Returns
    -------
    MultiMatching or PairwiseMatches
        Cycle-consistent or not, as the method promises. `settings` says what
        the method was called with, `input_matches` for which matches.

    Raises
    ------
    NmfsyncError
        If the method or an option is unknown, or a value is out of range.
    TooLargeError
        If the matches are too many for this method.

    Examples
    --------
    >>> from nmfsync import synthetic
    >>> W, W_gt, sizes = synthetic.generate(k=10, d=8, rho=0.7, sigma=0.2, seed=0)
    >>> result = synchronise(PairwiseMatches(W, sizes))
    >>> bool((result.W != W_gt).nnz)
    False
    >>> result.settings
    {'method': 'clustersync', 'weights': False, 'theta': 0.4}
    """
    record, solved = method_of(method), matches.contracted()
    settings = record.settings(solved, universe_size, theta, seed, options)
    if matches.W.shape[0] == 0:
        result: Matches = MultiMatching([], matches.sizes)
    else:
        with threadpool_limits(1, user_api="blas"), showing(progress):
            result = record.solve(solved, settings)
        _check_result(result, record, matches)
        result = _with_duplicates_alone(result, matches.duplicate_of)
    result.source, result.input_matches, result.settings = matches.source, matches, settings
    result.duplicate_of = matches.duplicate_of
    return result


def _with_duplicates_alone(result: Matches, stands: IntArray | None) -> Matches:
    """Take near-duplicates out of the tracks of a method that has not only looked at matches."""
    if stands is None or not isinstance(result, MultiMatching):
        return result
    own = np.arange(len(stands))
    return MultiMatching(np.where(stands == own, result.universe, len(stands) + own), result.sizes)


def _check_result(result: Any, record: Method, matches: PairwiseMatches) -> None:
    if not isinstance(result, Matches) or not np.array_equal(result.sizes, matches.sizes):
        raise NmfsyncError(
            f"{record.name} must return a MultiMatching or PairwiseMatches of the same images"
        )
