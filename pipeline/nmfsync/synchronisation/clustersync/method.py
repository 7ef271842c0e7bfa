"""ClusterSync: synchronisation by correlation clustering with prices learnt from the matches."""

import numpy as np

from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.clustersync.graph import build_graph, count_matches
from nmfsync.synchronisation.clustersync.prices import Prices, learn
from nmfsync.synchronisation.clustersync.search import search
from nmfsync.synchronisation.clustersync.start import grow, support
from nmfsync.types.matches import MultiMatching, PairwiseMatches

# Prices of the first clustering, from which the others are learnt. A match has the reward 1.

FIRST_PRICE = 0.1  # of a missing match: one match outweighs ten, or noise would split all tracks

FIRST_OPENING = 1.0  # of a cluster: as much as a match

ROUNDS_TO_LEARN = 2  # of the search before: what is learnt hardly depends on the rest

LEAST_REST = 1e-3  # 1 − θ in θ / (1 − θ): at θ = 1, no number of matches outweighs a missing one


def clustersync(matches: PairwiseMatches, theta: float, updates: int = 2) -> MultiMatching:
    """Synchronise by clustering the features, with prices learnt from the matches.

    A cluster holds at most one feature of an image. Every match inside a
    cluster is rewarded, every missing one is charged, by how likely they are
    for features of one point and of different points. These probabilities, and
    how reliable every pair of images is, are counted in the clustering itself
    and used for the next one. Cost and memory grow linearly with the number of
    matches (and with k² for the reliabilities).

    Parameters
    ----------
    matches : PairwiseMatches
        A weight below 1 counts as that part of a match.
    theta : float
        How much missing matches count against a track, in [0, 1]: ½ as much as
        the matches themselves tell, 0 nothing (what is connected goes together,
        as far as images allow), and with 1 only features that are all matched
        with each other stay together. Charges are multiplied by θ / (1 − θ).
    updates : int
        How often the probabilities are counted anew.

    Returns
    -------
    MultiMatching

    References
    ----------
    The objective is correlation clustering (Bansal, Blum & Chawla 2004) with
    one feature of an image in a cluster, as in Kahl et al., CVPR 2025; prices,
    start and search are described in docs/clustersync.md.
    """
    strength = theta / max(1 - theta, LEAST_REST)
    with phase(None, "Clustering", "round") as bar:
        graph = build_graph(matches.W, matches.sizes)
        compared = count_matches(graph) > 0
        label = grow(graph, support(graph))
        rewards = np.ones(len(graph.weight))
        prices = Prices(np.full(3, FIRST_PRICE), compared.astype(np.float32), FIRST_OPENING)
        for _ in range(updates):
            rewarded = graph._replace(weight=graph.weight * rewards)
            label = search(rewarded, prices, label, ROUNDS_TO_LEARN, bar.update)
            rewards, prices = learn(graph, label, strength)
        rewarded = graph._replace(weight=graph.weight * rewards)
        label = search(rewarded, prices, label, done=bar.update)
    return MultiMatching(label, matches.sizes)
