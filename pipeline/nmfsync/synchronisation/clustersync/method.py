"""ClusterSync: synchronisation by correlation clustering, with prices learnt from the matches."""

from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.clustersync.graph import MatchGraph, build_graph
from nmfsync.synchronisation.clustersync.probabilities import cluster_by_probability
from nmfsync.synchronisation.clustersync.unweighted import cluster_unweighted
from nmfsync.types.matches import MultiMatching, PairwiseMatches

# The probability that a verified match is right if nothing else is known of it. Wrong ones are few,
# so that without a contradiction they stay; with a number from 0.7 to 0.98, results are the same.
VERIFIED = 0.9


def clustersync(matches: PairwiseMatches, theta: float, updates: int = 3) -> MultiMatching:
    """Synchronise by correlation clustering, with prices learnt from the matches.

    Maximises the score ::

        Σ e_pq  over matched pairs p, q in one cluster
        − Σ c_pq  over the other pairs p, q in one cluster
        − Σ π_n  over clusters, n their number of features

    over all partitions of the features into clusters with at most one feature of
    an image in a cluster. So every cluster is a track, and the result is
    cycle-consistent. e_pq is the evidence of a match, c_pq ≥ 0 the price of a
    missing one, and π_n the price of a cluster. All are logarithms of ratios of
    probabilities, for features of one point and of different points; they are
    estimated from a clustering, and then used for the next one. Feature p is in
    image i and feature q in image j.

    *If the weights of W are probabilities P that matches are right*, ::

        e_pq = log(P / (1 − P)) − log(θ / (1 − θ)) + max(0, log(a / b) − 1.5)
        c_pq = −0.1 log(1 − a_ij),  π_n = 0

    where a_ij is the share of the pairs of features of images i and j in one
    cluster that are matched. So on photographs a match speaks for a track if P > θ,
    and against it if P < θ. There, log(a / b) is about 1, because wrong matches
    confirm each other; where they do not, matches that agree are worth more.

    *If all weights are equal and the matches are verified* (`verify`, or COLMAP's own
    verification), P = 0.9 for all of them.

    *If all weights are equal* otherwise, ::

        e_pq = r_ij,  c_pq = θ / (1 − θ) f_ij c_h,  π_n as below

    - r_ij > 0 is the reward of a match between images i and j;
    - c_h ≥ 0 is the price of a missing match, where h = 0, 1 or 2 of p and q
      have another match in the image of the other;
    - f_ij ≥ 0 is a factor on it: how much a missing match between images i and j
      means; 0 if no features of the two are matched;
    - π_n is low if tracks of n features are frequent.

    In both cases θ is the only parameter: how sure a track must be.

    Parameters
    ----------
    matches : PairwiseMatches
    theta : float
        θ in [0, 1]: how sure a track must be. Larger values give fewer, surer
        matches. With probabilities, θ is that of a match that counts nothing (on
        photographs). With
        equal weights and θ = ½, missing matches count as much as the estimates say;
        with 0 they count nothing, and tracks are as long as images and the prices of
        clusters allow; with 1, only features that are all matched with each other
        stay together.
    updates : int
        How often what is learnt is estimated anew.

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
    *Probabilities.* The first clustering has c_pq = 0.25 and no further evidence.
    Pairs of images that were never matched charge nothing. In b, as defined below,
    30 more pairs of features count that are as usual on photographs.

    *Estimates with equal weights.* Let a be the probability that two features of one point are
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

    *Algorithm.* The problem is NP-hard; the result is a local optimum. With equal
    weights:

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
    clusters that share matches; of more than 256 features in both, O(l) times the
    number of images that an image has matches with. Memory is O(n + m): of pairs of
    images without matches nothing is kept.

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
    wrong, and less probable.

    >>> right, wrong = [(0, 4), (1, 5), (2, 4), (3, 5)], [(0, 3), (1, 2)]
    >>> p, q = zip(*right, *wrong)
    >>> weights = [0.9] * len(right) + [0.3] * len(wrong)
    >>> matches = PairwiseMatches.from_entries(p, q, [2, 2, 2], weights)
    >>> clustersync(matches, theta=0.4).universe.tolist()
    [0, 1, 0, 1, 0, 1]

    Six images see the same two points, which the first two take for each other.

    >>> right = {(p, q) for q in range(12) for p in range(q % 2, q, 2)}
    >>> p, q = zip(*(right - {(0, 2), (1, 3)} | {(0, 3), (1, 2)}))
    >>> matches = PairwiseMatches.from_entries(p, q, [2, 2, 2, 2, 2, 2])
    >>> clustersync(matches, theta=0.4).universe.tolist()
    [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    """
    probable = matches.weighted or matches.verified
    cluster = cluster_by_probability if probable else cluster_unweighted
    with phase(None, "Clustering", "round") as bar:
        # Nobody else holds the graph, so that weights that are replaced are gone.
        label = cluster(_graph_of(matches), theta, updates, bar.update)
    return MultiMatching(label, matches.sizes)


def _graph_of(matches: PairwiseMatches) -> MatchGraph:
    graph = build_graph(matches.W, matches.sizes)
    if matches.verified and not matches.weighted:
        return graph._replace(weight=VERIFIED * graph.weight)
    return graph
