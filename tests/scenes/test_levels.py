"""Values of more than 8 bits: what is missing or a defect must not flatten the picture."""

import re

import cv2
import numpy as np
import pytest
import tifffile
from scipy.spatial import cKDTree

from nmfsync import NmfsyncError, NmfsyncWarning, extract
from nmfsync.features.sift import extract_with_faults
from nmfsync.scenes.images import read_gray
from nmfsync.scenes.levels import to_8_bit

EDGE = 20
FILL, CLIPPED, MISSING = "taken for missing data", "hot pixels", "NaN, infinite or"


@pytest.fixture(scope="module")
def grey(photographs) -> np.ndarray:
    """Return a photograph that uses all of 0 … 255."""
    picture = cv2.imread(str(photographs / "view0.png"), cv2.IMREAD_GRAYSCALE).astype(float)
    return np.rint((picture - picture.min()) * (255 / np.ptp(picture)))


def features(levels):
    return extract_with_faults(levels, 300, False, 0.04, 10**6)[0].xy


def share_kept(levels, grey):
    """Return which share of the features of the sound picture is found, away from the edge."""
    sound, found = features(grey.astype(np.uint8)), features(levels)
    inner = ((sound > EDGE + 15) & (sound < np.array(grey.shape)[::-1] - EDGE - 15)).all(axis=1)
    return (cKDTree(found).query(sound[inner])[0] < 0.75).mean() if len(found) else 0.0


def pixels(values, value, number=1):
    rng = np.random.default_rng(0)
    for _ in range(number):
        values[rng.integers(len(values)), rng.integers(values.shape[1])] = value
    return values


def border(values, value, width=EDGE):
    values[:width] = values[-width:] = values[:, :width] = values[:, -width:] = value
    return values


def corner(values, value):
    y, x = np.indices(values.shape[:2])
    values[x + y < 80] = value
    return values


def hole(values, value, side=20):
    values[100 : 100 + side, 90 : 90 + side] = value
    return values


def colour(values):
    return np.repeat(values[:, :, None], 3, axis=2)


def u16(grey, offset=0):
    return (grey * 8 + offset).astype(np.uint16)


def f32(grey):
    return (grey / 255).astype(np.float32)


FAULTS = {
    "hot pixel": (lambda g: pixels(u16(g), 65535), CLIPPED),
    "hot pixels": (lambda g: pixels(u16(g), 65535, 40), CLIPPED),
    "dead pixel": (lambda g: pixels(u16(g, 30000), 0), CLIPPED),
    "hot block": (lambda g: hole(u16(g), 65535, 5), CLIPPED),
    "hot pixel in colour": (lambda g: pixels(colour(u16(g)), 65535), CLIPPED),
    "float32 hot": (lambda g: pixels(f32(g), 1e6), CLIPPED),
    "float32 huge": (lambda g: pixels(f32(g), np.finfo(np.float32).max), CLIPPED),
    "float16 hot": (lambda g: pixels(f32(g).astype(np.float16), 60000), CLIPPED),
    "float64 huge": (lambda g: pixels(g.copy(), 1e300), CLIPPED),
    "0 border": (lambda g: border(u16(g, 30000), 0), FILL),
    "thin 0 border": (lambda g: border(u16(g, 30000), 0, 1), FILL),
    "0 corner": (lambda g: corner(u16(g, 30000), 0), FILL),
    "0 border in colour": (lambda g: border(colour(u16(g, 30000)), 0), FILL),
    "65535 border": (lambda g: border(u16(g), 65535), FILL),
    "65535 hole": (lambda g: hole(u16(g), 65535), FILL),
    "two values": (lambda g: corner(border(u16(g, 30000), 0), 65535), FILL),
    "int16 -9999": (lambda g: border((g * 8).astype(np.int16), -9999), FILL),
    "int16 lowest": (lambda g: corner((g * 8).astype(np.int16), -32768), FILL),
    "int32 lowest": (lambda g: border((g * 99).astype(np.int32), -(2**31)), FILL),
    "uint32 largest": (lambda g: border((g * 99).astype(np.uint32), 2**32 - 1), FILL),
    "float32 -9999": (lambda g: hole(f32(g), -9999), FILL),
    "float32 lowest": (lambda g: border(f32(g), np.finfo(np.float32).min), FILL),
    "float64 lowest": (lambda g: border(g * 1e300, np.finfo(np.float64).min), FILL),
    "float64 hole": (lambda g: hole(g * 1e300, np.finfo(np.float64).max), FILL),
    "NaN": (lambda g: border(f32(g), np.nan), MISSING),
    "infinite": (lambda g: corner(f32(g), -np.inf), MISSING),
    "all at once": (
        lambda g: pixels(border(corner(f32(g), -9999), np.nan, 5), 1e5),
        f"{MISSING}.*{FILL}.*{CLIPPED}",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_hardly_a_feature_and_is_named(grey, fault):
    spoil, texts = FAULTS[fault]
    levels, found = to_8_bit(spoil(grey))
    assert share_kept(levels, grey) > 0.9
    assert re.search(texts, " ".join(found))


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.int32, np.float16, np.float32, float])
@pytest.mark.parametrize(("contrast", "offset"), [(8, 0), (1, 700), (0.05, 2)])
def test_a_sound_picture_is_stretched_from_its_smallest_to_its_largest_value(
    grey, dtype, contrast, offset
):
    values = (grey * contrast + offset).astype(dtype)
    levels, faults = to_8_bit(values)
    exact = values.astype(float) - float(values.min())
    assert np.abs(levels - exact * (255 / exact.max())).max() <= 0.501
    assert not faults


def test_stars_on_a_dark_ground_stay():
    """The noise behind them is not stretched in their place."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(20, 300, 60), rng.integers(20, 220, 60)
    for size in (0, 1.5):  # pixels, and discs
        points = np.zeros((240, 320))
        points[y, x] = 60000
        blurred = cv2.GaussianBlur(points, (0, 0), size) * 2 * np.pi * size**2 if size else points
        image = np.minimum(rng.poisson(100, points.shape) + blurred, 65535).astype(np.uint16)
        levels, _ = to_8_bit(image)
        assert levels[y, x].min() > 200
        assert np.median(levels) < 20
        old = (image * (255 / image.max())).astype(np.uint8)
        assert len(features(levels)) <= len(features(old)) + 5


def test_a_hot_pixel_in_noise_is_clipped():
    noise = np.random.default_rng(0).integers(0, 1000, (120, 160)).astype(np.uint16)
    sound = to_8_bit(noise)[0]
    levels, faults = to_8_bit(pixels(noise, 65535))
    assert (levels != sound).sum() == 1
    assert CLIPPED in faults[0]


def test_pictures_of_few_values_keep_all_of_them():
    black_white = np.zeros((60, 80), np.uint16)
    black_white[10:20, 30:40] = 65535
    assert np.unique(to_8_bit(black_white)[0]).tolist() == [0, 255]
    spot = np.full((60, 80), 700, np.uint16)
    spot[5, 6] = 800
    assert np.unique(to_8_bit(spot)[0], return_counts=True)[1].tolist() == [4799, 1]


@pytest.mark.parametrize("value", [0, 7, np.nan, np.inf, 1e300])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (9, 9, 3)])
def test_flat_pictures_are_black(shape, value):
    levels, _ = to_8_bit(np.full(shape, value))
    assert levels.shape == shape
    assert not levels.any()


def test_a_range_wider_than_its_type_can_hold_is_stretched():
    largest = np.finfo(np.float32).max
    levels, _ = to_8_bit(np.array([[-largest, 0, largest]], np.float32))
    assert levels.tolist() == [[0, 128, 255]]


@pytest.mark.parametrize("nodata", ["-1", "nan"])
def test_the_nodata_value_of_a_tiff_file_is_missing(grey, tmp_path, nodata):
    """It is a value between others, so nothing but the file can tell."""
    values = hole(f32(grey) * 20 - 10, float(nodata))
    tags = [(42113, "s", 0, nodata, True)]
    tifffile.imwrite(tmp_path / "a.tif", values, extratags=tags)
    assert not read_gray(tmp_path / "a.tif")[100:120, 90:110].any()
    with pytest.warns(NmfsyncWarning, match=r"a\.tif: .*nodata value are missing"):
        extract(tmp_path / "a.tif")


def test_complex_numbers_are_refused_in_one_line(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.ones((8, 9), np.complex64))
    with pytest.raises(NmfsyncError, match=r"a\.tif: has complex numbers; save their magnitude"):
        read_gray(tmp_path / "a.tif")
