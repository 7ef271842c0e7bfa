"""Geometric verification: the matches of two images that agree with one geometry.

Two views of a scene are related by a fundamental matrix, two views of a plane by
a homography. It is estimated by MAGSAC (Barath, Matas, Noskova, CVPR 2019), as
OpenCV's framework USAC has it; COLMAP verifies pairs of images in the same spirit
(Schönberger, Frahm, CVPR 2016).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.runtime.cache import PairCache, digest, made_by
from nmfsync.runtime.engine import stream
from nmfsync.runtime.progress import bar
from nmfsync.types.arrays import BoolArray, Float32Array, IntArray
from nmfsync.types.matches import PairwiseMatches

Pair = tuple[int, int]


class Model(NamedTuple):
    """A geometry of two images, and what it needs to be believed.

    The error of a match is Sampson's for a fundamental matrix; for a homography,
    the distance in the second image from where it moves the first position.
    """

    estimate: Callable[..., Any]
    max_error: float  # an inlier's error is smaller; pixels
    least: int  # inliers
    least_share: float  # of all matches


# Measured on EPFL and Graffiti. A fundamental matrix asks for one coordinate only, so that chance
# gives it many inliers: up to 26 of 600 random matches within 2 pixels, and more where windows
# repeat in rows. With COLMAP's values, 4 pixels and 15 inliers, nearly all pairs of images of
# castle-P19 pass. A homography asks for both coordinates, and chance gives it 6 at most.
MODELS = {
    "fundamental": Model(cv2.findFundamentalMat, max_error=2.0, least=20, least_share=0.15),
    "homography": Model(cv2.findHomography, max_error=3.0, least=8, least_share=0.0),
}

_CONFIDENCE = 0.99

# Twice as many take 1.6 times as long, and find 0 to 0.6 % more of the right matches on EPFL.
_MAX_SAMPLES = 5000

BATCH = 64  # pairs of images a task: some tenths of a second, and little to send


def verify(
    matches: PairwiseMatches,
    xy: Sequence[Float32Array],
    model: str = "fundamental",
    progress: bool = True,
    *,
    cache: Path | None = None,
) -> PairwiseMatches:
    """Keep the matches of every pair of images that agree with one geometry.

    Same matches and features give the same bits, whatever the number of threads.

    Parameters
    ----------
    matches : PairwiseMatches
    xy : sequence of (n, 2) float32 arrays
        Positions of the features of every image, in pixels.
    model : str
        "fundamental" for any scene; "homography" for a plane, or a camera that
        turns without moving.
    progress : bool
        Show a progress bar if stderr is a terminal.
    cache : Path, optional
        Folder that keeps the result of every pair. Only what is not there is computed.

    Returns
    -------
    PairwiseMatches
        The matches that `verify_pair` keeps, with the weights they had.

    Warns
    -----
    NmfsyncWarning
        If no match is left.

    Raises
    ------
    NmfsyncError
        If there is no such model, or features and matches do not belong together.
    """
    _find(model)
    _check_sizes(xy, matches)
    p, q, weights, cuts = _by_pair(matches)
    image = matches.image_of[np.column_stack([p, q])[cuts[:-1]]]
    matched = np.column_stack([p, q]) - matches.offsets[np.repeat(image, np.diff(cuts), axis=0)]
    pairs = dict(
        zip(map(tuple, image.tolist()), np.split(matched, cuts[1:-1]), strict=False)
    )  # no pair has one part
    found = _inliers(pairs, xy, model, cache, progress)
    agree = np.concatenate([np.empty(0, bool), *(found[pair] for pair in pairs)])
    if not agree.any():
        warnings.warn("no pair of images passed the verification", NmfsyncWarning, stacklevel=2)
    p, q, weights = p[agree], q[agree], weights[agree]
    W = sparse.csr_array(
        (np.append(weights, weights), (np.append(p, q), np.append(q, p))), shape=matches.W.shape
    )
    verified = PairwiseMatches(W, matches.sizes)
    verified.source = matches.source and replace(matches.source, verified=True)
    verified.given = matches.given
    return verified


def verify_pair(xy1: Float32Array, xy2: Float32Array, model: str = "fundamental") -> BoolArray:
    """Find the matches of two images that agree with one geometry.

    The result does not depend on the order of the matches. Repeated ones, and
    several at one position, count once towards the least number of inliers.
    Inliers on one line of an image determine no geometry, so that none is kept.

    Parameters
    ----------
    xy1, xy2 : (n, 2) float32 arrays
        Matched positions in pixels of either image.
    model : str
        A name in `MODELS`.

    Returns
    -------
    (n,) bool array
        True for inliers; all False if there are too few.

    Raises
    ------
    NmfsyncError
        If there is no such model.
    """
    geometry = _find(model)
    nothing = np.zeros(len(xy1), bool)
    both, place = np.unique(np.hstack([xy1, xy2]), axis=0, return_inverse=True)
    least = max(geometry.least, geometry.least_share * len(both))
    if len(both) < least:  # no need to search
        return nothing
    images = [np.ascontiguousarray(xy) for xy in np.hsplit(both, 2)]
    try:
        _, mask = geometry.estimate(*images, _usac(geometry.max_error))
    except cv2.error:  # how USAC ends if it draws nothing but degenerate samples
        return nothing
    if mask is None:  # no geometry found
        return nothing
    inliers = mask.ravel() > 0
    for xy in images:
        distinct = np.unique(xy[inliers], axis=0)
        if len(distinct) < least or _thickness(distinct) <= geometry.max_error:
            return nothing
    return inliers[place.ravel()]


def _find(model: str) -> Model:
    if model not in MODELS:
        raise NmfsyncError(f"unknown model {model!r}; there are {', '.join(MODELS)}")
    return MODELS[model]


def _check_sizes(xy: Sequence[Float32Array], matches: PairwiseMatches) -> None:
    if len(xy) != len(matches.sizes):
        raise NmfsyncError(f"features of {len(xy)} images, but matches of {len(matches.sizes)}")
    for i, (positions, size) in enumerate(zip(xy, matches.sizes, strict=True)):
        if len(positions) != size:
            raise NmfsyncError(
                f"image {i} has {len(positions)} features, but {size} in the matches"
            )


def _by_pair(
    matches: PairwiseMatches,
) -> tuple[IntArray, IntArray, NDArray[np.float64], IntArray]:
    """Features p < q of every match, and its weight, one pair of images after the other.

    The n-th pair that has matches has those from cuts[n] to cuts[n + 1] - 1.
    """
    entries = sparse.triu(matches.W, 1).tocoo()
    p, q = entries.coords
    image = matches.image_of
    pair = image[p] * len(matches.sizes) + image[q]
    order = np.argsort(pair, kind="stable")
    starts = np.flatnonzero(np.diff(pair[order], prepend=-1))
    return p[order], q[order], entries.data[order], np.append(starts, len(order))


def _inliers(
    pairs: Mapping[Pair, IntArray],
    xy: Sequence[Float32Array],
    model: str,
    cache: Path | None,
    progress: bool,
) -> dict[Pair, BoolArray]:
    """Which matches of every pair, (n, 2) features of either image, agree with one geometry."""
    code = made_by()
    store = (
        PairCache(cache, [digest(code, model, positions) for positions in xy]) if cache else None
    )
    found: dict[Pair, BoolArray] = {}
    if store:
        for i, group in groupby(pairs, key=lambda pair: pair[0]):
            others = [j for _, j in group]
            for j, known in zip(others, store.get(i, others), strict=True):
                # Other matches of the same images are another question.
                if known is not None and np.array_equal(known[:, :2], pairs[i, j]):
                    found[i, j] = known[:, 2].astype(bool)
    missing = [pair for pair in pairs if pair not in found]
    chunks = [missing[n : n + BATCH] for n in range(0, len(missing), BATCH)]
    tasks = (
        (tuple(_positions(xy, pair, pairs[pair]) for pair in chunk), model) for chunk in chunks
    )
    with bar(len(pairs), "Verifying", "pair", progress, len(found)) as shown:
        try:
            at = -1
            for chunk, result in zip(chunks, stream(_verify_chunk, tasks), strict=True):
                if store and at != (at := chunk[0][0]):
                    store.flush()
                for pair, inliers in zip(chunk, result, strict=True):
                    found[pair] = inliers
                    if store:
                        kept = np.column_stack([pairs[pair], inliers]).astype(np.int32)
                        store.hold(*pair, kept)
                shown.update(len(chunk))
        finally:
            if store:
                store.flush()
    return found


def _positions(
    xy: Sequence[Float32Array], pair: Pair, matched: IntArray
) -> tuple[Float32Array, Float32Array]:
    xy1, xy2 = (xy[image][place] for image, place in zip(pair, matched.T, strict=True))
    return xy1, xy2


def _verify_chunk(
    pairs: Sequence[tuple[Float32Array, Float32Array]], model: str
) -> list[BoolArray]:
    return [verify_pair(xy1, xy2, model) for xy1, xy2 in pairs]


def _thickness(xy: Float32Array) -> float:
    """Root mean square distance of positions (n, 2) from the line that fits them best."""
    centred = xy.astype(np.float64) - xy.mean(axis=0, dtype=np.float64)
    smaller, _ = np.linalg.eigvalsh(np.einsum("ni,nj->ij", centred, centred) / len(xy))
    return float(np.sqrt(max(smaller, 0.0)))


def _usac(max_error: float) -> cv2.UsacParams:
    """MAGSAC, whose random numbers are the same in every call."""
    params = cv2.UsacParams()
    params.threshold = max_error
    params.confidence = _CONFIDENCE
    params.maxIterations = _MAX_SAMPLES
    params.sampler = cv2.SAMPLING_UNIFORM
    params.score = cv2.SCORE_METHOD_MAGSAC
    params.loMethod = cv2.LOCAL_OPTIM_SIGMA
    params.final_polisher = cv2.MAGSAC
    params.isParallel = False
    params.randomGeneratorState = 0
    return params
