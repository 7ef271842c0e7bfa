"""Local search on the score of a clustering with at most one feature of an image in a cluster.

    score = Σ reward of the matches inside clusters
            − Σ price of the pairs inside clusters that are not matched
            − price of every cluster by its number of features

Two kinds of moves never lower it: all features of one image choose their
clusters anew, which is an exact assignment; and two clusters (or one and an
empty one) exchange features, which contains merging, splitting and swapping.
Everything is a count over the matches of a feature and the members of the
clusters it touches, so the cost of a sweep is linear in the number of matches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from nmfsync.synchronisation.clustersync.counts import count_confirmations, count_pairs_within
from nmfsync.synchronisation.clustersync.exchange import exchange_between_clusters
from nmfsync.synchronisation.clustersync.graph import MatchGraph, build_graph, connected_parts
from nmfsync.synchronisation.clustersync.prices import Prices, first_prices
from nmfsync.synchronisation.clustersync.reassign import reassign_images
from nmfsync.types.arrays import IntArray
from nmfsync.types.matches import PairwiseMatches

ROUNDS_TO_LEARN = 2  # of a search that others follow: what is learnt hardly depends on the rest

ROUNDS = 30  # of both moves at most: the last ones concern a handful of clusters


def score(graph: MatchGraph, prices: Prices, label: IntArray) -> float:
    """Score of a clustering, by the formula above: the slow reference that tests compare with.

    Parameters
    ----------
    graph : MatchGraph
    prices : Prices
    label : (m,) int array
        The cluster of every feature.

    Returns
    -------
    float
    """
    m, image = len(label), graph.image
    weight, seen = np.full((m, m), np.nan), np.zeros((m, len(graph.offset) - 1), dtype=int)
    weight[graph.feature, graph.other] = graph.weight
    seen[graph.feature, image[graph.other]] = 1
    # price_pq = missing[how many of the two see the image of the other] · image_pair_ij
    factor = np.zeros((len(graph.offset) - 1,) * 2)
    factor[graph.pairs.image, graph.pairs.other] = prices.image_pair
    price = prices.missing[seen[:, image] + seen[:, image].T] * factor[image][:, image]
    pairs = np.triu(label[:, None] == label, 1)
    gain = np.where(np.isnan(weight), -price, weight)
    sizes = np.unique(label, return_counts=True)[1]
    return float(gain[pairs].sum() - prices.track[sizes].sum())


def search(
    graph: MatchGraph,
    prices: Prices,
    label: IntArray,
    rounds: int = ROUNDS,
    done: Callable[[], Any] = lambda: None,
) -> IntArray:
    """Improve a clustering until no move raises its score.

    Parameters
    ----------
    graph : MatchGraph
        Its weights are the rewards.
    prices : Prices
    label : (m,) int64 array
        The cluster of every feature, a number below m. No two features of one
        image have the same.
    rounds : int
        Stop after so many rounds of both moves in any case.
    done : callable
        Called after every round.

    Returns
    -------
    (m,) int64 array
    """
    label = label.copy()
    moved = exchanged = np.ones(len(label), dtype=np.bool_)  # clusters that changed of late
    for _ in range(rounds):
        moved = reassign_images(graph, prices, label, moved | exchanged)
        exchanged = exchange_between_clusters(graph, prices, label, moved | exchanged)
        done()
        if not (moved.any() or exchanged.any()):
            break
    return connected_parts(graph, label)


def compile_later_steps(matches: PairwiseMatches) -> None:
    """Compile what a search needs after its first move, which is most of all."""
    graph = build_graph(matches.W, matches.sizes)
    label, changed = np.arange(len(graph.image)), np.ones(len(graph.image), dtype=np.bool_)
    exchange_between_clusters(graph, first_prices(graph, False), label, changed)
    connected_parts(graph, label)
    count_pairs_within(graph, label)
    count_confirmations(graph, label)
