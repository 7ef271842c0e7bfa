"""Random problems: valid, as noisy as they say, and the same whenever they are made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from builders import CASES, check_mean, problems
from nmfsync import NmfsyncError, PairwiseMatches, evaluation, synthetic


# The inputs of the reference tables: mean gt-error of 20 instances.
@pytest.mark.parametrize(
    ("case", "reference"), [*zip(CASES, [63.4, 80.7, 39.0, 19.9, 87.8], strict=True)]
)
def test_generator_makes_as_much_noise_as_the_reference(case, reference):
    errors = [evaluation.gt_error(matches.W, W_gt) for matches, W_gt in problems(case)]
    check_mean(errors, reference, rounding=0.1)


@given(st.integers(1, 5), st.integers(1, 6), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_generator_gives_valid_matches_of_a_consistent_truth(k, d, rho, sigma, seed):
    W, W_gt, sizes = synthetic.generate(k, d, rho, sigma, seed)
    matches = PairwiseMatches(W, sizes)
    assert matches.W.nnz == W_gt.nnz  # shuffling loses no match
    assert evaluation.cycle_error(W_gt, sizes) == 0.0
    again, _, _ = synthetic.generate(k, d, rho, sigma, seed)
    assert (again != W).nnz == 0


@pytest.mark.parametrize("bad", [(0, 5, 0.5, 0.5), (5, 0, 0.5, 0.5), (5, 5, 1.5, 0), (5, 5, 0, -1)])
def test_generator_refuses_parameters_out_of_range(bad):
    with pytest.raises(NmfsyncError, match="must"):
        synthetic.generate(*bad)


@st.composite
def rings(draw):
    """Parameters of a small ring: k, d, views, rho, sigma, seed."""
    k = draw(st.integers(1, 9))
    views = draw(st.integers(1, (k + 1) // 2))
    shares = st.floats(0, 1)
    return k, draw(st.integers(1, 12)), views, draw(shares), draw(shares), draw(st.integers(0, 99))


@given(rings())
def test_ring_gives_valid_matches_of_a_consistent_truth(ring):
    k, d, views, *_ = ring
    W, W_gt, sizes = synthetic.ring(*ring)
    matches = PairwiseMatches(W, sizes)
    assert len(sizes) == k
    assert matches.W.nnz == W_gt.nnz  # shuffling loses no match
    assert evaluation.cycle_error(W_gt, sizes) == 0.0
    # Only images less than `views` apart, one way round the ring or the other.
    for M in (W, W_gt):
        p, q = M.tocoo().coords
        apart = np.abs(matches.image_of[p] - matches.image_of[q])
        assert (np.minimum(apart, k - apart) < views).all()
    seen = np.bincount(sparse.csgraph.connected_components(W_gt)[1], minlength=1)
    assert len(seen) <= d
    assert seen.max() <= views
    again, _, _ = synthetic.ring(*ring)
    assert (again != W).nnz == 0


def test_everything_is_seen_everywhere_if_rho_is_one():
    _, W_gt, sizes = synthetic.ring(k=10, d=40, views=4, rho=1.0, sigma=0.3)
    assert sizes.sum() == 160
    assert np.diff(W_gt.indptr).tolist() == [4] * 160


@pytest.mark.parametrize("sigma", [0.0, 0.2, 0.5])
def test_rho_and_sigma_of_a_ring_are_the_shares_they_say(sigma):
    """Within four standard deviations; of the shuffled rows, some end where they were."""
    W, W_gt, sizes = synthetic.ring(k=30, d=600, views=8, rho=0.7, sigma=sigma, seed=1)
    seen = 600 * 8
    assert abs(sizes.sum() / seen - 0.7) < 4 * np.sqrt(0.7 * 0.3 / seen)
    m = sizes.sum()
    right = (W.multiply(W_gt).nnz - m) / (W_gt.nnz - m)
    assert 1 - sigma <= right < 1 - sigma + 0.03


def test_rings_of_other_seeds_are_others():
    rings = [synthetic.ring(k=10, d=20, views=4, rho=0.7, sigma=0.3, seed=n)[0] for n in (0, 1)]
    assert rings[0].shape != rings[1].shape or (rings[0] != rings[1]).nnz


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((7, 0, 2, 0.5, 0.5), "d must be at least 1, got 0"),
        ((7, 5, 0, 0.5, 0.5), "got 0 views of 7 images"),
        ((7, 5, 5, 0.5, 0.5), "got 5 views of 7 images"),
        ((6, 5, 4, 0.5, 0.5), "got 4 views of 6 images"),
        ((0, 5, 1, 0.5, 0.5), "views must be between 1"),
        ((7, 5, 2, 1.5, 0.5), "rho must be between 0 and 1, got 1.5"),
        ((7, 5, 2, 0.5, -0.1), "sigma must be between 0 and 1, got -0.1"),
    ],
)
def test_a_ring_with_parameters_out_of_range_is_an_error(bad, message):
    with pytest.raises(NmfsyncError, match=message):
        synthetic.ring(*bad)


# --- Problems that are hard in other ways -----------------------------------------------

SHARES = ("rho", "sigma", "spread", "matched", "aliases", "missing", "spurious", "random_pairs")


share = st.floats(0, 1)


@st.composite
def hard_problems(draw, noise=share):
    """Parameters of a small problem, some of which may be at their defaults."""
    parameters = {name: draw(share) for name in ("rho", "spread", "matched")}
    parameters |= {name: draw(noise) for name in SHARES if name not in parameters}
    return parameters | {
        "k": draw(st.integers(1, 6)),
        "d": draw(st.integers(1, 6)),
        "zipf": draw(st.none() | st.floats(0, 3)),
        "outliers": draw(noise),
        "neighbours": draw(st.none() | st.integers(1, 6)),
        "closed": draw(st.booleans()),
        "seed": draw(st.integers(0, 99)),
    }


@given(hard_problems())
def test_hard_problems_are_valid_and_the_same_again(parameters):
    W, W_gt, sizes = synthetic.hard(**parameters)
    matches = PairwiseMatches(W, sizes)  # symmetric, at most one match of a feature in an image
    assert set(matches.W.data) <= {1.0}
    assert evaluation.cycle_error(W_gt, sizes) == 0.0
    again, _, _ = synthetic.hard(**parameters)
    assert (again != W).nnz == 0


@given(hard_problems(noise=st.just(0.0)))
def test_without_noise_matches_are_the_true_ones_of_the_images_that_are_matched(parameters):
    W, W_gt, sizes = synthetic.hard(**parameters)
    image = PairwiseMatches(W, sizes).image_of
    p, q = W_gt.tocoo().coords
    u, v = W.tocoo().coords
    blocks = set(zip(image[u], image[v], strict=True))
    kept = [(i, j) in blocks for i, j in zip(image[p], image[q], strict=True)]
    wanted = sparse.coo_array((np.ones(sum(kept)), (p[kept], q[kept])), W.shape)
    assert (wanted != W).nnz == 0


def counted(**difference):
    """Return image_of, and the matches p < q of a large problem, with whether each is right."""
    base = {"k": 20, "d": 60, "rho": 0.7, "sigma": 0.0, "seed": 5}
    W, W_gt, sizes = synthetic.hard(**base | difference)
    p, q = sparse.triu(W, 1).nonzero()
    return PairwiseMatches(W, sizes).image_of, p, q, np.asarray(W_gt[p, q]).ravel() > 0


TRUE = len(counted()[1])  # matches of the problem without any difficulty


@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0])
def test_sigma_is_the_share_of_wrong_associations(sigma):
    _, p, _, right = counted(sigma=sigma)
    assert len(p) == TRUE
    # A wrong match draws one of about 18 free features or more, the true one among them.
    assert 1 - sigma - 0.02 <= right.mean() <= 1 - 0.93 * sigma + 0.02


def test_missing_and_spurious_matches_have_the_shares_they_say():
    _, _, _, right = counted(missing=0.3)
    assert right.all()
    assert abs(len(right) / TRUE - 0.7) < 0.02
    image, _, _, right = counted(spurious=0.4)
    assert right.sum() == TRUE
    size = np.bincount(image)
    pairs = sum(size[i] for i in range(20) for _ in range(i + 1, 20))  # rows of all blocks
    assert abs((~right).sum() / (pairs - TRUE) - 0.4) < 0.02


def test_random_pairs_have_random_matches_and_others_true_ones():
    image, p, q, right = counted(random_pairs=0.25)
    assert len(p) == TRUE
    block = image[p] * 20 + image[q]
    share = np.bincount(block, right)[np.unique(block)] / np.bincount(block)[np.unique(block)]
    assert set(share[share > 0.3]) == {1.0}
    assert abs((share < 0.3).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 190)


def test_outliers_are_features_of_no_point():
    W, W_gt, sizes = synthetic.hard(10, 20, 1.0, 0.0, outliers=0.5)
    assert sizes.tolist() == [30] * 10
    alone = np.diff(W_gt.indptr) == 1
    assert alone.sum() == 100
    p, q = sparse.triu(W, 1).nonzero()
    assert (alone[p] == alone[q]).all()  # all points are seen everywhere: no other is free
    assert abs(alone[p].sum() / (45 * 10) - 0.5) < 4 * np.sqrt(0.25 / 450)


def test_points_that_look_alike_are_taken_for_each_other_a_quarter_of_the_time():
    _, _, _, right = counted(rho=1.0, aliases=0.5)  # 30 of 60 points
    assert abs((~right).mean() - 0.125) < 0.015


@pytest.mark.parametrize(("closed", "pairs"), [(False, 18 + 17), (True, 19 * 2)])
def test_only_neighbours_are_matched(closed, pairs):
    W, _, sizes = synthetic.hard(19, 3, 1.0, 0.5, neighbours=2, closed=closed)
    image = PairwiseMatches(W, sizes).image_of
    p, q = sparse.triu(W, 1).nonzero()
    apart = image[q] - image[p]
    assert (np.minimum(apart, 19 - apart if closed else 19) <= 2).all()
    assert len(set(zip(image[p], image[q], strict=True))) == pairs


def test_view_graphs_have_as_many_edges_as_they_say():
    image, p, q, right = counted(matched=0.2)
    edges = len(set(zip(image[p], image[q], strict=True)))
    assert right.all()
    assert abs(edges / 190 - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 190)


def track_lengths(**difference):
    _, W_gt, _ = synthetic.hard(k=10, d=4000, rho=0.5, sigma=0.0, matched=0.0, **difference)
    return np.bincount(sparse.csgraph.connected_components(W_gt)[1])


def test_track_lengths_follow_zipfs_law():
    lengths = track_lengths(zipf=1.0)
    expected = 4000 / np.arange(1, 11) / (1 / np.arange(1, 11)).sum()
    counts = np.bincount(lengths, minlength=11)[1:]
    assert (abs(counts - expected) < 4 * np.sqrt(expected)).all()


def test_spread_makes_visibility_unequal_at_the_same_mean():
    equal, unequal = track_lengths(), track_lengths(spread=1.0)
    assert unequal.sum() == pytest.approx(equal.sum(), rel=0.05)
    assert unequal.var() > 2 * equal.var()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"k": 0}, "k and d must be at least 1, got 0 and 5"),
        ({"outliers": -0.1}, "outliers and zipf must not be negative, got -0.1"),
        ({"zipf": -1.0}, "outliers and zipf must not be negative"),
        ({"neighbours": 0}, "neighbours must be at least 1, got 0"),
        *(({name: 1.5}, f"{name} must be between 0 and 1, got 1.5") for name in SHARES),
    ],
)
def test_a_hard_problem_with_parameters_out_of_range_is_an_error(bad, message):
    with pytest.raises(NmfsyncError, match=message):
        synthetic.hard(**{"k": 5, "d": 5, "rho": 0.5, "sigma": 0.5} | bad)
