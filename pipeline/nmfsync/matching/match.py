"""Matches between the features of pairs of images: mutual nearest neighbours."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.matching.cues import COLUMNS, DECOY, describe, frames_of
from nmfsync.matching.evidence import learn_probabilities
from nmfsync.matching.nearest import DISTANCE, LEFT, RIGHT, SECOND_DISTANCE, mutual_nearest, prepare
from nmfsync.matching.options import check_limits
from nmfsync.matching.pairs import all_pairs
from nmfsync.runtime.cache import PairCache, code_of, digest
from nmfsync.runtime.tasks import cached_tasks
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray
from nmfsync.types.features import DescriptorsOf, Features
from nmfsync.types.matches import PairwiseMatches

# Images are taken in blocks of about so many features, and pairs in tasks of about so
# many distances: enough work to be worth the sending of two blocks (1 MB each).
BLOCK = 2**13

TASK = 2**26

# Pairs of images, evenly among all, whose second choices are the decoys: enough to learn from.
DECOY_PAIRS = 1000

Found = NDArray[Any]  # (n, 4) int32, see `mutual_nearest`, or (n, 7) float32, see `describe`

# Left and right images, the pairs among them, those with decoys, and whether to describe matches.
_Task = tuple[Sequence[Features], Sequence[Features], IntArray, BoolArray, bool]


def match(
    features: Sequence[Features],
    ratio: float | None = None,
    weighted: bool = False,
    progress: bool = True,
    *,
    distance: float | None = None,
    pairs: IntArray | None = None,
    cache: Path | None = None,
) -> PairwiseMatches:
    """Match the features of pairs of images by mutual nearest neighbours.

    Feature p of one image and q of another match if q is nearest to p among
    the features of its image, and p to q, by the Euclidean distance of their
    descriptors. Distances are exact; among equal ones the first is nearest.

    With `ratio`, the distance must also be smaller than `ratio` times that to
    the second nearest, in both directions (in Lowe 2004 it is one direction).
    A direction without a second nearest passes.

    With `weighted`, the weight of a match is the probability that it is right,
    learnt from the distance ratios and frames of all matches of these images,
    and from decoys: see `nmfsync.matching.evidence`. Limits of ratio and distance
    choose among the matches afterwards.

    A descriptor of zeros describes nothing: it has no match, and is nobody's
    nearest or second nearest.

    The work is done on the engine (see `engine.engine`), with the same bits on any.
    Beyond the descriptors and the matches, every thread holds about a kilobyte
    for every feature of the images that it is at.

    Parameters
    ----------
    features : sequence of Features
        Those of every image.
    ratio : float, optional
        In (0, 1]; 0.8 is usual. None: no ratio test.
    weighted : bool
        Weigh every match by the probability that it is right.
    progress : bool
        Show a progress bar if stderr is a terminal.
    distance : float, optional
        The largest distance of a match; None: no limit. SIFT's descriptors of
        bytes have a length of about 512.
    pairs : (n, 2) int array, optional
        Different pairs of images i < j, see `pairs`; None: all.
    cache : Path, optional
        Folder that keeps the matches of every pair. Only what is not there is computed.

    Returns
    -------
    PairwiseMatches
        A match of features p and q, counted through all images, is a 1 (or its
        weight) in W at (p, q) and at (q, p). It holds the descriptors too.

    Raises
    ------
    NmfsyncError
        If `ratio` lies outside (0, 1], `distance` is negative, `pairs` are not
        pairs of images, or there is no image.
    """
    check_limits(ratio, distance)
    sizes = np.array([len(f) for f in features], dtype=np.int64)
    pairs = all_pairs(len(features)) if pairs is None else check_pairs(pairs, len(features))
    pairs = pairs[(sizes[pairs] > 0).all(axis=1)]
    counts, found = _find(features, pairs, weighted, cache, progress)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    p, q = (np.repeat(offsets[pairs], counts, axis=0) + found[:, [LEFT, RIGHT]].astype(np.int64)).T
    ratios = ratios_of(found)
    weights, kept = np.ones(len(found)), within(found, ratio, distance)
    if weighted:
        decoy = found[:, DECOY] == 1
        weights[~decoy] = learn_probabilities(found[~decoy], found[decoy])
        kept &= ~decoy
    matches = PairwiseMatches.from_entries(p[kept], q[kept], sizes, weights[kept])
    matches.descriptors = DescriptorsOf(features)
    matches.ratios = ratios[kept].astype(np.float32)[np.lexsort((q[kept], p[kept]))]
    return matches


def _find(
    features: Sequence[Features],
    pairs: IntArray,
    described: bool,
    cache: Path | None,
    progress: bool,
) -> tuple[IntArray, Found]:
    """Return the number of rows of every pair of images, and the rows of all `match_pairs`."""
    columns, kind = (COLUMNS, np.float32) if described else (4, np.int32)
    by_pair: list[Found] = [np.empty((0, columns), kind)] * (len(pairs) + 1)
    for numbers, found in match_pairs(features, pairs, described, cache, progress):
        for n, rows in zip(numbers.tolist(), found, strict=True):
            by_pair[n] = rows
    return np.array([len(rows) for rows in by_pair[:-1]], np.int64), np.concatenate(by_pair)


def ratios_of(found: Found) -> FloatArray:
    """Distance to the nearest by that to the second nearest (n,): 0 without one."""
    nearest, second = found[:, DISTANCE].astype(np.float64), found[:, SECOND_DISTANCE]
    ratios = np.zeros(len(found))
    np.sqrt(np.divide(nearest, second, out=ratios, where=second > 0), out=ratios)
    ratios[second == 0] = 1  # two features at distance 0 cannot be told apart
    return ratios


def within(found: Found, ratio: float | None, distance: float | None) -> BoolArray:
    """Which matches are within limits of ratio and distance, (n,) bools."""
    kept = ratios_of(found) < (np.inf if ratio is None else ratio)
    if distance is not None:
        kept &= found[:, DISTANCE] <= distance**2
    return np.asarray(kept)


def check_pairs(pairs: IntArray, k: int) -> IntArray:
    """Return pairs (n, 2) of k images in lexicographic order, if they are different ones i < j."""
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise NmfsyncError("pairs must be an array of two columns of whole numbers")
    wrong = (pairs < 0).any(axis=1) | (pairs[:, 0] >= pairs[:, 1]) | (pairs[:, 1] >= k)
    if wrong.any():
        i, j = pairs[np.argmax(wrong)]
        raise NmfsyncError(f"pair ({i}, {j}): images must be 0 ≤ i < j < {k}")
    different = np.unique(pairs.astype(np.int64), axis=0)  # in an order of their own
    if len(different) < len(pairs):
        raise NmfsyncError("a pair of images is given twice")
    return different


def match_pairs(
    features: Sequence[Features],
    pairs: IntArray,
    described: bool = False,
    cache: Path | None = None,
    progress: bool = True,
) -> Iterator[tuple[IntArray, Sequence[Found]]]:
    """Find the mutual nearest neighbours of pairs of images.

    Parameters
    ----------
    features : sequence of Features
        Those of every image. Of those that are stored, workers get the place.
    pairs : (n, 2) int64 array
        Different pairs of images i < j that have features.
    described : bool
        Describe the matches by what tells right from wrong. Then some pairs of images have
        decoys, too.
    cache, progress
        As in `match`.

    Yields
    ------
    numbers : (c,) int array
        Some pairs, as rows of `pairs`; every one comes once.
    found : sequence of (n, 4) int32 or (n, 7) float32 arrays
        For each of them: left feature, right feature, squared distance and that
        to the second nearest, see `nearest.mutual_nearest`; if they are described, what
        `cues.describe` returns.
    """
    sizes = np.array([len(f) for f in features], dtype=np.int64)
    decoys = pairs_with_decoys(len(pairs)) if described else np.zeros(len(pairs), dtype=bool)
    with threadpool_limits(1, "blas"):  # where BLAS makes the products: one task a thread
        yield from cached_tasks(
            match_batch,
            len(pairs),
            lambda missing: batches_of(pairs, missing, sizes),
            lambda numbers: batch_of(features, pairs[numbers], decoys[numbers], described),
            store_of(cache, features, pairs, decoys, described) if cache else None,
            "Matching",
            "pair",
            progress,
        )


def pairs_with_decoys(count: int) -> BoolArray:
    """Say of so many pairs of images which have decoys, (count,) bools."""
    decoys = np.zeros(count, dtype=bool)
    if count:
        decoys[np.linspace(0, count, DECOY_PAIRS, endpoint=False).astype(np.int64)] = True
    return decoys


def store_of(
    folder: Path,
    features: Sequence[Features],
    pairs: IntArray,
    decoys: BoolArray,
    described: bool,
) -> PairCache:
    """Return the cache of what `match_pairs` finds."""
    digests = [digest_of(f, described) for f in features]
    return PairCache(folder, digests, pairs, lambda n: entry_of(digests[pairs[n, 1]], decoys[n]))


def digest_of(features: Features, described: bool) -> bytes:
    """Digest all that the matches of an image depend on, but for the other image."""
    return digest(code_of("matching"), features.digest(), described)


def entry_of(right: bytes, decoys: bool | np.bool_) -> bytes:
    """Digest all that the matches of two images depend on besides the first image."""
    return digest(right, bool(decoys))


def batches_of(pairs: IntArray, missing: IntArray, sizes: IntArray) -> list[IntArray]:
    """Divide the missing pairs into batches: numbers of pairs.

    Pairs of a block of images with another follow each other, so that a batch
    needs few images, and so do all batches of a left block, so that its images
    are finished before others begin.
    """
    if not len(missing):
        return []
    block = (np.cumsum(sizes) - 1) // BLOCK
    i, j = pairs[missing].T
    order = np.lexsort((j, i, block[j], block[i]))
    work = np.cumsum((sizes[i] * sizes[j])[order]) // TASK
    cuts = np.flatnonzero(np.diff(block[i[order]]) | np.diff(work)) + 1
    return np.split(missing[order], cuts)


def batch_of(
    features: Sequence[Features], pairs: IntArray, decoys: BoolArray, described: bool
) -> _Task:
    """Collect the left and the right images of pairs, the pairs among these, which have decoys."""
    (left, i), (right, j) = (np.unique(side, return_inverse=True) for side in pairs.T)
    return (
        tuple(features[n] for n in left),
        tuple(features[n] for n in right),
        np.column_stack([i, j]),
        decoys,
        described,
    )


def match_batch(arguments: _Task) -> list[Found]:
    """Return what `match_pairs` finds for every pair of what `batch_of` collected."""
    left, right, pairs, decoys, described = arguments
    rows, columns = ([f.loaded() for f in side] for side in (left, right))
    prepared = prepare([f.descriptors for f in rows]), prepare([f.descriptors for f in columns])
    found = mutual_nearest(*prepared, pairs)
    if not described:
        return found
    chosen = np.flatnonzero(decoys).tolist()
    second = mutual_nearest(*prepared, pairs[chosen], [found[n] for n in chosen])
    others = [np.empty((0, 4), np.int32)] * len(pairs)
    for n, rows_of_pair in zip(chosen, second, strict=True):
        others[n] = rows_of_pair
    frames = [[frames_of(f) for f in side] for side in (rows, columns)]
    return [
        describe(matches, second_choices, frames[0][i], frames[1][j])
        for matches, second_choices, (i, j) in zip(found, others, pairs.tolist(), strict=True)
    ]
