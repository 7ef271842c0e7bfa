"""Multiplicative updates: as written down, and better the more there are."""

import numpy as np

from nmfsync import synthetic
from nmfsync.synchronisation.nmfsync.factorisation import factorise, factorise_symmetric
from nmfsync.synchronisation.nmfsync.rotation import successive_block_rotation

EPS = np.finfo(float).eps


def test_updates_compute_what_is_written_down(many_components):
    W, sizes, component_of, X = many_components
    start = np.maximum(successive_block_rotation(X, sizes, component_of), 0)
    dense, V, H = W.toarray(), start.copy(), start.T.copy()
    for _ in range(3):
        H = H * (V.T @ dense) / (V.T @ V @ H + EPS)
        V = V * (dense @ H.T) / (V @ (H @ H.T) + EPS)
    ours, G = factorise(W, start, max_updates=3, tolerance=0)
    np.testing.assert_allclose(ours @ G.T, V @ H, atol=1e-10)
    used = V.any(axis=0) & H.any(axis=1)
    scale = np.sqrt(np.linalg.norm(H, axis=1)[used] / np.linalg.norm(V, axis=0)[used])
    np.testing.assert_allclose(ours[:, used], V[:, used] * scale, atol=1e-10)
    V = start.copy()
    for _ in range(3):
        V = V * (0.5 + 0.5 * (dense @ V) / (V @ (V.T @ V) + EPS))
    np.testing.assert_allclose(factorise_symmetric(W, start, 3, 0), V, atol=1e-10)


def test_more_updates_fit_better():
    """The published rule stops early on sparse 0/1 matrices: going on lowers the residual."""
    W, _, _ = synthetic.generate(k=30, d=20, rho=0.6, sigma=0.6, seed=0)
    V = np.random.default_rng(0).random((W.shape[0], 20)) / 10
    residuals = [
        np.linalg.norm(W.toarray() - V_n @ G_n.T)
        for V_n, G_n in (factorise(W, V, n, tolerance=0) for n in (0, 1, 5, 50))
    ]
    assert residuals == sorted(residuals, reverse=True)
    assert len(set(residuals)) == 4


def test_balanced_factors_have_equal_norms():
    W, _, _ = synthetic.generate(k=6, d=5, rho=0.8, sigma=0.3, seed=0)
    V = np.random.default_rng(0).random((W.shape[0], 5))
    V[:, 2] = 0
    V, G = factorise(W, V)
    np.testing.assert_allclose(np.linalg.norm(V, axis=0), np.linalg.norm(G, axis=0))
    assert not V[:, 2].any()
