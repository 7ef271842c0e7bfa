"""Rewards of matches and prices of missing ones, learnt from a clustering."""

from functools import reduce
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from nmfsync.synchronisation.clustersync.counts import count_confirmations, count_pairs_within
from nmfsync.synchronisation.clustersync.graph import MatchGraph
from nmfsync.types.arrays import FloatArray, IntArray

# What is learnt are logarithms of ratios of probabilities. These bounds keep the probabilities
# away from 0 and 1, so that no single number decides everything, and a above b, so that a match
# never speaks against a track.

LEAST_A, MOST_A = 0.05, 0.98  # of a match, for features of one point

LEAST_B = 1e-4  # of a match, for features of different points: log(a / b) is at most 9

MOST_B = 0.9  # relative to a

LEAST_PAIR = 1.05  # of a between two images, relative to b: log 1.05 is next to no reward

PRIOR = 30  # pairs of features that make two images count as much as the mean of all images

ONE_MORE = 1.0  # of every kind of missing pair, so that none has the probability 0

# Added to counts, so that no probability is 0 or 1: half an observation of either kind.
HALF = 0.5

FIRST_A = 0.9  # before anything is learnt: as if few matches of a track were missing


class Prices(NamedTuple):
    """What the score charges.

    Attributes
    ----------
    missing : (3,) float64 array
        Price of a pair that is not matched, if neither, one, or both of its
        features have another match in the image of the other.
    image_pair : (c,) float32 array
        Factor on it for every pair of images with matches (`ImagePairs`), the same in both
        directions; of other images, missing pairs cost nothing.
    track : (k + 1,) float64 array
        Price of a cluster by its number of features, 0 of an empty one.
    """

    missing: FloatArray
    image_pair: NDArray[np.float32]
    track: FloatArray


def learn(graph: MatchGraph, label: IntArray) -> tuple[FloatArray, Prices]:
    """Learn the rewards of the matches and the prices of missing ones from a clustering.

    All are log-likelihood ratios, divided by that of an average match. The
    formulas are in the docstring of `clustersync`.

    Parameters
    ----------
    graph : MatchGraph
    label : (m,) int64 array
        The cluster of every feature.

    Returns
    -------
    rewards : (c,) float64 array
        Of a match between every pair of images with matches.
    prices : Prices
        With θ / (1 − θ) = 1.
    """
    k = _images(graph)
    pairs, matched, missing = count_pairs_within(graph, label)
    _, between = _count_all(graph, pairs, matched)
    a, b, chance = match_probabilities(graph, label, _share(*between))
    average = np.log(a / b)
    # a_ij, between images i and j: as if there were PRIOR more pairs, matched with probability a
    a_ij = np.clip((matched + PRIOR * a) / (pairs + PRIOR), LEAST_PAIR * b, MOST_A)

    # r_ij = log(a_ij / b) / log(a / b)
    reward = np.log(a_ij / b) / average
    # f_ij = log((1 − b) / (1 − a_ij)) / log((1 − b) / (1 − a))
    expected = np.log((1 - b) / (1 - a))
    factor = np.log((1 - b) / (1 - a_ij)) / expected
    # The n − 1 matches that hold n features together are by chance with probability b₀, not b.
    links = np.maximum(np.arange(k + 1) - 1, 0)
    prices = Prices(
        _missing_evidence(missing, _count_missing(graph), a, b) / average,
        factor.astype(np.float32),
        (track_prices(label, k) - links * np.log(b / chance)) / average,
    )
    return reward, prices


def first_prices(graph: MatchGraph, mixed: bool) -> Prices:
    """Prices before anything is learnt, for rewards of 1.

    Parameters
    ----------
    graph : MatchGraph
    mixed : bool
        Let clusters have prices as if half of the features were alone and the
        others in tracks of any size; else they have none.
    """
    m, k = len(graph.image), _images(graph)
    none = np.zeros(len(graph.pairs.other))
    _, between = _count_all(graph, none, none)
    a, b = FIRST_A, min(max(_share(*between), LEAST_B), MOST_B * FIRST_A)
    average = np.log(a / b)
    track = np.zeros(k + 1)
    if mixed and m:
        # E_n = (m/k) / ((k + 1) (k choose n)): m/2 features in m/k tracks of 0 to k images
        track[2:] = np.log(k / m * (k + 1)) + _log_choices(k)[2:]
        track[1] = np.log(k / (m / 2))  # E_1 = (m/2) / k
    return Prices(
        np.full(3, np.log((1 - b) / (1 - a)) / average),
        np.ones(len(graph.pairs.other), np.float32),
        track / average,
    )


def _count_all(graph: MatchGraph, pairs: FloatArray, matched: FloatArray) -> FloatArray:
    """(2, 2) matches and pairs of features inside clusters, and between them.

    In images with any match; `pairs` and `matched` (c,) are those inside, by images.
    """
    size_i, size_j = _sizes_of_pairs(graph)
    inside = np.array([matched.sum(), pairs.sum()])
    total = np.array([graph.pairs.matches.sum(), (size_i * size_j).sum()])
    return np.array([inside, total - inside]) / 2  # every pair was met at both ends


def _sizes_of_pairs(graph: MatchGraph) -> tuple[IntArray, IntArray]:
    """(c,), (c,) number of features of both images of every pair."""
    size = np.diff(graph.offset)
    return size[graph.pairs.image], size[graph.pairs.other]


def match_probabilities(
    graph: MatchGraph, label: IntArray, chance: float
) -> tuple[float, float, float]:
    """Estimate how often features of one point are matched, and features of different points.

    Of two clusters with a match between them (or of one cluster), the share of
    the other pairs that are matched as well, averaged over all matches. Between
    clusters this is what wrong matches have in common: no more than by chance
    where they are independent, much where things look alike.

    Parameters
    ----------
    graph : MatchGraph
    label : (m,) int64 array
    chance : float
        The share of all pairs between clusters that are matched.

    Returns
    -------
    a, b : float
        Inside clusters, and between those with another match.
    b_0 : float
        Between any clusters, at most b.
    """
    (confirmed_in, possible_in), (confirmed_out, possible_out) = count_confirmations(graph, label)
    # As if one more pair had been seen: clusters of two features tell nothing.
    a = min(max((confirmed_in + FIRST_A) / (possible_in + 1), LEAST_A), MOST_A)
    b = min(max(confirmed_out / max(possible_out, 1), chance, LEAST_B), MOST_B * a)
    return a, b, min(chance, b)


def _count_missing(graph: MatchGraph) -> FloatArray:
    """(3,) number of pairs that are not matched, of all features in images with any match.

    By how many of the two have a match in the image of the other. Between images
    with n_i and n_j features and f matches,

        neither: (n_i − f)(n_j − f)    one: f (n_j − f) + (n_i − f) f    both: f² − f
    """
    size_i, size_j = _sizes_of_pairs(graph)
    f = graph.pairs.matches
    kinds = (size_i - f) * (size_j - f), f * (size_j - f) + (size_i - f) * f, f**2 - f
    return np.array([kind.sum() / 2 for kind in kinds])  # every pair was met at both ends


def _missing_evidence(within: FloatArray, everywhere: FloatArray, a: float, b: float) -> FloatArray:
    """(3,) log-likelihood ratio of a missing match of every kind, from the numbers of them."""
    # P(missing and of kind h | one point) = (1 − a) · share of kind h inside clusters
    same = within + ONE_MORE
    same *= (1 - a) / same.sum()
    # P(missing and of kind h | different points) = (1 − b) · share of kind h elsewhere
    different = np.maximum(everywhere - within, 0) + ONE_MORE
    different *= (1 - b) / different.sum()
    return np.maximum(np.log(different / same), 0)


def track_prices(label: IntArray, k: int) -> FloatArray:
    """(k + 1,) −log E_n, E_n the expected number of tracks in exactly n given images.

    Learnt from the sizes of clusters. A further track is as visible as one of
    those found, whose share of the images is v, or of any size; and features are
    alone. Of no images, the price is 0.
    """
    size = np.bincount(label)
    alone, tracks = (size == 1).sum(), np.bincount(size[size > 1], minlength=k + 1)
    n, sizes = np.arange(k + 1), np.flatnonzero(tracks)
    # E_n = Σ vⁿ (1 − v)ᵏ⁻ⁿ over tracks + 1 / ((k + 1) (k choose n)) + (u if n = 1)
    v = (sizes + HALF) / (k + 2 * HALF)
    any_size = -np.log(k + 1) - _log_choices(k)
    numbers, logs, logs_not = np.log(tracks[sizes]), np.log(v), np.log1p(-v)
    parts = (a + n * b + (k - n) * c for a, b, c in zip(numbers, logs, logs_not, strict=True))
    expected = reduce(np.logaddexp, chain(parts, [any_size]))
    if alone:
        expected[1] = np.logaddexp(expected[1], np.log(alone / k))
    return np.append(0.0, -expected[1:])


def _images(graph: MatchGraph) -> int:
    """Return the number of images that have features."""
    return int((np.diff(graph.offset) > 0).sum())


def _log_choices(k: int) -> FloatArray:
    """(k + 1,) log of (k choose n)."""
    n = np.arange(k + 1)
    return np.asarray(gammaln(k + 1) - gammaln(n + 1) - gammaln(k - n + 1))


def log_likelihood(graph: MatchGraph, label: IntArray) -> float:
    """How probable the matches and a clustering are together, at the estimates from it.

    This is what clusterings are compared by that were found with different
    prices. Two features are matched with a probability that depends on whether
    they are in one cluster; clusters are Poisson distributed, E_n of them in n
    given images. But for a constant, the logarithm is

        Σ M log(M / N) + (N − M) log(1 − M / N)     over pairs within clusters, and others
        + Σ (log E_n − 1)                           over clusters

    with M matches among N pairs of features.
    """
    k = _images(graph)
    pairs, matched, _ = count_pairs_within(graph, label)
    inside, between = _count_all(graph, pairs, matched)
    size = np.unique(label, return_counts=True)[1]
    clusters = -track_prices(label, k)[size].sum() - len(size)
    return float(_log_binomial(*inside) + _log_binomial(*between) + clusters)


def _log_binomial(matched: float, pairs: float) -> float:
    """Log-probability of which pairs are matched, at the share of those that are."""
    share = _share(matched, pairs)
    return float(matched * np.log(share) + (pairs - matched) * np.log1p(-share))


def _share(matched: float, pairs: float) -> float:
    """Estimate a probability: as if there were half an observation of either kind more."""
    return float((matched + HALF) / (pairs + 2 * HALF))
