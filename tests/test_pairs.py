import os
import subprocess
import sys
import tracemalloc
import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.cluster.vq import kmeans2
from threadpoolctl import ThreadpoolController, threadpool_limits

import nmfsync
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.matching import similarity as pairs_module
from nmfsync.matching.pairs import all_pairs, read_pairs, select_pairs, sequential_pairs
from nmfsync.matching.similarity import nearest_pairs
from nmfsync.truth.epipolar import epipolar_distance
from nmfsync.types.features import Features
from real_data import real_data


def features(descriptors):
    n = len(descriptors)
    zeros = np.zeros(n, np.float32)
    descriptors = np.asarray(descriptors, np.uint8).reshape(n, 128)
    return Features(np.zeros((n, 2), np.float32), descriptors, zeros, zeros, (10, 10), n, n)


def images(*counts, seed=0):
    """Images of random features."""
    rng = np.random.default_rng(seed)
    return [features(rng.integers(0, 256, (n, 128))) for n in counts]


def ring(k, n, seed=0):
    """Images all round an object: each shares half of its n points with the next one.

    They come in random order, which is returned as well: order[i] is the place of image i.
    """
    rng = np.random.default_rng(seed)
    points = rng.gamma(0.5, 40, (k * n // 2, 128))
    order = rng.permutation(k)
    collection = []
    for place in order:
        seen = (place * (n // 2) + rng.permutation(n)) % len(points)
        noisy = points[seen] + rng.normal(0, 10, (n, 128))
        collection.append(features(np.clip(noisy, 0, 255)))
    return collection, order


def next_to_each_other(order):
    """Pairs of images whose places on the ring differ by one."""
    k = len(order)
    steps = {1, k - 1}
    return [[i, j] for i, j in combinations(range(k), 2) if abs(order[i] - order[j]) in steps]


def check_form(pairs):
    assert pairs.dtype == np.int64
    assert pairs.ndim == 2
    assert pairs.shape[1] == 2
    assert pairs.tolist() == sorted(map(list, {tuple(pair) for pair in pairs.tolist()}))
    assert (pairs[:, 0] < pairs[:, 1]).all()


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7])
def test_all_pairs_by_definition(k):
    pairs = all_pairs(k)
    check_form(pairs)
    assert pairs.tolist() == [list(pair) for pair in combinations(range(k), 2)]


@pytest.mark.parametrize("k", [0, 1, 2, 7])
@pytest.mark.parametrize("window", [1, 3, 6, 7, 100])
def test_sequential_pairs_by_definition(k, window):
    pairs = sequential_pairs(k, window)
    check_form(pairs)
    assert pairs.tolist() == [[i, j] for i, j in combinations(range(k), 2) if j - i <= window]


def test_sequential_pairs_of_many_images_do_not_go_through_all_pairs():
    assert len(sequential_pairs(1_000_000, 1)) == 999_999


def test_numbers_of_neighbours_below_one_are_refused():
    with pytest.raises(NmfsyncError, match="window of sequential pairs must be at least 1, got 0"):
        sequential_pairs(5, 0)
    with pytest.raises(NmfsyncError, match="neighbours must be at least 1, got -1"):
        nearest_pairs(images(3, 3), -1)


# --- Similar images ------------------------------------------------------------------


@pytest.mark.parametrize(("k", "n"), [(40, 100), (12, 10)], ids=["many words", "few words"])
def test_neighbours_on_a_shuffled_ring_are_found(k, n):
    collection, order = ring(k, n)
    pairs = nearest_pairs(collection, 2)
    check_form(pairs)
    assert pairs.tolist() == next_to_each_other(order)


def test_pairs_are_those_of_either_image():
    # 1 is nearest to 0 and to 2, whose other neighbours are far away.
    vectors = np.float32([[10, 0, 0], [9, 4, 0], [0, 9, 4], [0, 0, 9]])
    assert pairs_module._nearest(vectors, 1).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_nearest_by_definition_with_ties(monkeypatch):
    monkeypatch.setattr(pairs_module, "_ROWS", 7)
    vectors = np.random.default_rng(0).integers(-2, 3, (40, 6)).astype(np.float32)
    similar = vectors @ vectors.T
    for neighbours in (1, 5, 39):
        expected = set()
        for i in range(40):
            others = sorted((j for j in range(40) if j != i), key=lambda j: (-similar[i, j], j))
            expected |= {(min(i, j), max(i, j)) for j in others[:neighbours]}
        found = pairs_module._nearest(vectors, neighbours)
        assert found.tolist() == [list(pair) for pair in sorted(expected)]


def test_equal_images_are_taken_in_their_order():
    pairs = nearest_pairs(images(50) * 37, 2)
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
    (vector,) = pairs_module._vlad([descriptors], words, progress=False)
    vector = vector.reshape(4, 128)[sums.any(axis=1)].ravel()
    assert np.abs(vector / 4000 - expected).max() < 0.6 / 4000


def test_vectors_make_exact_products():
    collection, _ = ring(8, 100)
    descriptors = [f.descriptors for f in collection]
    words = np.random.default_rng(0).random((128, 128), np.float32) / 8
    vectors = pairs_module._vlad(descriptors, words, progress=False)
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, np.rint(vectors))
    assert (vectors.astype(np.float64) ** 2).sum(axis=1).max() < 2**24


def test_contrast_does_not_matter():
    """The lengths of descriptors are no part of the similarity."""
    rng = np.random.default_rng(2)
    bright = [2 * rng.integers(0, 128, (40, 128)) for _ in range(4)]
    collection = [features(d) for d in bright] + [features(d // 2) for d in bright]
    assert nearest_pairs(collection, 1).tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize("counts", [(), (5,), (0,), (0, 0), (0, 5), (5, 0, 0)])
def test_fewer_than_two_images_with_features_make_no_pair(counts):
    pairs = nearest_pairs(images(*counts), 3)
    check_form(pairs)
    assert len(pairs) == 0


@pytest.mark.parametrize("counts", [(1, 1), (7, 1), (200, 200)])
def test_two_images_are_a_pair(counts):
    assert nearest_pairs(images(*counts), 3).tolist() == [[0, 1]]


def test_images_without_features_have_no_neighbours():
    blank = features(np.zeros((3, 128)))  # descriptors of zeros match nothing
    collection, order = ring(12, 60)
    mixed = [*images(0), *collection[:5], blank, *collection[5:], *images(0)]
    place = np.concatenate([np.arange(1, 6), np.arange(7, 14)])
    expected = place[np.array(next_to_each_other(order))]
    assert nearest_pairs(mixed, 2).tolist() == expected.tolist()
    together = nearest_pairs(mixed, 100)
    assert together.tolist() == [list(pair) for pair in combinations(place.tolist(), 2)]


def test_an_image_with_one_feature_finds_the_image_that_has_it_too():
    collection = images(*[60] * 5)
    collection.append(features(collection[3].descriptors[7:8]))
    assert [3, 5] in nearest_pairs(collection, 1).tolist()


def test_the_vocabulary_has_no_more_words_than_the_features_can_teach():
    for count, words in ((1, 1), (30, 1), (100, 2), (1000, 25), (5000, 64)):
        descriptors = [f.descriptors for f in images(count - count // 2, count // 2)]
        assert pairs_module._vocabulary(descriptors).shape == (words, 128)


def test_equal_features_teach_one_word():
    same = images(1)[0].descriptors.repeat(3000, axis=0)
    assert len(pairs_module._vocabulary([same])) == 1
    # Nothing differs from the word, so that all images are equally similar.
    vectors = pairs_module._vlad([same, same[:7]], pairs_module._vocabulary([same]), False)
    assert not vectors.any()


def test_words_that_are_nearest_to_nothing_are_no_reason_to_warn():
    """Multiples of one descriptor are different bytes, but one and the same RootSIFT."""
    collection = [features(np.arange(1, 121)[:, None] * np.eye(128)[0]) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(nearest_pairs(collection, 2)) == 3


def test_the_sample_is_spread_evenly(monkeypatch):
    monkeypatch.setattr(pairs_module, "_SAMPLES", 40)
    descriptors = [np.full((n, 128), i, np.uint8) for i, n in enumerate((100, 50, 50, 200))]
    sample = pairs_module._sample(descriptors)
    assert np.bincount(sample[:, 0]).tolist() == [10, 5, 5, 20]
    rows = np.arange(250, dtype=np.uint8)[:, None].repeat(128, axis=1)
    assert np.ptp(np.diff(pairs_module._sample([rows])[:, 0])) <= 1
    assert np.array_equal(pairs_module._sample([rows[:25], rows[25:39]]), rows[:39])


def test_similarities_are_never_all_in_memory(monkeypatch):
    monkeypatch.setattr(pairs_module, "_ROWS", 16)
    k = 3000
    vectors = np.random.default_rng(0).integers(-9, 9, (k, 8)).astype(np.float32)
    tracemalloc.start()
    pairs_module._nearest(vectors, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < k * k


def test_same_pairs_for_any_number_of_threads():
    code = (
        "import hashlib, sys, numpy as np; sys.path.insert(0, sys.argv[1]); import test_pairs as t;"
        "from nmfsync.matching import similarity as p; f, _ = t.ring(60, 200);"
        "d = [i.descriptors for i in f];"
        "v = p._vlad(d, p._vocabulary(d), False); n = p.nearest_pairs(f, 5);"
        "print(len(n), hashlib.sha256(v.tobytes() + n.tobytes()).hexdigest())"
    )
    runs = []
    for threads in ("1", "2"):
        variables = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(variables, threads)
        command = [sys.executable, "-c", code, os.path.dirname(__file__)]
        run = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        runs.append(run.stdout)
    assert int(runs[0].split()[0]) > 100
    assert runs[0] == runs[1]


def test_linear_algebra_is_on_one_thread(monkeypatch):
    threads = []

    def spy(*arguments, **options):
        threads.extend(
            pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()
        )
        return kmeans2(*arguments, **options)

    monkeypatch.setattr(pairs_module, "kmeans2", spy)
    with threadpool_limits(2, "blas"):
        nearest_pairs(images(5, 5), 1)
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


# --- Files ---------------------------------------------------------------------------

NAMES = ("a.jpg", "b.jpg", "left/1.png", "my photo.jpg", "photo.jpg", "my", "x  y.png")


def write(tmp_path, content):
    path = tmp_path / "pairs.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a.jpg b.jpg\n", [[0, 1]]),
        ("left/1.png a.jpg\na.jpg b.jpg", [[0, 1], [0, 2]]),
        ("a.jpg b.jpg\nb.jpg a.jpg\na.jpg b.jpg\n", [[0, 1]]),
        ("# all pairs\n\n  \n  # more\na.jpg\tb.jpg  \r\n", [[0, 1]]),
        ("\ufeffa.jpg   b.jpg", [[0, 1]]),
        ("a.jpg my photo.jpg\nmy photo.jpg  b.jpg", [[0, 3], [1, 3]]),
        ("my photo.jpg", [[4, 5]]),  # two images, as one of that name with itself is no pair
        ("my my photo.jpg", [[3, 5]]),
        ("x  y.png a.jpg", [[0, 6]]),
    ],
)
def test_pairs_are_read(tmp_path, content, expected):
    pairs = read_pairs(write(tmp_path, content), NAMES)
    check_form(pairs)
    assert pairs.tolist() == expected


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("a.jpg b.jpg\n\na.jpg c.jpg", ", line 3: there is no image 'c.jpg'"),
        ("c.jpg a.jpg", ", line 1: there is no image 'c.jpg'"),
        ("c.jpg d.jpg", ", line 1: there is no image 'c.jpg'"),
        ("# a\na.jpg", ", line 2: must contain two image names, got 'a.jpg'"),
        ("a.jpg b.jpg left/1.png", ", line 1: must contain two image names, got"),
        ("a.jpg x y.png", ", line 1: must contain two image names, got"),  # two blanks in the name
        ("a.jpg a.jpg", ", line 1: a.jpg is paired with itself"),
        ("", ": contains no pair of images"),
        ("# a.jpg b.jpg\n", ": contains no pair of images"),
        (b"\xff\xfea\x00", ": not a text file"),
        (b"a.jpg\x00b.jpg", ": not a text file"),
    ],
)
def test_faults_of_files_are_named(tmp_path, content, fault):
    path = write(tmp_path, content)
    with pytest.raises(NmfsyncError) as error:
        read_pairs(path, NAMES)
    assert str(error.value).startswith(f"{path}{fault}")


def test_a_line_that_can_be_read_in_two_ways_is_refused(tmp_path):
    path = write(tmp_path, "a b c")
    with pytest.raises(NmfsyncError, match=r"line 1: 'a b c' can be read .* in several ways"):
        read_pairs(path, ["a", "b c", "a b", "c"])


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path):
    with pytest.raises(NmfsyncError, match=r"none\.txt: no such file"):
        read_pairs(tmp_path / "none.txt", NAMES)
    with pytest.raises(NmfsyncError, match=r"cannot be read \(Is a directory\)"):
        read_pairs(tmp_path, NAMES)


# --- Choice --------------------------------------------------------------------------


def test_every_choice_makes_its_pairs(tmp_path):
    collection, _ = ring(7, 40)
    names = [f"{i}.png" for i in range(7)]
    path = write(tmp_path, "\n".join(f"0.png {i}.png" for i in range(1, 7)))

    def select(choice):
        return select_pairs(choice, collection, names).tolist()

    assert select("all") == all_pairs(7).tolist()
    assert select("sequential:2") == sequential_pairs(7, 2).tolist()
    assert select("nearest:3") == nearest_pairs(collection, 3).tolist()
    assert select("nearest:03") == select("nearest:3")
    assert select(str(path)) == [[0, i] for i in range(1, 7)]


@pytest.mark.parametrize(
    "choice",
    [
        *("sequential:", "sequential:0", "nearest:0", "nearest:x", "nearest:-1", "nearest:1.5"),
        *("nearest: 2", "nearest:2:3", "nearest:٣", "nearest:1e3"),
    ],
)
def test_numbers_that_are_none_are_refused(choice):
    with pytest.raises(NmfsyncError, match=f"pairs '{choice}': .* whole number of at least 1"):
        select_pairs(choice, images(3, 3), ["a", "b"])


@pytest.mark.parametrize("choice", ["", "nearest", "sequential", "near:3", "none.txt", "x" * 300])
def test_a_choice_that_is_none_is_refused(choice):
    with pytest.raises(NmfsyncError, match=f"'{choice}': must be all, sequential:W, nearest:N or"):
        select_pairs(choice, images(3, 3), ["a", "b"])


def test_pairs_that_do_not_connect_the_images_are_a_reason_to_warn(tmp_path):
    path = write(tmp_path, "0 1\n2 3\n")
    with pytest.warns(NmfsyncWarning, match="split the images into 3 parts"):
        pairs = select_pairs(str(path), images(3, 3, 3, 3, 3), "01234")
    assert pairs.tolist() == [[0, 1], [2, 3]]


def test_only_images_with_features_count_as_parts(tmp_path):
    # Images are connected unless they warn: warnings are errors here.
    path = str(write(tmp_path, "0 1\n"))
    select_pairs(path, images(3, 3, 0, 0), "0123")
    select_pairs(path, images(3, 0, 0, 0), "0123")
    select_pairs("sequential:1", images(0, 0), "01")
    for choice in ("all", "sequential:1", "nearest:1"):
        assert len(select_pairs(choice, [], [])) == 0
    # What an image without features connects is not connected.
    with pytest.warns(NmfsyncWarning, match="into 2 parts"):
        select_pairs("sequential:1", images(3, 0, 3), "012")
