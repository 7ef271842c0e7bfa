"""Eigenpairs agree with a dense solver, on spectra that break other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import strategies
from nmfsync import MultiMatching, NmfsyncWarning, PairwiseMatches, synchronise, synthetic
from nmfsync.synchronisation import eigen
from nmfsync.synchronisation.eigen import top_eigenpairs

pytestmark = pytest.mark.filterwarnings("ignore:universe size")


def assert_leading(W, count, by):
    values, vectors = top_eigenpairs(W, count, by)
    count = min(count, W.shape[0])
    assert vectors.shape == (W.shape[0], count)
    everything = np.linalg.eigvalsh(W.toarray())
    order = np.argsort(-np.abs(everything) if by == "magnitude" else -everything, kind="stable")
    expected = everything[order][:count]
    size = np.abs if by == "magnitude" else (lambda x: x)
    np.testing.assert_allclose(size(values), size(expected), atol=1e-6)
    np.testing.assert_allclose(W @ vectors, vectors * values, atol=1e-4)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-8)


@pytest.mark.parametrize("by", ["algebraic", "magnitude"])
@settings(deadline=None)
@given(matches=strategies.pairwise_matches(weighted=True), count=st.integers(1, 40))
def test_small_matrices(by, matches, count):
    if matches.W.shape[0]:
        assert_leading(matches.W, count, by)


@pytest.mark.parametrize("by", ["algebraic", "magnitude"])
def test_large_components_without_dense_arrays(by, monkeypatch):
    """The iterative solver, on one component with a noisy spectrum."""
    W, _, _ = synthetic.generate(k=20, d=40, rho=0.6, sigma=0.4, seed=0)
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    monkeypatch.setattr(eigen, "_dense_eigenpairs", None)
    assert_leading(W, 40, by)


def test_identity_and_noise_free_spectra():
    """All eigenvalues equal, and 2, 3, 4 … repeated many times (scipy's eigsh fails on such)."""
    assert_leading(sparse.eye_array(100).tocsr(), 30, "algebraic")
    truth = MultiMatching(
        np.concatenate([np.arange(60), np.arange(40), np.arange(20)]), [60, 40, 20]
    )
    assert_leading(truth.W, 50, "algebraic")


def test_the_iterative_solver_bears_repeated_eigenvalues(monkeypatch):
    """Two cliques joined by one wrong match: a component with a repeated eigenvalue 0."""
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    W = np.kron(np.eye(2), np.ones((30, 30)))
    W[0, 30] = W[30, 0] = 1
    assert_leading(sparse.csr_array(W), 10, "algebraic")


def test_ties_are_settled_by_the_order_of_features():
    """Three pairs of matches, room for two: the first two pairs get the eigenvectors."""
    truth = MultiMatching([0, 1, 2, 0, 1, 2], [3, 3])
    _, vectors = top_eigenpairs(truth.W, 2)
    np.testing.assert_allclose(np.abs(vectors[:3]), np.eye(3, 2) / np.sqrt(2), atol=1e-12)


@pytest.mark.filterwarnings("default")
def test_a_truncated_universe_is_a_warning():
    truth = MultiMatching([0, 1, 2, 0, 1, 2], [3, 3])
    with pytest.warns(NmfsyncWarning, match="universe size 2 is too small: 2 of 6 matched"):
        top_eigenpairs(truth.W, 2)


@pytest.mark.parametrize("method", ["nmfsync", "spectral", "matcheig"])
def test_any_number_of_threads_gives_the_same_bits(method):
    from threadpoolctl import threadpool_limits

    W, _, sizes = synthetic.generate(k=12, d=37, rho=0.6, sigma=0.6, seed=3)
    outcomes = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            result = synchronise(PairwiseMatches(W, sizes), method, 37)
        outcomes.append([array.tobytes() for array in result.arrays().values()])
    assert outcomes[0] == outcomes[1]


def test_no_matches_at_all():
    alone = PairwiseMatches(sparse.eye_array(5), [2, 0, 3])
    for method in ("nmfsync", "spectral", "matcheig", "matchals"):
        assert synchronise(alone, method).W.nnz == 5
