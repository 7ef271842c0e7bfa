"""Rewards of matches and prices of missing ones, learnt from a clustering."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.synchronisation.clustersync.counts import count_confirmations, count_pairs_within
from nmfsync.synchronisation.clustersync.graph import MatchGraph, count_matches
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

MOST_VISIBLE = 0.95  # share of the images that see a track

VISIBLE = 0.5  # the same if there is no track yet; its log-odds are 0

FEW = 0.02  # features of an image that are alone even where none is, so that no track costs ∞


class Prices(NamedTuple):
    """What the score charges.

    Attributes
    ----------
    missing : (3,) float64 array
        Price of a pair that is not matched, if neither, one, or both of its
        features have another match in the image of the other.
    image_pair : (k, k) float32 array
        Factor on it for every pair of images; 0 where images were not matched.
    opening : float
        Price of a cluster.
    """

    missing: FloatArray
    image_pair: NDArray[np.float32]
    opening: float


def learn(graph: MatchGraph, label: IntArray, strength: float) -> tuple[FloatArray, Prices]:
    """Learn the rewards of the matches and the prices of missing ones from a clustering.

    All are log-likelihood ratios, divided by that of an average match. The
    formulas are in the docstring of `clustersync`.

    Parameters
    ----------
    graph : MatchGraph
    label : (m,) int64 array
        The cluster of every feature.
    strength : float
        Factor on the prices of missing matches, θ / (1 − θ).

    Returns
    -------
    rewards : (n,) float64 array
        Of every entry, for weight 1.
    prices : Prices
    """
    k = len(graph.offset) - 1
    found = count_matches(graph)
    a, b = match_probabilities(graph, label)
    average = np.log(a / b)
    pairs, matched, missing = count_pairs_within(graph, label, found > 0)
    # a_ij, between images i and j: as if there were PRIOR more pairs, matched with probability a
    a_ij = np.clip((matched + PRIOR * a) / (pairs + PRIOR), LEAST_PAIR * b, MOST_A)

    # r_ij = log(a_ij / b) / log(a / b)
    reward = np.log(a_ij / b) / average
    # f_ij = log((1 − b) / (1 − a_ij)) / log((1 − b) / (1 − a)); 0 where images were not matched
    expected = np.log((1 - b) / (1 - a))
    factor = np.where(found > 0, np.log((1 - b) / (1 - a_ij)) / expected, 0)
    prices = Prices(
        strength * _missing_evidence(missing, _count_missing(graph, found), a, b) / average,
        factor.astype(np.float32),
        _opening(label, k) / average,
    )
    return reward[graph.image[graph.feature], graph.image[graph.other]], prices


def match_probabilities(graph: MatchGraph, label: IntArray) -> tuple[float, float]:
    """Estimate how often features of one point are matched, and features of different points.

    Of two clusters with a match between them (or of one cluster), the share of
    the other pairs that are matched as well, averaged over all matches. Between
    clusters this is what wrong matches have in common: next to nothing where
    they are independent, much where things look alike.

    Returns
    -------
    a, b : float
        Inside clusters, and between them.
    """
    (confirmed_in, possible_in), (confirmed_out, possible_out) = count_confirmations(graph, label)
    a = min(max(confirmed_in / max(possible_in, 1), LEAST_A), MOST_A)
    b = min(max(confirmed_out / max(possible_out, 1), LEAST_B), MOST_B * a)
    return a, b


def _count_missing(graph: MatchGraph, found: IntArray) -> FloatArray:
    """(3,) number of pairs that are not matched, of all features in images with any match.

    By how many of the two have a match in the image of the other. Between images
    with n_i and n_j features and f matches,

        neither: (n_i − f)(n_j − f)    one: f (n_j − f) + (n_i − f) f    both: f² − f
    """
    size = np.diff(graph.offset)
    with_, without = found, size[:, None] - found  # features of i, by a match in j
    neither = without * without.T
    one = with_ * without + without.T * with_.T
    both = with_ * with_.T - with_
    return np.array([kind[found > 0].sum() / 2 for kind in (neither, one, both)])


def _missing_evidence(within: FloatArray, everywhere: FloatArray, a: float, b: float) -> FloatArray:
    """(3,) log-likelihood ratio of a missing match of every kind, from the numbers of them."""
    # P(missing and of kind h | one point) = (1 − a) · share of kind h inside clusters
    same = within + ONE_MORE
    same *= (1 - a) / same.sum()
    # P(missing and of kind h | different points) = (1 − b) · share of kind h elsewhere
    different = np.maximum(everywhere - within, 0) + ONE_MORE
    different *= (1 - b) / different.sum()
    return np.maximum(np.log(different / same), 0)


def _opening(label: IntArray, k: int) -> float:
    """Log-odds that a feature belongs to a track that its image can see, not to a new one."""
    size = np.bincount(label)
    tracks = size[size > 1]
    single = (size == 1).sum() / k  # features of an image that are alone
    visible = min(tracks.mean() / k, MOST_VISIBLE) if len(tracks) else VISIBLE
    # γ = max(0, log( v / (1 − v) / (s + FEW) ))
    return float(max(np.log(visible / (1 - visible) / (single + FEW)), 0.0))
