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
        ((7, 5, 2, 1.5, 0.5), "rho and sigma must be between 0 and 1, got 1.5 and 0.5"),
        ((7, 5, 2, 0.5, -0.1), "rho and sigma must be between 0 and 1"),
    ],
)
def test_a_ring_with_parameters_out_of_range_is_an_error(bad, message):
    with pytest.raises(NmfsyncError, match=message):
        synthetic.ring(*bad)
