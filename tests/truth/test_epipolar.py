"""Distances to epipolar lines, and what they say about cameras."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from builders import make_features
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.truth.epipolar import check_cameras, epipolar_distance
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import PairwiseMatches

K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
LEFT = Camera(K, np.eye(3), np.zeros(3), (101, 101))
# One unit to the right of LEFT: epipolar lines are the rows of the image.
RIGHT = Camera(K, np.eye(3), np.array([-1.0, 0, 0]), (101, 101))


def test_in_a_rectified_pair_the_distance_is_the_difference_of_the_rows():
    xy_a = np.array([[60.0, 20], [60, 20], [10, 90]])
    xy_b = np.array([[30.0, 20], [90, 23], [70, 85]])
    assert np.allclose(epipolar_distance(LEFT, RIGHT, xy_a, xy_b), [0, 3, 5], atol=1e-12)


def test_both_sides_count_in_the_pixels_of_their_own_image():
    zoomed = replace(RIGHT, K=np.array([[300.0, 0, 50], [0, 300, 50], [0, 0, 1]]))
    # Row 52 of LEFT is row 56 of the zoomed image, and its row 59 is row 53 of LEFT.
    distance = epipolar_distance(LEFT, zoomed, np.array([[50.0, 52]]), np.array([[50.0, 59]]))
    assert np.allclose(distance, (3 + 1) / 2)
    swapped = epipolar_distance(zoomed, LEFT, np.array([[50.0, 59]]), np.array([[50.0, 52]]))
    assert np.allclose(distance, swapped)


def test_distortion_is_removed_first():
    bent = replace(RIGHT, distortion=(-0.2, 0.05, 0.0, 0.0, 0.0))
    points = np.array([[-1.0, 1, 4], [1, -1.2, 3], [2, 2, 5]])
    xy_a, xy_b = LEFT.project(points)[0], bent.project(points)[0]
    assert epipolar_distance(LEFT, bent, xy_a, xy_b).max() < 1e-3
    assert epipolar_distance(LEFT, RIGHT, xy_a, xy_b).max() > 0.5


def test_cameras_at_one_place_have_no_epipolar_lines():
    distance = epipolar_distance(LEFT, LEFT, np.array([[1.0, 2]]), np.array([[3.0, 4]]))
    assert np.isnan(distance).all()


def test_no_matches_no_distances():
    assert epipolar_distance(LEFT, RIGHT, np.empty((0, 2)), np.empty((0, 2))).shape == (0,)


# --- check_cameras


def turned(degrees: float, centre: tuple[float, float, float]) -> Camera:
    """Stand at the centre, turned about the vertical and a little about the other axes."""
    a = np.radians([degrees / 3, degrees, degrees / 5])
    (cx, cy, cz), (sx, sy, sz) = np.cos(a), np.sin(a)
    R = (
        np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
        @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        @ np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    )
    return Camera(K, R, -R @ np.array(centre), (101, 101))


FOLDER = Path("a")  # what messages name

CAMERAS = (turned(20, (-3, 0.5, 1)), turned(-5, (0, 0, 0)), turned(-35, (3, -1, 2)))


def observed(cameras=CAMERAS, n=60) -> tuple[list[Features], PairwiseMatches]:
    """Features of n points in space, and all their matches."""
    points = np.random.default_rng(0).uniform([-2, -2, 4], [2, 2, 9], (n, 3))
    features = [make_features(camera.project(points)[0]) for camera in cameras]
    k = len(cameras)
    return features, PairwiseMatches(sparse.kron(np.ones((k, k)), sparse.eye(n)), [n] * k)


def test_cameras_that_fit_pass():
    check_cameras(CAMERAS, *observed(), FOLDER)


@pytest.mark.parametrize(
    ("misread", "cause"),
    [
        (lambda c: replace(c, R=c.R.T, t=c.centre), "every camera were inverted"),
        (lambda c: replace(c, R=c.R.T, t=-c.R.T @ c.centre), "R were transposed"),
        (lambda c: replace(c, R=c.R.T), "R were transposed"),
        (lambda c: replace(c, t=c.centre), "centre and translation were exchanged"),
        (lambda c: replace(c, t=-c.R @ c.t), "centre and translation were exchanged"),
    ],
)
def test_cameras_read_in_another_convention_are_refused(misread, cause):
    wrong = [misread(camera) for camera in CAMERAS]
    with pytest.raises(NmfsyncError, match=f"a: the cameras do not fit .* 100% would if {cause}"):
        check_cameras(wrong, *observed(), FOLDER)


def test_cameras_of_other_images_are_doubted():
    others = (CAMERAS[1], CAMERAS[2], CAMERAS[0])
    with pytest.warns(NmfsyncWarning, match="do they belong together"):
        check_cameras(others, *observed(), FOLDER)


def test_few_matches_prove_nothing():
    wrong = (CAMERAS[1], CAMERAS[2], CAMERAS[0])
    check_cameras(wrong, *observed(n=16), FOLDER)
    features, _ = observed()
    check_cameras(wrong, features, PairwiseMatches(sparse.eye(180), [60] * 3), FOLDER)
