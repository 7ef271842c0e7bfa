"""The score against plain NumPy, and the moves that raise it."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from scipy import sparse
from scipy.sparse.csgraph import connected_components

import strategies
from builders import matches_of, noisy
from clusterings import SEEDS, by_images, cliques, dense, of_pairs, partition, random_labels, read
from nmfsync.synchronisation.clustersync import exchange
from nmfsync.synchronisation.clustersync.exchange import exchange_between_clusters, exchange_due
from nmfsync.synchronisation.clustersync.graph import (
    MatchGraph,
    connected_parts,
    keep_uncontradicted,
)
from nmfsync.synchronisation.clustersync.nearby import DENSE
from nmfsync.synchronisation.clustersync.prices import Prices
from nmfsync.synchronisation.clustersync.reassign import reassign_images
from nmfsync.synchronisation.clustersync.search import score, search


def is_valid(label, matches) -> bool:
    """No two features of an image are together."""
    return len(np.unique(np.column_stack([label, matches.image_of]), axis=0)) == len(label)


def random_prices(rng, matches) -> Prices:
    """Make random ones; pairs of images without matches charge nothing, and some others.

    Clusters may cost less than nothing.
    """
    k = len(matches.sizes)
    factor = np.triu(rng.uniform(0, 2, (k, k)) * (rng.random((k, k)) < 0.8), 1)
    track = np.append(0, rng.uniform(-2, 2, k))
    return Prices(rng.uniform(0, 0.6, 3), of_pairs(read(matches), factor + factor.T), track)


def opening(price: float, k: int) -> np.ndarray:
    """Let a cluster have one price, whatever its size."""
    return np.append(0.0, np.full(k, price))


def all_images_matched(matches) -> MatchGraph:
    """Read matches of images with one feature, as if others matched all images with each other."""
    k = len(matches.sizes)
    everywhere = read(matches_of(cliques(range(k)), [1] * k))
    return read(matches)._replace(pairs=everywhere.pairs)


def signed(matches, rng) -> MatchGraph:
    """Read matches, and give some of them weights of 0 and below, the same in both directions."""
    graph = read(matches)
    m = len(matches.image_of)
    drawn = rng.choice([1.0, 1.0, 0.0, -0.5], (m, m))
    drawn = np.triu(drawn) + np.triu(drawn, 1).T
    return graph._replace(weight=graph.weight * drawn[graph.feature, graph.other])


def plain_gains(matches, prices, graph=None) -> np.ndarray:
    """(m, m): what two features gain by being together, pair by pair.

    `graph` are the matches with other weights.
    """
    A, image = dense(matches), matches.image_of
    factor = by_images(read(matches), prices.image_pair)
    gains = np.zeros_like(A)
    weight = A
    if graph is not None:
        weight = np.zeros_like(A)
        weight[graph.feature, graph.other] = graph.weight
    for p in range(len(A)):
        for q in range(len(A)):
            if A[p, q] > 0:
                gains[p, q] = weight[p, q]
            elif image[p] != image[q]:
                others = int(A[p, image == image[q]].any()) + int(A[q, image == image[p]].any())
                gains[p, q] = -prices.missing[others] * factor[image[p], image[q]]
    return gains


@settings(max_examples=30)
@given(matches=strategies.pairwise_matches(weighted=True), seed=SEEDS)
def test_score_counts_pair_by_pair(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    graph = signed(matches, rng)
    together = np.triu(label[:, None] == label, 1)
    expected = plain_gains(matches, prices, graph)[together].sum()
    expected -= sum(prices.track[(label == c).sum()] for c in set(label.tolist()))
    assert score(graph, prices, label) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=150)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_no_move_lowers_the_score_or_puts_an_image_together(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    graph, changed = signed(matches, rng), np.ones(len(label), dtype=np.bool_)
    before = score(graph, prices, label)
    for move in (reassign_images, exchange_between_clusters):
        move(graph, prices, label, changed)
        assert is_valid(label, matches)
        after = score(graph, prices, label)
        assert after >= before - 1e-7
        before = after


@pytest.mark.parametrize(("price", "together"), [(0.3, True), (0.1, False)])
def test_feature_joins_if_that_costs_less_than_a_cluster_of_its_own(price, together):
    """With one match and two missing ones of .6 each."""
    matches = matches_of([*cliques([0, 1, 2]), (2, 3)], [1, 1, 1, 1])
    label = np.array([0, 0, 0, 1])
    prices = Prices(np.full(3, 0.6), np.ones(12, np.float32), opening(price, 4))
    reassign_images(all_images_matched(matches), prices, label, np.ones(4, dtype=np.bool_))
    assert (label[3] == label[0]) == together
    assert (label[:3] == label[0]).all()


@pytest.mark.parametrize(("price", "together"), [(0.3, True), (0.1, False)])
def test_feature_joins_by_the_price_of_the_size(price, together):
    """As above, but alone it costs nothing, and a cluster of 4 less than one of 3."""
    matches = matches_of([*cliques([0, 1, 2]), (2, 3)], [1, 1, 1, 1])
    label = np.array([0, 0, 0, 1])
    track = np.array([0.0, 0.0, 0.0, 0.0, -price])
    prices = Prices(np.full(3, 0.6), np.ones(12, np.float32), track)
    reassign_images(all_images_matched(matches), prices, label, np.ones(4, dtype=np.bool_))
    assert (label[3] == label[0]) == together


@pytest.mark.parametrize(("price", "together"), [(0.3, True), (0.1, False)])
def test_clusters_merge_by_the_price_of_the_size(price, together):
    """With one match between them, and five missing ones of .24 each."""
    matches = matches_of([*cliques([0, 1, 2]), (3, 4), (2, 3)], [1, 1, 1, 1, 1])
    label = np.array([0, 0, 0, 1, 1])
    track = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -price])
    prices = Prices(np.full(3, 0.24), np.ones(20, np.float32), track)
    exchange_between_clusters(
        all_images_matched(matches), prices, label, np.ones(5, dtype=np.bool_)
    )
    assert partition(label) == ([0] * 5 if together else [0, 0, 0, 3, 3])


@pytest.mark.parametrize("seed", range(4))
def test_moves_of_long_tracks_raise_the_score(seed):
    """Of more features than those whose pairs are all listed, and than are beside an image."""
    rng = np.random.default_rng(seed)
    k, d = 2 * DENSE, 2
    image, step = np.repeat(np.arange(k), 3), np.tile([1, 2, 5], k)
    image, step = image[image + step < k], step[image + step < k]
    point, other = rng.integers(d, size=(2, len(image)))
    other = np.where(rng.random(len(image)) < 0.9, point, other)
    edges = zip(d * image + point, d * (image + step) + other, strict=True)
    matches = matches_of(list(edges), [d] * k)
    graph, prices = signed(matches, rng), random_prices(rng, matches)
    label = np.tile([0, 1], k)
    label[k:] += d * (k // 2)  # the tracks are cut in two
    label = np.where(rng.random(d * k) < 0.1, np.arange(d * k), label)  # some features are alone
    label[: 2 * d] = label[k : k + 2 * d] = np.tile([0, 1], 2)
    label[k : k + 2 * d] += d * (k // 2)
    changed = np.ones(len(label), dtype=np.bool_)
    before = score(graph, prices, label)
    for move in (exchange_between_clusters, reassign_images, exchange_between_clusters):
        old = label.copy()
        move(graph, prices, label, changed)
        assert is_valid(label, matches)
        after = score(graph, prices, label)
        assert after >= before - 1e-7
        assert (label == old).all() or after > before
        before = after


@settings(max_examples=100)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_tries_on_threads_change_nothing(matches, seed):
    """Of clusters that changed or not; with threads only in large problems otherwise."""
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label, graph = random_prices(rng, matches), random_labels(rng, matches), read(matches)
    changed = rng.random(len(label)) < rng.choice([0.2, 1.0])
    everywhere, outcomes = np.ones(len(label), np.bool_), []
    plain = label.copy()
    outcomes.append((exchange_due(graph, prices, plain, changed, everywhere), plain))
    for large in (1, 2**14):
        own = label.copy()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exchange, "LARGE", large)
            outcomes.append((exchange_between_clusters(graph, prices, own, changed), own))
    for moved, own in outcomes[1:]:
        assert np.array_equal(moved, outcomes[0][0])
        assert np.array_equal(own, plain)


@settings(max_examples=100)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_parts_are_those_of_scipy(matches, seed):
    """Numbered in order of their first features, too, which decides ties."""
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    graph, m = signed(matches, rng), matches.sizes.sum()
    label = rng.integers(0, 3, m)
    p, q = graph.feature, graph.other
    inside = (label[p] == label[q]) & (graph.weight > 0)
    joined = sparse.coo_array((np.ones(inside.sum()), (p[inside], q[inside])), shape=(m, m))
    expected = connected_components(joined, directed=False)[1]
    assert np.array_equal(connected_parts(graph, label), expected)


@settings(max_examples=100)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_exchanges_only_say_so_if_the_score_rises(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    graph = signed(matches, rng)
    before, old = score(graph, prices, label), label.copy()
    changed = np.ones(len(label), dtype=np.bool_)
    exchanged = exchange_between_clusters(graph, prices, label, changed).any()
    assert exchanged == (score(graph, prices, label) > before + 1e-10)
    assert exchanged or (label == old).all()


def gains_of_neighbours(matches, prices, label) -> tuple[float, float]:
    """Best gain by moving one feature, and by merging two clusters that share ≥ 2 matches.

    A feature moves to a cluster in which it has a match, or to one of its own.
    """
    A, gains, image = dense(matches), plain_gains(matches, prices), matches.image_of
    track = prices.track
    clusters = [np.flatnonzero(label == c) for c in np.unique(label)]
    moving, merging = [0.0], [0.0]
    for number, a in enumerate(clusters):
        for p in a:
            leaving = -gains[p, a].sum() + track[len(a)] - track[len(a) - 1]
            moving.append(leaving - track[1])
            moving += [
                leaving + gains[p, b].sum() + track[len(b)] - track[len(b) + 1]
                for b in clusters
                if b is not a and A[p, b].any() and image[p] not in image[b]
            ]
        for b in clusters[number + 1 :]:
            shared = (A[np.ix_(a, b)] > 0).sum()
            if shared >= 2 and not set(image[a]) & set(image[b]):
                saved = track[len(a)] + track[len(b)] - track[len(a) + len(b)]
                merging.append(gains[np.ix_(a, b)].sum() + saved)
    return max(moving), max(merging)


# 111 needs another round when only features have moved, 205 the plain merge.
@pytest.mark.parametrize("seed", [*range(40), 111, 205])
def test_nothing_near_the_result_of_the_search_is_better(seed):
    """With a price for every missing match and every cluster."""
    rng = np.random.default_rng(seed)
    matches = noisy(*rng.integers(3, 10, 2), *rng.uniform([0.4, 0.2], [1.0, 0.9]), seed)
    k = len(matches.sizes)
    graph = read(matches)
    prices = Prices(np.full(3, 0.1), of_pairs(graph, np.ones((k, k))), opening(1.0, k))
    label = search(graph, prices, np.arange(len(matches.image_of)))
    assert is_valid(label, matches)
    assert max(gains_of_neighbours(matches, prices, label)) <= 1e-7


def test_features_that_no_match_holds_together_part():
    """0 and 1 cost nothing together, as their images were never matched, and gain nothing."""
    matches = matches_of([(2, 3), (2, 4), (3, 4)], [1, 1, 1, 1, 1])
    graph = read(matches)
    prices = Prices(np.ones(3), of_pairs(graph, np.ones((5, 5))), opening(1.0, 5))
    label = search(graph, prices, np.array([0, 0, 1, 1, 1]))
    assert partition(label) == [0, 1, 2, 2, 2]


def test_matches_that_nothing_contradicts_stay():
    """A triangle and a pair come together; a path, and what sees an image twice, do not."""
    path, triangle, twice = [(0, 5), (5, 10)], cliques([1, 6, 11]), [(2, 7), (7, 12), (12, 3)]
    matches = matches_of([*path, *triangle, *twice, (4, 9)], [5, 5, 5, 1])
    label = keep_uncontradicted(read(matches), np.arange(16))
    assert partition(label) == [0, 1, 2, 3, 4, 5, 1, 7, 8, 4, 10, 1, 12, 13, 14, 15]


def test_images_that_were_never_matched_contradict_nothing():
    matches = matches_of([(0, 1), (1, 2), (2, 3)], [1, 1, 1, 1, 1])
    assert partition(keep_uncontradicted(read(matches), np.arange(5))) == [0, 0, 0, 0, 4]
