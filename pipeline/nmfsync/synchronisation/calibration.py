"""The probability that matches are right, from their cycles alone."""

import numpy as np
from scipy import sparse
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from nmfsync.runtime.ascending import first_from
from nmfsync.runtime.compiled import compiled, csr_arrays
from nmfsync.runtime.threads import map_blocks
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import LEAST_PROBABILITY, PairwiseMatches

ROUNDS = 50  # at most; the probabilities hardly change after ten

TOLERANCE = 1e-6  # largest change of a π, to stop

BLOCK = 2**10  # features a thread takes at a time

LEVELS = 10  # classes of scores


def calibrate_by_cycles(matches: PairwiseMatches) -> PairwiseMatches:
    """Weigh matches by the probability that they are right, learnt from their cycles.

    For matches of which nothing else is known. A match p–q has n third images in
    which both p and q have a match; in s of them, it is the same feature, so that
    the three matches close. Right matches close with probability α, wrong ones
    with β, and a share π of all is right; ::

        P = π αˢ (1 − α)ⁿ⁻ˢ / (π αˢ (1 − α)ⁿ⁻ˢ + (1 − π) βˢ (1 − β)ⁿ⁻ˢ)

    π, α and β maximise the likelihood, as if all were independent, by expectation
    maximisation [1]_, from P = (s + ½) / (n + 1) on. If the matches have weights,
    for instance scores of a learned matcher, π rises with the weight: there is one
    for each of ten classes of about equal size, made monotone [2]_.

    Parameters
    ----------
    matches : PairwiseMatches

    Returns
    -------
    PairwiseMatches
        The same matches; their weights are the probabilities, from 0.001 to 0.999.

    Notes
    -----
    Too large where wrong matches confirm each other: things that look alike are matched in the
    same wrong way in many images.

    References
    ----------
    .. [1] Dempster, Laird, Rubin: Maximum likelihood from incomplete data via the
       EM algorithm. J. Royal Statistical Society B 1977.
    .. [2] Barlow, Bartholomew, Bremner, Brunk: Statistical inference under order
       restrictions. Wiley 1972.

    Examples
    --------
    The matches of three features close, and another one is contradicted.

    >>> p, q = [0, 0, 2, 1], [2, 4, 4, 5]
    >>> matches = PairwiseMatches.from_entries(p, q, [2, 2, 2])
    >>> bool(calibrate_by_cycles(matches).W[0, 2] > calibrate_by_cycles(matches).W[1, 5])
    True
    """
    return _weighed(matches, with_cycles=True)


def calibrate_scores(matches: PairwiseMatches) -> PairwiseMatches:
    """Turn weights of unknown meaning into the probabilities that matches are right.

    The probability is π of the class of the weight, see `calibrate_by_cycles`: what cycles say of
    matches with such weights, but not of this one. So a method that looks at the
    cycles itself does not count them twice.

    Parameters
    ----------
    matches : PairwiseMatches

    Returns
    -------
    PairwiseMatches
        The same matches; without different weights, unchanged.
    """
    return _weighed(matches, with_cycles=False) if matches.weighted else matches


def _weighed(matches: PairwiseMatches, with_cycles: bool) -> PairwiseMatches:
    W = matches.between_images()
    if not W.nnz:
        return matches
    closed, possible = _count_triangles(W, matches.image_of, len(matches.sizes))
    p, q = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr)), W.indices
    once = p < q
    level = _levels(W.data[once])
    prior, posterior = _fit(closed[once], possible[once], level)
    probability = posterior if with_cycles else prior[level]
    probability = np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    result = PairwiseMatches.from_entries(p[once], q[once], matches.sizes, probability)
    result.with_origin_of(matches).scored = False
    return result


def _count_triangles(W: sparse.csr_array, image_of: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Count the third images of every entry of W: those that close, and all."""
    closed, possible = np.zeros(W.nnz, np.int64), np.zeros(W.nnz, np.int64)
    arrays = (*csr_arrays(W), image_of, k, closed, possible)
    map_blocks(lambda rows: _count(rows.start, rows.stop, *arrays), W.shape[0], BLOCK)
    return closed, possible


@compiled
def _count(start, stop, first, other, image_of, k, closed, possible):
    match_in = np.full(k, -1)  # the match of p in every image
    for p in range(start, stop):
        for entry in range(first[p], first[p + 1]):
            match_in[image_of[other[entry]]] = other[entry]
        for entry in range(first[p], first[p + 1]):
            q = other[entry]
            # Of two features, the matches of the one with fewer are read: others can be very many.
            fewer = first[q + 1] - first[q] - (first[p + 1] - first[p])
            if fewer > 0 or (fewer == 0 and q < p):
                continue
            for f in range(first[q], first[q + 1]):
                there = match_in[image_of[other[f]]]
                if there >= 0 and there != q and other[f] != p:
                    possible[entry] += 1
                    closed[entry] += there == other[f]
            back = first_from(other, first[q], first[q + 1], p)
            closed[back], possible[back] = closed[entry], possible[entry]
        for entry in range(first[p], first[p + 1]):
            match_in[image_of[other[entry]]] = -1


def _fit(closed: IntArray, possible: IntArray, level: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return π of every level, and P of every match, as `calibrate_by_cycles` describes."""
    size = np.bincount(level)
    prior, right = np.zeros(len(size)), (closed + 0.5) / (possible + 1)
    for _ in range(ROUNDS):
        # Half a triangle more of either kind, so that no share is 0 or 1.
        alpha, beta = (
            ((weight * closed).sum() + 0.5) / ((weight * possible).sum() + 1)
            for weight in (right, 1 - right)
        )
        before = prior
        prior = isotonic_regression(np.bincount(level, right) / size, weights=size).x
        prior = np.clip(prior, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        score = logit(prior)[level]
        score += closed * np.log(alpha / beta)
        score += (possible - closed) * np.log((1 - alpha) / (1 - beta))
        right = expit(score)
        if np.abs(prior - before).max() < TOLERANCE:
            break
    return prior, right


def _levels(scores: FloatArray) -> IntArray:
    """Divide scores into classes of about equal size, 0 the lowest; equal ones stay together."""
    limits = np.unique(np.quantile(scores, np.linspace(0, 1, LEVELS + 1)[1:-1]))
    level = np.searchsorted(limits, scores, side="right")
    return np.asarray(np.unique(level, return_inverse=True)[1])
