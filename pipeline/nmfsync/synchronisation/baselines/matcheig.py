"""MatchEig: rounding of a spectral low-rank approximation of W."""

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.eigenpairs import top_eigenpairs
from nmfsync.synchronisation.numerics.rounding import greedy_one_to_one
from nmfsync.types.arrays import FloatArray
from nmfsync.types.matches import PairwiseMatches


def matcheig(
    matches: PairwiseMatches, universe_size: int, seed: int, threshold: float
) -> PairwiseMatches:
    """Synchronise by a low-rank approximation, rounded pair by pair.

    With d the universe size, minimises ::

        ‖W − X‖_F   over   X of rank d.

    The optimum is EΛEᵀ, with the d eigenpairs of W that are largest in magnitude.
    The scores of image i against image j are the block S_ij = Y_i Y_jᵀ of E|Λ|Eᵀ,
    with Y = E|Λ|^½. Those below the threshold are dropped. Of the maxima of rows
    and columns, matches are accepted by descending score, one for each row and
    column. The result is not cycle-consistent.

    Parameters
    ----------
    matches : PairwiseMatches
    universe_size : int
        d, the rank.
    seed : int
        For the start vectors of the eigensolver.
    threshold : float
        Smallest score that can become a match. The authors use 0.25 on
        synthetic and 0.5 on real data.

    Returns
    -------
    PairwiseMatches

    Notes
    -----
    Beside the eigenvectors, it costs O(m² d) time and O(m d) memory.

    References
    ----------
    Maset, Arrigoni, Fusiello: Practical and efficient multi-view matching.
    ICCV 2017.
    """
    offsets, k = matches.offsets, len(matches.sizes)
    values, vectors = top_eigenpairs(matches.W, universe_size, by="magnitude", seed=seed)
    Y = vectors * np.sqrt(np.abs(values))

    def pairs_of(image: slice) -> NDArray[np.int64]:
        i = image.start
        here = Y[offsets[i] : offsets[i + 1]]
        rows, columns, scores = _candidates(here, Y, offsets, i, threshold)
        # A row of image i is free once in every other image.
        other = np.searchsorted(offsets, columns, side="right")
        taken = greedy_one_to_one(rows * (k + 1) + other, columns, scores)
        return np.stack([offsets[i] + rows[taken], columns[taken]])

    with phase(k * (k - 1) // 2, "Rounding", "pair") as bar:
        # Of image i with all later ones.
        blocks = map_blocks(pairs_of, k, 1, lambda image: bar.update(k - image.stop))
    p, q = np.hstack(blocks)
    return PairwiseMatches.from_entries(p, q, matches.sizes)


def _candidates(
    here: FloatArray, Y: FloatArray, offsets: NDArray[np.int64], i: int, threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]:
    """Rows' and columns' maxima in the blocks of image i with the later images."""
    rows, columns, scores = [], [], []
    for j in range(i + 1, len(offsets) - 1):
        S = here @ Y[offsets[j] : offsets[j + 1]].T
        if S.size == 0:
            continue
        S[threshold > S] = 0
        r = np.concatenate([np.arange(S.shape[0]), S.argmax(axis=0)])
        c = np.concatenate([S.argmax(axis=1), np.arange(S.shape[1])])
        kept = S[r, c] > 0
        rows.append(r[kept])
        columns.append(offsets[j] + c[kept])
        scores.append(S[r, c][kept])
    empty = np.empty(0, dtype=np.int64)
    return (
        np.concatenate([empty, *rows]),
        np.concatenate([empty, *columns]),
        np.concatenate([np.empty(0), *scores]),
    )
