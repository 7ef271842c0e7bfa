"""What union-find and CLEAR promise."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import strategies
from builders import clear, matches_of, noisy, same
from nmfsync import MultiMatching, PairwiseMatches, evaluation
from nmfsync.synchronisation.baselines import unionfind as unionfind_module

# Random problems may have inconsistent tracks, or a d that is too small.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(see an image twice|is too small):nmfsync.NmfsyncWarning"
)


def unionfind(matches, d, seed=0):
    """Union-find, which needs neither d nor a seed."""
    return unionfind_module.unionfind(matches)


METHODS = [
    pytest.param(unionfind, {}, id="unionfind"),
    pytest.param(clear, {}, id="clear"),
    pytest.param(clear, {"estimate": False}, id="clear, given d"),
]


@pytest.mark.parametrize(("method", "options"), METHODS)
@settings(max_examples=40)
@given(matches=strategies.pairwise_matches(weighted=True), d=st.integers(1, 12))
def test_results_are_consistent(method, options, matches, d):
    """The type checks it: no universe feature twice in an image. No new path of matches."""
    assume(matches.sizes.sum())
    result = method(matches, d, **options)
    assert isinstance(result, MultiMatching)
    assert evaluation.cycle_error(result.W, matches.sizes) == 0.0
    component = sparse.csgraph.connected_components(matches.W)[1]
    p, q = result.W.tocoo().coords
    assert (component[p] == component[q]).all()


@pytest.mark.parametrize(("method", "options"), METHODS)
@settings(max_examples=40)
@given(truth=strategies.multi_matchings(), seed=st.integers(0, 2**16))
def test_noise_free_matches_come_back_whatever_the_order(method, options, truth, seed):
    assume(truth.sizes.sum())
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(truth.universe)), truth.image_of))
    matches = reordered(PairwiseMatches(truth.W, truth.sizes), order)
    assert same(method(matches, truth.universe_size, **options).W, matches.W)


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_order_of_features_changes_nothing_but_the_order(method, options):
    """CLEAR's first pivot stays where it is: it is the first feature by definition."""
    matches = noisy()
    rng = np.random.default_rng(5)
    for _ in range(5):
        order = np.lexsort((rng.random(len(matches.image_of)), matches.image_of))
        order = np.concatenate([[0], order[order != 0]])
        result = method(reordered(matches, order), 10, **options)
        assert same(result.W, method(matches, 10, **options).W[order][:, order])


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_same_input_same_bits(method, options):
    first, second = (method(noisy(), 10, seed=3, **options) for _ in range(2))
    assert first.universe.tobytes() == second.universe.tobytes()


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_no_matches_give_single_features(method, options):
    assert method(matches_of([], [2, 0, 3]), 5, **options).universe.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_images_without_features(method, options):
    result = method(matches_of([(0, 2), (1, 3)], [0, 2, 0, 2]), 2, **options)
    assert result.universe.tolist() == [0, 1, 0, 1]


def reordered(matches: PairwiseMatches, order) -> PairwiseMatches:
    return PairwiseMatches(matches.W[order][:, order], matches.sizes)
