"""Matches between the features of pairs of images: mutual nearest neighbours."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.matching.nearest import mutual_nearest, prepare
from nmfsync.matching.pairs import all_pairs
from nmfsync.runtime.cache import PairCache, code_of, digest
from nmfsync.runtime.tasks import cached_tasks
from nmfsync.types.arrays import IntArray
from nmfsync.types.features import Features
from nmfsync.types.matches import PairwiseMatches

LEAST_WEIGHT = 0.01  # of a match: nearest and second nearest are equally far

# Images are taken in blocks of about so many features, and pairs in tasks of about so
# many distances: enough work to be worth the sending of two blocks (1 MB each).
BLOCK = 2**13

TASK = 2**26

Descriptors = NDArray[np.uint8]

Found = NDArray[np.int32]  # (n, 4), see `mutual_nearest`


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

    With `weighted`, a match has the weight 1 − r⁴, where r is the larger of its
    ratios to the second nearest in both directions: on Graffiti, this is about
    the share of matches with this ratio that are right (the command
    `pytest -m benchmark tests/benchmarks/test_weights.py -s` prints them).

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
        Give matches weights.
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
    pairs = all_pairs(len(features)) if pairs is None else _check_pairs(pairs, len(features))
    pairs = pairs[(sizes[pairs] > 0).all(axis=1)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    parts = []
    for numbers, found in match_pairs([f.descriptors for f in features], pairs, cache, progress):
        start = np.repeat(offsets[pairs[numbers]], [len(matched) for matched in found], axis=0)
        p, q, first, second = np.concatenate(found).T
        r = _ratios(first, second)
        kept = r < (np.inf if ratio is None else ratio)
        if distance is not None:
            kept &= first <= distance**2
        weights = np.maximum(1 - r[kept] ** 4, LEAST_WEIGHT) if weighted else np.ones(kept.sum())
        parts.append(((start[:, 0] + p)[kept], (start[:, 1] + q)[kept], weights))
    nothing = [np.empty(0, np.int64)] * 2 + [np.empty(0)]
    p, q, weights = (np.concatenate(part) for part in zip(nothing, *parts, strict=True))
    matches = PairwiseMatches.from_entries(p, q, sizes, weights)
    matches.descriptors = tuple(f.descriptors for f in features)
    return matches


def check_limits(ratio: float | None, distance: float | None) -> None:
    """Raise NmfsyncError if a limit of `match` is out of range."""
    if ratio is not None and not 0 < ratio <= 1:
        raise NmfsyncError(f"ratio must be greater than 0 and at most 1, got {ratio}")
    if distance is not None and not distance >= 0:
        raise NmfsyncError(f"distance must not be negative, got {distance}")


def _check_pairs(pairs: IntArray, k: int) -> IntArray:
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise NmfsyncError("pairs must be an array of two columns of whole numbers")
    wrong = (pairs < 0).any(axis=1) | (pairs[:, 0] >= pairs[:, 1]) | (pairs[:, 1] >= k)
    if wrong.any():
        i, j = pairs[np.argmax(wrong)]
        raise NmfsyncError(f"pair ({i}, {j}): images must be 0 ≤ i < j < {k}")
    if len(np.unique(pairs, axis=0)) < len(pairs):
        raise NmfsyncError("a pair of images is given twice")
    return pairs.astype(np.int64)


def _ratios(first: NDArray[np.int32], second: NDArray[np.int32]) -> NDArray[np.float64]:
    """Distance to the nearest by that to the second nearest: 0 without one."""
    ratios = np.zeros(len(first))
    np.sqrt(np.divide(first, second, out=ratios, where=second > 0), out=ratios)
    ratios[second == 0] = 1  # two features at distance 0 cannot be told apart
    return ratios


def match_pairs(
    descriptors: Sequence[Descriptors],
    pairs: IntArray,
    cache: Path | None = None,
    progress: bool = True,
) -> Iterator[tuple[IntArray, Sequence[Found]]]:
    """Find the mutual nearest neighbours of pairs of images.

    Parameters
    ----------
    descriptors : sequence of (n, 128) uint8 arrays
        Those of every image.
    pairs : (n, 2) int64 array
        Different pairs of images i < j that have features.
    cache, progress
        As in `match`.

    Yields
    ------
    numbers : (c,) int array
        Some pairs, as rows of `pairs`; every one comes once.
    found : sequence of (n, 4) int32 arrays
        For each of them: left feature, right feature, squared distance and that
        to the second nearest, see `nearest.mutual_nearest`.
    """
    sizes = np.array([len(d) for d in descriptors], dtype=np.int64)
    store = None
    if cache:
        code = code_of("matching")
        store = PairCache(cache, [digest(code, d) for d in descriptors], pairs)
    with threadpool_limits(1, "blas"):  # where BLAS makes the products: one task a thread
        yield from cached_tasks(
            _match_task,
            len(pairs),
            lambda missing: _batches(pairs, missing, sizes),
            lambda numbers: _argument(pairs[numbers], descriptors),
            store,
            "Matching",
            "pair",
            progress,
        )


def _batches(pairs: IntArray, missing: IntArray, sizes: IntArray) -> list[IntArray]:
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


def _argument(
    pairs: IntArray, descriptors: Sequence[Descriptors]
) -> tuple[tuple[Descriptors, ...], tuple[Descriptors, ...], IntArray]:
    """Descriptors of the left and of the right images of pairs, and the pairs among these."""
    (left, i), (right, j) = (np.unique(side, return_inverse=True) for side in pairs.T)
    return (
        tuple(descriptors[n] for n in left),
        tuple(descriptors[n] for n in right),
        np.column_stack([i, j]),
    )


def _match_task(
    arguments: tuple[tuple[Descriptors, ...], tuple[Descriptors, ...], IntArray],
) -> list[Found]:
    left, right, pairs = arguments
    return mutual_nearest(prepare(left), prepare(right), pairs)
