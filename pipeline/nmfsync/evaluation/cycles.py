"""The cycle-error: how much direct matches disagree with those through a third image."""

from typing import Any

import numpy as np
from scipy import sparse

from nmfsync.errors import NmfsyncError
from nmfsync.evaluation.scores import ones_of
from nmfsync.runtime.compiled import compiled, csr_arrays
from nmfsync.runtime.heap import pop, push
from nmfsync.runtime.progress import phase, showing
from nmfsync.runtime.threads import map_blocks
from nmfsync.types.arrays import IntArray

BLOCK = 2**6  # images that a thread takes at a time

# If fewer than one image in so many differs, a heap hands these out; else all images are read.
FEW = 8


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
    rows = _rows_of(W, image_of)
    first, other = csr_arrays(rows)
    # The features that have a match in an image, ascending, and these matches.
    matched = sparse.csr_array((other, image_of[other], first), shape=(len(image_of), k)).tocsc()
    arrays = (first, other, *csr_arrays(matched), matched.data)
    totals = np.zeros(k)
    with showing(progress), phase(k, "Cycle error", "image") as progress_bar:
        map_blocks(
            lambda images: _disagree(images.start, images.stop, *arrays, image_of, totals),
            k,
            BLOCK,
            lambda images: progress_bar.update(images.stop - images.start),
        )
    return float(sum(totals.tolist()) / k**3)


def _rows_of(W: Any, image_of: IntArray) -> sparse.csr_array:
    """Return W (m, m) with sorted indices; at most one match of a feature in an image."""
    rows = ones_of(W)
    rows.sort_indices()
    feature = np.repeat(np.arange(len(image_of)), np.diff(rows.indptr))
    image = image_of[rows.indices]
    twice = np.flatnonzero((np.diff(feature) == 0) & (np.diff(image) == 0))
    if len(twice):
        p, image = feature[twice[0]], image[twice[0]]
        raise NmfsyncError(
            f"feature {p} has two matches in image {image}; at most one is allowed in every image"
        )
    return rows


@compiled
def _disagree(start, stop, first, other, matched_first, matched, match, image_of, totals):
    """Sum the norms over all images i and j, for the images ℓ from `start` to `stop` - 1.

    The entries are 0 or 1, so a norm is the square root of the number of
    entries that differ. With `middle` the match of p in ℓ, these are, for every p of i,
    the matches of `middle` (through ℓ) and of p (direct) that are not the same.
    Their number is that of both kinds, less two for every match that both have.
    """
    middle_of, direct = np.full(len(image_of), -1), np.full(len(image_of), -1)
    differ, seen = np.zeros(len(totals), np.int64), np.full(len(totals), -1)  # by image j
    touched, unused = np.empty(len(totals)), np.empty(len(totals), np.int64)  # heap of images j
    for ell in range(start, stop):
        for at in range(matched_first[ell], matched_first[ell + 1]):
            middle_of[matched[at]] = match[at]
        n = np.int64(0)  # of a fixed type: else the heap is compiled twice
        begin = matched_first[ell]  # where the features of i begin: marks the images j seen for it
        for at in range(matched_first[ell], matched_first[ell + 1]):
            p = matched[at]
            for f in range(first[p], first[p + 1]):
                q = other[f]
                # A direct match counts only if its other end has a match in ℓ as well. This is
                # added without a branch, which the processor could not predict.
                counts, j = middle_of[q] >= 0, image_of[q]
                direct[q] = at if counts else -1
                if seen[j] != begin:
                    n, seen[j] = push(touched, unused, n, float(j), j), begin
                differ[j] += counts
            for e in range(first[middle_of[p]], first[middle_of[p] + 1]):
                q = other[e]
                j = image_of[q]
                if seen[j] != begin:
                    n, seen[j] = push(touched, unused, n, float(j), j), begin
                differ[j] += 1 - 2 * (direct[q] == at)  # both have it: take 1 back
            last = at + 1 == matched_first[ell + 1]
            if last or image_of[matched[at + 1]] != image_of[p]:  # the end of i
                begin, total = at + 1, 0.0
                # Always in the same order, so that the sum has the same bits.
                if n * FEW > len(differ):  # reading them all is faster
                    n = np.int64(0)
                    for j in range(len(differ)):
                        total += np.sqrt(differ[j])
                        differ[j] = 0
                while n > 0:
                    j = int(touched[0])
                    n = pop(touched, unused, n)
                    total += np.sqrt(differ[j])
                    differ[j] = 0
                totals[ell] += total
        for at in range(matched_first[ell], matched_first[ell + 1]):
            middle_of[matched[at]] = -1
