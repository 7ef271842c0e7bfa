"""Union-find and CLEAR: what both promise, small cases by hand, and the authors' results."""

import warnings
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import io, sparse
from threadpoolctl import threadpool_limits

import strategies
from nmfsync import MultiMatching, NmfsyncWarning, PairwiseMatches, evaluation, synthetic
from nmfsync.errors import TooLargeError
from nmfsync.synchronisation.baselines import unionfind as unionfind_module
from nmfsync.synchronisation.baselines.clear import _pivots
from nmfsync.synchronisation.numerics import eigenpairs as eigen
from real_data import real_data

# By its full name: once registered, `clear` of the package may be the function.
clear_module = import_module("nmfsync.synchronisation.baselines.clear")


def clear(matches, d, seed=0, estimate=True, max_features=10_000):
    """CLEAR, which finds the number of eigenvectors itself or is given d."""
    return clear_module.clear(matches, seed, max_features, None if estimate else d)


def unionfind(matches, d=0, seed=0):
    """Union-find, which needs neither d nor a seed."""
    return unionfind_module.unionfind(matches)


METHODS = [
    pytest.param(unionfind, {}, id="unionfind"),
    pytest.param(clear, {}, id="clear"),
    pytest.param(clear, {"estimate": False}, id="clear, given d"),
]


@pytest.fixture(autouse=True)
def _as_synchronise_does():
    """One thread; and random problems may have inconsistent tracks, or a d that is too small."""
    warnings.filterwarnings("ignore", ".*(see an image twice|is too small)", NmfsyncWarning)
    with threadpool_limits(1, user_api="blas"):
        yield


def same(A, B) -> bool:
    return A.shape == B.shape and (A != B).nnz == 0


def pairs(edges, sizes) -> PairwiseMatches:
    """Make matches from pairs of features, numbered through all images."""
    W = np.zeros((sum(sizes), sum(sizes)))
    for p, q in edges:
        W[p, q] = W[q, p] = 1
    return PairwiseMatches(W, sizes)


def noisy(k=12, d=10, rho=0.7, sigma=0.6, seed=1) -> PairwiseMatches:
    W, _, sizes = synthetic.generate(k=k, d=d, rho=rho, sigma=sigma, seed=seed)
    return PairwiseMatches(W, sizes)


def reordered(matches: PairwiseMatches, order) -> PairwiseMatches:
    return PairwiseMatches(matches.W[order][:, order], matches.sizes)


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
    assert method(pairs([], [2, 0, 3]), 5, **options).universe.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_images_without_features(method, options):
    result = method(pairs([(0, 2), (1, 3)], [0, 2, 0, 2]), 2, **options)
    assert result.universe.tolist() == [0, 1, 0, 1]


def test_unionfind_follows_chains_and_drops_contradictions():
    """0-2-4 is a track; 1-3-5 too, but 5 leads back to 6 of the image of 1."""
    consistent = pairs([(0, 2), (2, 4), (1, 3)], [2, 2, 2])
    assert unionfind(consistent, 1).universe.tolist() == [0, 1, 0, 1, 0, 2]
    contradictory = pairs([(0, 3), (3, 5), (1, 4), (4, 6), (6, 2)], [3, 2, 2])
    with pytest.warns(NmfsyncWarning, match="^4 of 7 features are in tracks that see an image"):
        result = unionfind(contradictory, 1)
    assert result.universe.tolist() == [0, 1, 2, 0, 3, 0, 4]


def test_unionfind_is_silent_if_nothing_is_dropped():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unionfind(pairs([(0, 1)], [1, 1]), 1)


# Mean gt-errors of the authors' MATLAB code over 20 instances of (k, d, rho, sigma).
CASES = [
    (30, 20, 0.6, 0.4), (30, 20, 0.6, 0.6), (20, 20, 0.5, 0.5), (10, 20, 0.6, 0.4),
    (30, 20, 0.6, 0.7),
]  # fmt: skip
GIVEN = [0.0, 13.8, 12.6, 10.9, 51.1]
ESTIMATED = [0.0, 41.5, 12.1, 12.3, 71.6]


@pytest.mark.parametrize(
    ("case", "estimate", "reference"),
    [(case, False, mean) for case, mean in zip(CASES, GIVEN, strict=True)]
    + [(case, True, mean) for case, mean in zip(CASES, ESTIMATED, strict=True)],
)
def test_clear_reference_table(case, estimate, reference):
    errors = []
    for seed in range(20):
        W, W_gt, sizes = synthetic.generate(*case, seed=seed)
        result = clear(PairwiseMatches(W, sizes), case[1], estimate=estimate)
        errors.append(evaluation.gt_error(result.W, W_gt))
    standard_error = np.std(errors, ddof=1) / np.sqrt(20)
    rounding = 0.05
    assert abs(np.mean(errors) - reference) <= 2 * standard_error + rounding


@pytest.mark.parametrize("estimate", [True, False])
def test_clear_on_the_authors_example(estimate):
    """Four of its features match two of one image, which PairwiseMatches does not allow."""
    example = io.loadmat(real_data("landmarks/clear_example.mat"))
    sizes = example["numSmp"].ravel().astype(int)
    W = sparse.csr_array(example["Pin"].astype(float))
    matches = SimpleNamespace(W=W, sizes=sizes, image_of=np.repeat(np.arange(10), sizes))
    result = clear(matches, 10, estimate=estimate)
    assert result.universe_size == 10
    assert same(result.W, sparse.csr_array(example["Pref"].astype(float)))


def test_clear_ignores_the_universe_size_unless_told():
    matches = noisy()
    assert same(clear(matches, 1).W, clear(matches, 40).W)
    assert not same(clear(matches, 5, estimate=False).W, clear(matches, 10, estimate=False).W)


@pytest.mark.parametrize("options", [{}, {"estimate": False}])
def test_clear_solves_components_as_if_alone(options):
    """Two noisy problems side by side in the same images; for a given d, twice the same one."""
    first = noisy()
    second = noisy(sigma=0.9, seed=2) if not options else first
    image = np.concatenate([first.image_of, second.image_of])
    order = np.argsort(image, kind="stable")

    def beside(A, B):
        return sparse.block_diag([A, B]).tocsr()[order][:, order]

    both = PairwiseMatches(beside(first.W, second.W), first.sizes + second.sizes)
    alone = beside(clear(first, 10, **options).W, clear(second, 10, **options).W)
    assert same(clear(both, 20, **options).W, alone)


def test_clear_gives_every_feature_of_an_image_a_pivot():
    """The spectrum shows one point (its second value is .525), but image 0 has two features."""
    clique = [(p, q) for p in range(2, 8) for q in range(p + 1, 8)]
    matches = pairs([(0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7), *clique], [2] + 6 * [1])
    assert clear(matches, 1).universe.tolist() == [0, 1, 0, 0, 0, 1, 1, 1]


def test_clear_joins_a_chain_of_three():
    """Its second eigenvalue is ½ exactly, for any order of the three."""
    for edges in ([(0, 1), (1, 2)], [(0, 2), (2, 1)], [(1, 0), (0, 2)]):
        assert clear(pairs(edges, [1, 1, 1]), 3).universe.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("weight", "universe"),
    [(1 / 3 + 1e-9, [0, 0]), (1 / 3 - 1e-9, [0, 0]), (1 / 3 - 1e-4, [0, 1])],
)
def test_clear_cuts_at_one_half_whatever_the_rounding(weight, universe):
    """The second eigenvalue of a pair is 2w/(1 + w)."""
    W = np.array([[1, weight], [weight, 1]])
    assert clear(PairwiseMatches(W, [1, 1]), 2).universe.tolist() == universe


def test_clear_finds_the_same_in_large_components(monkeypatch):
    """With the iterative eigensolver, and more points than twice the features of an image."""
    matches = noisy(k=50, d=20, rho=0.15, sigma=0.8)
    assert sparse.csgraph.connected_components(matches.W)[0] == 1
    dense = clear(matches, 1)
    asked = []

    def recorded(A, count, **options):
        asked.append(count)
        return eigen.top_eigenpairs(A, count, **options)

    monkeypatch.setattr(eigen, "DENSE_SIZE", 20)
    monkeypatch.setattr(clear_module, "DENSE_SIZE", 20)
    monkeypatch.setattr(clear_module, "top_eigenpairs", recorded)
    assert same(clear(matches, 1).W, dense.W)
    assert asked == [16, 32]  # of 141: few enough to be iterated for


def test_clear_refuses_components_that_take_too_long():
    """Components of 3 and 2 features; with a given d there are as many eigenvectors as d."""
    matches = pairs([(0, 2), (2, 4), (1, 3)], [2, 2, 2])
    assert clear(matches, 2, max_features=3).universe.tolist() == [0, 1, 0, 1, 0, 2]
    with pytest.raises(TooLargeError, match=r"^clear needs .* 3 features are connected, more than"):
        clear(matches, 2, max_features=2)
    assert clear(matches, 3, estimate=False).universe_size == 3


def test_clear_says_so_if_memory_is_too_small(monkeypatch):
    monkeypatch.setattr(
        clear_module.psutil, "virtual_memory", lambda: SimpleNamespace(available=1000)
    )
    for estimate in (True, False):
        with pytest.raises(TooLargeError, match="clear needs about"):
            clear(noisy(), 10, estimate=estimate)


def test_pivots_are_the_first_row_and_the_most_orthogonal_ones():
    rows = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 0], [-0.6, 0, 0.8], [0, 0.1, 0.995]])
    # Beside row 0: sums 0.8, 0, 0.6, 0; the first of the equal ones. Then 1.4, -, 0.6, 0.1.
    assert _pivots(rows).tolist() == [0, 2, 4]


def test_no_row_is_a_pivot_twice():
    assert _pivots(np.array([[1, 0], [1, 0], [1, 0]])).tolist() == [0, 1]
