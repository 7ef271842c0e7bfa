"""The cycle-error: how much direct matches disagree with those through a third image."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError
from nmfsync.evaluation.scores import ones_of
from nmfsync.runtime.compiled import compiled
from nmfsync.runtime.progress import phase, showing
from nmfsync.runtime.threads import map_blocks
from nmfsync.types.arrays import IntArray


def cycle_error(W: Any, sizes: Any, progress: bool = False) -> float:
    """Measure how much the cycles of matches disagree; 0 if they all agree.

    (1/k³) Σ_{i,j,ℓ} ‖(P_iℓ)_{R,:} (P_ℓj)_{:,C} − (P_ij)_{R,C}‖_F over all triples
    of images. P_ij is block (i, j) of W; R and C are the features of images i
    and j that have a match in image ℓ (the paper, Sec. 5). Weights count as 1.

    Parameters
    ----------
    W : sparse or dense array, shape (m, m)
        At most one match of a feature in every image.
    sizes : (k,) ints
        Number of features of every image.
    progress : bool
        Show a progress bar if this takes more than some seconds and stderr is a terminal.

    Returns
    -------
    float

    Raises
    ------
    NmfsyncError
        If a feature has two matches in one image.
    """
    sizes = np.asarray(sizes)
    k = len(sizes)
    image_of = np.repeat(np.arange(k), sizes)
    partner = _partners(W, image_of, k)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    with showing(progress), phase(k, "Cycle error", "image") as progress_bar:
        totals = map_blocks(
            lambda image: _disagreement(partner, offsets, image.start),
            k,
            block=1,
            done=lambda _image: progress_bar.update(),
        )
    return float(sum(totals) / k**3)


def _partners(W: Any, image_of: IntArray, k: int) -> NDArray[np.int32]:
    """Return the match of every feature in every image: (m, k), -1 where there is none."""
    entries = ones_of(W).tocoo()
    place = (entries.row, image_of[entries.col])
    partner = np.full((len(image_of), k), -1, dtype=np.int32)
    partner[place] = entries.col
    twice = np.flatnonzero(partner[place] != entries.col)
    if len(twice):
        p, image = place[0][twice[0]], place[1][twice[0]]
        raise NmfsyncError(
            f"feature {p} has two matches in image {image}; at most one is allowed in every image"
        )
    return partner


@compiled
def _disagreement(partner: NDArray[np.int32], offsets: IntArray, ell: int) -> float:
    """Sum the norms over all i and j for one image ℓ.

    The entries are 0 or 1, so a norm is the square root of the number of
    entries that differ.
    """
    k = len(offsets) - 1
    in_ell = partner[:, ell] >= 0
    total = 0.0
    for i in range(k):
        differ = np.zeros(k, np.int64)
        for p in range(offsets[i], offsets[i + 1]):
            if in_ell[p]:
                middle = partner[p, ell]
                for j in range(k):
                    through, direct = partner[middle, j], partner[p, j]
                    # A direct match counts only if its other end has a match in ℓ as well.
                    if direct >= 0 and not in_ell[direct]:
                        direct = -1
                    if through != direct:
                        differ[j] += (through >= 0) + (direct >= 0)
        total += np.sqrt(differ).sum()
    return total
