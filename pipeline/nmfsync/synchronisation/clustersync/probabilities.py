"""Clustering of matches whose weights are probabilities: log-odds instead of learnt rewards."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logit

from nmfsync.synchronisation.clustersync.counts import count_confirmations, count_pairs_within
from nmfsync.synchronisation.clustersync.graph import MatchGraph, matches_where
from nmfsync.synchronisation.clustersync.prices import LEAST_A, LEAST_B, MOST_A, PRIOR, Prices
from nmfsync.synchronisation.clustersync.search import ROUNDS_TO_LEARN, search
from nmfsync.synchronisation.clustersync.start import grow, support
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import LEAST_PROBABILITY

# log(a / b) of photographs is 0.8 to 1.8: a wrong match there is confirmed by others, because it
# connects things that look alike.
USUAL = 1.5

# Share of −log(1 − a_ij) that a missing match costs. Missing matches of a feature go together:
# where it is hard to see, many are missing.
SHARE = 0.1

FIRST_PRICE = 0.25  # of a missing match in the first clustering


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
    evidence = _log_odds(graph.weight) - _log_odds(np.array([theta]))
    signed = graph._replace(weight=evidence)
    likely = matches_where(signed, signed.weight > 0)
    label = grow(likely, likely.weight * support(likely))
    everywhere = np.ones(len(graph.pairs.other), np.float32)
    free = np.zeros(len(graph.offset))  # clusters of any size cost nothing
    prices = Prices(np.full(3, FIRST_PRICE), everywhere, free)
    for _ in range(updates):
        label = search(signed, prices, label, ROUNDS_TO_LEARN, done)
        pairs, matched, _ = count_pairs_within(graph, label)
        size = np.bincount(label)
        a = matched.sum() / max((size * (size - 1)).sum(), 1)  # of all pairs of images
        a_ij = np.minimum((matched + PRIOR * a) / (pairs + PRIOR), MOST_A)
        prices = Prices(np.full(3, SHARE), -np.log(1 - a_ij).astype(np.float32), free)
        signed = graph._replace(weight=evidence + _independence(graph, label))
    return search(signed, prices, label, done=done)


def _independence(graph: MatchGraph, label: IntArray) -> float:
    """Return what a match is worth beyond its probability where wrong matches are independent.

    max(0, log(a / b) − 1.5); b as if it had been counted in 30 pairs more that are as usual.
    """
    (confirmed_in, possible_in), (confirmed_out, possible_out) = count_confirmations(graph, label)
    if possible_out == 0:
        return 0.0
    a = min(max(confirmed_in / max(possible_in, 1), LEAST_A), MOST_A)
    b = (confirmed_out + PRIOR * a * np.exp(-USUAL)) / (possible_out + PRIOR)
    return float(max(np.log(a / max(b, LEAST_B)) - USUAL, 0.0))


def _log_odds(probability: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)))
