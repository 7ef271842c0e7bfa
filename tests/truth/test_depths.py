"""Truth from depths: on hand-made rows of pixels, and on a rendered scene."""

import itertools

import numpy as np
import pytest

import rendered
from nmfsync.errors import NmfsyncError
from nmfsync.features.sift import extract
from nmfsync.truth.depths import DepthMaps, FeatureDepths
from nmfsync.types.camera import Camera

NONE = np.nan
SEEN_FROM = [(i, j) for i, j in itertools.permutations(range(7), 2) if abs(i - j) in (1, 3, 6)]


def row_camera(x: float, distortion=(0.0,) * 5) -> Camera:
    """Look along z from (x, 0, 0): a point at depth z moves by -100 Δx / z pixels."""
    K = np.array([[100.0, 0, 4], [0, 100.0, 0], [0, 0, 1]])
    return Camera(K, np.eye(3), np.array([-x, 0, 0]), (9, 1), distortion)


def row_maps(first, second, x: float = 0.1) -> DepthMaps:
    maps = [np.array([row], dtype=np.float32) for row in (first, second)]
    return DepthMaps((row_camera(0), row_camera(x)), maps)


def places(*x) -> np.ndarray:
    return np.array([[value, 0.0] for value in x])


# ---- depth maps by hand


def test_a_point_moves_by_its_disparity():
    moved, valid = row_maps([10] * 9, [10] * 9).transfer(0, 1, places(3, 4.5))
    np.testing.assert_allclose(moved, places(2, 3.5))
    assert valid.all()


def test_a_point_that_leaves_the_image_is_invalid():
    _, valid = row_maps([10] * 9, [10] * 9).transfer(0, 1, places(0, 0.4, 0.6, 1))
    assert valid.tolist() == [False, False, True, True]  # the image begins at -0.5


def test_a_point_outside_its_own_image_has_no_depth():
    truth = row_maps([10] * 9, [10] * 9)
    assert truth.transfer(1, 0, places(-0.6, -0.4, 8.6))[1].tolist() == [False, True, False]


def test_a_point_behind_the_other_camera_is_invalid():
    back = Camera(row_camera(0).K, np.diag([-1.0, 1, -1]), np.zeros(3), (9, 1))
    maps = [np.full((1, 9), 10, np.float32)] * 2
    _, valid = DepthMaps((row_camera(0), back), maps).transfer(0, 1, places(4))
    assert not valid.any()


def test_a_point_without_depth_is_invalid():
    truth = row_maps([10, 10, 10, NONE, NONE, 10, 10, 10, 10], [10] * 9)
    _, valid = truth.transfer(0, 1, places(2, 2.4, 2.6, 3, 4, 4.4, 4.6, 5))
    assert valid.tolist() == [True, True, False, False, False, False, True, True]


def test_between_two_pixels_of_a_depth_edge_there_is_no_depth():
    truth = row_maps([10, 10, 10, 10, 20, 20, 20, 20, 20], [10] * 9)
    _, valid = truth.transfer(0, 1, places(2.9, 3, 3.1, 3.5, 3.9))
    assert valid.tolist() == [True, True, False, False, False]


def test_what_lies_behind_a_nearer_surface_is_hidden():
    # The pixels 5 to 8 at depth 10 land on 4 to 7; image 1 has something nearer at 4 and 5.
    truth = row_maps([10] * 9, [10, 10, 10, 10, 5, 5, 10, 10, 10])
    _, valid = truth.transfer(0, 1, places(4, 5, 6, 7, 8))
    assert valid.tolist() == [True, False, False, True, True]


def test_depths_agree_within_one_percent():
    truth = row_maps([10] * 9, [10, 10, 10.09, 9.91, 10.12, 9.88, 10, 10, 10])
    _, valid = truth.transfer(0, 1, places(3, 4, 5, 6))
    assert valid.tolist() == [True, True, False, False]


def test_a_hole_of_the_other_map_cannot_be_judged():
    truth = row_maps([10] * 9, [10, 10, NONE, 10, 10, 10, 10, 10, 10])
    assert truth.transfer(0, 1, places(2, 3, 4))[1].tolist() == [True, False, True]


def test_interpolation_is_exact_on_a_tilted_plane():
    inverse = np.linspace(0.1, 0.11, 9)
    moved, valid = row_maps(1 / inverse, [NONE] * 9).transfer(0, 1, places(4.25))
    np.testing.assert_allclose(moved, places(4.25 - 10 * np.interp(4.25, range(9), inverse)))
    assert not valid.any()


def test_lens_distortion_is_honoured():
    cameras = (row_camera(0), row_camera(0, (10.0, 0, 0, 0, 0)))
    truth = DepthMaps(cameras, [np.full((1, 9), 10, np.float32)] * 2)
    # The radius is 0.03; the factor 1 + 10 · 0.03².
    np.testing.assert_allclose(truth.transfer(0, 1, places(7))[0], places(4 + 3 * 1.009))
    np.testing.assert_allclose(truth.transfer(1, 0, places(4 + 3 * 1.009))[0], places(7), atol=1e-4)


def test_no_points_are_no_fault():
    moved, valid = row_maps([10] * 9, [10] * 9).transfer(0, 1, np.empty((0, 2)))
    assert moved.shape == (0, 2)
    assert valid.shape == (0,)


def test_maps_that_do_not_fit_the_cameras():
    flat = np.full((1, 9), 10, np.float32)
    with pytest.raises(NmfsyncError, match="1 depth maps for 2 cameras"):
        DepthMaps((row_camera(0), row_camera(1)), [flat])
    with pytest.raises(NmfsyncError, match=r"of image 2: has 1 × 9 pixels, but its image 9 × 1"):
        DepthMaps((row_camera(0), row_camera(1)), [flat, flat.T])


# ---- the rendered scene


def _near_edge(scene: rendered.Rendered, i: int, xy: np.ndarray) -> np.ndarray:
    """Whether another surface (or none) shows within 1.5 pixels: the next pixels but one."""
    here = scene.surface_at(i, xy)
    ring = [(1.5 * np.cos(a), 1.5 * np.sin(a)) for a in np.arange(8) * np.pi / 4]
    return np.any([scene.surface_at(i, xy + step) != here for step in ring], axis=0)


def _random_pixels(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, np.array(rendered.SIZE) - 0.5, (4000, 2))


def test_transferred_points_are_right_to_half_a_pixel():
    scene = rendered.scene()
    truth = DepthMaps(scene.cameras, scene.depths)
    errors = []
    for i, j in SEEN_FROM:
        xy = _random_pixels(i)
        moved, valid = truth.transfer(i, j, xy)
        exact, visible = scene.transfer(i, j, xy)
        errors.append(np.linalg.norm(moved - exact, axis=1)[valid & visible])
    errors = np.concatenate(errors)
    assert len(errors) > 30_000
    assert errors.max() < 0.5
    assert np.quantile(errors, 0.95) < 0.02


def test_hidden_points_are_told_from_visible_ones():
    """Right are valid and visible, or neither; points that show no surface do not count."""
    scene = rendered.scene()
    truth = DepthMaps(scene.cameras, scene.depths)
    right, known, clear, visible = [], [], [], []
    for i, j in SEEN_FROM:
        xy = _random_pixels(i)
        xy = xy[scene.surface_at(i, xy) >= 0]
        exact, sees = scene.transfer(i, j, xy)
        right.append(truth.transfer(i, j, xy)[1] == sees)
        known.append(truth.transfer(i, i, xy)[1])
        clear.append(~_near_edge(scene, i, xy) & ~_near_edge(scene, j, exact))
        visible.append(sees)
    right, known, clear, visible = map(np.concatenate, (right, known, clear, visible))
    assert right[known].mean() > 0.99
    assert right[clear].mean() > 0.9999
    assert right[~visible].mean() > 0.95
    # Beside a depth edge of image i no depth is known, which here counts as a fault.
    assert right.mean() > 0.975
    # There must be something to tell apart.
    assert clear.mean() < 0.95
    assert (~visible).mean() > 0.05


def test_the_pixels_themselves_have_their_own_depth():
    scene = rendered.scene()
    truth = DepthMaps(scene.cameras, scene.depths)
    right = []
    for i, j in SEEN_FROM:
        xy = np.rint(_random_pixels(i)).clip(0, np.array(rendered.SIZE) - 1)
        right.append(truth.transfer(i, j, xy)[1] == scene.transfer(i, j, xy)[1])
    assert np.mean(right) > 0.99


# ---- depths at features


def feature_depths(second_xy, second_depth) -> FeatureDepths:
    xy = [places(3, 6), np.asarray(second_xy, dtype=float)]
    depth = [np.array([10.0, NONE]), np.asarray(second_depth, dtype=float)]
    return FeatureDepths((row_camera(0), row_camera(0.1)), xy, depth)


def test_a_feature_moves_at_its_depth():
    moved, valid = feature_depths(places(7), [10]).transfer(0, 1, places(3, 3.0005, 6, 4))
    np.testing.assert_allclose(moved[:2], places(2, 2.0005))
    # Neither a feature without depth nor a point that is no feature can be judged.
    assert valid.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("x", "depth", "visible"),
    [(4, 9.0, False), (4, 9.8, True), (4, 12.0, True), (4, NONE, True), (5.5, 5.0, True)],
    ids=["nearer", "about-as-near", "behind", "unknown", "elsewhere"],
)
def test_a_feature_is_hidden_by_a_nearer_one(x, depth, visible):
    truth = feature_depths(places(x), [depth])
    assert truth.transfer(0, 1, places(3))[1].tolist() == [visible]


def test_a_feature_behind_the_other_camera_is_invalid():
    back = Camera(row_camera(0).K, np.diag([-1.0, 1, -1]), np.zeros(3), (9, 1))
    truth = FeatureDepths((row_camera(0), back), [places(4)] * 2, [np.array([10.0])] * 2)
    assert not truth.transfer(0, 1, places(4))[1].any()


def test_images_without_features():
    truth = FeatureDepths(
        (row_camera(0), row_camera(0.1)), [np.empty((0, 2)), places(3)], [np.empty(0), np.ones(1)]
    )
    assert truth.transfer(0, 1, places(3))[1].tolist() == [False]
    assert truth.transfer(1, 0, np.empty((0, 2)))[1].shape == (0,)


def test_depths_that_do_not_fit_the_features():
    with pytest.raises(NmfsyncError, match="image 2 has 1 features, but 2 depths"):
        feature_depths(places(3), [10, 10])
    with pytest.raises(NmfsyncError, match="2 cameras, but features of 1 images"):
        FeatureDepths((row_camera(0), row_camera(1)), [places(3)], [np.ones(1)])


def test_features_of_the_rendered_scene_move_as_they_should():
    scene = rendered.scene()
    xy = [extract(image, 400).xy for image in scene.images]
    exact_depths = [scene.depth_at(i, place) for i, place in enumerate(xy)]
    moved, valid = FeatureDepths(scene.cameras, xy, exact_depths).transfer(1, 4, xy[1])
    exact, visible = scene.transfer(1, 4, xy[1])
    assert valid.sum() > 200
    np.testing.assert_allclose(moved[valid], exact[valid], atol=1e-6)
    assert (valid & visible).sum() > 0.97 * visible.sum()
