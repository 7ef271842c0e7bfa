"""Similar images: neighbours on a ring, and VLAD vectors by definition."""

import tracemalloc
import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.cluster.vq import kmeans2
from threadpoolctl import ThreadpoolController, threadpool_limits

import nmfsync
from builders import check_pairs, make_features, random_images, ring_of_images
from nmfsync.matching import similarity
from nmfsync.matching.pairs import all_pairs
from nmfsync.matching.similarity import nearest_pairs
from nmfsync.truth.epipolar import epipolar_distance
from real_data import real_data


def next_to_each_other(order):
    """Pairs of images whose places on the ring differ by one."""
    k = len(order)
    steps = {1, k - 1}
    return [[i, j] for i, j in combinations(range(k), 2) if abs(order[i] - order[j]) in steps]


@pytest.mark.parametrize(("k", "n"), [(40, 100), (12, 10)], ids=["many words", "few words"])
def test_neighbours_on_a_shuffled_ring_are_found(k, n):
    collection, order = ring_of_images(k, n)
    pairs = nearest_pairs(collection, 2)
    check_pairs(pairs)
    assert pairs.tolist() == next_to_each_other(order)


def test_pairs_are_those_of_either_image():
    """Of 60 features, each image shares 15, 25 and 35 with the next: 0 likes 1, which likes 2."""
    points = random_images(240)[0].descriptors
    starts = [0, 45, 80, 105]
    collection = [make_features(descriptors=points[start : start + 60]) for start in starts]
    assert nearest_pairs(collection, 1).tolist() == [[0, 1], [1, 2], [2, 3]]


# The vectors and the search among them are private: no value of them is to be seen in the pairs.


def test_nearest_by_definition_with_ties(monkeypatch):
    monkeypatch.setattr(similarity, "ROWS", 7)
    vectors = np.random.default_rng(0).integers(-2, 3, (40, 6)).astype(np.float32)
    similar = vectors @ vectors.T
    for neighbours in (1, 5, 39):
        expected = set()
        for i in range(40):
            others = sorted((j for j in range(40) if j != i), key=lambda j: (-similar[i, j], j))
            expected |= {(min(i, j), max(i, j)) for j in others[:neighbours]}
        found = similarity._nearest(vectors, neighbours)
        assert found.tolist() == [list(pair) for pair in sorted(expected)]


def test_equal_images_are_taken_in_their_order():
    pairs = nearest_pairs(random_images(50) * 37, 2)
    assert pairs.tolist() == sorted([[0, 1], *([i, j] for i in (0, 1) for j in range(2, 37))])


def test_vectors_by_definition():
    rng = np.random.default_rng(1)
    descriptors = rng.integers(0, 256, (30, 128)).astype(np.uint8)
    descriptors[10:] = descriptors[10]  # a repeated structure
    descriptors[5] = 0  # describes nothing
    roots = [np.sqrt(d / d.sum()) for d in descriptors.astype(float) if d.any()]
    words = rng.random((4, 128), np.float32) / 8
    sums = np.zeros((4, 128))
    for d in roots:
        word = np.argmin([np.linalg.norm(d - w) for w in words])
        sums[word] += d - words[word]
    assert sum(map(np.any, sums)) > 1
    expected = np.concatenate([s / np.linalg.norm(s) for s in sums if s.any()])
    expected /= np.linalg.norm(expected)
    (vector,) = similarity._vlad([make_features(descriptors=descriptors)], words, progress=False)
    vector = vector.reshape(4, 128)[sums.any(axis=1)].ravel()
    assert np.abs(vector / 4000 - expected).max() < 0.6 / 4000


def test_vectors_make_exact_products():
    collection, _ = ring_of_images(8, 100)
    words = np.random.default_rng(0).random((128, 128), np.float32) / 8
    vectors = similarity._vlad(collection, words, progress=False)
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, np.rint(vectors))
    assert (vectors.astype(np.float64) ** 2).sum(axis=1).max() < 2**24


def test_contrast_does_not_matter():
    """The lengths of descriptors are no part of the similarity."""
    rng = np.random.default_rng(2)
    bright = [2 * rng.integers(0, 128, (40, 128)) for _ in range(4)]
    collection = [make_features(descriptors=d) for d in bright] + [
        make_features(descriptors=d // 2) for d in bright
    ]
    assert nearest_pairs(collection, 1).tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize("counts", [(), (5,), (0,), (0, 0), (0, 5), (5, 0, 0)])
def test_fewer_than_two_images_with_features_make_no_pair(counts):
    pairs = nearest_pairs(random_images(*counts), 3)
    check_pairs(pairs)
    assert len(pairs) == 0


@pytest.mark.parametrize("counts", [(1, 1), (7, 1), (200, 200)])
def test_two_images_are_a_pair(counts):
    assert nearest_pairs(random_images(*counts), 3).tolist() == [[0, 1]]


def test_images_without_features_have_no_neighbours():
    blank = make_features(descriptors=np.zeros((3, 128)))  # descriptors of zeros match nothing
    collection, order = ring_of_images(12, 60)
    mixed = [*random_images(0), *collection[:5], blank, *collection[5:], *random_images(0)]
    place = np.concatenate([np.arange(1, 6), np.arange(7, 14)])
    expected = place[np.array(next_to_each_other(order))]
    assert nearest_pairs(mixed, 2).tolist() == expected.tolist()
    together = nearest_pairs(mixed, 100)
    assert together.tolist() == [list(pair) for pair in combinations(place.tolist(), 2)]


def test_an_image_with_one_feature_finds_the_image_that_has_it_too():
    collection = random_images(*[60] * 5)
    collection.append(make_features(descriptors=collection[3].descriptors[7:8]))
    assert [3, 5] in nearest_pairs(collection, 1).tolist()


@pytest.fixture
def learnt(monkeypatch):
    """List what every vocabulary is learnt from, and its words."""
    calls = []

    def spy(samples, *arguments, **options):
        words, label = kmeans2(samples, *arguments, **options)
        calls.append((samples, words))
        return words, label

    monkeypatch.setattr(similarity, "kmeans2", spy)
    return calls


def test_the_vocabulary_has_no_more_words_than_the_features_can_teach(learnt):
    for count, words in ((2, 1), (30, 1), (100, 2), (1000, 25), (5000, 64)):
        nearest_pairs(random_images(count - count // 2, count // 2), 1)
        assert learnt[-1][1].shape == (words, 128)


def test_equal_features_teach_one_word(learnt):
    """Nothing differs from the word, so that all images are equally similar."""
    one = random_images(1)[0].descriptors
    collection = [make_features(descriptors=one.repeat(n, axis=0)) for n in (3000, 7, 1, 7)]
    assert nearest_pairs(collection, 1).tolist() == [[0, 1], [0, 2], [0, 3]]
    assert len(learnt[-1][1]) == 1


def test_words_that_are_nearest_to_nothing_are_no_reason_to_warn():
    """Multiples of one descriptor are different bytes, but one and the same RootSIFT."""
    collection = [
        make_features(descriptors=np.arange(1, 121)[:, None] * np.eye(128)[0]) for _ in range(3)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(nearest_pairs(collection, 2)) == 3


def test_the_sample_is_spread_evenly(monkeypatch, learnt):
    monkeypatch.setattr(similarity, "SAMPLES", 40)

    def numbered(*counts):
        """Images whose descriptors say which image they are of, and their number."""
        numbers = [np.arange(n)[:, None] * np.eye(128)[4] for n in counts]
        return [
            make_features(descriptors=rows + 200 * np.eye(128)[image])
            for image, rows in enumerate(numbers)
        ]

    def sampled(*counts):
        """Numbers that the vocabulary of such images is learnt from."""
        nearest_pairs(numbered(*counts), 1)
        squares = learnt[-1][0] ** 2
        image = squares[:, :4].argmax(axis=1)
        number = np.rint(200 * squares[:, 4] / squares[:, :4].max(axis=1)).astype(int)
        return [np.sort(number[image == i]).tolist() for i in range(len(counts))]

    assert sampled(100, 50, 50, 200) == [list(range(0, n, 10)) for n in (100, 50, 50, 200)]
    assert sampled(25, 14) == [list(range(25)), list(range(14))]
    (ours, theirs) = sampled(150, 100)  # every 6.25th
    assert len(ours) + len(theirs) == 40
    assert set(np.diff(ours)) | set(np.diff(theirs)) == {6, 7}


def test_similarities_are_never_all_in_memory(monkeypatch):
    monkeypatch.setattr(similarity, "ROWS", 16)
    k = 3000
    vectors = np.random.default_rng(0).integers(-9, 9, (k, 8)).astype(np.float32)
    tracemalloc.start()
    similarity._nearest(vectors, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < k * k


def test_same_pairs_for_any_number_of_threads(in_another_process):
    collection, _ = ring_of_images(60, 200)
    pairs = nearest_pairs(collection, 5)
    assert len(pairs) > 100
    assert in_another_process(nearest_pairs, collection, 5).tobytes() == pairs.tobytes()


def test_linear_algebra_is_on_one_thread(monkeypatch):
    threads = []

    def spy(*arguments, **options):
        threads.extend(
            pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()
        )
        return kmeans2(*arguments, **options)

    monkeypatch.setattr(similarity, "kmeans2", spy)
    with threadpool_limits(2, "blas"):
        nearest_pairs(random_images(5, 5), 1)
    assert set(threads) == {1}


def test_similar_images_of_a_church_have_more_right_matches_than_neighbours_in_order():
    real_data("epfl/Herz-Jesu-P25")
    scene = nmfsync.load_scene("epfl/Herz-Jesu-P25")
    found = nmfsync.extract_all(scene.paths, 200, progress=False)
    nearest = nearest_pairs(found, 5)
    k, count = len(found), len(nearest)
    by_gap = all_pairs(k)[np.argsort(np.diff(all_pairs(k))[:, 0], kind="stable")]
    rng = np.random.default_rng(0)
    drawn = all_pairs(k)[rng.choice(len(by_gap), count, replace=False)]
    right = right_matches(scene, found)
    near, sequential, random = (
        right[pairs[:, 0], pairs[:, 1]].sum() for pairs in (nearest, by_gap[:count], drawn)
    )
    assert near > 1.1 * sequential
    assert near > 1.5 * random


def right_matches(scene, found):
    """Matches within 2 pixels of their epipolar lines, for every pair of images."""
    matches = nmfsync.match(found, progress=False)
    offsets, right = matches.offsets, np.zeros((len(found),) * 2)
    for i, j in all_pairs(len(found)).tolist():
        p, q = matches.W[offsets[i] : offsets[i + 1], offsets[j] : offsets[j + 1]].nonzero()
        a, b = scene.cameras[i], scene.cameras[j]
        right[i, j] = (epipolar_distance(a, b, found[i].xy[p], found[j].xy[q]) < 2).sum()
    return right
