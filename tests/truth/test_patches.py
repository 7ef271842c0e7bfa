"""Patches read and compared in blocks, against the same in plain NumPy, all at once."""

import cv2
import numpy as np
import pytest

from nmfsync.truth import patches
from nmfsync.truth.patches import MIN_CONTRAST, correlate, normalise, square, upright_patches


@pytest.fixture
def image():
    noise = np.random.default_rng(0).integers(0, 256, (60, 80)).astype(np.float32)
    return cv2.GaussianBlur(noise, (0, 0), 1)


def patches_at(image, centre, axes, window):
    """Read patches (n, p) at centre (n, 2) + axes (n, 2, 2) · window (2, p)."""
    at = (np.einsum("ncd,dp->cnp", axes, window) + centre.T[:, :, None]).astype(np.float32)
    return cv2.remap(image, *at, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


@pytest.mark.parametrize("window", [square(3, 1), square(5, 1), square(5, 2)])
@pytest.mark.parametrize("pixels", [200, 1 << 15])
def test_correlations_are_those_of_plain_numpy_to_the_bit(image, window, pixels, monkeypatch):
    monkeypatch.setattr(patches, "_PIXELS", pixels)
    rng = np.random.default_rng(1)
    centre = rng.uniform(-2, 82, (1000, 2))
    axes = np.eye(2) + rng.normal(scale=0.2, size=(1000, 2, 2))
    known = normalise(upright_patches(image, centre[:50], window))
    which = rng.integers(0, 50, 1000)
    found = correlate(image, centre, *axes.transpose(2, 0, 1), window, known, which)
    plain = normalise(patches_at(image, centre, axes, window))
    assert found.tobytes() == np.einsum("np,np->n", plain, known[which]).tobytes()


def test_upright_patches_show_the_pixels_around(image):
    (patch,) = upright_patches(image, np.array([[40.0, 30.0]]), square(2, 1))
    np.testing.assert_array_equal(patch.reshape(5, 5), image[28:33, 38:43])


def test_patches_that_are_too_flat_are_not_scaled_to_length_one(image):
    flat = np.tile(np.float32([100, 100 + MIN_CONTRAST / 10]), (1, 18))
    assert np.linalg.norm(normalise(flat)) < 0.2
    assert np.linalg.norm(normalise(flat * 100)) == pytest.approx(1)
