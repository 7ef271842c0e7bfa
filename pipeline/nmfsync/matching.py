"""Matches between the features of all pairs of images: mutual nearest neighbours."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from nmfsync.errors import NmfsyncError
from nmfsync.features import Features
from nmfsync.matches import IntArray, PairwiseMatches

FloatArray = NDArray[np.float32]

# Distances each thread holds at a time (4 bytes each), however many images and features.
_BUDGET = 1_000_000

LEAST_WEIGHT = 0.01  # of a match: nearest and second nearest are equally far


def match(
    features: Sequence[Features],
    ratio: float | None = None,
    weighted: bool = False,
    progress: bool = True,
) -> PairwiseMatches:
    """Match the features of every pair of images by mutual nearest neighbours.

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

    Returns
    -------
    PairwiseMatches
        A match of features p and q, counted through all images, is a 1 (or its
        weight) in W at (p, q) and at (q, p).

    Raises
    ------
    NmfsyncError
        If `ratio` lies outside (0, 1], or there is no image.
    """
    if ratio is not None and not 0 < ratio <= 1:
        raise NmfsyncError(f"ratio must be greater than 0 and at most 1, not {ratio}")
    sizes = np.array([len(f) for f in features], dtype=np.int64)
    descriptors = np.concatenate([np.empty((0, 128), np.uint8), *(f.descriptors for f in features)])
    described = np.flatnonzero(descriptors.any(axis=1))
    p, q, found_ratio = _match_all(
        descriptors[described].astype(np.float32),
        np.searchsorted(described, np.concatenate([[0], np.cumsum(sizes)])),
        ratio is not None or weighted,
        progress,
    )
    kept = found_ratio < (np.inf if ratio is None else ratio)
    p, q = described[p[kept]], described[q[kept]]
    weights = np.ones(len(p))
    if weighted:
        weights = np.maximum(1 - found_ratio[kept] ** 4, LEAST_WEIGHT)
    m = len(descriptors)
    W = sparse.csr_array(
        (np.append(weights, weights), (np.append(p, q), np.append(q, p))), shape=(m, m)
    )
    return PairwiseMatches(W, sizes)


def _match_all(
    descriptors: FloatArray, offsets: IntArray, with_ratio: bool, progress: bool
) -> tuple[IntArray, IntArray, NDArray[np.float64]]:
    """Rows p < q of `descriptors` that match, and their ratios (zeros if not asked for).

    Image i has rows offsets[i] to offsets[i + 1] - 1.
    """
    left, right = _factors(descriptors)
    offsets = np.unique(offsets)  # images without features drop out
    k = len(offsets) - 1

    def match_to_later(i: int) -> list[tuple[IntArray, IntArray, NDArray[np.float64]]]:
        start, stop = offsets[i : i + 2]
        found = []
        for block in _blocks(offsets[i + 1 :], _BUDGET // (stop - start)):
            later = right[block[0] : block[-1]]
            p, q, r = _mutual(left[start:stop], later, block - block[0], with_ratio)
            found.append((p + start, q + block[0], r))
        return found

    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    # One image a thread: threads inside the products would wait for each other
    # after every block, which takes several times longer on a busy machine.
    with (
        threadpool_limits(1, "blas"),
        ThreadPoolExecutor(joblib.cpu_count()) as pool,
        tqdm(
            total=k * (k - 1) // 2,
            desc="Matching",
            unit="pair",
            leave=None,
            disable=not progress or None,
        ) as bar,
    ):
        for i, pairs in enumerate(pool.map(match_to_later, range(k))):
            found.extend(pairs)
            bar.update(k - 1 - i)
    p, q, r = (np.concatenate(part) for part in zip(*found, strict=True))
    return p, q, r


def _factors(descriptors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Arrays (n, 130) whose rows have the product |a - b|² = -2 a·b + |a|² + |b|².

    Every partial sum is a whole number of at most 2 · 128 · 255² < 2²⁴, so that
    single precision is exact: equal distances are equal, and the result does
    not depend on how the product is cut up or on the number of threads.
    """
    norm = np.einsum("ij,ij->i", descriptors, descriptors)[:, None]
    left = np.hstack([-2 * descriptors, norm, np.ones_like(norm)])
    right = np.hstack([descriptors, np.ones_like(norm), norm])
    return left, right


def _blocks(offsets: IntArray, limit: int) -> list[IntArray]:
    """Cut the offsets of consecutive images into blocks of `limit` features, or one image."""
    blocks, first = [], 0
    while first < len(offsets) - 1:
        last = np.searchsorted(offsets, offsets[first] + limit, side="right") - 1
        last = max(last, first + 1)
        blocks.append(offsets[first : last + 1])
        first = last
    return blocks


class _Nearest(NamedTuple):
    """Where the nearest neighbours are, their squared distances, those of the second nearest."""

    place: IntArray
    first: FloatArray
    second: FloatArray


def _mutual(
    left: FloatArray, right: FloatArray, cuts: IntArray, with_ratio: bool
) -> tuple[IntArray, IntArray, NDArray[np.float64]]:
    """Rows p of `left` and q of `right` that match, and their ratios.

    `left` holds the features of one image, `right` those of several: image j
    has rows cuts[j] to cuts[j + 1] - 1. One product serves both directions.
    """
    rows = max(1, _BUDGET // len(right))
    images = list(pairwise(cuts))
    nothing = np.full(len(right), np.inf, dtype=np.float32)
    forward, backward = [], _Nearest(np.zeros(len(right), np.int64), nothing, nothing)
    for start in range(0, len(left), rows):
        D = left[start : start + rows] @ right.T
        to_images = [_nearest(D[:, first:last], 1, with_ratio) for first, last in images]
        forward.append([np.stack(part, axis=1) for part in zip(*to_images, strict=True)])
        backward = _merge(backward, _nearest(D, 0, with_ratio), start)
    place, first, second = (np.concatenate(part) for part in zip(*forward, strict=True))
    q = place + cuts[:-1]
    matched = backward.place[q] == np.arange(len(left))[:, None]
    found = np.zeros(matched.sum())
    if with_ratio:
        second = np.minimum(second, backward.second[q])[matched].astype(np.float64)
        square = first[matched].astype(np.float64)
        # Two features at distance 0 cannot be told apart.
        found = np.sqrt(np.divide(square, second, out=np.ones_like(second), where=second > 0))
    return np.nonzero(matched)[0], q[matched], found


def _nearest(D: FloatArray, axis: int, with_second: bool) -> _Nearest:
    """Nearest along an axis of the squared distances D; second nearest only if asked for."""
    place = D.argmin(axis)
    where = np.expand_dims(place, axis)
    first = np.take_along_axis(D, where, axis)
    if not with_second:
        return _Nearest(place, first.squeeze(axis), first.squeeze(axis))
    np.put_along_axis(D, where, np.inf, axis)
    second = D.min(axis)
    np.put_along_axis(D, where, first, axis)
    return _Nearest(place, first.squeeze(axis), second)


def _merge(old: _Nearest, new: _Nearest, start: int) -> _Nearest:
    """Nearest among both, where the places of `new` count from `start`; `old` wins ties."""
    return _Nearest(
        np.where(new.first < old.first, new.place + start, old.place),
        np.minimum(old.first, new.first),
        np.minimum(np.maximum(old.first, new.first), np.minimum(old.second, new.second)),
    )
