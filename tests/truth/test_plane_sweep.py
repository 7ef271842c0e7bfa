"""Depths found in images, against depths that are known exactly or measured by laser."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from builders import positions_in
from nmfsync.errors import NmfsyncError
from nmfsync.scenes.layouts import read_epfl, read_middlebury
from nmfsync.truth.depth_files import depth_maps_beside
from nmfsync.truth.depths import DepthMaps
from nmfsync.truth.plane_sweep import sweep_depths
from nmfsync.truth.quality import depth_quality, held_out_quality
from nmfsync.truth.views import neighbouring_views
from nmfsync.types.camera import Camera
from real_data import real_data

BOX = np.array([[-1.8, -1.4, -0.8], [1.8, 1.4, 1.1]])


@pytest.fixture(scope="module")
def features(scene):
    return positions_in(scene.images, (0, 3))


@pytest.fixture(scope="module")
def depths(scene, features):
    with threadpool_limits(2):
        return sweep_depths(scene.images, scene.cameras, features, progress=False)


def exact(scene, features):
    return [scene.depth_at(i, xy) for i, xy in enumerate(features)]


def share(depths):
    return np.isfinite(np.concatenate(depths)).mean()


def test_rendered_depths_are_found_and_right(scene, features, depths):
    quality = depth_quality(
        features, depths, exact(scene, features), scene.cameras, neighbouring_views(scene.cameras)
    )
    assert quality.judged == 180
    assert quality.reconstructed > 0.7
    assert quality.within > 0.99
    assert quality.within_in_all > 0.98
    assert quality.median < 0.1


def test_bounds_lead_to_the_same_depths(scene, features, depths):
    inside = sweep_depths(scene.images, scene.cameras, features, BOX, progress=False)
    assert abs(share(inside) - share(depths)) < 0.05
    both = np.isfinite(inside[3]) & np.isfinite(depths[3])
    assert both.mean() > 0.7
    assert (np.abs(inside[3] / depths[3] - 1)[both] < 0.005).mean() > 0.95


def test_bounds_that_miss_the_scene_give_nothing(scene, features):
    elsewhere = BOX + np.array([0, 0, 2.5])
    found = sweep_depths(scene.images, scene.cameras, features, elsewhere, progress=False)
    assert share(found) < 0.02
    behind = BOX - np.array([0, 0, 20])
    found = sweep_depths(scene.images, scene.cameras, features, behind, progress=False)
    assert share(found) == 0


def test_cameras_of_other_images_give_next_to_nothing(scene, features):
    cameras = [scene.cameras[i] for i in (3, 0, 5, 1, 6, 2, 4)]
    found = sweep_depths(scene.images, cameras, features, progress=False)
    assert share(found) < 0.02


def test_rotations_the_wrong_way_round_give_next_to_nothing(scene, features):
    cameras = [replace(c, R=c.R.T, t=-c.R.T @ c.centre) for c in scene.cameras]
    found = sweep_depths(scene.images, cameras, features, progress=False)
    assert share(found) < 0.02


def test_distorted_images_lead_to_the_same_depths(scene):
    bent = [replace(c, distortion=(-0.2, 0.05, 0.001, -0.001, 0.0)) for c in scene.cameras]
    images = [straight_to_bent(*pair) for pair in zip(scene.images, bent, strict=True)]
    features = positions_in(images, (3,))
    found = sweep_depths(images, bent, features, BOX, progress=False)
    true = scene.depth_at(3, straight(bent[3], features[3]))
    quality = depth_quality(
        features[3:4], found[3:4], [true], bent[3:4] + bent, [np.arange(1, len(bent) + 1)]
    )
    assert quality.reconstructed > 0.6
    assert quality.within > 0.99


def straight(camera: Camera, xy: np.ndarray) -> np.ndarray:
    """Pixels without the lens distortion."""
    return replace(camera, distortion=(0.0,) * 5).project(
        camera.back_project(xy, np.ones(len(xy)))
    )[0]


def straight_to_bent(image: np.ndarray, camera: Camera) -> np.ndarray:
    """Draw the image as a camera with lens distortion sees it."""
    height, width = image.shape
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 2)
    at = straight(camera, grid).astype(np.float32).reshape(height, width, 2)
    return cv2.remap(image, at[..., 0], at[..., 1], cv2.INTER_CUBIC)


@pytest.mark.parametrize("cores", [1, 3])
def test_threads_do_not_change_a_bit(scene, features, depths, cores, monkeypatch):
    monkeypatch.setattr("nmfsync.runtime.threads.thread_count", lambda: cores)
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        with threadpool_limits(1):
            again = sweep_depths(scene.images, scene.cameras, features, progress=False)
    finally:
        cv2.setNumThreads(threads)
    assert [d.tobytes() for d in again] == [d.tobytes() for d in depths]


def test_other_features_do_not_change_a_depth(scene, features, depths):
    """No feature learns from another, so none can lend credit to a wrong match."""
    some = [xy[::7] for xy in features]
    found = sweep_depths(scene.images, scene.cameras, some, progress=False)
    np.testing.assert_allclose(found[3], depths[3][::7], rtol=1e-9)


def test_image_without_features_has_no_depths(depths):
    assert [len(d) for d in depths] == [90, 0, 0, 90, 0, 0, 0]
    assert depths[1].dtype == np.float64


@pytest.mark.parametrize("views", [0, 1, 2, 3])
def test_too_few_views_to_agree_give_nothing(scene, views):
    chosen = slice(0, views)
    features = positions_in(scene.images[chosen], (0,))
    found = sweep_depths(scene.images[chosen], scene.cameras[chosen], features, progress=False)
    assert [len(d) for d in found] == [len(xy) for xy in features]
    assert not np.isfinite(np.concatenate([*found, [np.nan]])).any()


def test_cameras_in_one_place_give_nothing(scene, features):
    turned = [replace(c, t=-c.R @ scene.cameras[0].centre) for c in scene.cameras]
    found = sweep_depths(scene.images, turned, features, progress=False)
    assert share(found) == 0


def test_flat_images_give_nothing(scene, features):
    flat = [np.full_like(image, 90) for image in scene.images]
    found = sweep_depths(flat, scene.cameras, features, progress=False)
    assert share(found) == 0


def test_camera_of_another_size_is_refused(scene, features):
    cameras = [scene.cameras[0].scaled_to((640, 480)), *scene.cameras[1:]]
    with pytest.raises(NmfsyncError, match="image 1 has 320 × 240 pixels"):
        sweep_depths(scene.images, cameras, features, progress=False)


def test_missing_camera_is_refused(scene, features):
    with pytest.raises(NmfsyncError, match="7 images, 6 cameras"):
        sweep_depths(scene.images, scene.cameras[1:], features, progress=False)


def fountain_quality(chosen):
    folder = real_data("epfl/fountain-P11")
    photographs = read_epfl("epfl/fountain-P11", folder)
    truth = depth_maps_beside(photographs.paths, photographs.cameras)
    assert isinstance(truth, DepthMaps)
    images, cameras = list(photographs.images), photographs.cameras
    features = positions_in(images, chosen, limit=200)
    true = [cameras[i].project(truth.points(i, xy))[1] for i, xy in enumerate(features)]
    found = sweep_depths(images, cameras, features, progress=False)
    return depth_quality(features, found, true, cameras, neighbouring_views(cameras))


def test_fountain_depths_agree_with_the_laser():
    """One image, since the sweep takes some seconds."""
    quality = fountain_quality((4,))
    assert quality.judged > 100
    assert quality.reconstructed > 0.3
    assert quality.within > 0.9
    assert quality.median < 0.6


@pytest.mark.benchmark
def test_all_fountain_depths_agree_with_the_laser():
    quality = fountain_quality(range(11))
    print(quality)
    assert quality.reconstructed > 0.4
    assert quality.within > 0.95


@pytest.mark.benchmark
def test_fountain_checked_on_itself_is_close_to_the_laser_but_flatters():
    photographs = read_epfl("epfl/fountain-P11", real_data("epfl/fountain-P11"))
    images = list(photographs.images)
    features = positions_in(images, range(11), limit=200)
    check = held_out_quality(images, photographs.cameras, features, progress=False)
    laser = fountain_quality(range(11))
    print(check, laser, sep="\n")
    assert laser.within - 0.01 < check.within < laser.within + 0.05


def test_dino_depths_lie_in_the_box():
    dino = read_middlebury("dino", real_data("middlebury/dinoSparseRing"))
    features = positions_in(dino.images, (2,), limit=60)
    found = sweep_depths(dino.images, dino.cameras, features, dino.bounds, progress=False)[2]
    points = dino.cameras[2].back_project(features[2], found)[np.isfinite(found)]
    assert len(points) > 5
    margin = 0.1 * (dino.bounds[1] - dino.bounds[0])
    assert ((points > dino.bounds[0] - margin) & (points < dino.bounds[1] + margin)).all()
