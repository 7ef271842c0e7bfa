"""Eigenpairs agree with a dense solver, on spectra that break other solvers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import strategies
from nmfsync import MultiMatching, NmfsyncWarning, synthetic
from nmfsync.synchronisation.numerics import eigenpairs as eigen
from nmfsync.synchronisation.numerics.eigenpairs import top_eigenpairs
from nmfsync.synchronisation.numerics.products import recurrence_step

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
@given(matches=strategies.pairwise_matches(weighted=True), count=st.integers(1, 40))
def test_small_matrices(by, matches, count):
    if matches.W.shape[0]:
        assert_leading(matches.W, count, by)


@pytest.fixture
def steps(monkeypatch):
    """List the (scale, centre) of every step of the filter of the iterative solver."""
    steps = []

    def recorded(indptr, indices, data, scale, centre, X, Y):
        steps.append((scale, centre))
        recurrence_step(indptr, indices, data, scale, centre, X, Y)

    monkeypatch.setattr(eigen, "recurrence_step", recorded)
    return steps


@pytest.mark.parametrize("by", ["algebraic", "magnitude"])
def test_large_components_without_dense_arrays(by, monkeypatch, steps):
    """The iterative solver, on one component with a noisy spectrum."""
    W, _, _ = synthetic.generate(k=20, d=40, rho=0.6, sigma=0.4, seed=0)
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    assert_leading(W, 40, by)
    assert steps


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


@pytest.mark.parametrize("by", ["algebraic", "magnitude"])
def test_the_iterative_solver_bears_a_null_space(by, monkeypatch):
    """Of one track: where nothing is to be damped, the filter must not drown it all."""
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    assert_leading(sparse.csr_array(np.ones((600, 600))), 3, by)


@pytest.mark.parametrize("by", ["algebraic", "magnitude"])
def test_a_dominant_eigenvalue_does_not_drown_the_others(by, monkeypatch):
    """An eigenvalue of 100 above a spectrum within about ±6, filtered in single precision."""
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    W, _, _ = synthetic.generate(k=12, d=40, rho=0.6, sigma=0.8, seed=0)
    m = W.shape[0]
    assert_leading(sparse.csr_array(W + 100 / m * np.ones((m, m))), 40, by)


@pytest.mark.parametrize("by", ["algebraic", "magnitude"])
def test_the_rounds_end_with_eigenvectors(by, monkeypatch):
    """Where no tolerance is reached, too: the filter leaves columns that are not orthonormal."""
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    monkeypatch.setattr(eigen, "TOLERANCE", 0.0)
    W, _, _ = synthetic.generate(k=20, d=40, rho=0.6, sigma=0.4, seed=0)
    assert_leading(W, 40, by)


def test_rounds_that_do_not_suffice_are_a_warning(monkeypatch):
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    monkeypatch.setattr(eigen, "MAX_FILTERS", 1)
    W, _, _ = synthetic.generate(k=20, d=40, rho=0.6, sigma=0.4, seed=0)
    with pytest.warns(NmfsyncWarning, match="40 leading eigenvectors .* are exact only to"):
        _, vectors = top_eigenpairs(W, 40)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(40), atol=1e-8)


def test_mixed_signs_do_not_widen_what_is_amplified(monkeypatch, steps):
    """Eigenvalues λ and −λ: the Ritz values of their mixtures are near 0, and no bound."""
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    rng = np.random.default_rng(0)
    size = np.linspace(1, 2, 300)
    turn = np.linalg.qr(rng.standard_normal((300, 300)))[0]
    W = sparse.csr_array(turn * np.where(np.arange(300) % 2, size, -size) @ turn.T)
    assert_leading(W, 40, "magnitude")
    # Damped is what lies within 1 / scale (and 2 / scale after the first step) of the centre, 0.
    scales, centres = np.array(steps).T
    assert not centres.any()
    assert (2 / scales).min() > 0.9


def test_bounds_of_the_spectrum():
    """The function is private: a bound that is not true only makes the solver slower."""
    W, _, _ = synthetic.generate(k=20, d=40, rho=0.6, sigma=0.4, seed=0)
    least, largest = eigen._extreme_values(W, np.random.default_rng(0).random(W.shape[0]))
    values = np.linalg.eigvalsh(W.toarray())
    assert values[0] - 2 < least < values[0]
    assert values[-1] < largest < values[-1] + 2


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
