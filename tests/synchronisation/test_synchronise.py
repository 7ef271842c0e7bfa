"""What every method promises, and what the paper and its reference code give."""

import warnings

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import io, sparse
from threadpoolctl import threadpool_limits

import strategies
from builders import CASES, check_mean, problems, with_descriptors
from nmfsync import (
    METHODS,
    MultiMatching,
    NmfsyncError,
    NmfsyncWarning,
    PairwiseMatches,
    evaluation,
    synchronise,
    synthetic,
)
from nmfsync.runtime.threads import BLOCK
from nmfsync.synchronisation.methods import resolve_universe_size
from real_data import real_data

CONSISTENT = ["clustersync", "nmfsync", "spectral", "clear", "unionfind", "quickmatch"]


@pytest.fixture(autouse=True)
def _degraded_results_are_allowed():
    """Random d may be too small, on purpose, and random tracks see an image twice."""
    warnings.filterwarnings("ignore", ".*universe size|.*see an image twice", NmfsyncWarning)


def same(A, B) -> bool:
    return A.shape == B.shape and (A != B).nnz == 0


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(
    matches=strategies.pairwise_matches(),
    d=st.one_of(st.just("auto"), st.integers(1, 12)),
    theta=st.sampled_from([0.0, 0.4]),
)
def test_every_result_is_valid(method, matches, d, theta):
    result = synchronise(matches, method, d, theta)
    # The classes check the rest: at most one match of a feature in every other
    # image, at most one feature of an image for every universe feature.
    PairwiseMatches(result.W, matches.sizes)
    assert result.W.shape == matches.W.shape
    assert result.cycle_consistent == (method in CONSISTENT or not matches.sizes.sum())


@pytest.mark.parametrize("method", CONSISTENT)
@settings(max_examples=25)
@given(matches=strategies.pairwise_matches(weighted=True), d=st.integers(1, 12))
def test_consistent_methods_are_consistent(method, matches, d):
    result = synchronise(matches, method, d)
    assert same(result.W, result.U @ result.U.T)
    assert result.U.sum(axis=1).tolist() == [1] * len(result.universe)
    in_image = np.column_stack([matches.image_of, result.universe])
    assert len(np.unique(in_image, axis=0)) == len(in_image)
    assert evaluation.cycle_error(result.W, matches.sizes) == 0.0


@pytest.mark.parametrize("method", ["clustersync", "nmfsync", "spectral", "matcheig"])
@settings(max_examples=50)
@given(truth=strategies.multi_matchings(), seed=st.integers(0, 2**16), data=st.data())
def test_noise_free_matches_come_back_whatever_the_order(method, truth, seed, data):
    """With the true d; images and the features inside them in any order."""
    images = data.draw(st.permutations(range(len(truth.sizes))))
    rng = np.random.default_rng(seed)
    order = np.concatenate(
        [truth.offsets[i] + rng.permutation(truth.sizes[i]) for i in images]
    ).astype(int)
    shuffled = MultiMatching(truth.universe[order], truth.sizes[list(images)])
    if not len(order):
        return
    matches = PairwiseMatches(shuffled.W, shuffled.sizes)
    result = synchronise(matches, method, truth.universe_size, seed=seed)
    assert same(result.W, shuffled.W)


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_bits(method):
    W, _, sizes = synthetic.generate(k=10, d=12, rho=0.6, sigma=0.6, seed=3)
    matches = with_descriptors(PairwiseMatches(W, sizes))
    first, second = (synchronise(matches, method, 12, seed=5) for _ in range(2))
    assert first.arrays().keys() == second.arrays().keys()
    for name, array in first.arrays().items():
        assert array.tobytes() == second.arrays()[name].tobytes()


# Mean gt-errors over 20 instances of (k, d, rho, sigma): of an independent implementation for
# nmfsync and spectral, of the authors' MATLAB codes for matcheig (greedy, t = 0.25) and matchals.
REFERENCE = {
    ("nmfsync", 0.0): [0.0, 10.5, 13.8, 12.6, 38.8],
    ("nmfsync", 0.4): [1.6, 26.7, 14.5, 11.4, 46.0],
    ("spectral", 0.0): [1.2, 22.7, 19.4, 15.9, 55.8],
    ("matcheig", 0.0): [1.2, 22.5, 16.7, 13.7, 48.5],
    ("matchals", 0.0): [0.0, 9.4, 8.3, 8.6, 31.2],
}
TABLE = [
    pytest.param(
        *method, case, mean,
        8 if method[0] == "matchals" and case == CASES[1] else 20,  # as each takes half a second
        id=f"{method[0]} {method[1]} {case}",
        marks=[pytest.mark.benchmark] if method[0] == "matchals" and case[3] > 0.6 else [],
    )
    for method, means in REFERENCE.items()
    for case, mean in zip(CASES, means, strict=True)
]  # fmt: skip


@pytest.mark.parametrize(("method", "theta", "case", "reference", "samples"), TABLE)
def test_reference_table(method, theta, case, reference, samples):
    errors = []
    for matches, W_gt in problems(case)[:samples]:
        result = synchronise(matches, method, case[1], theta)
        errors.append(evaluation.gt_error(result.W, W_gt))
        if method in CONSISTENT:
            assert evaluation.cycle_error(result.W, matches.sizes) == 0.0
    check_mean(errors, reference)


def test_clustersync_is_the_default_with_its_own_theta():
    W, _, sizes = synthetic.generate(k=20, d=20, rho=0.5, sigma=0.7, seed=0)
    matches = PairwiseMatches(W, sizes)
    result = synchronise(matches)
    assert same(result.W, synchronise(matches, "clustersync", theta=0.4).W)
    for theta in (0.0, 0.9):
        assert not same(result.W, synchronise(matches, "clustersync", theta=theta).W)
    assert next(iter(METHODS)) == "clustersync"


@pytest.mark.parametrize(
    ("method", "weighted", "expected"),
    [
        ("clustersync", False, {"weights": False, "theta": 0.4}),
        ("clustersync", True, {"weights": True, "theta": 0.4}),
        ("nmfsync", False, {"weights": False, "theta": 0.0, "universe_size": 4, "seed": 0}),
        ("nmfsync", True, {"weights": False, "theta": 0.4, "universe_size": 4, "seed": 0}),
        ("matcheig", False, {"weights": False, "threshold": 0.25, "universe_size": 4, "seed": 0}),
        ("matcheig", True, {"weights": False, "threshold": 0.5, "universe_size": 4, "seed": 0}),
        ("spectral", True, {"weights": False, "universe_size": 4, "seed": 0}),
        ("unionfind", True, {"weights": False}),
    ],
)
def test_settings_follow_from_the_method_and_the_matches(method, weighted, expected):
    """Authors use other values on photographs, whose matches have weights."""
    weights = [0.5, 1.0] if weighted else None
    matches = PairwiseMatches.from_entries([0, 1], [2, 3], [2, 2], weights)
    assert synchronise(matches, method).settings == {"method": method, **expected}


@pytest.mark.parametrize("method", ["clustersync", "nmfsync"])
def test_a_theta_that_is_given_wins(method):
    matches = PairwiseMatches.from_entries([0, 1], [2, 3], [2, 2], [0.5, 1.0])
    for theta in (0.0, 0.7):
        assert synchronise(matches, method, theta=theta).settings["theta"] == theta


def test_methods_that_know_no_weights_get_none():
    """They give the same result as without."""
    W, _, sizes = synthetic.generate(k=8, d=10, rho=0.7, sigma=0.5, seed=1)
    upper = sparse.triu(PairwiseMatches(W, sizes).W, 1).tocoo()
    weights = np.random.default_rng(0).uniform(0.2, 0.9, upper.nnz)
    matches = with_descriptors(PairwiseMatches.from_entries(upper.row, upper.col, sizes, weights))
    for name, record in METHODS.items():
        used = synchronise(matches, name).settings
        options = {n: value for n, value in used.items() if n not in ("method", "weights")}
        plain = synchronise(matches.unweighted(), name, **options)
        weighted = synchronise(matches, name)
        assert same(weighted.W, plain.W) == (not record.uses_weights), name


def test_theta_of_a_method_of_ones_own():
    """Its default if it has one, 0 if it has none or does not name its arguments."""
    given = []

    def alone(matches, theta):
        given.append(theta)
        return MultiMatching(np.arange(matches.sizes.sum()), matches.sizes)

    def required(matches, universe_size, theta, seed):
        return alone(matches, theta)

    def with_default(matches, universe_size, theta=0.7, seed=0):
        return alone(matches, theta)

    def unnamed(matches, *arguments):
        return alone(matches, arguments[1])

    matches = PairwiseMatches(np.eye(2), [1, 1])
    for method in (required, with_default, unnamed):
        for theta in (None, 0.2):
            synchronise(matches, method, theta=theta)
    assert given == [0.0, 0.2, 0.7, 0.2, 0.0, 0.2]


def test_universe_size_auto_is_twice_the_mean():
    assert resolve_universe_size("auto", [3, 0, 4]) == 7
    assert resolve_universe_size("auto", [4]) == 4  # never more than m
    assert resolve_universe_size(99, [3, 0, 4]) == 7
    assert resolve_universe_size("auto", [0, 0]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "nmfsink"}, "did you mean nmfsync"),
        ({"method": "xyz"}, "known are clustersync, nmfsync"),
        ({"theta": -0.1}, "theta must be between 0 and 1, got"),
        ({"theta": float("nan")}, "theta must be between 0 and 1, got"),
        ({"universe_size": 0}, "universe size must be auto or a whole number from 1, got"),
        ({"universe_size": 2.5}, "universe size must be auto or a whole number from 1, got"),
        ({"universe_size": "many"}, "universe size must be auto or a whole number from 1, got"),
        ({"seed": -1}, "seed must not be negative"),
        ({"factor": "U"}, "factor must be V, H or symmetric"),
        ({"initialisation": "random"}, "initialisation must be rotation or spectral"),
        ({"speed": 9}, "nmfsync has no option 'speed'"),
    ],
)
def test_bad_arguments_get_one_clear_line(arguments, message):
    matches = PairwiseMatches(sparse.eye_array(4), [2, 2])
    with pytest.raises(NmfsyncError, match=message):
        synchronise(matches, **{"method": "nmfsync", **arguments})


def test_house_sequence_as_the_authors_codes():
    """CMU House, 111 frames of 30 points: F .940, .912 and .957 with the authors' codes."""
    house = io.loadmat(real_data("landmarks/house/house_sync_data.mat"))
    matches = PairwiseMatches(house["Wnoise"], [30] * 111)
    truth = MultiMatching(np.tile(np.arange(30), 111), matches.sizes)
    assert evaluation.f_score(matches.W, truth.W) == pytest.approx(0.868, abs=1e-3)
    for method, reference in {"nmfsync": 0.940, "spectral": 0.912, "matcheig": 0.957}.items():
        result = synchronise(matches, method, 30)
        assert evaluation.f_score(result.W, truth.W) == pytest.approx(reference, abs=2e-3)


@pytest.mark.parametrize(
    ("method", "options"),
    [("nmfsync", {}), ("spectral", {}), ("matcheig", {}), ("matchals", {"max_iterations": 9})],
)
def test_any_number_of_threads_gives_the_same_bits(method, options):
    """With more features than a thread takes at once."""
    W, _, sizes = synthetic.generate(k=30, d=37, rho=0.6, sigma=0.6, seed=3)
    assert W.shape[0] > BLOCK
    at_most = numba.get_num_threads()
    outcomes = []
    for threads in {1, at_most}:
        numba.set_num_threads(threads)
        with threadpool_limits(threads):
            result = synchronise(PairwiseMatches(W, sizes), method, 37, **options)
        outcomes.append([array.tobytes() for array in result.arrays().values()])
    numba.set_num_threads(at_most)
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_no_matches_at_all():
    alone = PairwiseMatches(sparse.eye_array(5), [2, 0, 3])
    for method in ("nmfsync", "spectral", "matcheig", "matchals"):
        assert synchronise(alone, method).W.nnz == 5
