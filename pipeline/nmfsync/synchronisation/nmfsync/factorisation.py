"""Non-negative matrix factorisation W ≈ VH by multiplicative updates."""

import numpy as np
from scipy import sparse

from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.components import (
    diagonal_blocks,
    independent_blocks,
    label_components,
)
from nmfsync.synchronisation.numerics.products import gram, sparse_product
from nmfsync.types.arrays import FloatArray, IntArray

EPS = np.finfo(np.float64).eps


def factorise(
    W: sparse.csr_array, V: FloatArray, max_updates: int = 100, tolerance: float = 1e-4
) -> tuple[FloatArray, FloatArray]:
    """Minimise ‖W − VH‖_F over non-negative V and H, starting from V and H = Vᵀ.

    Lee and Seung's updates, ::

        H ← H ⊙ (VᵀW) ⊘ (VᵀVH),    then V ← V ⊙ (WHᵀ) ⊘ (VHHᵀ),

    stop when the factors no longer change or the root-mean-square residual
    ‖W − VH‖_F/m no longer falls (the paper, Algorithm 1). No m × m array is
    formed.

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
    square = float(W.multiply(W).sum())
    with phase(None, "Factorising", "update") as bar:
        parts = _parts(W, V)
        previous = _residual(square, parts) / m
        for update in range(max_updates):
            change = _largest_change([part.update() for part in parts])
            residual = _residual(square, parts) / m
            bar.update()
            if update > 0 and (
                change <= tolerance or previous - residual <= tolerance * max(1.0, previous)
            ):
                break
            previous = residual
    return _balance(_assemble(parts, "V", V.shape), _assemble(parts, "G", V.shape))


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
    with phase(None, "Factorising", "update") as bar:
        parts = _parts(W, V)
        for _ in range(max_updates):
            change = _largest_change([part.update_symmetric() for part in parts])
            bar.update()
            if change <= tolerance:
                break
    return _assemble(parts, "V", V.shape)


class _Part:
    """A component of the matches, and the columns of the factors that belong to it."""

    def __init__(
        self, W: sparse.csr_array, V: FloatArray, rows: IntArray, columns: IntArray
    ) -> None:
        self.rows, self.columns = rows, columns
        self.W = W  # of these rows alone
        self.V = V[np.ix_(rows, columns)]
        self.G = self.V.copy()
        self.gram_V = self.gram_G = gram(self.V)
        self.WG = sparse_product(self.W, self.G)

    def update(self) -> FloatArray:
        """Update both factors; return the largest change and size of entries of G, and of V."""
        # At first V = G, and WG is known.
        WV = sparse_product(self.W, self.V) if self.gram_V is not self.gram_G else self.WG
        moved_G = _multiply(self.G, WV, self.gram_V)
        self.gram_G = gram(self.G)
        self.WG = sparse_product(self.W, self.G)
        moved_V = _multiply(self.V, self.WG, self.gram_G)
        self.gram_V = gram(self.V)
        return np.array([moved_G, moved_V])

    def update_symmetric(self) -> FloatArray:
        """Update V = G by half."""
        moved = _multiply(self.V, sparse_product(self.W, self.V), gram(self.V), damping=0.5)
        return np.array([moved])


def _parts(W: sparse.csr_array, V: FloatArray) -> list[_Part]:
    blocks = independent_blocks(label_components(W), V)
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(rows for rows, _ in blocks)])
    label = np.repeat(np.arange(len(blocks)), [len(rows) for rows, _ in blocks])
    # Rows without a column are in no block.
    matrices = diagonal_blocks(W[rows][:, rows], label)
    return [_Part(part, V, *block) for (_, part), block in zip(matrices, blocks, strict=True)]


def _multiply(
    F: FloatArray, numerator: FloatArray, gram_F: FloatArray, damping: float = 0.0
) -> FloatArray:
    """Update the factor F in place; return the largest change and size of its entries."""

    def work(rows: slice) -> tuple[float, float]:
        old = F[rows].copy()
        quotient = numerator[rows] / (old @ gram_F + EPS)
        F[rows] = old * (damping + (1 - damping) * quotient)
        return np.abs(F[rows] - old).max(), np.abs(old).max()

    return np.asarray(np.max(map_blocks(work, len(F)), axis=0))


def _largest_change(moved: list[FloatArray]) -> float:
    """Relative change of the factor that changes most, from what `_Part.update` returned."""
    change, size = np.max(moved, axis=0, initial=0).T
    return float((change / (size + np.sqrt(EPS))).max())


def _residual(square: float, parts: list[_Part]) -> float:
    """‖W − VH‖_F from ‖W‖² − 2⟨V, WHᵀ⟩ + ⟨VᵀV, HHᵀ⟩."""
    for part in parts:
        square += float(np.vdot(part.gram_V, part.gram_G) - 2 * np.vdot(part.V, part.WG))
    return float(np.sqrt(max(square, 0.0)))


def _assemble(parts: list[_Part], factor: str, shape: tuple[int, ...]) -> FloatArray:
    """Put a factor, V or G, together."""
    F = np.zeros(shape)
    for part in parts:
        F[np.ix_(part.rows, part.columns)] = getattr(part, factor)
    return F


def _balance(V: FloatArray, G: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale so that column c of V and of G have the same norm; zero columns stay."""
    v, g = np.linalg.norm(V, axis=0), np.linalg.norm(G, axis=0)
    scale = np.ones(len(v))
    both = (v > 0) & (g > 0)
    scale[both] = np.sqrt(g[both] / v[both])
    return V * scale, G / scale
