"""Geometric verification: the matches of two images that agree with one geometry.

Two views of a scene are related by a fundamental matrix, two views of a plane by
a homography. It is estimated by MAGSAC (Barath, Matas, Noskova, CVPR 2019), as
OpenCV's framework USAC has it; COLMAP verifies pairs of images in the same spirit
(Schönberger, Frahm, CVPR 2016). An image with few matches keeps also pairs that chance does
not explain, a contrario (Moisan, Stival, IJCV 2004; Moulon, Monasse, Marlet, ACCV 2012).
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.matching.options import GEOMETRIES, check_geometry
from nmfsync.runtime.cache import PairCache, code_of, digest
from nmfsync.runtime.tasks import cached_tasks
from nmfsync.types.arrays import BoolArray, Float32Array, FloatArray
from nmfsync.types.matches import ImagePair, PairwiseMatches

Verdicts = NDArray[np.int8]  # of the matches of a pair

# What is found of a match: it does not agree with the others, agrees with others that are too few
# to be sure but more than chance explains, or agrees with enough.
OUT, WEAK, SURE = 0, 1, 2


# Matches that agree with a fundamental matrix are within so many standard deviations of their own
# errors, or so many pixels: how exact features are depends on images and detectors.
# Mappers see less exact ones as noise. Chosen with `EVIDENCE`, see there.
_DEVIATIONS, _EXACT = 1.9, 0.54

_MEDIAN = 0.6745  # of |x|, if x has a normal distribution with standard deviation 1

# Matches behind the cameras are wrong, if most are in front of them by more than this parallax, in
# degrees: the focal length is a guess, and rays of points far away are nearly parallel. At 1,000
# features an image, at most 0.5 % of the right matches of EPFL and Graffiti go.
_PARALLAX = 3.0

# They are on the plane of those in front if they are off it by less than so many times as much, or
# by less than so many focal lengths.
_OFF_PLANE, _FAR_OFF_PLANE = 3.0, 0.02

_FRONT = "front"  # in place of a geometry: only that test

_FOCAL = 1.2  # focal length that is guessed, in sides of the image, as COLMAP does

# A fundamental matrix follows from so many matches, and has up to so many solutions.
_SAMPLE, _SOLUTIONS = 7, 3

# An image with fewer matches in sure pairs keeps weak pairs, of which chance makes fewer, in mean.
# All weak pairs of the EPFL scenes were right at 80 to 400 features an image. Images with more
# matches have no need of them, and on castle-P19 they show different windows.
_WELL_LINKED, _FALSE_ALARMS = 300, 1e-6

# Share of the wrong matches that agree with the geometry of a pair all the same: .01 to .3 on
# fountain-P11, castle-P19 and entry-P10, by their cameras.
_PASS = 0.2

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
    sizes: Sequence[tuple[int, int] | None] | None = None,
) -> PairwiseMatches:
    """Keep the matches of every pair of images that agree with one geometry.

    A pair needs a least number of them. With "fundamental", matches behind the cameras go, too,
    where most are clearly in front: a scene that repeats itself has matches of different places
    that agree with the geometry of the right ones, for cameras that move the other way.

    With "fundamental", an image with fewer than 300 matches in such pairs also keeps weaker
    pairs, of which chance would make less than one in a million: what agrees with the best
    fundamental matrix is counted against the
    number of ways to choose it, and the share of the image that is as near to an
    epipolar line.

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
    sizes : sequence of tuple of int or None, optional
        Width and height of every image, in pixels; otherwise where its features are is taken for
        the image.

    Returns
    -------
    PairwiseMatches
        The matches that agree. A weight P that is a probability becomes P / (P + 0.2 (1 − P)), as
        the geometry says that it is right, too (Bayes); others stay.

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
    verdicts = _verdicts(pairs, xy, sizes, geometry, cache, progress)
    agree = np.concatenate([np.empty(0, bool), *_agreeing(pairs, verdicts)])
    if not agree.any():
        text = (
            "no pair of images passed the verification; do without --verify, or use the other "
            "geometry, or more --features"
        )
        warnings.warn(text, NmfsyncWarning, stacklevel=2)
    weights = np.concatenate([np.empty(0), *(pair.weights for pair in pairs)])
    if matches.weighted and not matches.scored:
        weights = surer(weights)
    verified = _chosen(matches, pairs, agree, weights)
    verified.verified = True
    verified.source = matches.source and replace(matches.source, verified=True)
    return verified


def in_front(
    matches: PairwiseMatches,
    xy: Sequence[Float32Array],
    progress: bool = True,
    *,
    sizes: Sequence[tuple[int, int] | None] | None = None,
) -> PairwiseMatches:
    """Leave out matches behind the cameras, of pairs of images most of whose are in front.

    `verify` does this as well; this is for matches that another program has verified.

    Parameters
    ----------
    matches : PairwiseMatches
    xy : sequence of (n, 2) float32 arrays
        Positions of the features of every image, in pixels.
    progress : bool
        Show a progress bar if stderr is a terminal.
    sizes : sequence of tuple of int or None, optional
        Width and height of every image, as for `verify`.
    """
    _check_sizes(xy, matches)
    pairs = list(matches.by_image_pair())
    verdicts = _verdicts(pairs, xy, sizes, _FRONT, None, progress)
    stay = np.concatenate([np.empty(0, bool), *(found == SURE for found in verdicts)])
    if stay.all():
        return matches
    weights = np.concatenate([pair.weights for pair in pairs])
    chosen = _chosen(matches, pairs, stay, weights)
    chosen.verified, chosen.source = matches.verified, matches.source
    return chosen


def _chosen(
    matches: PairwiseMatches, pairs: Sequence[ImagePair], stay: BoolArray, weights: FloatArray
) -> PairwiseMatches:
    """Return those of the matches, pair by pair, that stay, with their weights."""
    rows = [pair.rows + matches.offsets[[pair.i, pair.j]] for pair in pairs]
    p, q = np.concatenate([np.empty((0, 2), np.int64), *rows])[stay].T
    return PairwiseMatches.from_entries(p, q, matches.sizes, weights[stay]).with_origin_of(matches)


def count_verified(before: PairwiseMatches, after: PairwiseMatches) -> dict[str, int]:
    """Count what verification was given and kept: pairs of images with matches, and matches."""
    return {
        "pairs": sum(1 for _ in before.by_image_pair()),
        "pairs_kept": sum(1 for _ in after.by_image_pair()),
        "matches": before.match_count,
        "matches_kept": after.match_count,
    }


def verify_pair(
    xy1: Float32Array,
    xy2: Float32Array,
    geometry: str = "fundamental",
    cameras: Sequence[FloatArray] | None = None,
) -> BoolArray:
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
    cameras : sequence of two (3, 3) arrays, optional
        Intrinsics of both, or what is guessed of them: then matches behind the cameras go.

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
    return np.asarray(judge(xy1, xy2, geometry, cameras) == SURE)


def judge(
    xy1: Float32Array,
    xy2: Float32Array,
    geometry: str,
    cameras: Sequence[FloatArray] | None,
) -> Verdicts:
    """Find which matches of two images agree with one geometry, and how sure that is.

    The result does not depend on the order of the matches.

    Parameters
    ----------
    xy1, xy2, geometry, cameras
        As for `verify_pair`.

    Returns
    -------
    (n,) int8 array
        `OUT`, `WEAK` or `SURE`.
    """
    model = GEOMETRIES[geometry]
    nothing = np.full(len(xy1), OUT, np.int8)
    both, place = np.unique(np.hstack([xy1, xy2]), axis=0, return_inverse=True)
    least = max(model.least, model.least_share * len(both))
    fundamental = geometry == "fundamental"
    if len(both) < (_SAMPLE + 1 if fundamental else least):  # no need to search
        return nothing
    first, second = (np.ascontiguousarray(xy) for xy in np.hsplit(both, 2))
    try:
        matrix, mask = getattr(cv2, model.estimator)(first, second, _usac(model.max_error))
    except cv2.error:  # how USAC ends if it draws nothing but degenerate samples
        return nothing
    if mask is None or matrix is None:  # no geometry found
        return nothing
    inliers = mask.ravel() > 0
    if fundamental and cameras:
        inliers &= _in_front(first, second, matrix, inliers, cameras)
    distinct = [np.unique(xy[inliers], axis=0) for xy in (first, second)]
    if not inliers.any() or min(map(_thickness, distinct)) <= model.max_error:
        return nothing
    few = min(map(len, distinct)) < least
    if few and not (fundamental and _beyond_chance(first, second, matrix)):
        return nothing
    if fundamental:
        inliers &= _exact(first, second, matrix, inliers)
    return np.where(inliers, WEAK if few else SURE, OUT).astype(np.int8)[place.ravel()]


def _exact(
    xy1: Float32Array, xy2: Float32Array, matrix: FloatArray, inliers: BoolArray
) -> BoolArray:
    """Which matches are as near to a fundamental matrix as most of its inliers are."""
    first, second = _line_distances(xy1, xy2, matrix)
    with np.errstate(divide="ignore"):
        sampson = 1 / np.sqrt(first**-2 + second**-2)
    deviation = np.median(sampson[inliers]) / _MEDIAN
    return np.asarray(sampson < max(_DEVIATIONS * deviation, _EXACT))


def guess_camera(xy: Float32Array, size: tuple[int, int] | None) -> FloatArray:
    """Guess intrinsics (3, 3) by the size of the image, or by where its features (n, 2) are."""
    if size is not None:
        low, high = np.zeros(2), np.array(size, float) - 1
    elif len(xy):
        low, high = xy.min(axis=0).astype(float), xy.max(axis=0).astype(float)
    else:
        return np.eye(3)
    focal = max(_FOCAL * (high - low).max(), 1.0)
    x, y = (low + high) / 2
    return np.array([[focal, 0, x], [0, focal, y], [0, 0, 1]])


def _in_front(
    xy1: Float32Array,
    xy2: Float32Array,
    matrix: FloatArray,
    inliers: BoolArray,
    cameras: Sequence[FloatArray],
) -> BoolArray:
    """Which matches are not behind the cameras, of which most inliers are clearly in front.

    Where a scene repeats itself, matches of different places may agree with the fundamental
    matrix of the right ones, as if seen by cameras that moved the other way.
    """
    K1, K2 = cameras
    U, _, Vt = np.linalg.svd(K2.T @ matrix @ K1)
    U, Vt = U * np.sign(np.linalg.det(U)), Vt * np.sign(np.linalg.det(Vt))
    rays1, rays2 = (
        _normalised(np.column_stack([xy, np.ones(len(xy))]) @ np.linalg.inv(K).T)
        for xy, K in ((xy1, K1), (xy2, K2))
    )
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    parallaxes = [
        _parallax(rays1 @ (U @ R @ Vt).T, rays2, t)
        for R in (turn, turn.T)
        for t in (U[:, 2], -U[:, 2])
    ]
    most = max(parallaxes, key=lambda parallax: (parallax[inliers] > 0).sum())
    everything = np.ones(len(xy1), bool)
    if not inliers.any() or np.median(most[inliers]) <= _PARALLAX:
        return everything
    front = np.asarray(most > -_PARALLAX)
    return everything if _one_plane(xy1, xy2, inliers & front, inliers & ~front, K2) else front


def _one_plane(
    xy1: Float32Array, xy2: Float32Array, front: BoolArray, behind: BoolArray, K2: FloatArray
) -> bool:
    """Whether matches behind the cameras move as the plane of those in front does.

    Planes leave open where the cameras are, and so what is in front of them.
    """
    model = GEOMETRIES["homography"]
    if not behind.any() or front.sum() < model.least:
        return False
    try:
        matrix, _ = cv2.findHomography(xy1[front], xy2[front], _usac(model.max_error))
    except cv2.error:
        return False
    if matrix is None:
        return False
    points = np.column_stack([xy1, np.ones(len(xy1))]) @ matrix.T
    with np.errstate(divide="ignore", invalid="ignore"):  # of points at infinity
        errors = np.linalg.norm(points[:, :2] / points[:, 2:] - xy2, axis=1)
    most = max(_OFF_PLANE * float(np.median(errors[front])), _FAR_OFF_PLANE * K2[0, 0])
    return bool(np.median(errors[behind]) < most)


def _parallax(rays1: FloatArray, rays2: FloatArray, t: FloatArray) -> FloatArray:
    """Return the angles (n,) between rays that meet, in degrees, negative behind a camera.

    Parameters
    ----------
    rays1, rays2 : (n, 3) float64 arrays
        Of length 1, in the frame of the second camera.
    t : (3,) float64 array
        From the second camera to the first one.
    """
    normals = np.cross(rays2, rays1)
    depth1 = -(np.cross(rays2, t) * normals).sum(axis=1)
    depth2 = -(np.cross(rays1, t) * normals).sum(axis=1)
    angles = np.degrees(np.arcsin(np.minimum(np.linalg.norm(normals, axis=1), 1)))
    return np.asarray(np.where((depth1 > 0) & (depth2 > 0), angles, -angles))


def _normalised(rays: FloatArray) -> FloatArray:
    return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True))


def _beyond_chance(xy1: Float32Array, xy2: Float32Array, matrix: FloatArray) -> bool:
    """Whether more matches are near their epipolar lines than chance explains, in both images.

    Of n matches, the k nearest to a matrix that 7 of them give are within a distance that
    random positions have with the probability α: the number of false alarms is
    3 (n − 7) C(n, k) C(k, 7) α^(k − 7), for the best k (Moisan, Stival).
    """
    n = len(xy1)
    k = np.arange(_SAMPLE + 1, n + 1)
    ways = np.log(_SOLUTIONS * (n - _SAMPLE)) + _log_choose(n, k) + _log_choose(k, _SAMPLE)
    for xy, distance in zip((xy1, xy2), _line_distances(xy1, xy2, matrix), strict=True):
        sides = np.ptp(xy.astype(np.float64), axis=0)
        area = max(float(sides.prod()), 1.0)
        band = 2 * float(np.hypot(*sides)) * np.sort(distance)[_SAMPLE:]  # a line, and both sides
        share = np.clip(band / area, np.finfo(float).tiny, 1.0)
        if (ways + (k - _SAMPLE) * np.log(share)).min() > np.log(_FALSE_ALARMS):
            return False
    return True


def _log_choose(n: Any, k: Any) -> FloatArray:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def _line_distances(
    xy1: Float32Array, xy2: Float32Array, matrix: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the distances (n,) of matches from their epipolar lines in either image."""
    first, second = (np.column_stack([xy, np.ones(len(xy))]) for xy in (xy1, xy2))
    lines1, lines2 = second @ matrix, first @ matrix.T
    value = np.abs((second * lines2).sum(axis=1))
    tiny = np.finfo(float).tiny
    return (
        value / np.maximum(np.hypot(lines1[:, 0], lines1[:, 1]), tiny),
        value / np.maximum(np.hypot(lines2[:, 0], lines2[:, 1]), tiny),
    )


def _check_sizes(xy: Sequence[Float32Array], matches: PairwiseMatches) -> None:
    if len(xy) != len(matches.sizes):
        raise NmfsyncError(f"features of {len(xy)} images, but matches of {len(matches.sizes)}")
    for i, (positions, size) in enumerate(zip(xy, matches.sizes, strict=True)):
        if len(positions) != size:
            raise NmfsyncError(
                f"image {i} has {len(positions)} features, but {size} in the matches"
            )


def _agreeing(pairs: Sequence[ImagePair], verdicts: Sequence[Verdicts]) -> list[BoolArray]:
    """Which matches to keep: those of sure pairs, and of weak ones where an image has few."""
    counts: Counter[int] = Counter()
    for pair, found in zip(pairs, verdicts, strict=True):
        sure = int((found == SURE).sum())
        counts.update({pair.i: sure, pair.j: sure})
    return [
        found >= least_verdict(counts[pair.i], counts[pair.j])
        for pair, found in zip(pairs, verdicts, strict=True)
    ]


def least_verdict(sure_of_i: int, sure_of_j: int) -> int:
    """Return the verdict from which on matches of two images are kept.

    Parameters
    ----------
    sure_of_i, sure_of_j : int
        The number of sure matches of either image, with all others.
    """
    return WEAK if min(sure_of_i, sure_of_j) < _WELL_LINKED else SURE


def surer(probability: FloatArray) -> FloatArray:
    """Return the probabilities (n,) of matches that agree with a geometry, see `verify`."""
    return probability / (probability + _PASS * (1 - probability))


def _verdicts(
    pairs: Sequence[ImagePair],
    xy: Sequence[Float32Array],
    sizes: Sequence[tuple[int, int] | None] | None,
    geometry: str,
    cache: Path | None,
    progress: bool,
) -> list[Verdicts]:
    """Judge the matches of every pair of images."""
    sizes = [None] * len(xy) if sizes is None else sizes
    cameras = [guess_camera(*image) for image in zip(xy, sizes, strict=True)]
    store = None
    if cache:
        code = code_of("matching")
        digests = [
            digest(code, geometry, positions, camera)
            for positions, camera in zip(xy, cameras, strict=True)
        ]
        store = PairCache(
            cache,
            digests,
            np.array([(pair.i, pair.j) for pair in pairs], np.int64).reshape(-1, 2),
            # Other matches of the same images are another question.
            lambda n: digest(digests[pairs[n].j], pairs[n].rows),
        )
    found: dict[int, Verdicts] = {}
    for numbers, results in cached_tasks(
        _verify_batch,
        len(pairs),
        lambda missing: [missing[n : n + BATCH] for n in range(0, len(missing), BATCH)],
        lambda batch: (tuple(_positions(xy, cameras, pairs[n]) for n in batch), geometry),
        store,
        "Verifying",
        "pair",
        progress,
    ):
        found.update(zip(numbers.tolist(), results, strict=True))
    return [found[n] for n in range(len(pairs))]


# Matched positions of two images, and their cameras.
_Pair = tuple[Float32Array, Float32Array, Sequence[FloatArray]]


def _positions(xy: Sequence[Float32Array], cameras: Sequence[FloatArray], pair: ImagePair) -> _Pair:
    first, second = xy[pair.i][pair.rows[:, 0]], xy[pair.j][pair.rows[:, 1]]
    return first, second, (cameras[pair.i], cameras[pair.j])


def _verify_batch(batch: tuple[Sequence[_Pair], str]) -> list[Verdicts]:
    pairs, geometry = batch
    found = _judge_front if geometry == _FRONT else judge
    return [found(xy1, xy2, geometry, cameras) for xy1, xy2, cameras in pairs]


def _judge_front(
    xy1: Float32Array, xy2: Float32Array, _: str, cameras: Sequence[FloatArray]
) -> Verdicts:
    """Find which matches of two images are not behind the cameras, whatever else they are."""
    sure = np.full(len(xy1), SURE, np.int8)
    if len(xy1) <= _SAMPLE:
        return sure
    both, place = np.unique(np.hstack([xy1, xy2]), axis=0, return_inverse=True)
    first, second = (np.ascontiguousarray(xy) for xy in np.hsplit(both, 2))
    most = 2 * GEOMETRIES["fundamental"].max_error  # which is COLMAP's
    try:
        matrix, mask = cv2.findFundamentalMat(first, second, _usac(most))
    except cv2.error:
        return sure
    if mask is None or matrix is None:
        return sure
    front = _in_front(first, second, matrix, mask.ravel() > 0, cameras)
    return np.where(front, SURE, OUT).astype(np.int8)[place.ravel()]


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
