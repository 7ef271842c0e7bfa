"""SIFT features of one image: what is found, kept and described."""

import cv2
import numpy as np
import pytest
from skimage import data

from builders import same_features, with_opencv_threads
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features.sift import extract
from real_data import real_data


def blobs(*centres, radius=6.0, shape=(120, 160)):
    """White Gaussian blobs at (x, y) on black."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    picture = sum(np.exp(-((x - u) ** 2 + (y - v) ** 2) / (2 * radius**2)) for u, v in centres)
    return np.rint(255 * picture).astype(np.uint8)


def nearest_distance(a, b):
    return np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2)).min(axis=1)


def test_arrays_have_the_promised_shapes_and_types(astronaut):
    features = extract(astronaut, features=50)
    assert len(features) == 50
    assert features.xy.shape == (50, 2)
    assert features.xy.dtype == np.float32
    assert features.descriptors.shape == (50, 128)
    assert features.descriptors.dtype == np.uint8
    assert features.scale.shape == features.orientation.shape == (50,)
    assert features.image_size == (512, 512)
    assert ((features.orientation >= 0) & (features.orientation <= 360)).all()
    assert (features.scale > 0).all()


def test_descriptors_lose_nothing_as_bytes(astronaut):
    floats = cv2.SIFT.create().detectAndCompute(astronaut, None)[1]
    assert np.array_equal(floats, floats.astype(np.uint8))


def test_blob_is_found_at_its_centre():
    found = extract(blobs((50, 40)), features=5)
    assert nearest_distance(np.array([[50.0, 40.0]]), found.xy) < 0.1


def test_scale_doubles_with_the_blob():
    small, large = (extract(blobs((80, 60), radius=r), features=1) for r in (4.0, 8.0))
    assert large.scale[0] / small.scale[0] == pytest.approx(2, rel=0.1)


def test_positions_mirror_with_the_image(astronaut):
    # OpenCV's own positions move by half a pixel here (opencv/opencv#23123).
    direct = extract(astronaut, features=10_000).xy
    mirrored = extract(astronaut[:, ::-1], features=10_000).xy
    mirrored[:, 0] = astronaut.shape[1] - 1 - mirrored[:, 0]
    distance = np.abs(direct[:, None] - mirrored[None]).sum(axis=2)
    close = distance.min(axis=1) < 1
    shift = (mirrored[distance.argmin(axis=1)] - direct)[close]
    assert close.mean() > 0.8
    assert np.abs(np.median(shift, axis=0)).max() < 0.02


@pytest.mark.parametrize("siblings", [False, True])
@pytest.mark.parametrize("limit", [1, 37, 200, 10_000])
def test_limit_is_a_maximum_and_exact_where_there_are_enough(astronaut, siblings, limit):
    features = extract(astronaut, features=limit, orientations=siblings)
    available = features.keypoints if siblings else features.positions
    assert len(features) == min(limit, available)


def test_a_lower_limit_keeps_the_first_of_a_higher_one(astronaut):
    few, many = extract(astronaut, features=30), extract(astronaut, features=60)
    assert np.array_equal(few.xy, many.xy[:30])
    assert np.array_equal(few.descriptors, many.descriptors[:30])


def test_one_feature_per_position_unless_siblings_are_kept(astronaut):
    one, all_of_them = (extract(astronaut, 10_000, orientations=s) for s in (False, True))
    assert one.keypoints == all_of_them.keypoints == len(all_of_them)
    assert one.positions == all_of_them.positions == len(one) < len(all_of_them)
    assert len(np.unique(one.xy, axis=0)) == len(one)
    assert len(np.unique(all_of_them.xy, axis=0)) == len(one)


def test_kept_sibling_follows_the_largest_gap_between_orientations(astronaut):
    one, all_of_them = (extract(astronaut, 10_000, orientations=s) for s in (False, True))
    several = 0
    for xy, kept in zip(one.xy, one.orientation, strict=True):
        angles = np.sort(all_of_them.orientation[(all_of_them.xy == xy).all(axis=1)])
        gaps = [(a - b) % 360 for a, b in zip(angles, np.roll(angles, 1), strict=True)]
        assert kept == angles[np.argmax(gaps)]
        several += len(angles) > 1
    assert several > 50


def test_kept_sibling_turns_with_the_image(astronaut):
    direct, turned = extract(astronaut, 300), extract(np.rot90(astronaut, k=-1).copy(), 10_000)
    every = extract(astronaut, 10_000, orientations=True).xy
    has_siblings = (direct.xy[:, None] == every[None]).all(axis=2).sum(axis=1) > 1
    back = np.column_stack([turned.xy[:, 1], astronaut.shape[0] - 1 - turned.xy[:, 0]])
    distance = np.abs(direct.xy[:, None] - back[None]).sum(axis=2)
    found = has_siblings & (distance.min(axis=1) < 0.1)
    turn = turned.orientation[distance.argmin(axis=1)] - direct.orientation
    off = np.abs((turn[found] - 90 + 180) % 360 - 180)  # turned clockwise by 90 degrees
    assert found.sum() > 40
    assert (off < 5).mean() > 0.8  # keeping the smallest angle instead: 0.45


def test_equal_responses_are_ranked_from_top_to_bottom_and_left_to_right():
    # Blobs 64 pixels apart fall alike on the grid of every octave that matters here.
    centres = [(112, 48), (48, 112), (48, 48), (112, 112)]
    found = extract(blobs(*centres, radius=4, shape=(160, 160)), features=4)
    assert np.rint(found.xy).tolist() == [[48, 48], [112, 48], [48, 112], [112, 112]]


def test_a_lower_contrast_threshold_finds_more():
    image = data.astronaut()
    counts = [extract(image, 10_000, contrast=c).positions for c in (0.08, 0.04, 0.01)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    with pytest.raises(NmfsyncError, match="contrast must be at least 0 and less than 1, got"):
        extract(image, contrast=-1)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (1, 100), (100, 1), (100, 100)])
def test_flat_or_tiny_image_has_no_features_and_a_warning_with_its_name(write_image, shape):
    path = write_image("grey.png", np.full(shape, 128, np.uint8))
    with pytest.warns(NmfsyncWarning, match=r"grey\.png: no features"):
        features = extract(path)
    assert features.xy.shape == (0, 2)
    assert features.descriptors.shape == (0, 128)
    assert len(features) == features.keypoints == features.positions == 0
    assert features.image_size == shape[::-1]


def test_file_grey_array_and_colour_array_agree(write_image, astronaut):
    path = write_image("a.png", astronaut)
    from_file = extract(path, features=40)
    assert same_features(from_file, extract(astronaut, features=40))
    assert same_features(
        from_file, extract(np.repeat(astronaut[:, :, None], 3, axis=2), features=40)
    )


def test_large_image_is_reduced_with_a_warning_and_positions_of_the_full_image(write_image):
    picture = blobs((301, 200), (99.5, 251), (400, 80), radius=12, shape=(401, 503))
    path = write_image("large.png", picture)
    with pytest.warns(NmfsyncWarning, match=r"large\.png: more than 0\.04 million pixels"):
        reduced = extract(path, features=3, max_pixels=40_000)
    full = extract(path, features=3)
    assert reduced.image_size == full.image_size == (503, 401)
    assert nearest_distance(full.xy, reduced.xy).max() < 0.25
    assert np.sort(reduced.scale) == pytest.approx(np.sort(full.scale), rel=0.03)


def test_image_of_exactly_the_largest_size_is_not_reduced(astronaut):
    assert same_features(extract(astronaut, 20, max_pixels=512 * 512), extract(astronaut, 20))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((5, 5), np.float32),
        np.zeros((5, 5, 4), np.uint8),
        np.zeros((0, 5), np.uint8),
        np.zeros(5, np.uint8),
    ],
)
def test_array_that_is_no_image_is_an_error(image):
    with pytest.raises(NmfsyncError, match="image: "):
        extract(image)


@pytest.mark.parametrize("limit", [0, -3])
def test_limit_below_one_is_an_error(astronaut, limit):
    with pytest.raises(NmfsyncError, match="at least 1"):
        extract(astronaut, features=limit)


@pytest.mark.parametrize("threads", [1, 4])
def test_same_features_in_another_process_with_another_number_of_threads(
    write_image, astronaut, in_another_process, threads
):
    path = write_image("a.png", astronaut)
    there = in_another_process(with_opencv_threads, threads, extract, path)
    assert same_features(there, extract(path))


def test_graffiti_image_holds_the_limit_where_opencv_does_not():
    features = extract(real_data("graffiti/bark/img1.ppm"), features=2000, orientations=True)
    assert len(features) == 2000
    assert features.positions < features.keypoints
