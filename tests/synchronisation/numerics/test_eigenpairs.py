"""Eigenpairs agree with a dense solver, on spectra that break other solvers."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

import strategies
from nmfsync import MultiMatching, NmfsyncWarning, PairwiseMatches, synchronise, synthetic
from nmfsync.runtime.threads import BLOCK, map_blocks
from nmfsync.synchronisation.numerics import eigenpairs as eigen
from nmfsync.synchronisation.numerics.eigenpairs import top_eigenpairs
from nmfsync.synchronisation.numerics.products import (
    COLUMNS,
    gram,
    inner,
    product,
    recurrence_step,
    sparse_product,
)

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


def test_mixed_signs_do_not_widen_what_is_amplified(monkeypatch):
    """Eigenvalues λ and −λ: the Ritz values of their mixtures are near 0, and no bound."""
    monkeypatch.setattr(eigen, "DENSE_SIZE", 1)
    cuts = []
    original = eigen._filter

    def recorded(A, X, low, high, largest):
        cuts.append(high)
        original(A, X, low, high, largest)

    monkeypatch.setattr(eigen, "_filter", recorded)
    rng = np.random.default_rng(0)
    size = np.linspace(1, 2, 300)
    turn = np.linalg.qr(rng.standard_normal((300, 300)))[0]
    W = sparse.csr_array(turn * np.where(np.arange(300) % 2, size, -size) @ turn.T)
    assert_leading(W, 40, "magnitude")
    assert min(cuts) > 0.9


def test_bounds_of_the_spectrum():
    W, _, _ = synthetic.generate(k=20, d=40, rho=0.6, sigma=0.4, seed=0)
    least, largest = eigen._extreme_values(W, np.random.default_rng(0).random(W.shape[0]))
    values = np.linalg.eigvalsh(W.toarray())
    assert values[0] - 2 < least < values[0]
    assert values[-1] < largest < values[-1] + 2


def test_products_in_pieces_are_products():
    """In more than one piece, and the last one smaller."""
    rng = np.random.default_rng(0)
    A, B = rng.random((BLOCK + 3, COLUMNS + 2)), rng.random((COLUMNS + 2, 5))
    np.testing.assert_allclose(product(A, B), A @ B)
    np.testing.assert_allclose(inner(A, A + 1), A.T @ (A + 1))
    np.testing.assert_allclose(gram(A), A.T @ A)
    assert (gram(A) == gram(A).T).all()
    W = sparse.random_array((40, len(A)), density=0.2, format="csr", rng=rng)
    np.testing.assert_allclose(sparse_product(W, A), W @ A)


def test_pieces_come_back_in_order():
    assert map_blocks(lambda rows: (rows.start, rows.stop), 8, 3) == [(0, 3), (3, 6), (6, 8)]


def test_the_step_of_a_recurrence():
    rng = np.random.default_rng(0)
    W = sparse.random_array((9, 9), density=0.3, format="csr", rng=rng)
    X, Y = rng.random((9, 4)), rng.random((9, 4))
    expected = 2 * (W @ X - 3 * X) - Y
    recurrence_step(W.indptr, W.indices, W.data, 2.0, 3.0, X, Y)
    np.testing.assert_allclose(Y, expected)


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
