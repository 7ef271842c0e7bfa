"""Geometric verification: the matches of two images that agree with one geometry.

Two views of a scene are related by a fundamental matrix, two views of a plane by
a homography. It is estimated by MAGSAC (Barath, Matas, Noskova, CVPR 2019), as
OpenCV's framework USAC has it; COLMAP verifies pairs of images in the same spirit
(Schönberger, Frahm, CVPR 2016).
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.runtime.cache import PairCache, code_of, digest
from nmfsync.runtime.tasks import cached_tasks
from nmfsync.types.arrays import BoolArray, Float32Array
from nmfsync.types.matches import ImagePair, PairwiseMatches


class Geometry(NamedTuple):
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
GEOMETRIES = {
    "fundamental": Geometry(cv2.findFundamentalMat, max_error=2.0, least=20, least_share=0.15),
    "homography": Geometry(cv2.findHomography, max_error=3.0, least=8, least_share=0.0),
}

_CONFIDENCE = 0.99

# Twice as many take 1.6 times as long, and find 0 to 0.6 % more of the right matches on EPFL.
_MAX_SAMPLES = 5000

BATCH = 64  # pairs of images a task: some tenths of a second, and little to send


def verify(
    matches: PairwiseMatches,
    xy: Sequence[Float32Array],
    geometry: str = "fundamental",
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
    geometry : str
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
        If there is no such geometry, or features and matches do not belong together.
    """
    check_geometry(geometry)
    _check_sizes(xy, matches)
    pairs = list(matches.by_image_pair())
    inliers = _inliers(pairs, xy, geometry, cache, progress)
    agree = np.concatenate([np.empty(0, bool), *inliers])
    if not agree.any():
        text = (
            "no pair of images passed the verification; do without --verify, or use the other "
            "geometry, or more --features"
        )
        warnings.warn(text, NmfsyncWarning, stacklevel=2)
    rows = [pair.rows + matches.offsets[[pair.i, pair.j]] for pair in pairs]
    p, q = np.concatenate([np.empty((0, 2), np.int64), *rows])[agree].T
    weights = np.concatenate([np.empty(0), *(pair.weights for pair in pairs)])[agree]
    verified = PairwiseMatches.from_entries(p, q, matches.sizes, weights).with_origin_of(matches)
    verified.source = matches.source and replace(matches.source, verified=True)
    return verified


def count_verified(before: PairwiseMatches, after: PairwiseMatches) -> dict[str, int]:
    """Count what verification was given and kept: pairs of images with matches, and matches."""
    return {
        "pairs": sum(1 for _ in before.by_image_pair()),
        "pairs_kept": sum(1 for _ in after.by_image_pair()),
        "matches": before.match_count,
        "matches_kept": after.match_count,
    }


def verify_pair(xy1: Float32Array, xy2: Float32Array, geometry: str = "fundamental") -> BoolArray:
    """Find the matches of two images that agree with one geometry.

    The result does not depend on the order of the matches. Repeated ones, and
    several at one position, count once towards the least number of inliers.
    Inliers on one line of an image determine no geometry, so that none is kept.

    Parameters
    ----------
    xy1, xy2 : (n, 2) float32 arrays
        Matched positions in pixels of either image.
    geometry : str
        A name in `GEOMETRIES`.

    Returns
    -------
    (n,) bool array
        True for inliers; all False if there are too few.

    Raises
    ------
    NmfsyncError
        If there is no such geometry.
    """
    check_geometry(geometry)
    model = GEOMETRIES[geometry]
    nothing = np.zeros(len(xy1), bool)
    both, place = np.unique(np.hstack([xy1, xy2]), axis=0, return_inverse=True)
    least = max(model.least, model.least_share * len(both))
    if len(both) < least:  # no need to search
        return nothing
    images = [np.ascontiguousarray(xy) for xy in np.hsplit(both, 2)]
    try:
        _, mask = model.estimate(*images, _usac(model.max_error))
    except cv2.error:  # how USAC ends if it draws nothing but degenerate samples
        return nothing
    if mask is None:  # no geometry found
        return nothing
    inliers = mask.ravel() > 0
    for xy in images:
        distinct = np.unique(xy[inliers], axis=0)
        if len(distinct) < least or _thickness(distinct) <= model.max_error:
            return nothing
    return np.asarray(inliers[place.ravel()])


def check_geometry(geometry: str) -> None:
    """Raise NmfsyncError if matches cannot be verified by such a geometry."""
    if geometry not in GEOMETRIES:
        raise NmfsyncError(f"geometry must be {' or '.join(GEOMETRIES)}, got {geometry!r}")


def _check_sizes(xy: Sequence[Float32Array], matches: PairwiseMatches) -> None:
    if len(xy) != len(matches.sizes):
        raise NmfsyncError(f"features of {len(xy)} images, but matches of {len(matches.sizes)}")
    for i, (positions, size) in enumerate(zip(xy, matches.sizes, strict=True)):
        if len(positions) != size:
            raise NmfsyncError(
                f"image {i} has {len(positions)} features, but {size} in the matches"
            )


def _inliers(
    pairs: Sequence[ImagePair],
    xy: Sequence[Float32Array],
    geometry: str,
    cache: Path | None,
    progress: bool,
) -> list[BoolArray]:
    """Which matches of every pair agree with one geometry."""
    store = None
    if cache:
        code = code_of("matching")
        digests = [digest(code, geometry, positions) for positions in xy]
        store = PairCache(
            cache,
            digests,
            np.array([(pair.i, pair.j) for pair in pairs], np.int64).reshape(-1, 2),
            # Other matches of the same images are another question.
            lambda n: digest(digests[pairs[n].j], pairs[n].rows),
        )
    found: dict[int, BoolArray] = {}
    for numbers, results in cached_tasks(
        _verify_batch,
        len(pairs),
        lambda missing: [missing[n : n + BATCH] for n in range(0, len(missing), BATCH)],
        lambda batch: (tuple(_positions(xy, pairs[n]) for n in batch), geometry),
        store,
        "Verifying",
        "pair",
        progress,
    ):
        found.update(zip(numbers.tolist(), results, strict=True))
    return [found[n] for n in range(len(pairs))]


def _positions(xy: Sequence[Float32Array], pair: ImagePair) -> tuple[Float32Array, Float32Array]:
    return xy[pair.i][pair.rows[:, 0]], xy[pair.j][pair.rows[:, 1]]


def _verify_batch(
    batch: tuple[Sequence[tuple[Float32Array, Float32Array]], str],
) -> list[BoolArray]:
    pairs, geometry = batch
    return [verify_pair(xy1, xy2, geometry) for xy1, xy2 in pairs]


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
