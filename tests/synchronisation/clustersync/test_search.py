"""The score against plain NumPy, and the moves that raise it."""

import numpy as np
import pytest
from hypothesis import assume, given, settings

import strategies
from builders import matches_of, noisy
from clusterings import SEEDS, cliques, dense, partition, random_labels, read
from nmfsync.synchronisation.clustersync.exchange import exchange_between_clusters
from nmfsync.synchronisation.clustersync.graph import count_matches
from nmfsync.synchronisation.clustersync.prices import Prices
from nmfsync.synchronisation.clustersync.reassign import reassign_images
from nmfsync.synchronisation.clustersync.search import score, search


def is_valid(label, matches) -> bool:
    """No two features of an image are together."""
    return len(np.unique(np.column_stack([label, matches.image_of]), axis=0)) == len(label)


def random_prices(rng, matches) -> Prices:
    """Make random ones; pairs of images without matches charge nothing, and some others."""
    k = len(matches.sizes)
    seen = count_matches(read(matches)) > 0
    factor = np.triu(rng.uniform(0, 2, (k, k)) * (rng.random((k, k)) < 0.8), 1) * seen
    return Prices(
        rng.uniform(0, 0.6, 3), (factor + factor.T).astype(np.float32), float(rng.uniform(0, 1.5))
    )


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


@settings(max_examples=30)
@given(matches=strategies.pairwise_matches(weighted=True), seed=SEEDS)
def test_score_counts_pair_by_pair(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    together = np.triu(label[:, None] == label, 1)
    expected = plain_gains(matches, prices)[together].sum()
    expected -= prices.opening * len(set(label.tolist()))
    assert score(read(matches), prices, label) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=150)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_no_move_lowers_the_score_or_puts_an_image_together(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    graph, changed = read(matches), np.ones(len(label), dtype=np.bool_)
    before = score(graph, prices, label)
    for move in (reassign_images, exchange_between_clusters):
        move(graph, prices, label, changed)
        assert is_valid(label, matches)
        after = score(graph, prices, label)
        assert after >= before - 1e-7
        before = after


@pytest.mark.parametrize(("opening", "together"), [(0.3, True), (0.1, False)])
def test_feature_joins_if_that_costs_less_than_a_cluster_of_its_own(opening, together):
    """With one match and two missing ones of .6 each."""
    matches = matches_of([*cliques([0, 1, 2]), (2, 3)], [1, 1, 1, 1])
    label = np.array([0, 0, 0, 1])
    prices = Prices(np.full(3, 0.6), np.ones((4, 4), dtype=np.float32), opening)
    reassign_images(read(matches), prices, label, np.ones(4, dtype=np.bool_))
    assert (label[3] == label[0]) == together
    assert (label[:3] == label[0]).all()


@settings(max_examples=100)
@given(matches=strategies.pairwise_matches(max_images=8, weighted=True), seed=SEEDS)
def test_exchanges_only_say_so_if_the_score_rises(matches, seed):
    assume(matches.sizes.sum())
    rng = np.random.default_rng(seed)
    prices, label = random_prices(rng, matches), random_labels(rng, matches)
    before, old = score(read(matches), prices, label), label.copy()
    changed = np.ones(len(label), dtype=np.bool_)
    exchanged = exchange_between_clusters(read(matches), prices, label, changed).any()
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
    matches = matches_of([(2, 3), (2, 4), (3, 4)], [1, 1, 1, 1, 1])
    factor = count_matches(read(matches)).astype(np.float32)
    label = search(read(matches), Prices(np.ones(3), factor, 1.0), np.array([0, 0, 1, 1, 1]))
    assert partition(label) == [0, 1, 2, 2, 2]
