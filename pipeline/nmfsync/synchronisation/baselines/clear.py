"""CLEAR: synchronisation by spectral clustering around pivots."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from nmfsync.runtime.progress import phase
from nmfsync.synchronisation.numerics.components import (
    count_by_component,
    diagonal_blocks,
    label_components,
)
from nmfsync.synchronisation.numerics.effort import PRODUCT, Effort, require_effort
from nmfsync.synchronisation.numerics.eigenpairs import (
    DENSE_SIZE,
    NULL,
    eigenpairs_by_component,
    eigenpairs_effort,
    top_eigenpairs,
)
from nmfsync.synchronisation.numerics.rounding import assign_to_universe
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, PairwiseMatches

# Consistent matches have the eigenvalues 0 and 1 only, one 0 for every universe feature.
CUT = 0.5

# Three features in a row have the eigenvalue ½ itself: rounding must not decide on which side.
MARGIN = 1e-6

COMPONENT = 9e-4  # seconds for each, whatever its size


def clear(matches: PairwiseMatches, seed: int, eigenvectors: int | None = None) -> MultiMatching:
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
        If the eigenvectors turn out to be so many that they do not fit into memory.

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
    image_of = matches.image_of
    universe = np.arange(len(image_of))
    free = len(universe)
    with phase(None, "Components", "component") as bar:
        for rows, vectors in _embeddings(matches, eigenvectors, seed):
            _, sizes = np.unique(image_of[rows], return_counts=True)
            universe[rows] = free + _assign_to_pivots(vectors, sizes)
            free += vectors.shape[1] + len(rows)
            bar.update()
    return MultiMatching(universe, matches.sizes)


def effort(matches: PairwiseMatches, settings: Mapping[str, Any]) -> Effort:
    """Estimate what the method will take.

    A component of consistent matches has Σ 1 / degree tracks, the feature itself
    counted in the degree, and needs as many eigenvectors.
    """
    n, entries = count_by_component(matches.W)
    if settings.get("eigenvectors") is None:
        tracks = np.bincount(label_components(matches.W), weights=1 / np.diff(matches.W.indptr))
        count = np.minimum(n, 2 * np.ceil(tracks).astype(int))  # doubled until they suffice
    else:
        count = np.minimum(n, settings["eigenvectors"])
    seconds, kept, work = eigenpairs_effort(n, entries, count)
    # Pivots, and products with them.
    seconds += PRODUCT * n * count.astype(float) ** 2 + COMPONENT
    return Effort(seconds.sum(), (kept + work).max(), f"{n.max():,} connected features")


def _embeddings(
    matches: PairwiseMatches, eigenvectors: int | None, seed: int
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Hand out the features and eigenvectors of every component of at least two."""
    # I − L: its largest eigenpairs are the smallest of L.
    scale = sparse.diags_array(1 / np.sqrt(matches.W.sum(axis=1)))
    A = (scale @ matches.W @ scale).tocsr()
    if eigenvectors is not None:
        for part in eigenpairs_by_component(A, eigenvectors, seed=seed):
            # Those of the null space of A would tell features of one point apart.
            yield part.rows, part.vectors[:, part.values > NULL]
        return
    image_of = matches.image_of
    for rows, block in diagonal_blocks(A, label_components(A)):
        if len(rows) > 1:
            most = np.unique(image_of[rows], return_counts=True)[1].max()
            yield rows, _low_eigenvectors(block, int(most), seed)


def _low_eigenvectors(A: sparse.csr_array, least: int, seed: int) -> FloatArray:
    """Eigenvectors of L = I − A with eigenvalues below `CUT`, but `least` of them or more.

    How many there are is not known before: in a large component twice as many
    are computed until one lies above.
    """
    n = A.shape[0]
    count = n if n <= DENSE_SIZE else min(n, 2 * least)
    while True:
        _, kept, work = eigenpairs_effort(np.array([n]), np.array([A.nnz]), count)
        memory = float((kept + work)[0])
        problem = f"{count:,} eigenvectors of {n:,} connected features"
        require_effort("clear", Effort(0, memory, problem), math.inf)
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
