"""Correlation clustering with at most one feature of an image in a cluster.

The compiled heart of `clustersync`: local search on the score of a clustering,

    score = Σ reward of the matches inside clusters
            − Σ price of the pairs inside clusters that are not matched
            − opening · (number of clusters),

by two kinds of moves that never lower it: all features of one image choose
their clusters anew, which is an exact assignment; and two clusters (or one and
an empty one) exchange features, which contains merging, splitting and swapping.
Everything is a count over the matches of a feature and the members of the
clusters it touches, so the cost of a sweep is linear in the number of matches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from nmfsync.synchronisation.clustersync.exchange import exchange_between_clusters
from nmfsync.synchronisation.clustersync.graph import MatchGraph, Prices, connected_parts
from nmfsync.synchronisation.clustersync.reassign import reassign_images
from nmfsync.types.arrays import IntArray

ROUNDS = 30


def score(matches: MatchGraph, prices: Prices, label: IntArray) -> float:
    """Score of a clustering, as written at the top: slow, but plain; for tests.

    Parameters
    ----------
    matches : MatchGraph
    prices : Prices
    label : (m,) int array
        The cluster of every feature.

    Returns
    -------
    float
    """
    m, image = len(label), matches.image
    row = np.repeat(np.arange(m), np.diff(matches.first))
    weight, seen = np.zeros((m, m)), np.zeros((m, len(matches.offset) - 1), dtype=int)
    weight[row, matches.other] = matches.weight
    seen[row, image[matches.other]] = 1
    price = prices.missing[seen[:, image] + seen[:, image].T] * prices.image_pair[image][:, image]
    pairs = np.triu(label[:, None] == label, 1)
    gain = np.where(weight > 0, weight, -price)
    return float(gain[pairs].sum() - prices.opening * len(np.unique(label)))


def search(
    matches: MatchGraph,
    prices: Prices,
    label: IntArray,
    rounds: int = ROUNDS,
    done: Callable[[], Any] = lambda: None,
) -> IntArray:
    """Improve a clustering until no move raises its score.

    Parameters
    ----------
    matches : MatchGraph
    prices : Prices
    label : (m,) int64 array
        Numbers below m. No two features of one image have the same.
    rounds : int
        Stop after so many rounds of both moves in any case.
    done : callable
        Called after every round.

    Returns
    -------
    (m,) int64 array
    """
    label = label.copy()
    moved = exchanged = np.ones(len(label), dtype=np.bool_)
    for _ in range(rounds):
        moved = reassign_images(matches, prices, label, moved | exchanged)
        exchanged = exchange_between_clusters(matches, prices, label, moved | exchanged)
        done()
        if not (moved.any() or exchanged.any()):
            break
    return connected_parts(matches, label)
