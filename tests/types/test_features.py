"""Features: packed without loss, and refused in other shapes or types."""

import numpy as np
import pytest

from builders import same_features
from nmfsync import NmfsyncError, NmfsyncWarning
from nmfsync.features.sift import extract
from nmfsync.types.features import Features, pack_features, unpack_features


def test_packing_loses_nothing_empty_images_included(astronaut):
    features = [extract(astronaut, 30), extract(astronaut, 20, orientations=True)]
    with pytest.warns(NmfsyncWarning):
        features.insert(1, extract(np.zeros((4, 6), np.uint8)))
    again = unpack_features(pack_features(features))
    assert len(again) == 3
    assert all(same_features(a, b) for a, b in zip(features, again, strict=True))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"xy": np.zeros((2, 2))}, "xy must be"),
        ({"xy": np.full((2, 2), np.nan, np.float32)}, "xy holds NaN"),
        ({"descriptors": np.zeros((3, 128), np.uint8)}, "descriptors must be"),
        ({"descriptors": np.zeros((2, 128), np.float32)}, "descriptors must be"),
        ({"scale": np.zeros((2, 1), np.float32)}, "scale must be"),
    ],
)
def test_arrays_of_other_shapes_or_types_are_refused(change, fault):
    arrays = {
        "xy": np.zeros((2, 2), np.float32),
        "descriptors": np.zeros((2, 128), np.uint8),
        "scale": np.zeros(2, np.float32),
        "orientation": np.zeros(2, np.float32),
    }
    Features(**arrays, image_size=(9, 9), keypoints=2, positions=2)
    with pytest.raises(NmfsyncError, match=fault):
        Features(**(arrays | change), image_size=(9, 9), keypoints=2, positions=2)


def test_root_sift_has_one_length_and_the_directions_of_the_square_roots(astronaut):
    features = extract(astronaut, 50)
    rooted = features.rooted()
    values = rooted.descriptors.astype(float)
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), 512, rtol=0.02)
    roots = np.sqrt(features.descriptors.astype(float))
    cosines = (values * roots).sum(axis=1) / np.linalg.norm(values, axis=1)
    np.testing.assert_allclose(cosines / np.linalg.norm(roots, axis=1), 1, atol=0.002)
    nothing = Features(
        np.zeros((1, 2), np.float32), np.zeros((1, 128), np.uint8), np.zeros(1, np.float32),
        np.zeros(1, np.float32), image_size=(9, 9), keypoints=1, positions=1,
    )  # fmt: skip
    assert not nothing.rooted().descriptors.any()
