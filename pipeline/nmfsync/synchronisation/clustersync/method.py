"""ClusterSync: synchronisation by correlation clustering with prices learnt from the matches."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nmfsync.errors import NmfsyncWarning
from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.clustersync.graph import MatchGraph, build_graph, keep_uncontradicted
from nmfsync.synchronisation.clustersync.prices import Prices, first_prices, learn, log_likelihood
from nmfsync.synchronisation.clustersync.search import search
from nmfsync.synchronisation.clustersync.start import grow, support
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, PairwiseMatches

ROUNDS_TO_LEARN = 2  # of the search before: what is learnt hardly depends on the rest

# Factor on the prices of missing matches while they are learnt: that of the default θ. With 1, the
# tracks of House fall apart, which has 111 images.
STRENGTH_TO_LEARN = 0.4 / 0.6

LEAST_REST = 1e-3  # of 1 − θ in θ / (1 − θ): a missing match then outweighs hundreds of matches

FEW_IMAGES = 5  # or less: there are few cycles, and what contradicts them is as often right


def clustersync(matches: PairwiseMatches, theta: float, updates: int = 3) -> MultiMatching:
    """Synchronise by correlation clustering, with prices learnt from the matches.

    Maximises the score ::

          Σ  w_pq r_ij                       over matched pairs p, q in one cluster
        − θ / (1 − θ) · Σ  f_ij c_h(p,q)     over the other pairs p, q in one cluster
        − Σ  π_n                             over clusters, n their number of features

    over all partitions of the features into clusters with at most one feature of
    an image in a cluster. So every cluster is a track, and the result is
    cycle-consistent. Feature p is in image i and feature q in image j, and

    - w_pq is the weight of the match in W, relative to the mean;
    - r_ij > 0 is the reward of a match between images i and j;
    - c_h ≥ 0 is the price of a missing match, where h = 0, 1 or 2 of p and q
      have another match in the image of the other;
    - f_ij ≥ 0 is a factor on it: how much a missing match between images i and j
      means; 0 if no features of the two are matched;
    - π_n is the price of a cluster of n features, low if such tracks are frequent;
    - θ is the only parameter: it weighs missing matches against matches.

    Rewards and prices are logarithms of ratios of probabilities, for features of
    one point and of different points. They are estimated from a clustering, and
    then used for the next one.

    Parameters
    ----------
    matches : PairwiseMatches
    theta : float
        θ in [0, 1]. Larger values give fewer, surer matches. With ½, missing
        matches count as much as the estimates say. With 0 they count nothing, and
        tracks are as long as images and the prices of clusters allow. With 1, only
        features that are all matched with each other stay together.
    updates : int
        How often rewards and prices are estimated anew.

    Returns
    -------
    MultiMatching

    Warns
    -----
    NmfsyncWarning
        If the result is likely no better than the input: it differs, all weights are
        equal, and there are five images or less, or the matches are less probable
        with these tracks than if no two features showed one point.

    Notes
    -----
    *Estimates.* Let a be the probability that two features of one point are
    matched, and b that two features of different points are, if another match
    connects the two points already. They are estimated by how often matches
    confirm each other. There are M_cd matches among the N_cd pairs of features of
    the clusters c and d, and M_cc among the N_cc pairs within cluster c. For each
    of M matches among N pairs, M − 1 of the N − 1 others are matched as well.
    Averaged over all matches, ::

        a = Σ M_cc (M_cc − 1) / Σ M_cc (N_cc − 1)    over clusters c
        b = Σ M_cd (M_cd − 1) / Σ M_cd (N_cd − 1)    over pairs of clusters c ≠ d

    and b is at least b₀ = Σ M_cd / Σ N_cd, the probability of a match by chance.
    So b is next to that if wrong matches are independent, and large if they confirm
    each other. Now let

    - M_ij be the number of matches among the N_ij pairs of features of the images
      i and j that are within clusters;
    - s_h and e_h be the shares of kind h of the missing matches within clusters,
      and of those between clusters, in images with any matches;
    - v = (n + ½) / (k + 1) be the visibility of a track of n ≥ 2 features in k
      images, and u the number of features that are alone, divided by k;
    - E_n be the expected number of tracks in exactly n given images: of tracks as
      visible as those found, of one of any size, and of features that are alone.

    Then ::

        a_ij = (M_ij + 30 a) / (N_ij + 30)
        r_ij = log(a_ij / b) / log(a / b)
        f_ij = log((1 − b) / (1 − a_ij)) / log((1 − b) / (1 − a))
        c_h = max(0, log((1 − b) e_h / ((1 − a) s_h))) / log(a / b)
        E_n = Σ vⁿ (1 − v)ᵏ⁻ⁿ over tracks + 1 / ((k + 1) (k choose n)) + (u if n = 1)
        π_n = −(log E_n + (n − 1) log(b / b₀)) / log(a / b)

    In π_n, the n − 1 matches that hold a cluster together count log(a / b₀), as no
    other match connected its features before. The bounds that keep these numbers
    finite are in `prices.py`.

    *Algorithm.* The problem is NP-hard; the result is a local optimum.

    1. Grow clusters along the matches, in order of the share of other matches of
       the two features that agree with a match.
    2. Search with r_ij = f_ij = 1 and c_h for a = 0.9 and b the share of all pairs
       that are matched. Estimate rewards and prices, and search again; `updates`
       estimates in all, with θ = 0.4. Do so twice, from π_n as if half of the
       features were alone and the others in tracks of any size, and from π_n = 0:
       what is learnt confirms what it was learnt from, be it too strict or too lax.
    3. Of the two, take the clustering that is more probable together with the
       matches, and search with what was learnt from it, and with θ.
    4. Where nothing contradicts matches, they stay, whatever the price: where the
       features that they connect are in different images, and all matched with each
       other if their images are matched at all.

    In 3., the logarithm of the probability is, but for a constant, ::

        Σ M log(M / N) + (N − M) log(1 − M / N)      over pairs within clusters, and others
        + Σ (log E_n − 1)                            over clusters

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
    Six images see the same two points, which the first two take for each other.

    >>> right = {(p, q) for q in range(12) for p in range(q % 2, q, 2)}
    >>> p, q = zip(*(right - {(0, 2), (1, 3)} | {(0, 3), (1, 2)}))
    >>> matches = PairwiseMatches.from_entries(p, q, [2, 2, 2, 2, 2, 2])
    >>> clustersync(matches, theta=0.4).universe.tolist()
    [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    """
    strength = theta / max(1 - theta, LEAST_REST)
    with phase(None, "Clustering", "round") as bar:
        graph = build_graph(matches.W, matches.sizes)
        graph = graph._replace(weight=graph.weight * (len(graph.weight) / graph.weight.sum()))
        grown = grow(graph, support(graph))
        firsts = [first_prices(graph, mixed) for mixed in (True, False)]
        starts = [_learn(graph, grown, first, updates, bar.update) for first in firsts]
        best = max(starts, key=lambda start: start.log_likelihood)
        rewarded = graph._replace(weight=graph.weight * best.rewards)
        prices = best.prices._replace(missing=strength * best.prices.missing)
        label = search(rewarded, prices, best.label, done=bar.update)
        label = keep_uncontradicted(graph, label)
    _warn_of_doubts(graph, label)
    return MultiMatching(label, matches.sizes)


class _Start(NamedTuple):
    """A clustering, what is learnt from it, and how probable it is."""

    label: IntArray
    rewards: FloatArray
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
    rewards, learnt_from = np.ones(len(graph.weight)), None
    for _ in range(updates):
        rewarded = graph._replace(weight=graph.weight * rewards)
        charged = prices._replace(missing=STRENGTH_TO_LEARN * prices.missing)
        label = search(rewarded, charged, label, ROUNDS_TO_LEARN, done)
        if learnt_from is not None and np.array_equal(label, learnt_from):
            break
        rewards, prices = learn(graph, label)
        learnt_from = label
    return _Start(label, rewards, prices, log_likelihood(graph, label))


def _warn_of_doubts(graph: MatchGraph, label: IntArray) -> None:
    """Say so if the result is likely no better than the matches are, which have no weights."""
    k, m = len(graph.offset) - 1, len(label)
    size = np.bincount(label)
    kept = label[graph.feature] == label[graph.other]
    same = kept.all() and kept.sum() == (size * (size - 1)).sum()
    if same or np.ptp(graph.weight) > 0:
        return
    if k <= FEW_IMAGES:
        reason = f"{k} images are too few to tell which of contradicting matches are right"
    elif log_likelihood(graph, label) < log_likelihood(graph, np.arange(m)):
        reason = "the matches contradict each other nearly as much as random ones"
    else:
        return
    warnings.warn(
        f"the result is likely no better than the input: {reason}", NmfsyncWarning, stacklevel=3
    )
