"""ClusterSync: synchronisation by correlation clustering with prices learnt from the matches."""

import numpy as np

from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.clustersync.graph import Prices, build_graph, grow, support
from nmfsync.synchronisation.clustersync.prices import count_matches, learn
from nmfsync.synchronisation.clustersync.search import search
from nmfsync.types.matches import MultiMatching, PairwiseMatches

FIRST_PRICE = 0.1  # of a missing match in the first clustering, from which the others are learnt

ROUNDS_TO_LEARN = 2  # of the search before: what is learnt hardly depends on the rest


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
    strength = theta / max(1 - theta, 1e-3)  # a thousand matches do not outweigh a missing one
    with phase(None, "Clustering", "round") as shown:
        W = build_graph(matches.W, matches.sizes)
        seen = count_matches(W) > 0
        label = grow(W, support(W))
        rewards = np.ones(len(W.weight))
        prices = Prices(np.full(3, FIRST_PRICE), seen.astype(np.float32), 1.0)
        for _ in range(updates):
            label = search(
                W._replace(weight=W.weight * rewards), prices, label, ROUNDS_TO_LEARN, shown.update
            )
            rewards, prices = learn(W, label, strength)
        label = search(W._replace(weight=W.weight * rewards), prices, label, done=shown.update)
    return MultiMatching(label, matches.sizes)
