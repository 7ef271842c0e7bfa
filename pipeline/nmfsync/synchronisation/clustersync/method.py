"""ClusterSync: synchronisation by correlation clustering with prices learnt from the matches."""

import numpy as np

from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.clustersync.graph import build_graph, count_matches
from nmfsync.synchronisation.clustersync.prices import Prices, learn
from nmfsync.synchronisation.clustersync.search import search
from nmfsync.synchronisation.clustersync.start import grow, support
from nmfsync.types.matches import MultiMatching, PairwiseMatches

# Prices of the first clustering, from which the others are learnt. A match has the reward 1.

# Of a missing match. Low, because noise takes many matches from a track: with 0.5, so many
# tracks fall apart that the rest teaches less.
FIRST_PRICE = 0.1

FIRST_OPENING = 1.0  # of a cluster: as much as a match; 0 or 2 makes little difference

ROUNDS_TO_LEARN = 2  # of the search before: what is learnt hardly depends on the rest

LEAST_REST = 1e-3  # of 1 − θ in θ / (1 − θ): a missing match then outweighs hundreds of matches


def clustersync(matches: PairwiseMatches, theta: float, updates: int = 2) -> MultiMatching:
    """Synchronise by correlation clustering, with prices learnt from the matches.

    Maximises the score ::

          Σ  w_pq r_ij                       over matched pairs p, q in one cluster
        − θ / (1 − θ) · Σ  f_ij c_h(p,q)     over the other pairs p, q in one cluster
        − γ · (number of clusters)

    over all partitions of the features into clusters with at most one feature of
    an image in a cluster. So every cluster is a track, and the result is
    cycle-consistent. Feature p is in image i and feature q in image j, and

    - w_pq is the weight of the match in W, 1 in 0/1 matrices;
    - r_ij > 0 is the reward of a match between images i and j;
    - c_h ≥ 0 is the price of a missing match, where h = 0, 1 or 2 of p and q
      have another match in the image of the other;
    - f_ij ≥ 0 is a factor on it: how much a missing match between images i and j
      means; 0 if no features of the two are matched;
    - γ ≥ 0 is the price of opening a cluster;
    - θ is the only parameter: it weighs missing matches against matches.

    Rewards and prices are logarithms of ratios of probabilities, for features of
    one point and of different points. They are estimated from a clustering, and
    then used for the next one.

    Parameters
    ----------
    matches : PairwiseMatches
    theta : float
        θ in [0, 1]. Larger values give fewer, surer matches. With ½, missing
        matches count as much as the estimates say. With 0 they count nothing:
        what is connected goes together, as far as images allow. With 1, only
        features that are all matched with each other stay together.
    updates : int
        How often rewards and prices are estimated anew.

    Returns
    -------
    MultiMatching

    Notes
    -----
    *Estimates.* Let a be the probability that two features of one point are
    matched, and b that two features of different points are. They are estimated
    by how often matches confirm each other. There are M_cd matches among the N_cd
    pairs of features of the clusters c and d, and M_cc among the N_cc pairs within
    cluster c. For each of M matches among N pairs, M − 1 of the N − 1 others are
    matched as well. Averaged over all matches, ::

        a = Σ M_cc (M_cc − 1) / Σ M_cc (N_cc − 1)    over clusters c
        b = Σ M_cd (M_cd − 1) / Σ M_cd (N_cd − 1)    over pairs of clusters c ≠ d

    So b is next to 0 if wrong matches are independent, and large if they confirm
    each other. Now let

    - M_ij be the number of matches among the N_ij pairs of features of the images
      i and j that are within clusters;
    - s_h and e_h be the shares of kind h of the missing matches within clusters,
      and of those between clusters, in images with any matches;
    - v be the mean size of clusters with at least two features, divided by the
      number of images, and u the number of clusters with one, divided by the same.

    Then ::

        a_ij = (M_ij + 30 a) / (N_ij + 30)
        r_ij = log(a_ij / b) / log(a / b)
        f_ij = log((1 − b) / (1 − a_ij)) / log((1 − b) / (1 − a))
        c_h = max(0, log((1 − b) e_h / ((1 − a) s_h))) / log(a / b)
        γ = max(0, log(v / (1 − v) / (u + 0.02))) / log(a / b)

    The bounds that keep these numbers finite are in `prices.py`.

    *Algorithm.* The problem is NP-hard; the result is a local optimum.

    1. Grow clusters along the matches, in order of the share of other matches of
       the two features that agree with a match.
    2. Search with r_ij = f_ij = 1, θ / (1 − θ) · c_h = 0.1 and γ = 1.
    3. Estimate rewards and prices, and search again; `updates` times.

    The search alternates between two moves that never lower the score. All
    features of one image choose their clusters anew: an assignment problem,
    which shortest augmenting paths [4]_ solve exactly. And two clusters exchange
    features, or one is divided [5]_. In the end, clusters that no match holds
    together are taken apart. Nothing is random.

    *Cost.* With n matches, m features, k images and l features in a track,
    growing takes O(n log n) and the support O(n · matches of a feature). A round
    of the search takes O(n l) for the first move and O(l²) for every two
    clusters that share matches. Memory is O(n + m + k²).

    References
    ----------
    The problem is correlation clustering [1]_ with one feature of an image in a
    cluster, as in [2]_ and [3]_. The estimates and the search are ours.

    .. [1] Bansal, Blum, Chawla: Correlation clustering. Machine Learning 2004.
    .. [2] Swoboda, Kainmüller, Mokarian, Theobalt, Bernard: A convex relaxation for
       multi-graph matching. CVPR 2019.
    .. [3] Kahl, Stricker, Hutschenreiter, Bernard, Rother, Savchynskyy: Towards
       optimizing large-scale multi-graph matching in bioimaging. CVPR 2025.
    .. [4] Jonker, Volgenant: A shortest augmenting path algorithm for dense and
       sparse linear assignment problems. Computing 1987.
    .. [5] Kernighan, Lin: An efficient heuristic procedure for partitioning graphs.
       Bell System Technical Journal 1970.

    Examples
    --------
    Three images see the same two points. The matches between the first two are
    wrong, and have a low weight.

    >>> right, wrong = [(0, 4), (1, 5), (2, 4), (3, 5)], [(0, 3), (1, 2)]
    >>> p, q = zip(*right, *wrong)
    >>> weights = [0.9] * len(right) + [0.3] * len(wrong)
    >>> matches = PairwiseMatches.from_entries(p, q, [2, 2, 2], weights)
    >>> clustersync(matches, theta=0.4).universe.tolist()
    [0, 1, 0, 1, 0, 1]
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
