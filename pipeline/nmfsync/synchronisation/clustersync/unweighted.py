"""Clustering of matches that all count the same: rewards and prices are learnt from cycles."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nmfsync.errors import NmfsyncWarning
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.clustersync.graph import MatchGraph, keep_uncontradicted, of_matches
from nmfsync.synchronisation.clustersync.prices import Prices, first_prices, learn, log_likelihood
from nmfsync.synchronisation.clustersync.search import ROUNDS_TO_LEARN, search
from nmfsync.synchronisation.clustersync.start import grow, support
from nmfsync.types.arrays import FloatArray, IntArray

# Factor on the prices of missing matches while they are learnt: that of the default θ. With 1, the
# tracks of House fall apart, which has 111 images.
STRENGTH_TO_LEARN = 0.4 / 0.6

LEAST_REST = 1e-3  # of 1 − θ in θ / (1 − θ): a missing match then outweighs hundreds of matches

FEW_IMAGES = 5  # or less: there are few cycles, and what contradicts them is as often right


def cluster_unweighted(
    graph: MatchGraph, theta: float, updates: int, done: Callable[[], Any]
) -> IntArray:
    """Cluster matches of which nothing is known but that they are there.

    The objective and the estimates are in the docstring of `clustersync`.

    Parameters
    ----------
    graph : MatchGraph
        Its weights do not count.
    theta : float
    updates : int
        How often rewards and prices are estimated anew, at most.
    done : callable
        Called after every round.

    Returns
    -------
    (m,) int64 array
        The cluster of every feature.

    Warns
    -----
    NmfsyncWarning
        As `clustersync`.
    """
    strength = theta / max(1 - theta, LEAST_REST)
    graph = graph._replace(weight=np.ones(len(graph.weight)))
    grown = grow(graph, support(graph))
    firsts = [first_prices(graph, mixed) for mixed in (True, False)]
    starts = map_blocks(
        lambda part: _learn(graph, grown, firsts[part.start], updates, done), len(firsts), 1
    )
    best = max(starts, key=lambda start: start.log_likelihood)
    rewarded = _rewarded(graph, best.rewards)
    prices = best.prices._replace(missing=strength * best.prices.missing)
    label = keep_uncontradicted(graph, search(rewarded, prices, best.label, done=done))
    _warn_of_doubts(graph, label)
    return label


class _Start(NamedTuple):
    """A clustering, what is learnt from it, and how probable it is."""

    label: IntArray
    rewards: FloatArray | None  # by pair of images; None: 1
    prices: Prices
    log_likelihood: float


def _learn(
    graph: MatchGraph,
    label: IntArray,
    prices: Prices,
    updates: int,
    done: Callable[[], Any],
) -> _Start:
    """Search with these prices, and learn others from the result; `updates` times at most."""
    rewards, learnt_from = None, None
    for _ in range(updates):
        charged = prices._replace(missing=STRENGTH_TO_LEARN * prices.missing)
        label = search(_rewarded(graph, rewards), charged, label, ROUNDS_TO_LEARN, done)
        if learnt_from is not None and np.array_equal(label, learnt_from):
            break
        rewards, prices = learn(graph, label)
        learnt_from = label
    return _Start(label, rewards, prices, log_likelihood(graph, label))


def _rewarded(graph: MatchGraph, rewards: FloatArray | None) -> MatchGraph:
    return graph if rewards is None else graph._replace(weight=of_matches(graph, rewards))


def _warn_of_doubts(graph: MatchGraph, label: IntArray) -> None:
    """Say so if the result is likely no better than the matches are."""
    k, m = len(graph.offset) - 1, len(label)
    size = np.bincount(label)
    numbers = label.astype(np.int32)  # half the memory
    kept = numbers[graph.feature] == numbers[graph.other]
    same = kept.all() and kept.sum() == (size * (size - 1)).sum()
    if same:
        return
    if k <= FEW_IMAGES:
        reason = f"{k} images are too few to tell which of contradicting matches are right"
        remedy = "add images, or weights of the matches"
    elif log_likelihood(graph, label) < log_likelihood(graph, np.arange(m)):
        reason = "the matches contradict each other nearly as much as random ones"
        remedy = "verify the matches first, or add weights of the matches"
    else:
        return
    text = f"the result is likely no better than the input: {reason}; {remedy}"
    warnings.warn(text, NmfsyncWarning, stacklevel=4)
