"""NmfSync: synchronisation by non-negative factorisation (the paper's method)."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from nmfsync.errors import NmfsyncError
from nmfsync.synchronisation.nmfsync.factorisation import factorise, factorise_symmetric
from nmfsync.synchronisation.nmfsync.rotation import flip_signs, successive_block_rotation
from nmfsync.synchronisation.numerics.components import count_by_component, label_components
from nmfsync.synchronisation.numerics.effort import PRODUCT, Effort
from nmfsync.synchronisation.numerics.eigenpairs import eigenpairs_effort, top_eigenpairs
from nmfsync.synchronisation.numerics.rounding import assign_to_universe
from nmfsync.types.matches import MultiMatching, PairwiseMatches

# For the estimate of the effort: updates as a rule, dense m × d arrays at a time, and seconds for
# an entry of them.
USUAL_UPDATES, COPIES, ENTRY = 15, 8, 1.7e-7


def nmfsync(
    matches: PairwiseMatches,
    universe_size: int,
    theta: float,
    seed: int,
    initialisation: Literal["rotation", "spectral"] = "rotation",
    factor: Literal["V", "H", "symmetric"] = "V",
    max_updates: int = 100,
    tolerance: float = 1e-4,
) -> MultiMatching:
    """Synchronise by a non-negative factorisation of W.

    With d the universe size, minimises ::

        ‖W − VH‖_F   over   V ≥ 0 (m × d), H ≥ 0 (d × m)

    by the multiplicative updates of Lee and Seung, ::

        H ← H ⊙ (VᵀW) ⊘ (VᵀVH),    V ← V ⊙ (WHᵀ) ⊘ (VHHᵀ),

    from V = max(XQ, 0) and H = Vᵀ, where X = EΛ^½ with the d leading eigenpairs of
    W, and successive block rotation (SBRA) chooses the rotation Q. V is rotated
    once more, to R, and rounded to the 0/1 matrix U of a cycle-consistent
    multi-matching W = UUᵀ: for every image i, U_i assigns its features to
    different columns such that ⟨R_i, U_i⟩ is largest.

    Parameters
    ----------
    matches : PairwiseMatches
    universe_size : int
        d, the number of different universe features to look for.
    theta : float
        Features whose entry in R is below theta (about 1 where all images agree)
        are taken out of their universe feature.
    seed : int
        For the start vectors of the eigensolver.
    initialisation : "rotation" or "spectral"
        Start from the rotated eigenvectors, or from their positive part, Q = I
        (the paper's comparison, Fig. 4).
    factor : "V", "H" or "symmetric"
        Which factor is rounded; "symmetric" factorises W ≈ VVᵀ instead (the
        paper's comparison, Fig. 2).
    max_updates : int
        Largest number of updates.
    tolerance : float
        The published stopping rule of the updates. A smaller one than 1e-4
        lowers the error on very noisy input, at the price of time.

    Returns
    -------
    MultiMatching

    Raises
    ------
    NmfsyncError
        If an option is not one of those named above.

    Notes
    -----
    Over the connected components of the matches the factors are block-diagonal:
    an update costs O(md²) for one with m features and d columns, in which they are
    dense. Memory is O(md), summed over the components, and never O(m²).

    References
    ----------
    Bernard, Thunberg, Goncalves, Theobalt: Synchronisation of Partial
    Multi-Matchings via Non-negative Factorisations. Pattern Recognition, 2019,
    Algorithm 1.
    """
    if initialisation not in ("rotation", "spectral"):
        raise NmfsyncError(f"initialisation must be rotation or spectral, not {initialisation!r}")
    if factor not in ("V", "H", "symmetric"):
        raise NmfsyncError(f"factor must be V, H or symmetric, not {factor!r}")
    W, sizes = matches.W, matches.sizes
    component_of = label_components(W)
    values, vectors = top_eigenpairs(W, universe_size, by="algebraic", seed=seed)
    X = flip_signs(vectors * np.sqrt(np.maximum(values, 0)))
    if initialisation == "rotation":
        X = successive_block_rotation(X, sizes, component_of)
    start = np.maximum(X, 0)
    if factor == "symmetric":
        fitted = factorise_symmetric(W, start, max_updates, tolerance)
    else:
        V, G = factorise(W, start, max_updates, tolerance)
        fitted = V if factor == "V" else G
    R = successive_block_rotation(fitted, sizes, component_of)
    return MultiMatching(assign_to_universe(R, sizes, theta), sizes)


def effort(matches: PairwiseMatches, settings: Mapping[str, Any]) -> Effort:
    """Estimate what the method will take."""
    m, d = float(matches.sizes.sum()), settings["universe_size"]
    n, entries = count_by_component(matches.W)
    seconds, kept, work = eigenpairs_effort(n, entries, d)
    columns = np.minimum(n, d).astype(float)
    updates = min(settings.get("max_updates", USUAL_UPDATES), USUAL_UPDATES)
    seconds += PRODUCT * n * columns**2 * 4 * updates
    # One Procrustes problem for every image, twice.
    seconds += PRODUCT * columns**3 * 10 * np.minimum(n, len(matches.sizes))
    memory = kept.sum() + max(work.max(), COPIES * 8 * m * d)
    return Effort(
        seconds.sum() + ENTRY * m * d,
        memory,
        f"{m:,.0f} features and d = {d:,}",
    )
