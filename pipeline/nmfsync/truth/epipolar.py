"""What calibrated cameras alone say about matches: the distance to the epipolar lines."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.types.arrays import AnyArray, FloatArray
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import PairwiseMatches

# What `check_cameras` looks at. With correct cameras 45 to 90 % of the matches of these pairs are
# near in the EPFL and Middlebury scenes, with swapped conventions at most 17 %, by chance 1 to 2 %.
_PAIRS = 20  # image pairs, those with most matches

_NEAR = 0.003  # of the larger image dimension: 2.3 pixels of 768

_ENOUGH = 50  # fewer matches say nothing

_DOUBTFUL = 0.1


def epipolar_distance(a: Camera, b: Camera, xy_a: AnyArray, xy_b: AnyArray) -> FloatArray:
    """Measure how far matched points are from each other's epipolar lines.

    Parameters
    ----------
    a, b : Camera
        The cameras of two images.
    xy_a, xy_b : (n, 2) array
        Matched points, in pixels of either image.

    Returns
    -------
    (n,) float64 array
        The mean of both distances: of a point of image b to the line on which
        its partner in image a can be seen in b, and the reverse. In pixels,
        after lens distortion is removed. NaN where there is no such line,
        because both cameras stand at one place or the point is seen along the
        line that joins them.
    """
    rays_a, rays_b = rays(a, xy_a), rays(b, xy_b)
    baseline = b.centre - a.centre
    there = distance_to_lines(b, rays_b, baseline, rays_a)
    return (distance_to_lines(a, rays_a, baseline, rays_b) + there) / 2


def rays(camera: Camera, xy: AnyArray) -> FloatArray:
    """Directions (n, 3) in the world in which pixels (n, 2) are seen."""
    return camera.back_project(xy, np.ones(len(xy))) - camera.centre


def distance_to_lines(
    camera: Camera, rays: AnyArray, baseline: AnyArray, others: AnyArray
) -> FloatArray:
    """Measure in a camera's image how far points are from their partners' epipolar lines.

    Parameters
    ----------
    camera : Camera
    rays : (n, 3) array
        Directions to the points.
    baseline : (3,) or (n, 3) array
        Between this camera and the partners'.
    others : (n, 3) array
        Directions to the partners from the cameras that see them.

    Returns
    -------
    (n,) float64 array
        Pixels without lens distortion; NaN where there is no line.
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
) -> None:
    """Test with the matches whether the cameras can be those of the images.

    Camera files come in several conventions, and geometry alone does not tell
    them apart: read the wrong way, cameras still seem to look at a common
    scene. But then hardly any match lies near its epipolar line.

    Parameters
    ----------
    cameras : sequence of Camera
    features : sequence of Features
    matches : PairwiseMatches
        Fewer than 50 of them prove nothing: then nothing is checked.
    folder : Path
        Where the images and the cameras are, for the message.

    Raises
    ------
    NmfsyncError
        If another convention fits the matches far better.

    Warns
    -----
    NmfsyncWarning
        If fewer than a tenth of the matches are near their epipolar lines, and
        no other convention explains it.
    """
    pairs = _richest_pairs(features, matches)
    if sum(len(xy) for _, _, xy, _ in pairs) < _ENOUGH:
        return
    share = _share_near(cameras, pairs)
    others = []
    for reading in zip(*map(_other_readings, cameras), strict=True):
        changes, misread = zip(*reading, strict=True)
        others.append((_share_near(misread, pairs), changes[0]))
    best, change = max(others)
    fault = (
        f"{folder}: the cameras do not fit the images: "
        f"only {share:.0%} of the matches lie near their epipolar lines"
    )
    if best > max(2 * share, 0.2):
        raise NmfsyncError(
            f"{fault}, but {best:.0%} would if {change}; EPFL files (.camera) hold the rotation "
            "from camera to world and the camera's centre, Middlebury files (_par.txt) the "
            "rotation and translation from world to camera"
        )
    if share < _DOUBTFUL:
        warnings.warn(f"{fault}; do they belong together?", NmfsyncWarning, stacklevel=2)


def _other_readings(camera: Camera) -> list[tuple[str, Camera]]:
    """Other cameras that the same file may mean: what would change, and the camera then."""
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
    """Image pairs with most matches: both images, and the matched positions in each."""
    image, k = matches.image_of, len(matches.sizes)
    p, q = matches.W.tocoo().coords
    upper = image[p] < image[q]
    p, q = p[upper], q[upper]
    pair = image[p] * k + image[q]
    richest = np.argsort(-np.bincount(pair, minlength=k * k), kind="stable")[:_PAIRS]
    xy = np.concatenate([f.xy for f in features])
    return [(*divmod(int(r), k), xy[p[pair == r]], xy[q[pair == r]]) for r in richest]


def _share_near(
    cameras: Sequence[Camera], pairs: Sequence[tuple[int, int, AnyArray, AnyArray]]
) -> float:
    """Share of the matches that lie near their epipolar lines."""
    near = [
        epipolar_distance(cameras[i], cameras[j], xy_i, xy_j) < _NEAR * max(cameras[j].size)
        for i, j, xy_i, xy_j in pairs
    ]
    return float(np.concatenate(near).mean())
