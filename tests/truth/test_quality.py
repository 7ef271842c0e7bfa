"""What is counted of the quality of depths, and the view that is held out."""

import numpy as np
import pytest

from builders import positions_in
from nmfsync.truth.quality import depth_quality, held_out_quality
from nmfsync.truth.views import neighbouring_views
from nmfsync.types.camera import Camera


def test_quality_counts_what_it_says():
    """Two cameras side by side: at depth 10 a pixel moves by 100 · 1 / 10 = 10 pixels."""
    K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
    cameras = [Camera(K, np.eye(3), np.array([-x, 0.0, 0]), (100, 100)) for x in (0.0, 1.0)]
    xy = [np.array([[50.0, 50], [50, 50], [50, 50], [50, 50], [5, 50]]), np.empty((0, 2))]
    true = [np.array([10.0, 10, 10, np.nan, 10]), np.empty(0)]  # the last one leaves image 1
    found = [np.array([100 / 11, 100 / 15, np.nan, 10, 10]), np.empty(0)]  # 11 and 15 pixels
    quality = depth_quality(xy, found, true, cameras, [np.array([1]), np.array([0])])
    assert quality.judged == 3
    assert quality.reconstructed == pytest.approx(2 / 3)
    assert quality.within == quality.within_in_all == 0.5
    assert quality.median == pytest.approx(3)


def test_quality_of_nothing_is_not_a_number():
    quality = depth_quality([], [], [], [], [])
    assert quality.judged == 0
    assert np.isnan([quality.reconstructed, quality.within, quality.median]).all()


def held_out_check(scene, images):
    """The check of the scene itself, on the features of image 4 (index 3)."""
    xy = positions_in(scene.images, (3,))
    return held_out_quality(images, scene.cameras, xy, progress=False)


def test_a_view_held_out_confirms_right_depths(scene):
    quality = held_out_check(scene, scene.images)
    assert quality.judged > 40
    assert quality.reconstructed > 0.7
    assert quality.within > 0.95
    assert quality.median < 0.1


def test_a_view_held_out_contradicts_depths_that_do_not_fit_it(scene):
    """All views but one agree; that one shows everything 6 pixels beside."""
    views = neighbouring_views(scene.cameras)[3]
    held_out = views[3 % len(views)]
    images = list(scene.images)
    images[held_out] = np.roll(images[held_out], 6, axis=1)
    quality = held_out_check(scene, images)
    assert quality.judged > 20
    assert quality.within < 0.05
    assert 4 < quality.median < 8


def test_a_view_held_out_plays_no_part_in_the_depths_it_checks(scene):
    """Of the others only two show anything, which is one too few."""
    views = neighbouring_views(scene.cameras)[3]
    held_out = views[3 % len(views)]
    images = list(scene.images)
    for j in [j for j in views if j != held_out][2:]:
        images[j] = np.full_like(images[j], 90)
    quality = held_out_check(scene, images)
    assert quality.judged > 40
    assert quality.reconstructed == 0


def test_four_images_have_no_view_to_hold_out(scene):
    few = slice(0, 4)
    xy = positions_in(scene.images[few], (0,))
    quality = held_out_quality(scene.images[few], scene.cameras[few], xy, progress=False)
    assert quality.judged == 0
