"""What is learnt from a clustering, against plain NumPy."""

from math import comb, log

import numpy as np
import pytest

from builders import matches_of, noisy
from clusterings import (
    by_images,
    cliques,
    compared,
    dense,
    partners,
    random_labels,
    read,
    without_pairs,
)
from nmfsync import PairwiseMatches, synthetic
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.clustersync import counts
from nmfsync.synchronisation.clustersync.counts import count_confirmations, count_pairs_within
from nmfsync.synchronisation.clustersync.graph import of_matches
from nmfsync.synchronisation.clustersync.prices import (
    first_prices,
    learn,
    log_likelihood,
)
from nmfsync.synchronisation.clustersync.start import grow, support


def clustered(seed):
    """Noisy matches between all pairs of images, and a clustering that is not perfect."""
    matches = noisy(d=16, rho=0.8, seed=seed)
    assert compared(read(matches)).sum() == 12 * 11
    return matches, grow(read(matches), support(read(matches)))


def scattered(seed, share):
    """Noisy matches between some pairs of images only, and a clustering at random."""
    rng = np.random.default_rng(seed)
    matches = noisy(d=16, rho=0.8, seed=seed)
    k = len(matches.sizes)
    matches = without_pairs(matches, np.argwhere(np.triu(rng.random((k, k)) < share, 1)))
    return matches, random_labels(rng, matches)


def confirmed(A, label) -> np.ndarray:
    """How often a match is confirmed, inside clusters and between them, match by match.

    Of the pairs of clusters (or the cluster) of every match, the share that matches too. Inside,
    one more pair was seen, and .9 of it matched.
    """
    counts = np.array([[0.9, 1.0], [0.0, 0.0]])
    for p, q in np.argwhere(np.triu(A > 0)):
        a, b = np.flatnonzero(label == label[p]), np.flatnonzero(label == label[q])
        among = A[np.ix_(a, b)] > 0
        found, possible = among.sum(), among.size
        if label[p] == label[q]:
            found, possible = found / 2, len(a) * (len(a) - 1) / 2
        counts[int(label[p] != label[q])] += found - 1, possible - 1
    return counts[:, 0] / np.maximum(counts[:, 1], 1)


def pairs_within(A, image, label, k):
    """(k, k) numbers of all and of matched pairs of features in one cluster, one by one."""
    number, found = np.zeros((k, k)), np.zeros((k, k))
    for p, q in np.argwhere(label[:, None] == label):
        if p != q:
            number[image[p], image[q]] += 1
            found[image[p], image[q]] += A[p, q] > 0
    return number, found


def missing_matches(A, image, label, seen):
    """Pairs of features without a match, by how many of the two have another one, one by one.

    In one cluster, and not; of images that have matches.
    """
    same, different = np.zeros(3), np.zeros(3)
    for p, q in np.argwhere(np.triu(A == 0, 1)):
        if seen[image[p], image[q]]:
            counts = same if label[p] == label[q] else different
            counts[partners(A, image, p, q)] += 1
    return same, different


def matched_by_chance(A, image, label, seen) -> float:
    """Share of matches among the pairs of features in different clusters, one by one."""
    of_pairs = [
        A[p, q] > 0
        for p in range(len(A))
        for q in range(p)
        if label[p] != label[q] and seen[image[p], image[q]]
    ]
    return (sum(of_pairs) + 0.5) / (len(of_pairs) + 1)


def expected_tracks(label, k) -> np.ndarray:
    """(k,) how many tracks are expected in exactly n given images, n = 1, 2, …, track by track."""
    size = np.unique(label, return_counts=True)[1]
    expected = np.array([1 / ((k + 1) * comb(k, n)) for n in range(1, k + 1)])
    expected[0] += (size == 1).sum() / k
    for n in size[size > 1]:
        v = (n + 0.5) / (k + 1)
        expected += [v**seen * (1 - v) ** (k - seen) for seen in range(1, k + 1)]
    return expected


@pytest.mark.parametrize(
    ("matches", "label"),
    [*(clustered(seed) for seed in range(5)),
     *(scattered(seed, share) for seed in range(3) for share in (0.0, 0.3))],
    ids=[*(f"grown {seed}" for seed in range(5)),
         *(f"random {seed} {share}" for seed in range(3) for share in (0.0, 0.3))],
)  # fmt: skip
def test_prices_are_log_likelihood_ratios(matches, label):
    """Of matches and of missing ones, for features of one point and of two."""
    A, image, k = dense(matches), matches.image_of, len(matches.sizes)
    seen = compared(read(matches))
    inside, between = confirmed(A, label)
    inside = np.clip(inside, 0.05, 0.98)
    chance = matched_by_chance(A, image, label, seen)
    between = np.clip(max(between, chance), 1e-4, 0.9 * inside)
    chance = min(chance, between)
    average = np.log(inside / between)
    number, found = pairs_within(A, image, label, k)
    pair_inside = (found + 30 * inside) / (number + 30)  # as if of 30 pairs more
    pair_inside = np.clip(pair_inside, 1.05 * between, 0.98)
    same, different = missing_matches(A, image, label, seen)
    missing_same = (1 - inside) * (same + 1) / (same + 1).sum()
    missing_different = (1 - between) * (different + 1) / (different + 1).sum()
    price = np.maximum(np.log(missing_different / missing_same), 0)

    rewards, prices = learn(read(matches), label)
    np.testing.assert_allclose(prices.missing, price / average)
    factor = np.log((1 - between) / (1 - pair_inside)) / np.log((1 - between) / (1 - inside))
    np.testing.assert_allclose(prices.image_pair, factor[np.nonzero(seen)], rtol=1e-6)
    p, q = np.nonzero(A)
    rewards = of_matches(read(matches), rewards)
    np.testing.assert_allclose(rewards, np.log(pair_inside[image[p], image[q]] / between) / average)
    links = np.maximum(np.arange(k + 1) - 1, 0) * np.log(between / chance)
    track = np.append(0, -np.log(expected_tracks(label, k))) - links
    np.testing.assert_allclose(prices.track, track / average)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_learnt_from_good_clusters_is_within_its_limits(seed):
    """Or the test above would compare limits only."""
    matches, label = clustered(seed)
    inside, between = confirmed(dense(matches), label)
    assert 0.05 < inside < 0.98
    assert 1e-4 < between < 0.9 * inside
    assert (learn(read(matches), label)[1].missing > 0).all()


def test_unreliable_pairs_of_images_count_less():
    """The matches between images 0 and 1 are all wrong, those between all others are right."""
    d, k = 6, 8
    tracks = np.arange(d * k).reshape(k, d).T
    A = dense(matches_of(cliques(*tracks), [d] * k))
    A[:d, d : 2 * d] = np.roll(np.eye(d), 1, axis=1)
    A[d : 2 * d, :d] = A[:d, d : 2 * d].T
    graph = read(PairwiseMatches(A, [d] * k))
    label = np.tile(np.arange(d), k)
    rewards, prices = learn(graph, label)
    rewards = of_matches(graph, rewards)
    row = graph.feature
    suspect = (row < d) & (graph.other < 2 * d) & (graph.other >= d)
    assert rewards[suspect].max() < rewards[row >= 2 * d].min()
    factor = by_images(graph, prices.image_pair)
    assert factor[0, 1] < factor[0, 2]


def test_pairs_of_images_without_matches_have_no_price():
    matches = without_pairs(noisy(), [(0, 1), (2, 5)])
    graph = read(matches)
    _, prices = learn(graph, np.arange(len(matches.image_of)))
    free = np.argwhere(np.triu(by_images(graph, prices.image_pair) == 0, 1))
    assert free.tolist() == [[0, 1], [2, 5]]


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_log_likelihood_is_that_of_every_pair_and_cluster(share):
    matches, label = scattered(0, share)
    A, image, k = dense(matches), matches.image_of, len(matches.sizes)
    seen = compared(read(matches))
    value = 0.0
    for together in (True, False):
        of_pairs = [
            A[p, q] > 0
            for p in range(len(A))
            for q in range(p)
            if (label[p] == label[q]) == together and seen[image[p], image[q]]
        ]
        matched = (sum(of_pairs) + 0.5) / (len(of_pairs) + 1)
        value += sum(log(matched if pair else 1 - matched) for pair in of_pairs)
    expected = expected_tracks(label, k)
    for size in np.unique(label, return_counts=True)[1]:
        value += log(expected[size - 1]) - 1
    assert log_likelihood(read(matches), label) == pytest.approx(value)


def test_true_tracks_are_more_probable_than_others():
    """Than features that are alone, than tracks that are cut in two, and than tracks that mix."""
    d, k = 8, 10
    W, W_gt, sizes = synthetic.generate(k, d, rho=1.0, sigma=0.4, seed=1)
    graph = read(PairwiseMatches(W, sizes))
    truth = W_gt.indices[W_gt.indptr[:-1]].astype(np.int64)
    image = graph.image
    halves = truth + d * (image < k // 2)
    mixed = np.where(image < k // 2, truth, (truth + 1) % d)
    for other in (np.arange(len(truth)), halves, mixed):
        assert log_likelihood(graph, truth) > log_likelihood(graph, other)


def test_first_prices():
    """20 features in each of 5 images, 3 pairs of which are matched, 12 of 400 features each."""
    matches = matches_of(
        [(20 * i + n, 20 * j + n) for i, j in [(0, 1), (1, 2), (3, 4)] for n in range(12)], [20] * 5
    )
    graph = read(matches)
    b = 36.5 / 1201
    average = log(0.9 / b)
    for mixed in (True, False):
        prices = first_prices(graph, mixed)
        np.testing.assert_allclose(prices.missing, log((1 - b) / 0.1) / average)
        assert prices.image_pair.tolist() == [1.0] * 6
    assert not prices.track.any()
    # Half of the 100 features alone: 10 in each image. The others in 20 tracks of 0 to 5 images.
    expected = [10, *(20 / 6 / comb(5, n) for n in range(2, 6))]
    track = first_prices(graph, True).track
    np.testing.assert_allclose(track, np.append(0, -np.log(expected)) / average)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_count_the_same(seed, monkeypatch):
    """Of few clusters, where there are many otherwise."""
    matches, label = clustered(seed)
    graph = read(matches)

    def counted():
        return count_confirmations(graph, label), *count_pairs_within(graph, label)

    at_once, lengths = counted(), []
    monkeypatch.setattr(counts, "LEAST_BLOCK", 1)
    monkeypatch.setattr(
        counts, "map_blocks", lambda *args: lengths.append(args[1:]) or map_blocks(*args)
    )
    in_blocks = counted()
    assert all(length > block for length, block in lengths)
    assert all(np.array_equal(a, b) for a, b in zip(at_once, in_blocks, strict=True))
