"""CLEAR: synchronisation by spectral clustering around pivots."""

import numpy as np
import psutil
from scipy import sparse

from nmfsync.errors import TooLargeError
from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.numerics.components import groups, label_components
from nmfsync.synchronisation.numerics.eigenpairs import DENSE_RATIO, DENSE_SIZE, top_eigenpairs
from nmfsync.synchronisation.numerics.rounding import assign_to_universe
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, PairwiseMatches

# Consistent matches have the eigenvalues 0 and 1 only, one 0 for every universe feature.
CUT = 0.5

# Three features in a row have the eigenvalue ½ itself: rounding must not decide on which side.
MARGIN = 1e-6


def clear(
    matches: PairwiseMatches,
    seed: int,
    max_features: int,
    eigenvectors: int | None = None,
) -> MultiMatching:
    """Synchronise by the smallest eigenvectors of the normalised Laplacian.

    With W (unit diagonal included) and the diagonal matrix D of the degrees
    (diagonal not counted), minimises ::

        ⟨L, YYᵀ⟩   over   Y with YᵀY = I,    L = I − (D + I)^-½ W (D + I)^-½.

    The optimum is the eigenvectors of L with the smallest eigenvalues, which are
    0 and 1 only if W is consistent. Their rows, scaled to length 1, are the same
    for features of one point and orthogonal for features of different points. As
    many of them as there are columns become pivots: the first feature, then
    always the one whose products with the pivots so far are smallest in sum. The
    features of every image are assigned to the pivots, so that the sum of the
    products is largest; one that is assigned to a pivot without any resemblance
    stays alone.

    L decouples over the connected components of the matches, so each of them is
    solved on its own. The order of the features matters by the first pivot of
    each component only.

    Parameters
    ----------
    matches : PairwiseMatches
    seed : int
        For the start vectors of the eigensolver on large components.
    max_features : int
        Connected features up to which the method is tried: the number of
        eigenvectors grows with that of the features.
    eigenvectors : int, optional
        Columns of Y, for all components together, unmatched features included.
        None takes from the spectrum how many a component needs: as many as it
        has eigenvalues below ½, but no fewer than features in one image.

    Returns
    -------
    MultiMatching

    Raises
    ------
    TooLargeError
        If more features are connected, or the eigenvectors do not fit into memory.

    Notes
    -----
    A component of n features that needs d eigenvectors costs O(n³) time and O(n²)
    memory for up to 1,500 features or 3d, beyond that O(n d²) a round of the
    iterative solver, and O(n d) memory.

    References
    ----------
    Fathian, Khosoussi, Tian, Lusk, How: CLEAR: A consistent lifting, embedding,
    and alignment rectification algorithm for multi-view data association. IEEE
    Transactions on Robotics 2020.
    """
    # I − L: its largest eigenpairs are the smallest of L.
    scale = sparse.diags_array(1 / np.sqrt(matches.W.sum(axis=1)))
    A = (scale @ matches.W @ scale).tocsr()
    if eigenvectors is not None:
        _require_memory(len(matches.image_of), eigenvectors)
        _, leading = top_eigenpairs(A, eigenvectors, seed=seed)
    universe = np.arange(A.shape[0])
    free = len(universe)
    components = _matched_components(A)
    with phase(len(components), "Components", "component") as bar:
        for rows in components:
            _, sizes = np.unique(matches.image_of[rows], return_counts=True)
            if eigenvectors is None:
                _require_small(len(rows), max_features)
                vectors = _low_eigenvectors(A[rows][:, rows], int(sizes.max()), seed)
            else:
                vectors = leading[rows][:, leading[rows].any(axis=0)]
            d = vectors.shape[1]
            universe[rows] = free + _assign_to_pivots(vectors, sizes)
            free += d + len(rows)
            bar.update()
    return MultiMatching(universe, matches.sizes)


def _matched_components(A: sparse.csr_array) -> list[IntArray]:
    """Features, in order, of every connected component of at least two."""
    return [rows for rows in groups(label_components(A)) if len(rows) > 1]


def _low_eigenvectors(A: sparse.csr_array, least: int, seed: int) -> FloatArray:
    """Eigenvectors of L = I − A with eigenvalues below `CUT`, but `least` of them or more.

    How many there are is not known before: in a large component twice as many
    are computed until one lies above.
    """
    n = A.shape[0]
    count = n if n <= DENSE_SIZE else min(n, 2 * least)
    while True:
        _require_memory(n, count)
        values, vectors = top_eigenpairs(A, count, seed=seed)
        d = int((1 - values < CUT - MARGIN).sum())
        if d < count or count == n:
            return vectors[:, : max(d, least)]
        count = min(n, 2 * count)


def _assign_to_pivots(vectors: FloatArray, sizes: IntArray) -> IntArray:
    """Pivot of every feature of a component, from its (n, d) eigenvectors; d or more if alone."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    embedding = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    pivots = _pivots(embedding)
    return assign_to_universe(embedding @ embedding[pivots].T, sizes, theta=0.0)


def _pivots(embedding: FloatArray) -> IntArray:
    """Choose d of the (n, d) rows, each as orthogonal to those before as there is one."""
    overlap = np.zeros(len(embedding))
    pivots = np.empty(embedding.shape[1], dtype=np.int64)
    with phase(len(pivots), "Pivots", "pivot") as bar:
        for number in range(len(pivots)):
            pivot = pivots[number] = np.argmin(overlap)
            overlap += np.abs(embedding @ embedding[pivot])
            overlap[pivot] = np.inf
            bar.update()
    return pivots


def _require_small(n: int, max_features: int) -> None:
    if n > max_features:
        raise TooLargeError(
            f"clear needs an eigenvector for every track, and {n:,} features are connected, more "
            f"than {max_features:,}; use fewer features or another method"
        )


def _require_memory(n: int, count: int) -> None:
    """Raise TooLargeError unless `count` eigenvectors of n connected features fit."""
    dense = n <= max(DENSE_SIZE, DENSE_RATIO * count)
    needed = 8 * (3 * n**2 if dense else 6 * n * count)
    available = psutil.virtual_memory().available
    if needed > 0.9 * available:
        raise TooLargeError(
            f"clear needs about {needed / 1e9:,.1f} GB for {count:,} eigenvectors of {n:,} "
            f"connected features, but {available / 1e9:,.1f} GB are free; use fewer features "
            "or another method"
        )
