"""MatchEig: rounding of a spectral low-rank approximation of W."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nmfsync.runtime.progress import phase
from nmfsync.runtime.threads import map_blocks
from nmfsync.synchronisation.numerics.effort import Effort
from nmfsync.synchronisation.numerics.eigenpairs import (
    effort_of_rounding,
    eigenpairs_by_component,
)
from nmfsync.synchronisation.numerics.rounding import greedy_one_to_one
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray
from nmfsync.types.matches import PairwiseMatches

ROW = 1e-4  # seconds for a feature, for the estimate of the effort


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
    Beside the eigenvectors, a component of n features with d of them costs O(n² d)
    time and O(n d) memory.

    References
    ----------
    Maset, Arrigoni, Fusiello: Practical and efficient multi-view matching.
    ICCV 2017.
    """
    parts = eigenpairs_by_component(matches.W, universe_size, by="magnitude", seed=seed)
    pairs = [np.empty((2, 0), dtype=np.int64)]
    with phase(sum(len(part.rows) for part in parts), "Rounding", "feature") as bar:
        for part in parts:
            Y = part.vectors * np.sqrt(np.abs(part.values))
            found = _round(Y, matches.image_of[part.rows], threshold, bar.update)
            pairs.append(part.rows[found])
    p, q = np.hstack(pairs)
    return PairwiseMatches.from_entries(p, q, matches.sizes)


def effort(matches: PairwiseMatches, settings: Mapping[str, Any]) -> Effort:
    """Estimate what the method will take."""
    return effort_of_rounding(matches, settings["universe_size"], ROW)


def _round(
    Y: FloatArray, image_of: IntArray, threshold: float, done: Callable[[int], Any]
) -> IntArray:
    """Match the features of a component; return (2, n) of its rows.

    `done` is called with the number of features of every image that is done.
    """
    cuts = np.flatnonzero(np.diff(image_of, prepend=-1, append=-1))

    def pairs_of(image: slice) -> IntArray:
        """Pairs of an image's features with those of later images."""
        start, stop = cuts[image.start], cuts[image.stop]
        other = image_of[stop:]
        rows, columns, scores = _candidates(Y[start:stop] @ Y[stop:].T, other, threshold)
        # A row is free once in every other image.
        taken = greedy_one_to_one(rows * (image_of[-1] + 1) + other[columns], columns, scores)
        return np.stack([start + rows[taken], stop + columns[taken]])

    def report(image: slice) -> None:
        done(cuts[image.stop] - cuts[image.start])

    return np.hstack(map_blocks(pairs_of, len(cuts) - 1, 1, report))


def _candidates(
    S: FloatArray, image_of: IntArray, threshold: float
) -> tuple[IntArray, IntArray, FloatArray]:
    """Maxima of rows and of columns in the blocks of S, one for every other image.

    One block after the other, first the maxima of its rows; of equal ones the first.
    `image_of` are the images of the columns, ascending.
    """
    rows, columns = np.nonzero((threshold <= S) & (S > 0))
    scores, block = S[rows, columns], image_of[columns]
    best = np.lexsort((columns, -scores, rows, block))  # of every row in every block
    best = best[_begins(block[best] * len(S) + rows[best])]
    also = np.lexsort((rows, -scores, columns))
    also = also[_begins(columns[also])]
    both = np.concatenate([best, also])
    both = both[np.argsort(block[both], kind="stable")]
    return rows[both], columns[both], scores[both]


def _begins(groups: IntArray) -> BoolArray:
    """Mark the first of every run of equal numbers."""
    return np.asarray(np.diff(groups, prepend=-1) != 0)
