"""The built-in sample: what ships, how it was made, and that its truth is true."""

import runpy

import cv2
import numpy as np
import pytest

from nmfsync.scenes import catalogue
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.images import read_gray, read_image

FOLDER = catalogue.CATALOGUE / "sample"


@pytest.fixture(scope="module")
def scene():
    return load_scene("sample/astronaut")


@pytest.fixture(scope="module")
def maker():
    return runpy.run_path(str(FOLDER / "make_sample.py"))


def test_sample_is_intact_and_small(scene):
    assert {check.status for check in catalogue.check_files("sample")} == {"ok"}
    assert len(scene.paths) == 6
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.*")) < 1_000_000
    assert (scene.truth.image_sizes == 480).all()


def test_view_is_rendered_as_shipped(scene, maker):
    rendered = maker["render"](maker["VIEWS"][2], seed=3).astype(float)
    difference = read_image(scene.paths[2]) - rendered
    # JPEG is lossy, and its colour has half the resolution: nothing but that may differ.
    assert abs(difference.mean()) < 0.2
    assert difference.std() < 6


def test_script_writes_the_shipped_homographies(scene, maker):
    frontal = np.linalg.inv(maker["homography"](maker["VIEWS"][0]))
    for view, shipped in zip(maker["VIEWS"], scene.truth.maps, strict=True):
        H = maker["homography"](view) @ frontal
        np.testing.assert_allclose(H / H[2, 2], shipped, rtol=1e-9, atol=1e-12)


def test_centre_of_the_photograph_is_the_centre_of_every_view(scene):
    # Every camera looks at the centre of the photograph.
    for j in range(6):
        xy, valid = scene.truth.transfer(0, j, np.array([[239.5, 239.5]]))
        np.testing.assert_allclose(xy, [[239.5, 239.5]], atol=1e-9)
        assert valid.all()


def test_frontal_view_is_the_photograph_made_smaller(maker):
    # At distance 1.06 the 512 pixels of the photograph span 480 / 1.06 pixels.
    H = maker["homography"](maker["VIEWS"][0])
    corner = H @ [255.5 + 256, 255.5 - 256, 1]
    half = 240 / 1.06
    np.testing.assert_allclose(corner[:2] / corner[2], [239.5 + half, 239.5 - half])


# Top-left corners of detailed patches of view 1: head, neck, badges, rocket, gloves.
PATCHES = [(196, 60), (200, 130), (140, 230), (250, 250), (140, 330), (330, 170), (250, 330)]


@pytest.mark.parametrize("j", range(1, 6))
def test_homographies_agree_with_the_pixels(scene, j):
    """View j, moved into view 1 by the truth, lies on view 1 to a fraction of a pixel."""
    first = read_gray(scene.paths[0]).astype(np.float32)
    other = read_gray(scene.paths[j]).astype(np.float32)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved = cv2.warpPerspective(other, scene.truth.maps[j], (480, 480), flags=flags)
    window = cv2.createHanningWindow((64, 64), cv2.CV_32F)
    shifts = []
    for x, y in PATCHES:
        corners = np.array([[x, y], [x + 63, y], [x, y + 63], [x + 63, y + 63]])
        if not scene.truth.transfer(0, j, corners)[1].all():
            continue
        # Copies, because phaseCorrelate of OpenCV 5 multiplies its input by the window.
        a, b = (image[y : y + 64, x : x + 64].copy() for image in (first, moved))
        assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.9
        shifts.append(cv2.phaseCorrelate(a, b, window)[0])
    assert len(shifts) >= 6
    assert np.linalg.norm(np.median(shifts, axis=0)) < 0.25
    assert np.abs(shifts).max() < 1.0


def test_plain_matches_are_right_more_often_than_not_but_far_from_always(scene):
    sift = cv2.SIFT_create(nfeatures=200)
    found = [sift.detectAndCompute(read_gray(path), None) for path in scene.paths]
    xy = [np.array([point.pt for point in points]) for points, _ in found]
    matcher = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True)
    right = judged = 0
    for i in range(6):
        for j in range(i + 1, 6):
            pairs = [(m.queryIdx, m.trainIdx) for m in matcher.match(found[i][1], found[j][1])]
            p, q = np.array(pairs).T
            moved, valid = scene.truth.transfer(i, j, xy[i][p])
            error = np.linalg.norm(moved - xy[j][q], axis=1)[valid]
            right += (error <= 0.01 * 480).sum()
            judged += valid.sum()
    assert 0.5 < right / judged < 0.8
