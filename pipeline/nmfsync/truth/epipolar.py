"""The distance of matches to epipolar lines, and whether a truth fits the images at all."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import PairwiseMatches
from nmfsync.types.truth import Homographies

# Constants of `check_cameras`. In the EPFL and Middlebury scenes 45 to 90 % of the matches are
# near their epipolar lines with the correct cameras, at most 17 % with cameras read in another
# convention, and 1 to 2 % by chance.
_PAIRS = 20  # number of image pairs to look at, those with the most matches

_NEAR = 0.003  # largest distance, as a share of the larger image dimension: 2.3 pixels of 768

_MIN_MATCHES = 50  # fewer matches prove nothing

_COMPARE = "Compare the names and the order of the files"

_MIN_SHARE = 0.1  # least share of near matches without a warning

_FIT = 0.2  # least share of near matches at which cameras are right

# Constants of `_misfits`.
_SURE = 0.9  # least probability of a match that an image is judged by

_MIN_SURE = 20  # fewer sure matches of an image prove nothing

_PARTNERS = 5  # number of images that each image is compared with, those with the most matches

# Largest distance from where a homography moves a point, as a share of the larger image dimension:
# the error that the evaluation, too, calls small.
_CLOSE = 0.01


def epipolar_distance(a: Camera, b: Camera, xy_a: AnyArray, xy_b: AnyArray) -> FloatArray:
    """Measure the distance of matched points to each other's epipolar lines.

    Parameters
    ----------
    a, b : Camera
        The cameras of two images.
    xy_a, xy_b : (n, 2) array
        Matched points, in pixels of their image.

    Returns
    -------
    (n,) float64 array
        Mean of two distances: from the point in image b to the epipolar line
        of its partner in a, and the reverse. In pixels, after lens distortion
        is removed. NaN where there is no epipolar line, because both cameras
        are at the same place or the point lies on the baseline.
    """
    rays_a, rays_b = rays(a, xy_a), rays(b, xy_b)
    baseline = b.centre - a.centre
    in_b = distance_to_lines(b, rays_b, baseline, rays_a)
    in_a = distance_to_lines(a, rays_a, baseline, rays_b)
    return (in_a + in_b) / 2


def rays(camera: Camera, xy: AnyArray) -> FloatArray:
    """Return the directions (n, 3) in the world of pixels (n, 2)."""
    return camera.back_project(xy, np.ones(len(xy))) - camera.centre


def distance_to_lines(
    camera: Camera, rays: AnyArray, baseline: AnyArray, others: AnyArray
) -> FloatArray:
    """Measure the distance of a camera's points to the epipolar lines of their partners.

    Parameters
    ----------
    camera : Camera
    rays : (n, 3) array
        Directions in the world from this camera to the points.
    baseline : (3,) or (n, 3) array
        Vector between this camera and the partner's camera; its sign and length
        do not matter.
    others : (n, 3) array
        Directions in the world from the partner's camera to the partner.

    Returns
    -------
    (n,) float64 array
        Pixels of this camera's image without lens distortion; NaN where there
        is no epipolar line.
    """
    planes = np.cross(baseline, others)
    lines = planes @ camera.R.T @ np.linalg.inv(camera.K)
    points = rays @ camera.R.T @ camera.K.T
    with np.errstate(divide="ignore", invalid="ignore"):
        points /= points[:, 2:]
        return np.asarray(np.abs((lines * points).sum(axis=1)) / np.hypot(lines[:, 0], lines[:, 1]))


def check_cameras(
    cameras: Sequence[Camera],
    features: Sequence[Features],
    matches: PairwiseMatches,
    folder: Path,
    names: Sequence[str] | None = None,
) -> None:
    """Check with the matches that the cameras are those of the images.

    Camera files use several conventions. Cameras that are read in the wrong one
    may still seem to look at a common scene, but then hardly any match is near
    its epipolar line. Nothing is checked if there are few matches.

    Parameters
    ----------
    cameras : sequence of Camera
        One item for every image.
    features : sequence of Features
        One item for every image.
    matches : PairwiseMatches
    folder : Path
        The folder of the images, for messages.
    names : sequence of str, optional
        Of every image, for messages: judge each of them, too. Then the weights of
        the matches are probabilities of being right.

    Raises
    ------
    NmfsyncError
        If another convention fits the matches far better.

    Warns
    -----
    NmfsyncWarning
        If fewer than a tenth of the matches are near their epipolar lines, and
        no other convention explains it; or if this is so for some images, by the
        rule of `_misfits`.
    """
    pairs = _richest_pairs(features, matches)
    if sum(len(xy) for _, _, xy, _ in pairs) < _MIN_MATCHES:
        return
    share = _share_near(cameras, pairs)
    alternatives = []
    for reading in zip(*map(_other_readings, cameras), strict=True):
        changes, changed_cameras = zip(*reading, strict=True)
        alternatives.append((_share_near(changed_cameras, pairs), changes[0]))
    best, change = max(alternatives)
    fault = (
        f"{folder}: the cameras do not fit the images: "
        f"only {share:.0%} of the matches lie near their epipolar lines"
    )
    if best > max(2 * share, _FIT):
        raise NmfsyncError(
            f"{fault}, but {best:.0%} would if {change}. EPFL files (.camera) contain the "
            "rotation from camera to world and the camera's centre; Middlebury files (_par.txt) "
            "contain the rotation and translation from world to camera"
        )
    if share < _MIN_SHARE:
        warnings.warn(f"{fault}; do they belong together? {_COMPARE}", NmfsyncWarning, stacklevel=2)
    elif names is not None:
        _check_each_camera(cameras, features, matches, names)


def _check_each_camera(
    cameras: Sequence[Camera],
    features: Sequence[Features],
    matches: PairwiseMatches,
    names: Sequence[str],
) -> None:
    """Warn of images whose cameras do not fit by the rule of `_misfits`."""

    def near(i: int, j: int, xy_i: AnyArray, xy_j: AnyArray) -> AnyArray:
        distance = epipolar_distance(cameras[i], cameras[j], xy_i, xy_j)
        return np.asarray(distance < _NEAR * max(cameras[j].size))

    if wrong := _misfits(features, matches, near, _FIT):
        warnings.warn(
            f"{_listed(wrong, names)}: the cameras do not fit the images: of the matches that are "
            f"most likely right, fewer than {_FIT:.0%} lie near their epipolar lines; "
            f"do they belong together? {_COMPARE}",
            NmfsyncWarning,
            stacklevel=3,
        )


def check_homographies(
    truth: Homographies,
    features: Sequence[Features],
    matches: PairwiseMatches,
    names: Sequence[str],
) -> None:
    """Check with the matches that the homographies are those of the images.

    An image of another size than that for which its homography was made, a
    homography of another scene, or an inverted one, moves points to wrong places.
    An image is named by the rule of `_misfits`.

    Parameters
    ----------
    truth : Homographies
    features : sequence of Features
        One item for every image.
    matches : PairwiseMatches
        Their weights are probabilities of being right.
    names : sequence of str
        Of every image, for messages: the image and the file of its homography.

    Warns
    -----
    NmfsyncWarning
        If there are images whose sure matches disagree with their homographies.
    """

    def near(i: int, j: int, xy_i: AnyArray, xy_j: AnyArray) -> AnyArray:
        moved, _ = truth.transfer(i, j, xy_i)
        distance = np.linalg.norm(moved - xy_j, axis=1)
        return np.asarray(distance < _CLOSE * max(features[j].image_size))

    if wrong := _misfits(features, matches, near, _MIN_SHARE):
        warnings.warn(
            f"{_listed(wrong, names)}: the homographies do not fit the images: of the matches that "
            f"are most likely right, fewer than {_MIN_SHARE:.0%} agree with them; "
            f"do they belong together? {_COMPARE}",
            NmfsyncWarning,
            stacklevel=2,
        )


def _listed(images: Sequence[int], names: Sequence[str]) -> str:
    more = f" and {len(images) - 3} more" if images[3:] else ""
    return ", ".join(names[i] for i in images[:3]) + more


def _misfits(
    features: Sequence[Features],
    matches: PairwiseMatches,
    near: Callable[[int, int, AnyArray, AnyArray], AnyArray],
    least: float,
) -> list[int]:
    """Find images whose truth disagrees with their matches.

    An image is judged by its sure matches, which are right with a probability of
    at least 0.9, with the five images with which it has most of them. It does not
    fit if it has at least 20, and a smaller share of them than `least` agrees with
    the truth. The worst image is taken out first, the last of several; then the
    others are judged without it. So one wrong image does not condemn its
    neighbours, and the first image, which homographies start from, stays if all
    disagree.

    On sets of two, three and six images of the Graffiti scenes, with 60, 200 and
    1000 features, at least 13 % of an image's sure matches agree with the right
    homographies, and 40 % with 200 features or more. With an image of half the size, an
    inverted homography or one of another scene it is less than 10 %, unless the two
    are alike, and 200 features leave more than 20 sure matches. The others would
    mislead: of 280 matches of the hardest pair, which promise 24 right ones, 3 are right.
    In the EPFL and Middlebury scenes at least 58 % are near the epipolar lines of the
    right cameras, and at most 8 % near those of another image or of half the focal length.

    Parameters
    ----------
    features, matches
        As for `check_cameras`.
    near : callable
        Two images, and matched pixels (n, 2) in either -> whether the truth agrees: (n,) bool.
    least : float

    Returns
    -------
    list of int
        Ascending.
    """
    pairs = [
        (i, j, len(xy_i), np.count_nonzero(near(i, j, xy_i, xy_j)))
        for i, j, xy_i, xy_j in _sure_pairs(features, matches)
    ]
    i, j, sure, agreeing = np.array(pairs, np.int64).reshape(-1, 4).T
    k = len(features)
    wrong: list[int] = []
    while True:
        counts, agree = (
            np.bincount(i, values, k) + np.bincount(j, values, k) for values in (sure, agreeing)
        )
        shares = np.where(counts >= _MIN_SURE, agree / np.maximum(counts, 1), 1.0)
        worst = k - 1 - int(np.argmin(shares[::-1]))
        if shares[worst] >= least:
            return sorted(wrong)
        wrong.append(worst)
        others = (i != worst) & (j != worst)
        i, j, sure, agreeing = i[others], j[others], sure[others], agreeing[others]


def _sure_pairs(
    features: Sequence[Features], matches: PairwiseMatches
) -> Iterator[tuple[int, int, AnyArray, AnyArray]]:
    """Yield pairs of images with their sure matches, those with the most for every image."""
    pairs = [(pair, pair.rows[pair.weights >= _SURE]) for pair in matches.by_image_pair()]
    pairs.sort(key=lambda item: len(item[1]), reverse=True)
    partners = np.zeros(len(features), np.int64)
    for (i, j, _, _), rows in pairs:
        if len(rows) and min(partners[i], partners[j]) < _PARTNERS:
            partners[[i, j]] += 1
            yield i, j, features[i].xy[rows[:, 0]], features[j].xy[rows[:, 1]]


def _other_readings(camera: Camera) -> list[tuple[str, Camera]]:
    """Read the same numbers in other conventions: what changes, and the camera it gives."""
    R, t, centre = camera.R, camera.t, camera.centre
    poses = [
        ("every camera were inverted", R.T, centre),
        ("R were transposed", R.T, -R.T @ centre),
        ("R were transposed", R.T, t),
        ("centre and translation were exchanged", R, centre),
        ("centre and translation were exchanged", R, -R @ t),
    ]
    return [(change, replace(camera, R=R, t=t)) for change, R, t in poses]


def _richest_pairs(
    features: Sequence[Features], matches: PairwiseMatches
) -> list[tuple[int, int, AnyArray, AnyArray]]:
    """Return the image pairs with the most matches: i, j, and the matched pixels (n, 2) in each."""
    image, k = matches.image_of, len(matches.sizes)
    p, q = matches.W.tocoo().coords
    once = image[p] < image[q]  # W contains every match in both directions
    p, q = p[once], q[once]
    pair = image[p] * k + image[q]
    pairs, count = np.unique(pair, return_counts=True)
    richest = pairs[np.argsort(-count, kind="stable")[:_PAIRS]]
    xy = np.concatenate([f.xy for f in features])
    return [(*divmod(int(r), k), xy[p[pair == r]], xy[q[pair == r]]) for r in richest]


def _share_near(
    cameras: Sequence[Camera], pairs: Sequence[tuple[int, int, AnyArray, AnyArray]]
) -> float:
    """Return the share of the matches that are near their epipolar lines."""
    near = [
        epipolar_distance(cameras[i], cameras[j], xy_i, xy_j) < _NEAR * max(cameras[j].size)
        for i, j, xy_i, xy_j in pairs
    ]
    return float(np.concatenate(near).mean())
