"""Clustering of matches whose weights are probabilities: log-odds instead of learnt rewards."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.clustersync.counts import count_confirmations, count_pairs_within
from nmfsync.synchronisation.clustersync.graph import MatchGraph, matches_where
from nmfsync.synchronisation.clustersync.prices import LEAST_A, LEAST_B, MOST_A, PRIOR, Prices
from nmfsync.synchronisation.clustersync.search import ROUNDS, ROUNDS_TO_LEARN, search
from nmfsync.synchronisation.clustersync.start import grow, support
from nmfsync.types.arrays import Float32Array, FloatArray, IntArray
from nmfsync.types.matches import LEAST_PROBABILITY

# log(a / b) of photographs is 0.8 to 1.8: a wrong match there is confirmed by others, because it
# connects things that look alike.
USUAL = 1.5

# Share of −log(1 − a_ij) that a missing match costs. Missing matches of a feature go together:
# where it is hard to see, many are missing.
SHARE = 0.1

BLOCK = 2**18  # matches a thread takes at a time

FIRST_PRICE = 0.25  # of a missing match in the first clustering


class Counts(NamedTuple):
    """What the prices are learnt from; of several parts without common features, the sums.

    Attributes
    ----------
    pairs, matched : (c,) float64 arrays
        See `count_pairs_within`, by pair of images.
    possible : float
        Twice the number of pairs of features in one cluster, in images with matches or not.
    confirmed : (2, 2) float64 array
        See `count_confirmations`.
    """

    pairs: FloatArray
    matched: FloatArray
    possible: float
    confirmed: FloatArray


class Learnt(NamedTuple):
    """What a search goes by beside the probabilities.

    Attributes
    ----------
    missing : (3,) float64 array
        See `Prices`.
    image_pair : (c,) float32 array
        See `Prices`.
    independence : float
        What a match is worth beyond its probability.
    """

    missing: FloatArray
    image_pair: Float32Array
    independence: float


def cluster_by_probability(
    graph: MatchGraph, theta: float, updates: int, done: Callable[[], Any]
) -> IntArray:
    """Cluster matches that are right with known probabilities.

    The objective is in the docstring of `clustersync`.

    Parameters
    ----------
    graph : MatchGraph
        Its weights are the probabilities.
    theta : float
    updates : int
        How often the prices are estimated anew.
    done : callable
        Called after every round.

    Returns
    -------
    (m,) int64 array
        The cluster of every feature.
    """
    graph = with_evidence(graph, theta)
    label, learnt = first_clusters(graph), first_learnt(len(graph.pairs.other))
    for _ in range(updates):
        label = improve(graph, learnt, label, ROUNDS_TO_LEARN, done)
        learnt = learn_from(count(graph, label))
    return improve(graph, learnt, label, done=done)


def with_evidence(graph: MatchGraph, theta: float) -> MatchGraph:
    """Put what matches count for a track in place of their probabilities, see `evidence`."""
    return graph._replace(weight=evidence(graph.weight, theta))


def first_clusters(signed: MatchGraph) -> IntArray:
    """Return the clustering (m,) that the search starts from, by matches with evidence."""
    likely = matches_where(signed, signed.weight > 0)
    return grow(likely, likely.weight * support(likely))


def first_learnt(pairs: int) -> Learnt:
    """Return what the first search goes by, for so many pairs of images."""
    return Learnt(np.full(3, FIRST_PRICE), np.ones(pairs, np.float32), 0.0)


def improve(
    signed: MatchGraph,
    learnt: Learnt,
    label: IntArray,
    rounds: int = ROUNDS,
    done: Callable[[], Any] = lambda: None,
) -> IntArray:
    """Search from a clustering (m,), by matches with evidence; see `search`."""
    if learnt.independence:
        signed = signed._replace(weight=signed.weight + learnt.independence)
    free = np.zeros(len(signed.offset))  # clusters of any size cost nothing
    prices = Prices(learnt.missing, learnt.image_pair, free)
    return search(signed, prices, label, rounds, done)


def count(graph: MatchGraph, label: IntArray) -> Counts:
    """Count what the prices are learnt from."""
    pairs, matched, _ = count_pairs_within(graph, label)
    size = np.bincount(label)
    possible = float((size * (size - 1)).sum())
    return Counts(pairs, matched, possible, count_confirmations(graph, label))


def learn_from(counts: Counts) -> Learnt:
    """Estimate prices, and what a match is worth beyond its probability."""
    a = counts.matched.sum() / max(counts.possible, 1)  # of all pairs of images
    a_ij = np.minimum((counts.matched + PRIOR * a) / (counts.pairs + PRIOR), MOST_A)
    image_pair = -np.log(1 - a_ij).astype(np.float32)
    return Learnt(np.full(3, SHARE), image_pair, _independence(counts.confirmed))


def _independence(confirmed: FloatArray) -> float:
    """Return what a match is worth beyond its probability where wrong matches are independent.

    max(0, log(a / b) − 1.5); b as if it had been counted in 30 pairs more that are as usual.
    """
    (confirmed_in, possible_in), (confirmed_out, possible_out) = confirmed
    if possible_out == 0:
        return 0.0
    a = min(max(confirmed_in / max(possible_in, 1), LEAST_A), MOST_A)
    b = (confirmed_out + PRIOR * a * np.exp(-USUAL)) / (possible_out + PRIOR)
    return float(max(np.log(a / max(b, LEAST_B)) - USUAL, 0.0))


def evidence(probability: FloatArray, theta: float) -> FloatArray:
    """Return what matches count for a track (n,): log-odds beyond those of θ."""
    worth, of_theta = np.empty(len(probability)), _log_odds(np.array([theta]))

    def fill(part: slice) -> None:
        worth[part] = _log_odds(probability[part]) - of_theta

    map_blocks(fill, len(worth), BLOCK)
    return worth


def _log_odds(probability: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)))
