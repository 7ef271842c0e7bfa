"""Non-negative matrix factorisation W ≈ VH by multiplicative updates."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

FloatArray = NDArray[np.float64]
EPS = np.finfo(np.float64).eps


def factorise(
    W: sparse.csr_array, V: FloatArray, max_updates: int = 100, tolerance: float = 1e-4
) -> tuple[FloatArray, FloatArray]:
    """Minimise ‖W − VH‖_F over non-negative V and H, starting from V and H = Vᵀ.

    Lee and Seung's updates, H before V; they stop when the factors no longer
    change or the root-mean-square residual ‖W − VH‖_F/m no longer falls (the
    paper, Algorithm 1). No m × m array is formed.

    Parameters
    ----------
    W : sparse array, shape (m, m)
        Symmetric and non-negative.
    V : (m, d) float64 array
        Non-negative start.
    max_updates : int
    tolerance : float

    Returns
    -------
    V, G : (m, d) float64 arrays
        The factors V and G = Hᵀ, column c of both with the same norm.
    """
    m = W.shape[0]
    G = V.copy()
    square = float(W.multiply(W).sum())
    gram = V.T @ V
    WG = W @ G
    previous = _residual(square, V, WG, gram, gram) / m
    for update in range(max_updates):
        G_new = G * (W @ V) / (G @ gram + EPS)
        gram_G = G_new.T @ G_new
        WG = W @ G_new
        V_new = V * WG / (V @ gram_G + EPS)
        gram = V_new.T @ V_new
        change = max(_relative_change(V_new, V), _relative_change(G_new, G))
        V, G = V_new, G_new
        residual = _residual(square, V, WG, gram, gram_G) / m
        if update > 0 and (
            change <= tolerance or previous - residual <= tolerance * max(1.0, previous)
        ):
            break
        previous = residual
    return _balance(V, G)


def factorise_symmetric(
    W: sparse.csr_array, V: FloatArray, max_updates: int = 100, tolerance: float = 1e-4
) -> FloatArray:
    """Minimise ‖W − VVᵀ‖_F over a non-negative V.

    Damped multiplicative updates, V ← V ⊙ (½ + ½ WV ⊘ VVᵀV), which never raise
    the residual (Ding, Li, Peng & Park 2006). Stops when V no longer changes.

    Parameters
    ----------
    W : sparse array, shape (m, m)
        Symmetric and non-negative.
    V : (m, d) float64 array
        Non-negative start.
    max_updates : int
    tolerance : float

    Returns
    -------
    (m, d) float64 array
    """
    for _ in range(max_updates):
        updated = V * (0.5 + 0.5 * (W @ V) / (V @ (V.T @ V) + EPS))
        change = _relative_change(updated, V)
        V = updated
        if change <= tolerance:
            break
    return V


def _residual(
    square: float, V: FloatArray, WG: FloatArray, gram_V: FloatArray, gram_G: FloatArray
) -> float:
    """‖W − VH‖_F from ‖W‖² − 2⟨V, WHᵀ⟩ + ⟨VᵀV, HHᵀ⟩."""
    squared = square - 2 * float(np.vdot(V, WG)) + float(np.vdot(gram_V, gram_G))
    return float(np.sqrt(max(squared, 0.0)))


def _relative_change(new: FloatArray, old: FloatArray) -> float:
    return float(np.abs(new - old).max(initial=0) / (np.abs(old).max(initial=0) + np.sqrt(EPS)))


def _balance(V: FloatArray, G: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale so that column c of V and of G have the same norm; zero columns stay."""
    v, g = np.linalg.norm(V, axis=0), np.linalg.norm(G, axis=0)
    scale = np.ones(len(v))
    both = (v > 0) & (g > 0)
    scale[both] = np.sqrt(g[both] / v[both])
    return V * scale, G / scale
