"""What is learnt from a clustering, against plain NumPy."""

import numpy as np
import pytest

from builders import matches_of, noisy
from clusterings import cliques, dense, partners, random_labels, read, without_pairs
from nmfsync import PairwiseMatches
from nmfsync.synchronisation.clustersync.graph import count_matches
from nmfsync.synchronisation.clustersync.prices import learn
from nmfsync.synchronisation.clustersync.start import grow, support


def clustered(seed):
    """Noisy matches between all pairs of images, and a clustering that is not perfect."""
    matches = noisy(d=16, rho=0.8, seed=seed)
    assert (count_matches(read(matches)) > 0).sum() == 12 * 11
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

    Of the pairs of clusters (or the cluster) of every match, the share that matches too.
    """
    counts = np.zeros((2, 2))
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
    seen = count_matches(read(matches)) > 0
    inside, between = confirmed(A, label)
    inside = np.clip(inside, 0.05, 0.98)
    between = np.clip(between, 1e-4, 0.9 * inside)
    average = np.log(inside / between)
    number, found = pairs_within(A, image, label, k)
    pair_inside = (found + 30 * inside) / (number + 30)  # as if of 30 pairs more
    pair_inside = np.clip(pair_inside, 1.05 * between, 0.98)
    same, different = missing_matches(A, image, label, seen)
    missing_same = (1 - inside) * (same + 1) / (same + 1).sum()
    missing_different = (1 - between) * (different + 1) / (different + 1).sum()
    price = np.maximum(np.log(missing_different / missing_same), 0)

    rewards, prices = learn(read(matches), label, 0.5)
    np.testing.assert_allclose(prices.missing, 0.5 * price / average)
    factor = np.log((1 - between) / (1 - pair_inside)) / np.log((1 - between) / (1 - inside))
    np.testing.assert_allclose(prices.image_pair, np.where(seen, factor, 0), rtol=1e-6)
    p, q = np.nonzero(A)
    np.testing.assert_allclose(rewards, np.log(pair_inside[image[p], image[q]] / between) / average)
    size = np.unique(label, return_counts=True)[1]
    visible, singles = size[size > 1].mean() / k, (size == 1).sum() / k
    opening = np.log(visible / (1 - visible) / (singles + 0.02)) / average
    assert prices.opening == pytest.approx(max(opening, 0))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_learnt_from_good_clusters_is_within_its_limits(seed):
    """Or the test above would compare limits only."""
    matches, label = clustered(seed)
    inside, between = confirmed(dense(matches), label)
    assert 0.05 < inside < 0.98
    assert 1e-4 < between < 0.9 * inside
    assert (learn(read(matches), label, 0.5)[1].missing > 0).all()


def test_unreliable_pairs_of_images_count_less():
    """The matches between images 0 and 1 are all wrong, those between all others are right."""
    d, k = 6, 8
    tracks = np.arange(d * k).reshape(k, d).T
    A = dense(matches_of(cliques(*tracks), [d] * k))
    A[:d, d : 2 * d] = np.roll(np.eye(d), 1, axis=1)
    A[d : 2 * d, :d] = A[:d, d : 2 * d].T
    graph = read(PairwiseMatches(A, [d] * k))
    label = np.tile(np.arange(d), k)
    rewards, prices = learn(graph, label, 1.0)
    row = graph.feature
    suspect = (row < d) & (graph.other < 2 * d) & (graph.other >= d)
    assert rewards[suspect].max() < rewards[row >= 2 * d].min()
    assert prices.image_pair[0, 1] < prices.image_pair[0, 2]


def test_pairs_of_images_without_matches_have_no_price():
    matches = without_pairs(noisy(), [(0, 1), (2, 5)])
    _, prices = learn(read(matches), np.arange(len(matches.image_of)), 1.0)
    free = np.argwhere(np.triu(prices.image_pair == 0, 1))
    assert free.tolist() == [[0, 1], [2, 5]]
