"""ClusterSync: its compiled parts against plain ones, its objective, and what it promises."""

import os
import subprocess
import sys
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import strategies
from nmfsync import MultiMatching, PairwiseMatches, evaluation, synchronise, synthetic
from nmfsync.runtime.threads import BLOCK
from nmfsync.synchronisation.clustersync import assignment, exchange, graph, reassign
from nmfsync.synchronisation.clustersync import prices as prices_module
from nmfsync.synchronisation.clustersync.graph import Prices, build_graph, grow, support
from nmfsync.synchronisation.clustersync.search import score, search

# By its full name: `clustersync` of the package is the function.
learning = import_module("nmfsync.synchronisation.clustersync.method")


def clustersync(matches, theta=0.4, **options):
    """With the default θ."""
    return learning.clustersync(matches, theta, **options)


SEEDS = st.integers(0, 2**32 - 1)
# Mean gt-errors of pylibmgm 1.1.3 over 20 instances of (k, d, rho, sigma): the best published.
CASES = [
    ((30, 20, 0.6, 0.4), 0.0),
    ((30, 20, 0.6, 0.6), 1.7),
    ((20, 20, 0.5, 0.5), 2.7),
    ((10, 20, 0.6, 0.4), 6.8),
    ((30, 20, 0.6, 0.7), 18.3),
]


def pairs(edges, sizes) -> PairwiseMatches:
    """Make matches from (p, q) or (p, q, weight), numbered through all images."""
    W = np.zeros((sum(sizes), sum(sizes)))
    for p, q, *weight in edges:
        W[p, q] = W[q, p] = weight[0] if weight else 1
    return PairwiseMatches(W, sizes)


def cliques(*tracks):
    """Return the matches between all features of a track."""
    return [(p, q) for track in tracks for p in track for q in track if p < q]


def noisy(k=12, d=10, rho=0.7, sigma=0.6, seed=1) -> PairwiseMatches:
    W, _, sizes = synthetic.generate(k=k, d=d, rho=rho, sigma=sigma, seed=seed)
    return PairwiseMatches(W, sizes)


def without_pairs(matches, left_out) -> PairwiseMatches:
    """Leave out all matches between some pairs of images."""
    W, image = matches.W.toarray(), matches.image_of
    for i, j in left_out:
        W[np.ix_(image == i, image == j)] = W[np.ix_(image == j, image == i)] = 0
    return PairwiseMatches(W, matches.sizes)


def read(matches) -> graph.MatchGraph:
    return build_graph(matches.W, matches.sizes)


def dense(matches) -> np.ndarray:
    """(m, m) weights without the diagonal."""
    A = matches.W.toarray()
    np.fill_diagonal(A, 0)
    return A


def partition(label) -> list[int]:
    """Number the clusters by their first feature."""
    return np.unique(label, return_index=True)[1][np.unique(label, return_inverse=True)[1]].tolist()


def is_valid(label, matches) -> bool:
    """No two features of an image are together."""
    return len(np.unique(np.column_stack([label, matches.image_of]), axis=0)) == len(label)


def random_prices(rng, matches) -> Prices:
    """Make random ones; pairs of images without matches charge nothing, and some others."""
    k = len(matches.sizes)
    seen = prices_module.count_matches(read(matches)) > 0
    factor = np.triu(rng.uniform(0, 2, (k, k)) * (rng.random((k, k)) < 0.8), 1) * seen
    return Prices(
        rng.uniform(0, 0.6, 3), (factor + factor.T).astype(np.float32), float(rng.uniform(0, 1.5))
    )


def random_labels(rng, matches) -> np.ndarray:
    """Make a random clustering with numbers below m."""
    m, widest = len(matches.image_of), max(matches.sizes)
    used = rng.choice(m, min(m, widest + rng.integers(4)), replace=False)
    return np.concatenate([rng.choice(used, size, replace=False) for size in matches.sizes]).astype(
        np.int64
    )


# --- Support, growing, assignment: against plain NumPy and SciPy -----------------------


@settings(max_examples=60, deadline=None)
@given(matches=strategies.pairwise_matches(weighted=True))
def test_support_is_the_share_of_matches_that_agree(matches):
    A = dense(matches)
    degree = (A > 0).sum(axis=1)
    p, q = np.nonzero(A)
    expected = [
        (A[a, b] + np.minimum(A[a], A[b]).sum()) / min(degree[a], degree[b]) if a < b else 0
        for a, b in zip(p, q, strict=True)
    ]
    np.testing.assert_allclose(support(read(matches)), expected, atol=1e-12)


def test_support_by_hand():
    """A triangle 0-1-2 with a tail 2-3-4: of the two or three matches of 2 and 3, one agrees."""
    matches = read(pairs([*cliques([0, 1, 2]), (2, 3), (3, 4)], [1] * 5))
    #                                   0-1  0-2       1-2            2-3       3-4
    assert support(matches).tolist() == [1, 1, 0, 1, 0, 0, 0.5, 0, 1, 0]


def plainly_grown(A, priority, image):
    """Join clusters along the matches, best first, where no image is in both."""
    p, q = np.nonzero(A)
    order = np.argsort(-priority, kind="stable")
    clusters = [{a} for a in range(len(A))]
    for a, b in zip(p[order], q[order], strict=True):
        if a < b and clusters[a] is not clusters[b]:
            both = clusters[a] | clusters[b]
            if len({image[c] for c in both}) == len(both):
                for c in both:
                    clusters[c] = both
    return [min(cluster) for cluster in clusters]


@settings(max_examples=60, deadline=None)
@given(matches=strategies.pairwise_matches(), seed=SEEDS)
def test_clusters_grow_along_the_best_matches(matches, seed):
    A = dense(matches)
    rng = np.random.default_rng(seed)
    priority = np.round(rng.random(A.shape), 1)  # with ties
    priority = (priority + priority.T)[np.nonzero(A)]
    label = grow(read(matches), priority)
    assert partition(label) == plainly_grown(A, priority, matches.image_of)


@settings(max_examples=150, deadline=None)
@given(rows=st.integers(0, 7), columns=st.integers(0, 7), seed=SEEDS, ties=st.booleans())
def test_assignment_is_as_good_as_the_exact_one(rows, columns, seed, ties):
    """A row that stays alone has a column of its own, at gain 0."""
    rng = np.random.default_rng(seed)
    allowed = rng.random((rows, columns)) < rng.choice([0.2, 0.5, 1.0])
    gain = rng.integers(1, 4, allowed.shape) * 1.0 if ties else rng.uniform(0, 1, allowed.shape)
    r, c = np.nonzero(allowed)
    first = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))]).astype(np.int64)
    chosen = assignment.assign(first, c, gain[r, c], columns)

    assigned = np.flatnonzero(chosen >= 0)
    assert allowed[assigned, chosen[assigned]].all()
    assert len(set(chosen[assigned])) == len(assigned)
    alone = np.where(np.eye(rows, dtype=bool), 0, -np.inf)
    padded = np.hstack([np.where(allowed, gain, -np.inf), alone])
    best = padded[linear_sum_assignment(padded, maximize=True)].sum()
    assert gain[assigned, chosen[assigned]].sum() == pytest.approx(best, abs=1e-12)


# --- The score and the moves -----------------------------------------------------------


def plain_gains(matches, prices) -> np.ndarray:
    """(m, m): what two features gain by being together, pair by pair."""
    A, image = dense(matches), matches.image_of
    gains = np.zeros_like(A)
    for p in range(len(A)):
        for q in range(len(A)):
            if A[p, q] > 0:
                gains[p, q] = A[p, q]
            elif image[p] != image[q]:
                others = int(A[p, image == image[q]].any()) + int(A[q, image == image[p]].any())
                gains[p, q] = -prices.missing[others] * prices.image_pair[image[p], image[q]]
    return gains


@settings(max_examples=30, deadline=None)
@given(matches=strategies.pairwise_matches(weighted=True), seed=SEEDS)
def test_score_counts_pair_by_pair(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    together = np.triu(label[:, None] == label, 1)
    expected = plain_gains(matches, prices)[together].sum()
    expected -= prices.opening * len(set(label.tolist()))
    assert score(read(matches), prices, label) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_no_move_lowers_the_score_or_puts_an_image_together(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    W, changed = read(matches), np.ones(len(label), dtype=np.bool_)
    before = score(W, prices, label)
    for move in (reassign.reassign_images, exchange.exchange_between_clusters):
        move(W, prices, label, changed)
        assert is_valid(label, matches)
        after = score(W, prices, label)
        assert after >= before - 1e-7
        before = after


@pytest.mark.parametrize(("opening", "together"), [(0.3, True), (0.1, False)])
def test_feature_joins_if_that_costs_less_than_a_cluster_of_its_own(opening, together):
    """With one match and two missing ones of .6 each."""
    matches = pairs([*cliques([0, 1, 2]), (2, 3)], [1, 1, 1, 1])
    label = np.array([0, 0, 0, 1])
    prices = Prices(np.full(3, 0.6), np.ones((4, 4), dtype=np.float32), opening)
    reassign.reassign_images(read(matches), prices, label, np.ones(4, dtype=np.bool_))
    assert (label[3] == label[0]) == together
    assert (label[:3] == label[0]).all()


@settings(max_examples=100, deadline=None)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_exchanges_only_say_so_if_the_score_rises(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    before, old = score(read(matches), prices, label), label.copy()
    changed = np.ones(len(label), dtype=np.bool_)
    exchanged = exchange.exchange_between_clusters(read(matches), prices, label, changed).any()
    assert exchanged == (score(read(matches), prices, label) > before + 1e-10)
    assert exchanged or (label == old).all()


def gains_of_neighbours(matches, prices, label) -> tuple[float, float]:
    """Best gain by moving one feature, and by merging two clusters that share ≥ 2 matches.

    A feature moves to a cluster in which it has a match, or to one of its own.
    """
    A, gains, image = dense(matches), plain_gains(matches, prices), matches.image_of
    clusters = [np.flatnonzero(label == c) for c in np.unique(label)]
    moving, merging = [0.0], [0.0]
    for number, a in enumerate(clusters):
        for p in a:
            leaving = -gains[p, a].sum() + (prices.opening if len(a) == 1 else 0)
            moving.append(leaving - prices.opening)
            moving += [
                leaving + gains[p, b].sum()
                for b in clusters
                if b is not a and A[p, b].any() and image[p] not in image[b]
            ]
        for b in clusters[number + 1 :]:
            shared = (A[np.ix_(a, b)] > 0).sum()
            if shared >= 2 and not set(image[a]) & set(image[b]):
                merging.append(gains[np.ix_(a, b)].sum() + prices.opening)
    return max(moving), max(merging)


# 111 needs another round when only features have moved, 205 the plain merge.
@pytest.mark.parametrize("seed", [*range(40), 111, 205])
def test_nothing_near_the_result_of_the_search_is_better(seed):
    """With the prices of the first clustering."""
    rng = np.random.default_rng(seed)
    matches = noisy(*rng.integers(3, 10, 2), *rng.uniform([0.4, 0.2], [1.0, 0.9]), seed)
    k = len(matches.sizes)
    prices = Prices(np.full(3, 0.1), np.ones((k, k), dtype=np.float32), 1.0)
    label = search(read(matches), prices, np.arange(len(matches.image_of)))
    assert is_valid(label, matches)
    assert max(gains_of_neighbours(matches, prices, label)) <= 1e-7


def test_features_that_no_match_holds_together_part():
    """0 and 1 cost nothing together, as their images were never matched, and gain nothing."""
    matches = pairs([(2, 3), (2, 4), (3, 4)], [1, 1, 1, 1, 1])
    factor = prices_module.count_matches(read(matches)).astype(np.float32)
    label = search(read(matches), Prices(np.ones(3), factor, 1.0), np.array([0, 0, 1, 1, 1]))
    assert partition(label) == [0, 1, 2, 2, 2]


# --- What is learnt, against dense computations ----------------------------------------


def clustered(seed):
    """Noisy matches between all pairs of images, and a clustering that is not perfect."""
    matches = noisy(d=16, rho=0.8, seed=seed)
    assert (prices_module.count_matches(read(matches)) > 0).sum() == 12 * 11
    return matches, grow(read(matches), support(read(matches)))


@pytest.mark.parametrize("seed", range(5))
def test_confirmations_are_counted_match_by_match(seed):
    """Of the pairs of clusters (or the cluster) of every match, the share that matches too."""
    matches, label = clustered(seed)
    A = dense(matches) > 0
    counts = np.zeros((2, 2))
    for p, q in np.argwhere(np.triu(A)):
        a, b = np.flatnonzero(label == label[p]), np.flatnonzero(label == label[q])
        among = A[np.ix_(a, b)]
        found, possible = among.sum(), among.size
        if label[p] == label[q]:
            found, possible = found / 2, len(a) * (len(a) - 1) / 2
        counts[int(label[p] != label[q])] += found - 1, possible - 1
    expected = counts[:, 0] / counts[:, 1]
    assert 0.05 < expected[0] < 0.98
    assert 1e-4 < expected[1] < 0.9 * expected[0]
    np.testing.assert_allclose(prices_module._confirmed(read(matches), label), expected)


def plain_pairs_within(A, image, label, k):
    pairs_within, found, missing = np.zeros((k, k)), np.zeros((k, k)), np.zeros(3)
    seen = learning_counts(A, image, k) > 0
    for p, q in np.argwhere(label[:, None] == label):
        if p != q:
            pairs_within[image[p], image[q]] += 1
            found[image[p], image[q]] += A[p, q] > 0
            if p < q and A[p, q] == 0 and seen[image[p], image[q]]:
                missing[partners(A, image, p, q)] += 1
    return pairs_within, found, missing


def learning_counts(A, image, k):
    """(k, k) number of matches between images."""
    shows = image[:, None] == np.arange(k)
    return shows.T @ (A > 0).astype(int) @ shows


def partners(A, image, p, q) -> int:
    """Count which of p and q have a match in the image of the other."""
    return int(A[p, image == image[q]].any()) + int(A[q, image == image[p]].any())


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_within_clusters_are_counted_one_by_one(seed, share):
    rng = np.random.default_rng(seed)
    matches, _ = clustered(seed)
    k = len(matches.sizes)
    matches = without_pairs(matches, np.argwhere(np.triu(rng.random((k, k)) < share, 1)))
    label = random_labels(rng, matches)
    expected = plain_pairs_within(dense(matches), matches.image_of, label, k)
    for ours, theirs in zip(
        prices_module._pairs_within(read(matches), label), expected, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("seed", range(3))
def test_prices_are_log_likelihood_ratios(seed):
    """Of matches and of missing ones, for features of one point and of two."""
    matches, label = clustered(seed)
    A, image, k = dense(matches), matches.image_of, len(matches.sizes)
    inside, between = prices_module._confirmed(read(matches), label)
    average = np.log(inside / between)
    number, found, same = plain_pairs_within(A, image, label, k)
    pair_inside = (found + 30 * inside) / (number + 30)  # as if of 30 pairs more
    different = np.zeros(3)
    for p, q in np.argwhere(np.triu(A == 0, 1)):
        if image[p] != image[q] and label[p] != label[q]:
            different[partners(A, image, p, q)] += 1
    missing_same = (1 - inside) * (same + 1) / (same + 1).sum()
    missing_different = (1 - between) * (different + 1) / (different + 1).sum()
    price = np.log(missing_different / missing_same)
    assert (price > 0).all()

    rewards, prices = prices_module.learn(read(matches), label, 0.5)
    np.testing.assert_allclose(prices.missing, 0.5 * price / average)
    factor = np.log((1 - between) / (1 - pair_inside)) / np.log((1 - between) / (1 - inside))
    apart = ~np.eye(k, dtype=bool)
    np.testing.assert_allclose(prices.image_pair[apart], factor[apart], rtol=1e-6)
    p, q = np.nonzero(A)
    np.testing.assert_allclose(rewards, np.log(pair_inside[image[p], image[q]] / between) / average)
    size = np.unique(label, return_counts=True)[1]
    visible, singles = size[size > 1].mean() / k, (size == 1).sum() / k
    opening = np.log(visible / (1 - visible) / (singles + 0.02)) / average
    assert prices.opening == pytest.approx(max(opening, 0))


def test_unreliable_pairs_of_images_count_less():
    """The matches between images 0 and 1 are all wrong, those between all others are right."""
    d, k = 6, 8
    tracks = np.arange(d * k).reshape(k, d).T
    A = dense(pairs(cliques(*tracks), [d] * k))
    A[:d, d : 2 * d] = np.roll(np.eye(d), 1, axis=1)
    A[d : 2 * d, :d] = A[:d, d : 2 * d].T
    W = read(PairwiseMatches(A, [d] * k))
    label = np.tile(np.arange(d), k)
    rewards, prices = prices_module.learn(W, label, 1.0)
    row = np.repeat(np.arange(d * k), np.diff(W.first))
    suspect = (row < d) & (W.other < 2 * d) & (W.other >= d)
    assert rewards[suspect].max() < rewards[row >= 2 * d].min()
    assert prices.image_pair[0, 1] < prices.image_pair[0, 2]


def test_pairs_of_images_without_matches_have_no_price():
    matches = without_pairs(noisy(), [(0, 1), (2, 5)])
    _, prices = prices_module.learn(read(matches), np.arange(len(matches.image_of)), 1.0)
    free = np.argwhere(np.triu(prices.image_pair == 0, 1))
    assert free.tolist() == [[0, 1], [2, 5]]


# --- The method ------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    matches=strategies.pairwise_matches(max_images=7, weighted=True),
    theta=st.sampled_from([0.0, 0.1, 0.4, 0.7, 1.0]),
)
def test_results_are_consistent_and_connected(matches, theta):
    """The type refuses a track that sees an image twice."""
    result = synchronise(matches, "clustersync", theta=theta)
    assert isinstance(result, MultiMatching)
    A = dense(matches)
    for track in range(result.universe_size):
        members = np.flatnonzero(result.universe == track)
        reached = members[:1]
        for _ in members:
            reached = members[
                (A[np.ix_(reached, members)] > 0).any(axis=0) | (members == reached[0])
            ]
        assert len(reached) == len(members)


@settings(max_examples=60, deadline=None)
@given(truth=strategies.multi_matchings(), seed=SEEDS)
def test_noise_free_matches_come_back_whatever_the_order(truth, seed):
    """Of the features in the images, and of the images."""
    assume(truth.sizes.sum())
    rng = np.random.default_rng(seed)
    images = rng.permutation(len(truth.sizes))
    order = np.lexsort((rng.random(len(truth.universe)), np.argsort(images)[truth.image_of]))
    result = clustersync(PairwiseMatches(truth.W[order][:, order], truth.sizes[images]))
    assert (
        result.universe.tolist()
        == MultiMatching(truth.universe[order], result.sizes).universe.tolist()
    )


@pytest.mark.parametrize(("case", "published"), CASES)
def test_gt_error_is_not_above_the_best_published(case, published):
    errors = []
    for seed in range(20):
        W, W_gt, sizes = synthetic.generate(*case, seed=seed)
        errors.append(evaluation.gt_error(clustersync(PairwiseMatches(W, sizes)).W, W_gt))
    assert np.mean(errors) <= published


def test_large_ring_is_solved():
    W, W_gt, sizes = synthetic.ring(k=60, d=1500, views=20, rho=0.75, sigma=0.2)
    result = clustersync(PairwiseMatches(W, sizes))
    assert evaluation.precision(result.W, W_gt) >= 0.999
    assert evaluation.recall(result.W, W_gt) >= 0.999


@pytest.mark.parametrize("case", [(30, 20, 0.6, 0.7), (10, 20, 0.6, 0.4), (8, 15, 0.5, 0.7)])
def test_larger_theta_gives_no_more_matches(case):
    counts = [
        sum(clustersync(noisy(*case, seed), theta=theta).W.nnz for seed in range(3))
        for theta in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_theta_zero_joins_what_is_connected():
    """A path through seven images that also see ten tracks, and ten points each that are alone."""
    k, n = 7, 21
    point = np.arange(k * n).reshape(k, n).T
    matches = pairs([*pairwise(point[0]), *cliques(*point[1:11])], [n] * k)
    free = clustersync(matches, theta=0.0).universe[point]
    assert (free[:11] == free[:11, :1]).all()
    charged = clustersync(matches, theta=0.8).universe[point]
    assert (charged[1:11] == charged[1:11, :1]).all()
    assert len(set(charged[0])) > 1


@pytest.mark.parametrize("seed", range(5))
def test_theta_one_keeps_only_what_is_all_matched(seed):
    matches = noisy(k=8, d=8, sigma=0.4, seed=seed)
    result = clustersync(matches, theta=1.0)
    assert result.W.nnz > 2 * len(result.universe)
    assert (dense(matches)[dense(result) > 0] > 0).all()


@pytest.mark.parametrize("wrong", [(0, 1), (0, 2), (1, 2)])
def test_wrong_matches_of_low_weight_lose(wrong):
    """Three images of two points; one pair of images is matched crosswise."""
    edges = []
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        crossed = (i, j) == wrong
        for point in (0, 1):
            other = 1 - point if crossed else point
            edges.append((2 * i + point, 2 * j + other, 0.3 if crossed else 0.9))
    assert clustersync(pairs(edges, [2, 2, 2])).universe.tolist() == [0, 1, 0, 1, 0, 1]


def test_weights_help_where_they_know():
    """Wrong matches .1 and right ones .9, against the same without weights."""
    weighted, plain = [], []
    for seed in range(5):
        W, W_gt, sizes = synthetic.generate(k=10, d=20, rho=0.6, sigma=0.7, seed=seed)
        matches = PairwiseMatches(0.1 * W + 0.8 * W.multiply(W_gt), sizes)
        weighted.append(evaluation.gt_error(clustersync(matches).W, W_gt))
        plain.append(evaluation.gt_error(clustersync(matches.unweighted()).W, W_gt))
    assert np.mean(weighted) < 0.5 * np.mean(plain)


def two_halves(also_matched: bool, k: int = 9) -> tuple[PairwiseMatches, np.ndarray]:
    """Make six tracks through k images; the two halves match through the middle image only.

    With `also_matched`, six other tracks match between the halves; else no pair
    of their images matches at all. Six points of every image are alone. Also
    returns the (k, 18) features by point.
    """
    d = 6
    image, point = np.divmod(np.arange(k * 3 * d), 3 * d)
    half = np.sign(image - k // 2)
    kept = (point < 2 * d) & ((half[:, None] * half > -1) | ((point >= d) & also_matched))
    A = (point[:, None] == point) & (image[:, None] != image) & kept
    return PairwiseMatches(A, [3 * d] * k), np.arange(len(A)).reshape(k, 3 * d)


def test_pairs_of_images_never_matched_charge_nothing():
    """Two halves of a track stay together if one image sees both, unless others tell."""
    for also_matched in (False, True):
        matches, features = two_halves(also_matched)
        universe = clustersync(matches, theta=0.9).universe[features]
        assert (universe[:, 6:12] == universe[0, 6:12]).all()
        assert (universe[:4, :6] == universe[0, :6]).all()
        assert ((universe[5:, :6] == universe[0, :6]) != also_matched).all()


def test_nor_do_they_in_the_first_clustering():
    """In which 15² missing matches would cost more than 15 between the halves are worth."""
    for also_matched in (False, True):
        matches, features = two_halves(also_matched, k=31)
        universe = clustersync(matches, updates=0).universe[features]
        assert ((universe[16:, :6] == universe[0, :6]) != also_matched).all()


def test_reliability_of_image_pairs_is_learnt(monkeypatch):
    """Of 60 % of the pairs of images, nine of ten matches are wrong; of the others, none."""

    def mean_error(change) -> float:
        learn = learning.learn
        errors = []
        with monkeypatch.context() as patch:
            patch.setattr(learning, "learn", lambda *arguments: change(*learn(*arguments)))
            for seed in range(3):
                good, W_gt, sizes = synthetic.generate(k=10, d=100, rho=0.6, sigma=0, seed=seed)
                poor, _, _ = synthetic.generate(k=10, d=100, rho=0.6, sigma=0.9, seed=seed)
                bad = np.triu(np.random.default_rng(seed).random((10, 10)) < 0.6, 1)
                image = np.repeat(np.arange(10), sizes)
                A = np.where((bad | bad.T)[image][:, image], poor.toarray(), good.toarray())
                result = clustersync(PairwiseMatches(A, sizes))
                errors.append(evaluation.gt_error(result.W, W_gt))
        return float(np.mean(errors))

    learnt = mean_error(lambda rewards, prices: (rewards, prices))
    same = np.ones((10, 10), dtype=np.float32)
    assert learnt < 0.95 * mean_error(lambda rewards, prices: (np.ones_like(rewards), prices))
    assert learnt < 0.95 * mean_error(lambda r, prices: (r, prices._replace(image_pair=same)))


def test_universe_size_and_seed_make_no_difference():
    matches = noisy(sigma=0.8)
    expected = synchronise(matches, "clustersync").universe.tolist()
    for options in ({"universe_size": 3}, {"universe_size": 500}, {"seed": 7}):
        assert synchronise(matches, "clustersync", **options).universe.tolist() == expected


def test_same_bits_for_any_number_of_threads_in_any_process():
    """With more features than a thread takes at once."""
    matches = noisy(k=30, d=37, rho=0.6, sigma=0.7, seed=3)
    assert len(matches.image_of) > BLOCK
    code = (
        "import sys, numba; from nmfsync import PairwiseMatches, synchronise, synthetic;"
        "W, _, sizes = synthetic.generate(k=30, d=37, rho=0.6, sigma=0.7, seed=3);"
        "result = synchronise(PairwiseMatches(W, sizes), 'clustersync');"
        "sys.stdout.buffer.write(bytes([numba.get_num_threads()]) + result.universe.tobytes())"
    )
    here = synchronise(matches, "clustersync").universe.tobytes()
    for threads in (1, 2):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_NUM_THREADS": str(threads)},
            capture_output=True,
            check=True,
        )
        assert run.stdout == bytes([threads]) + here


@pytest.mark.parametrize(
    ("edges", "sizes", "universe"),
    [
        ([], [3], [0, 1, 2]),
        ([], [0], []),
        ([], [2, 0, 3], [0, 1, 2, 3, 4]),
        ([(0, 2), (1, 3)], [0, 2, 0, 2], [0, 1, 0, 1]),
        ([(0, 1)], [1, 1], [0, 0]),
    ],
    ids=["one image", "no features", "no matches", "images without features", "one match"],
)
def test_next_to_nothing(edges, sizes, universe):
    result = synchronise(pairs(edges, sizes), "clustersync")
    assert result.universe.tolist() == universe
