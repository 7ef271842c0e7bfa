"""How sure a match is: the probability that it is right, learnt without any truth.

The matches of a scene are a mixture of right and wrong ones. What wrong ones look
like is known from decoys, which are wrong by construction: the second choices of
the features, which match where their matches are not allowed (see
`cues.describe`). Target–decoy comparison comes from mass spectrometry (Elias,
Gygi, Nature Methods 2007), the alternation of a classifier and the
probabilities from its Percolator (Käll et al., Nature Methods 2007). Kin in
vision are a-contrario matching (Rabin, Delon, Gousseau, SIAM J. Imaging Sciences
2009) and the statistics of the ratio criterion (Kaplan, Avraham, Lindenbaum,
ECCV 2016). Second choices as decoys are ours.
"""

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from nmfsync.matching.cues import RATIO, SUPPORT
from nmfsync.types.arrays import Float32Array, FloatArray, IntArray
from nmfsync.types.matches import LEAST_PROBABILITY

# Fewer matches or decoys teach too little: then a match has the probability 1 − r⁴ of its ratio
# r, about the share of right ones on Graffiti.
LEAST = 50

# Matches, and decoys, that are learnt from at most: a few numbers are learnt, and more change
# them by less than what differs from scene to scene.
SAMPLES = 100_000

ROUNDS = 5

NULL = 0.8  # quantile of the decoys' scores up to which matches count as wrong

RIDGE = 1.0  # penalty of the squared slopes, in matches


def learn_probabilities(matches: Float32Array, decoys: Float32Array) -> FloatArray:
    """Learn the probability that matches are right.

    A match with the distance ratio r and the support s (see `cues.describe`) has
    the probability ::

        P = 1 / (1 + exp(−(a + b r + c s)))

    a, b and c are those of a logistic regression that tells right matches from
    wrong ones. It alternates with the probabilities: every match counts as right
    with the weight P, at first (1 − r⁴) exp(s), and the decoys together as wrong
    with the weight of the wrong matches. How many these are follows from the
    scores a + b r + c s: nearly all matches with a score below the 0.8-quantile
    of the decoys are wrong, so that n decoys stand for n λ wrong matches, where ::

        λ = (matches with a score below it) / (decoys with a score below it)

    The probabilities of all matches of a scene are learnt together, so that pairs
    of images with few matches get them as well.

    Parameters
    ----------
    matches, decoys : (n, 7) and (d, 7) float32 arrays
        From `cues.describe`, of all pairs of images of a scene; decoys may be
        missing for some.

    Returns
    -------
    (n,) float64 array
        Probabilities from 0.001 to 0.999. They are estimates, which fail where wrong matches
        agree with their neighbours in the same wrong way, as on repeated buildings.
    """
    targets, nulls = (rows[sample_places(len(rows))] for rows in (matches, decoys))
    return probabilities(matches, learn_coefficients(targets, nulls))


def learn_coefficients(matches: Float32Array, decoys: Float32Array) -> FloatArray | None:
    """Learn a, b and c of `learn_probabilities`, or None if there are too few to learn from.

    Parameters
    ----------
    matches, decoys : (n, 7) and (d, 7) float32 arrays
        Those at the `sample_places` of all.
    """
    if min(len(matches), len(decoys)) < LEAST:
        return None
    first = _by_ratio(matches) * np.exp(matches[:, SUPPORT])
    with threadpool_limits(1, "blas"):  # more threads add in another order, and are slower
        return _alternate(_design(matches), _design(decoys), first)


def probabilities(matches: Float32Array, coefficients: FloatArray | None) -> FloatArray:
    """Return the probabilities (n,) of matches (n, 7), see `learn_probabilities`.

    That of a match does not depend on the others.
    """
    if coefficients is None:
        probability = _by_ratio(matches)
    else:
        with threadpool_limits(1, "blas"):
            probability = expit(_design(matches) @ coefficients)
    return np.asarray(np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))


def sample_places(count: int) -> IntArray:
    """Return the places of those of so many matches that are learnt from: evenly, if too many."""
    places = np.linspace(0, count, min(count, SAMPLES), endpoint=False)
    return places.astype(np.int64)


def _by_ratio(matches: Float32Array) -> FloatArray:
    """1 − r⁴."""
    return np.asarray(1 - matches[:, RATIO].astype(np.float64) ** 4)


def _design(rows: Float32Array) -> FloatArray:
    """(n, 3): 1, ratio and support."""
    return np.column_stack([np.ones(len(rows)), rows[:, RATIO], rows[:, SUPPORT]])


def _alternate(targets: FloatArray, decoys: FloatArray, probability: FloatArray) -> FloatArray:
    """Return the coefficients (3,) that `learn_probabilities` describes."""
    X = np.vstack([targets, decoys])
    right = np.repeat([1.0, 0.0], [len(targets), len(decoys)])
    wrong = max((1 - probability).sum(), 1) / len(decoys)  # matches that a decoy stands for: λ
    coefficients = np.zeros(3)
    for _ in range(ROUNDS):
        weights = np.concatenate([probability, np.full(len(decoys), wrong)])
        coefficients = _regress(X, right, weights)
        targets_score, decoys_score = targets @ coefficients, decoys @ coefficients
        cut = np.quantile(decoys_score, NULL)
        below = max((targets_score < cut).sum(), 1) / max((decoys_score < cut).sum(), 1)
        coefficients[0] += np.log(wrong / below)  # the decoys get another weight
        wrong = below
        probability = expit(targets @ coefficients)
    return coefficients


def _regress(X: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted logistic regression with a ridge on standardised slopes, by Newton's method."""
    mean, spread = X[:, 1:].mean(axis=0), X[:, 1:].std(axis=0) + 1e-9
    Z = np.column_stack([X[:, 0], (X[:, 1:] - mean) / spread])
    ridge = np.diag([0.0, *[RIDGE] * (Z.shape[1] - 1)])
    slopes = np.zeros(Z.shape[1])
    for _ in range(30):
        p = expit(Z @ slopes)
        curvature = (Z.T * (weights * p * (1 - p) + 1e-9)) @ Z + ridge
        step = np.linalg.solve(curvature, Z.T @ (weights * (y - p)) - ridge @ slopes)
        slopes += step
        if np.abs(step).max() < 1e-9:
            break
    scaled = slopes[1:] / spread
    return np.concatenate([[slopes[0] - scaled @ mean], scaled])
