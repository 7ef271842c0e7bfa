"""CLEAR: small cases by hand, and the authors' results."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import io, sparse

from builders import CASES, check_mean, clear, matches_of, noisy, problems, same
from nmfsync import MultiMatching, PairwiseMatches, evaluation
from nmfsync.errors import TooLargeError
from nmfsync.synchronisation.baselines.clear import _pivots
from nmfsync.synchronisation.numerics import eigenpairs as eigen
from real_data import real_data

# By its full name: once registered, `clear` of the package may be the function.
clear_module = import_module("nmfsync.synchronisation.baselines.clear")


# Mean gt-errors of the authors' MATLAB code over 20 instances of the cases.
GIVEN = [0.0, 13.8, 12.6, 10.9, 51.1]
ESTIMATED = [0.0, 41.5, 12.1, 12.3, 71.6]


@pytest.mark.parametrize(
    ("case", "estimate", "reference"),
    [(case, False, mean) for case, mean in zip(CASES, GIVEN, strict=True)]
    + [(case, True, mean) for case, mean in zip(CASES, ESTIMATED, strict=True)],
)
def test_clear_reference_table(case, estimate, reference):
    errors = []
    for matches, W_gt in problems(case):
        result = clear(matches, case[1], estimate=estimate)
        errors.append(evaluation.gt_error(result.W, W_gt))
    check_mean(errors, reference)


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
    matches = matches_of([(0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7), *clique], [2] + 6 * [1])
    assert clear(matches, 1).universe.tolist() == [0, 1, 0, 0, 0, 1, 1, 1]


def test_clear_joins_a_chain_of_three():
    """Its second eigenvalue is ½ exactly, for any order of the three."""
    for edges in ([(0, 1), (1, 2)], [(0, 2), (2, 1)], [(1, 0), (0, 2)]):
        assert clear(matches_of(edges, [1, 1, 1]), 3).universe.tolist() == [0, 0, 0]


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


def test_clear_says_so_if_more_eigenvectors_than_estimated_do_not_fit(monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000))
    with pytest.raises(TooLargeError, match=r"clear needs about .* GB for .* eigenvectors of"):
        clear(noisy(), 10)


def test_a_given_number_of_eigenvectors_may_be_too_large():
    """Those of the null space would tell the features of a track apart."""
    truth = MultiMatching([0, 1, 2, 0, 1, 2, 0, 3], [3, 3, 2])
    for d in range(4, 9):
        result = clear(PairwiseMatches(truth.W, truth.sizes), d, estimate=False)
        assert same(result.W, truth.W)


# The choice of pivots is private, but its numbers by hand are those of eigenvectors in the method.


def test_pivots_are_the_first_row_and_the_most_orthogonal_ones():
    rows = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 0], [-0.6, 0, 0.8], [0, 0.1, 0.995]])
    # Beside row 0: sums 0.8, 0, 0.6, 0; the first of the equal ones. Then 1.4, -, 0.6, 0.1.
    assert _pivots(rows).tolist() == [0, 2, 4]


def test_no_row_is_a_pivot_twice():
    assert _pivots(np.array([[1, 0], [1, 0], [1, 0]])).tolist() == [0, 1]
