import tracemalloc
from itertools import combinations, pairwise

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skimage import data

from builders import (
    bits,
    links,
    make_features,
    overlapping_images,
    random_features,
    random_images,
)
from neighbours import mutual_by_definition
from nmfsync.errors import NmfsyncError
from nmfsync.features.sift import extract
from nmfsync.matching import evidence, nearest
from nmfsync.matching import match as matching
from nmfsync.matching.match import match
from nmfsync.matching.pairs import all_pairs, sequential_pairs
from nmfsync.runtime.engine import engine
from real_data import real_data


def on_a_line(*positions):
    """Features whose descriptors have the distances of points on a line."""
    return make_features(descriptors=[(position, 1) for position in positions])


def by_definition(collection, ratio=None):
    """The pairs (p, q) as the docstring of `match` says."""
    offsets = np.cumsum([0, *map(len, collection)]).tolist()
    return sorted(
        (offsets[i] + p, offsets[j] + q)
        for i, j in combinations(range(len(collection)), 2)
        for p, q, squared, second in mutual_by_definition(
            collection[i].descriptors, collection[j].descriptors
        )
        if ratio is None or np.sqrt(squared) < ratio * np.sqrt(second)
    )


def weights(matches):
    """Weight of every pair (p, q) with p < q."""
    return {(p, q): float(matches.W[p, q]) for p, q in matched(matches)}


def matched(matches):
    """The pairs (p, q) with p < q, counted through all images, in order."""
    return sorted(links(matches))


def test_mutual_nearest_neighbours_by_hand():
    #            a: 10  50  90     b: 52  12  60
    # 10 and 12 choose each other, so do 50 and 52; 90 chooses 60, which chooses 50.
    matches = match([on_a_line(10, 50, 90), on_a_line(52, 12, 60)])
    assert matched(matches) == [(0, 4), (1, 3)]


def test_values_are_one_and_w_is_symmetric_with_unit_diagonal():
    W = match([on_a_line(10, 50, 90), on_a_line(52, 12, 60), on_a_line(11)]).W.toarray()
    assert np.array_equal(W, W.T)
    assert np.array_equal(np.diag(W), np.ones(7))
    assert set(np.unique(W)) == {0.0, 1.0}


def test_every_block_is_a_partial_permutation_and_diagonal_blocks_are_identities():
    rng = np.random.default_rng(0)
    collection = [random_features(rng, n, levels=3) for n in (20, 0, 31, 1, 25)]
    matches = match(collection)
    W = matches.W.toarray()
    for i, (a, b) in enumerate(pairwise(matches.offsets)):
        for j, (c, d) in enumerate(pairwise(matches.offsets)):
            block = W[a:b, c:d]
            if i == j:
                assert np.array_equal(block, np.eye(b - a))
            else:
                assert (block.sum(axis=0) <= 1).all()
                assert (block.sum(axis=1) <= 1).all()


def test_ratio_is_of_distances_and_not_of_their_squares():
    pair = [on_a_line(100), on_a_line(107, 110)]  # distances 7 and 10
    assert matched(match(pair, ratio=0.75)) == [(0, 1)]
    assert matched(match(pair, ratio=0.65)) == []  # 49 < 0.65 * 100


def test_ratio_must_hold_in_both_directions():
    # 100 to 107: its second in b is 100 away, but seen from 107 the second in a is 10 away.
    pair = [on_a_line(100, 97), on_a_line(107, 200)]
    assert matched(match(pair)) == [(0, 2)]
    assert matched(match(pair, ratio=0.75)) == [(0, 2)]
    assert matched(match(pair, ratio=0.65)) == []
    assert matched(match(pair[::-1], ratio=0.65)) == []


def test_ratio_on_a_three_by_three_matrix_by_hand():
    # distances      b: 20   60   66
    #        a:  10     10   50   56     nearest 20 of 10: 10/50 and back 10/38
    #            58     38    2    8     nearest 60 of 58:  2/8  and back  2/20
    #            80     60   20   14     nearest 66 of 80: 14/20, but 66 has 58 at 8
    a, b = on_a_line(10, 58, 80), on_a_line(20, 60, 66)
    assert matched(match([a, b])) == [(0, 3), (1, 4)]
    assert matched(match([a, b], ratio=0.27)) == [(0, 3), (1, 4)]
    assert matched(match([a, b], ratio=0.26)) == [(1, 4)]  # 10/38 = 0.263
    assert matched(match([a, b], ratio=0.25)) == []  # 2/8 is not below 0.25


def test_weights_of_few_matches_follow_from_the_ratio():
    """The same distances: the ratios are 10/38, seen back from 20, and 2/8, seen from 58."""
    a, b = on_a_line(10, 58, 80), on_a_line(20, 60, 66)
    expected = {(0, 3): 1 - (10 / 38) ** 4, (1, 4): 1 - (2 / 8) ** 4}
    assert weights(match([a, b], weighted=True)) == pytest.approx(expected)
    # The other way round it is the other image that has the larger ratio.
    back = {(q - 3, p + 3): weight for (p, q), weight in expected.items()}
    assert weights(match([b, a], weighted=True)) == pytest.approx(back)


def test_a_tie_has_the_least_weight():
    # 50 is as near to 40 as to 60; then the same seen from the other image; then no distance.
    for pair in (
        [on_a_line(50), on_a_line(60, 40)],
        [on_a_line(60, 40), on_a_line(50)],
        [on_a_line(50), on_a_line(50, 50)],
    ):
        assert list(weights(match(pair, weighted=True)).values()) == [0.001]


def test_a_match_without_a_second_nearest_has_the_least_weight():
    """Nothing tells whether it is right."""
    assert weights(match([on_a_line(100), on_a_line(250)], weighted=True)) == {(0, 1): 0.001}
    # Of two features in the other image, one is the second nearest.
    found = weights(match([on_a_line(100), on_a_line(90, 120)], weighted=True))
    assert found == {(0, 1): pytest.approx(1 - (10 / 20) ** 4)}


def test_right_matches_are_told_from_wrong_ones():
    """The second image shows half of the points 25 pixels further right."""
    a, b = overlapping_images(2, 600)
    found = weights(match([a, b], weighted=True))
    p, q = np.array([*found]).T
    right = np.hypot(*(a.xy[p] + [25, 0] - b.xy[q - 600]).T) < 1
    P = np.array([*found.values()])
    assert 0.4 < right.mean() < 0.7
    assert P[right].mean() > 0.9
    assert P[~right].mean() < 0.1
    assert P.mean() == pytest.approx(right.mean(), abs=0.05)


@settings(max_examples=25)
@given(
    limit=st.sampled_from([{"ratio": 0.7}, {"ratio": 0.95}, {"ratio": 1}, {}]),
    distance=st.sampled_from([None, 0, 200, 400]),
    n=st.sampled_from([0, 1, 30, 80]),
    seed=st.integers(0, 50),
)
def test_weights_change_no_match_and_limits_change_no_weight(limit, distance, n, seed):
    collection = overlapping_images(3, n, seed)
    weighted = match(collection, weighted=True, distance=distance, **limit)
    assert matched(weighted) == matched(match(collection, distance=distance, **limit))
    everything = weights(match(collection, weighted=True))
    assert weights(weighted) == {pair: everything[pair] for pair in matched(weighted)}


def test_single_feature_passes_the_ratio_test():
    assert matched(match([on_a_line(100), on_a_line(250)], ratio=0.5)) == [(0, 1)]


def test_images_with_no_one_two_and_many_features():
    rng = np.random.default_rng(1)
    collection = [random_features(rng, n) for n in (0, 1, 2, 60, 0)]
    for ratio in (None, 0.9):
        matches = match(collection, ratio)
        assert matches.sizes.tolist() == [0, 1, 2, 60, 0]
        assert matched(matches) == by_definition(collection, ratio)


@pytest.mark.parametrize("sizes", [[0], [3], [0, 0], [0, 0, 0]])
def test_nothing_to_match_gives_the_unit_matrix(sizes):
    rng = np.random.default_rng(2)
    W = match([random_features(rng, n) for n in sizes]).W
    assert np.array_equal(W.toarray(), np.eye(sum(sizes)))


def test_no_images_is_an_error():
    with pytest.raises(NmfsyncError):
        match([])


@pytest.mark.parametrize("ratio", [0, -0.5, 1.01, float("nan")])
def test_ratio_out_of_range_is_an_error(ratio):
    with pytest.raises(NmfsyncError, match="ratio must be"):
        match([on_a_line(1), on_a_line(2)], ratio=ratio)


def test_zero_descriptors_match_nothing_and_block_nothing():
    zero = ()
    a = make_features(descriptors=[zero, (100, 1), zero])
    b = make_features(descriptors=[zero, (107, 1), zero, zero])
    assert matched(match([a, b])) == [(1, 4)]
    assert matched(match([a, b], ratio=0.5)) == [(1, 4)]  # zeros are no second nearest
    assert matched(match([make_features(descriptors=[zero]), b])) == []


def test_equal_distances_go_to_the_first_in_both_directions():
    a, b = on_a_line(50, 50, 90), on_a_line(50, 50)
    assert matched(match([a, b])) == [(0, 3)]
    # 50 is as near to 40 as to 60, and takes the first.
    assert matched(match([on_a_line(50), on_a_line(60, 40)])) == [(0, 1)]
    assert matched(match([on_a_line(50), on_a_line(60, 40)], ratio=1)) == []


def test_distances_of_the_largest_bytes_are_exact():
    # Distances 0 and 1 as differences of sums near 2²⁴, where single precision ends.
    brightest = np.full(128, 255)
    nearly = brightest.copy()
    nearly[77] = 254
    assert matched(
        match(
            [make_features(descriptors=[brightest]), make_features(descriptors=[nearly, brightest])]
        )
    ) == [(0, 2)]
    assert matched(
        match([make_features(descriptors=[nearly]), make_features(descriptors=[brightest, nearly])])
    ) == [(0, 2)]


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    levels=st.sampled_from([2, 4, 256]),
    length=st.sampled_from([1, 3, 128]),
    ratio=st.sampled_from([None, 0.6, 1.0]),
    work=st.sampled_from([1, 50, 10**6]),
    seed=st.integers(0, 1000),
)
def test_agrees_with_the_definition_ties_included_for_any_size_of_tasks(
    kernel, sizes, levels, length, ratio, work, seed
):
    rng = np.random.default_rng(seed)
    collection = [make_features(descriptors=rng.integers(0, levels, (n, length))) for n in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "BLOCK", work)
        patch.setattr(matching, "TASK", work)
        patch.setattr(nearest, "BLAS_PRODUCTS", work)
        assert matched(match(collection, ratio)) == by_definition(collection, ratio)


@pytest.mark.parametrize("work", [1, 200, 10_000])
def test_weights_are_the_same_for_any_size_of_tasks_and_order_of_pairs(monkeypatch, work):
    """Not every task has pairs of images with decoys."""
    collection = [*overlapping_images(4, 100), *random_images(0, 1), *overlapping_images(1, 30)]
    monkeypatch.setattr(matching, "DECOY_PAIRS", 3)
    monkeypatch.setattr(evidence, "LEAST", 10)
    expected = match(collection, weighted=True)
    assert len(set(weights(expected).values())) > 100
    pairs = np.random.default_rng(0).permutation(all_pairs(7))
    monkeypatch.setattr(matching, "BLOCK", work)
    monkeypatch.setattr(matching, "TASK", work)
    assert bits(match(collection, weighted=True, pairs=pairs)) == bits(expected)


def test_only_the_chosen_pairs_are_matched():
    rng = np.random.default_rng(9)
    # Too few matches to learn from, so that the weight of one does not depend on others.
    collection = [random_features(rng, n) for n in (20, 15, 0, 25, 30)]
    everything = match(collection, weighted=True)
    pairs = sequential_pairs(5, 2)
    chosen = match(collection, weighted=True, pairs=pairs[::-1])
    image = everything.image_of
    allowed = {(int(i), int(j)) for i, j in pairs}
    expected = {(p, q): w for (p, q), w in weights(everything).items()
                if (int(image[p]), int(image[q])) in allowed}  # fmt: skip
    assert 0 < len(expected) < len(weights(everything))
    assert weights(chosen) == expected
    assert weights(match(collection, weighted=True, pairs=all_pairs(5))) == weights(everything)
    assert matched(match(collection, pairs=np.empty((0, 2), int))) == []


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(1, 0)], "pair \\(1, 0\\): images must be 0 ≤ i < j < 3"),
        ([(0, 1), (1, 1)], "pair \\(1, 1\\)"),
        ([(0, 3)], "pair \\(0, 3\\)"),
        ([(-1, 2)], "pair \\(-1, 2\\)"),
        ([(0, 1), (0, 1)], "given twice"),
        ([(0.5, 1)], "two columns of whole numbers"),
        ([0, 1], "two columns"),
    ],
)
def test_pairs_that_are_none_are_an_error(pairs, message):
    with pytest.raises(NmfsyncError, match=message):
        match([on_a_line(1)] * 3, pairs=np.array(pairs))


def test_the_largest_distance_is_still_a_match():
    pair = [on_a_line(10, 100), on_a_line(15, 112)]  # distances 5 and 12
    assert matched(match(pair, distance=12)) == [(0, 2), (1, 3)]
    assert matched(match(pair, distance=11.9)) == [(0, 2)]
    assert matched(match(pair, distance=0)) == []
    with pytest.raises(NmfsyncError, match="must not be negative"):
        match(pair, distance=-1)


def test_order_of_images_does_not_matter():
    """To matches; and little to weights: the grid of neighbours is that of the first image."""
    a, b = overlapping_images(2, 200)
    there = {(p, q - 200): w for (p, q), w in weights(match([a, b], weighted=True)).items()}
    back = {(q - 200, p): w for (p, q), w in weights(match([b, a], weighted=True)).items()}
    assert there.keys() == back.keys()
    assert np.mean([abs(there[pair] - back[pair]) for pair in there]) < 0.02


def test_memory_does_not_grow_with_the_pairs_of_features(kernel):
    """All distances of these two images at once would take 64 MB, and half of that twice."""
    rng = np.random.default_rng(4)
    pair = [random_features(rng, 4000), random_features(rng, 4000)]
    match([random_features(rng, 9)] * 2)  # compiles
    tracemalloc.start()
    match(pair)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6


def test_same_bits_on_threads_and_in_processes(monkeypatch):
    monkeypatch.setattr(matching, "BLOCK", 100)
    collection = overlapping_images(5, 70)
    here = bits(match(collection, weighted=True))
    for name in ("threads", "processes"):
        with engine(name):
            assert bits(match(collection, weighted=True)) == here


def test_same_matches_for_any_number_of_threads(in_another_process):
    collection = overlapping_images(3, 300)
    here = match(collection, 0.99, weighted=True)
    assert len(set(weights(here).values())) > 60
    assert bits(in_another_process(match, collection, 0.99, weighted=True)) == bits(here)


def untied_by_brute_force(a, b):
    """OpenCV's mutual nearest neighbours, and which features have two nearest ones."""
    A, B = a.descriptors.astype(np.float32), b.descriptors.astype(np.float32)
    found = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True).match(A, B)
    squared = ((A[:, None].astype(np.int32) - B[None].astype(np.int32)) ** 2).sum(axis=2)
    tied_a = (squared == squared.min(axis=1, keepdims=True)).sum(axis=1) > 1
    tied_b = (squared == squared.min(axis=0, keepdims=True)).sum(axis=0) > 1
    pairs = {(m.queryIdx, m.trainIdx) for m in found}
    return pairs, tied_a, tied_b


def check_against_brute_force(a, b):
    theirs, tied_a, tied_b = untied_by_brute_force(a, b)
    ours = {(p, q - len(a)) for p, q in matched(match([a, b]))}
    assert all(tied_a[p] or tied_b[q] for p, q in ours ^ theirs)
    assert len(ours & theirs) > 50


def test_same_as_brute_force_cross_check_on_a_warped_photograph():
    image = cv2.cvtColor(data.astronaut(), cv2.COLOR_RGB2GRAY)
    H = np.array([[0.9, 0.15, 10], [-0.1, 0.85, 60], [1e-4, 5e-5, 1]])
    warped = cv2.warpPerspective(image, H, (512, 512))
    a, b = extract(image, features=300), extract(warped, features=300)
    check_against_brute_force(a, b)
    ours = np.array(matched(match([a, b], ratio=0.8))) - [0, len(a)]
    moved = cv2.perspectiveTransform(a.xy[None, ours[:, 0]].astype(np.float64), H)[0]
    right = np.linalg.norm(moved - b.xy[ours[:, 1]], axis=1) < 3
    assert right.mean() > 0.95


def test_same_as_brute_force_cross_check_on_graffiti():
    folder = real_data("graffiti/graf")
    a, b = (extract(folder / name, features=500) for name in ("img1.ppm", "img2.ppm"))
    check_against_brute_force(a, b)
