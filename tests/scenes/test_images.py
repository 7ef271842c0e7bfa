"""Images as arrays: every kind of file, and what is wrong with the others."""

import io
import re
import subprocess
import sys

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features.sift import extract
from nmfsync.scenes.images import (
    IMAGE_SUFFIXES,
    exif_orientation,
    look_at,
    read_gray,
    read_image,
    read_stored,
)

# Two rows of three pixels, so that width and height, and the colours, cannot be confused.
RGB = np.array(
    [[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[0, 0, 0], [255, 255, 255], [10, 20, 30]]], np.uint8
)


def half(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def test_colours_come_back_as_rgb_rows_by_columns(write_image):
    path = write_image("a.png", Image.fromarray(RGB))
    assert np.array_equal(read_image(path), RGB)
    assert look_at(path).size == (3, 2)


def test_grey_is_the_weighted_sum_of_the_colours(write_image):
    grey = read_gray(write_image("a.png", Image.fromarray(RGB)))
    assert grey.tolist() == [[76, 150, 29], [0, 255, 18]]


def test_grey_file_is_repeated_in_three_channels(write_image):
    path = write_image("a.pgm", Image.fromarray(RGB[:, :, 0]))
    assert np.array_equal(read_image(path), np.repeat(RGB[:, :, :1], 3, axis=2))
    assert np.array_equal(read_gray(path), RGB[:, :, 0])


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_every_listed_kind_can_be_read(write_image, suffix):
    mode = {".pgm": "L", ".pbm": "1"}.get(suffix, "RGB")
    path = write_image("a" + suffix, Image.fromarray(RGB).convert(mode))
    assert read_image(path).shape == (2, 3, 3)
    assert read_gray(path).shape == (2, 3)


def test_alpha_is_dropped_and_hidden_colours_stay(write_image):
    alpha = np.array([[0, 128, 255], [0, 0, 7]], np.uint8)
    path = write_image("a.png", Image.fromarray(np.dstack([RGB, alpha])))
    assert np.array_equal(read_image(path), RGB)


def test_palette_one_bit_and_cmyk_are_converted(write_image):
    assert np.array_equal(read_image(write_image("p.png", Image.fromarray(RGB).quantize(6))), RGB)
    one_bit = Image.fromarray(RGB[:, :, 0]).convert("1", dither=Image.Dither.NONE)
    assert np.array_equal(read_gray(write_image("o.png", one_bit)), [[255, 0, 0], [0, 255, 0]])
    cmyk = write_image("c.tif", Image.fromarray(RGB).convert("CMYK"))
    assert np.array_equal(read_image(cmyk), RGB)


@pytest.mark.parametrize("top", [4095, 65535])
def test_16_bits_are_stretched_whatever_part_of_them_is_used(write_image, top):
    values = np.array([[0, top // 2, top]], np.uint16)
    assert read_gray(write_image("a.png", values)).tolist() == [[0, 127, 255]]


def test_16_bit_colour_keeps_the_balance_of_the_channels(write_image):
    colour = RGB[:, :, ::-1].astype(np.uint16) * 16  # OpenCV writes BGR
    assert np.array_equal(read_image(write_image("a.png", colour)), RGB)


def test_alpha_of_a_16_bit_image_does_not_take_part_in_the_stretch(write_image):
    bgra = np.zeros((1, 2, 4), np.uint16)
    bgra[0, :, :3], bgra[0, :, 3] = [[0, 0, 0], [900, 900, 900]], 65535
    assert read_gray(write_image("a.png", bgra)).tolist() == [[0, 255]]


def test_floating_point_is_stretched_and_nan_is_black(write_image):
    values = np.array([[-1.0, 0.0, 1.0, np.nan, np.inf]], np.float32)
    assert read_gray(write_image("a.tif", values)).tolist() == [[0, 128, 255, 0, 0]]


def test_flat_16_bit_image_is_black(write_image):
    assert read_gray(write_image("a.png", np.full((2, 2), 700, np.uint16))).tolist() == [
        [0, 0],
        [0, 0],
    ]


# --- TIFF files of other than 8 bits in one or three channels

TIFF_LAYOUTS = [
    (dtype, channels, planes, compression)
    for dtype in ("uint8", "int16", "uint16", "uint32", "float16", "float32", "float64")
    for channels in (1, 2, 3, 4, 5)
    for planes in (("contig", "separate") if channels > 1 else ("contig",))
    for compression in (None, "zlib")
]


def bands(dtype, channels):
    """(40, 48, channels), of which each has another pattern; 0 and 240 are in the first one."""
    y, x = np.mgrid[:40, :48]
    patterns = [x * 240 // 47, y * 240 // 39, (x + y) % 200, x * y % 230, 255 - x]
    return np.stack(patterns[:channels], axis=-1).astype(dtype)


@pytest.mark.parametrize(("dtype", "channels", "planes", "compression"), TIFF_LAYOUTS)
def test_tiff_of_any_layout_is_read(tmp_path, dtype, channels, planes, compression):
    path = tmp_path / "a.tif"
    stored = bands(dtype, channels)
    tifffile.imwrite(
        path,
        stored if planes == "contig" else np.moveaxis(stored, -1, 0),
        photometric="rgb" if channels > 2 else "minisblack",
        planarconfig=planes if channels > 1 else None,
        compression=compression,
    )
    colours = stored[:, :, :3] if channels > 2 else np.repeat(stored[:, :, :1], 3, axis=2)
    colours = colours.astype(float)
    if dtype != "uint8":
        colours = np.rint(colours * (255 / 240))
    assert np.array_equal(read_image(path), colours)
    assert np.array_equal(read_gray(path), cv2.cvtColor(read_image(path), cv2.COLOR_RGB2GRAY))
    assert look_at(path).size == (48, 40)


@pytest.mark.parametrize("compression", [1, 5, 8])  # none, LZW, Deflate; as OpenCV writes them
@pytest.mark.parametrize(("dtype", "channels"), [("uint16", 3), ("uint16", 4), ("float32", 3)])
def test_tiff_that_tifffile_cannot_decompress_is_read(tmp_path, dtype, channels, compression):
    path, stored = tmp_path / "a.tif", bands(dtype, channels)
    cv2.imwrite(str(path), stored, [cv2.IMWRITE_TIFF_COMPRESSION, compression])
    expected = np.rint(stored[:, :, 2::-1].astype(float) * (255 / 240))
    assert np.array_equal(read_image(path), expected)


def test_alpha_of_a_tiff_is_dropped_and_hidden_colours_stay(write_image):
    alpha = np.array([[0, 128, 255], [0, 0, 7]], np.uint8)
    for name, compression in [("a.tif", None), ("b.tif", "tiff_lzw")]:
        picture = Image.fromarray(np.dstack([RGB, alpha]))
        picture.save(path := write_image(name, picture), compression=compression)
        assert np.array_equal(read_image(path), RGB)


def test_first_page_of_a_tiff_is_read(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.stack([bands("uint16", 1), bands("uint16", 1) // 2])[..., 0])
    assert np.array_equal(read_gray(path), np.rint(bands("float64", 1)[..., 0] * (255 / 240)))


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_tiff_cut_off_is_an_error_and_no_half_picture(tmp_path, compression, share):
    path = tmp_path / "cut.tif"
    tifffile.imwrite(path, bands("uint16", 5), photometric="rgb", compression=compression)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(
        NmfsyncError, match=r"cut\.tif: is damaged or incomplete .*; replace"
    ) as caught:
        read_image(path)
    assert "\n" not in str(caught.value)


def test_tiff_that_nothing_can_decompress_says_how_to_save_it(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, np.moveaxis(bands("uint16", 3), -1, 0), photometric="rgb", planarconfig="separate"
    )
    content = path.read_bytes()
    # Tag 259, a SHORT, once: compression 1 (none) becomes 5 (LZW).
    entry = bytes.fromhex("0301 0300 01000000")
    assert content.count(entry) == 1
    path.write_bytes(content.replace(entry + b"\1", entry + b"\5"))
    with pytest.raises(
        NmfsyncError,
        match=r"cannot read 3 channels of 16 bits with LZW compression; save the image without",
    ):
        read_image(path)


def test_tiff_of_too_many_pixels_is_an_error_before_decoding(tmp_path, monkeypatch):
    path = tmp_path / "large.tif"
    tifffile.imwrite(path, bands("uint16", 1)[..., 0])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 48 * 40 // 2 - 1)
    with pytest.raises(NmfsyncError, match="million pixels; reduce the image first"):
        read_gray(path)


def test_8_bit_images_load_neither_scikit_image_nor_tifffile(write_image):
    path = write_image("a.png", Image.fromarray(RGB))
    code = f"""
import sys
from nmfsync.scenes.images import read_image
read_image({str(path)!r})
assert not {{"skimage", "tifffile"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_exif_orientation_is_ignored(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # "rotate by 90 degrees to view"
    path = tmp_path / "a.jpg"
    Image.new("RGB", (60, 50)).save(path, exif=exif)
    assert look_at(path).size == (60, 50)
    assert read_image(path).shape == (50, 60, 3)
    assert read_gray(path).shape == (50, 60)


@pytest.mark.parametrize(("value", "expected"), [(6, 6), (1, 1), (0, 1), (9, 1)])
def test_exif_orientation_is_read_where_it_makes_sense(tmp_path, value, expected):
    exif = Image.Exif()
    exif[0x0112] = value
    Image.new("RGB", (60, 50)).save(tmp_path / "a.jpg", exif=exif)
    assert exif_orientation(tmp_path / "a.jpg") == expected


def test_damaged_exif_does_not_turn_an_image(tmp_path):
    path = tmp_path / "a.jpg"
    Image.new("RGB", (60, 50)).save(path, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert exif_orientation(path) == 1
    Image.new("RGB", (60, 50)).save(tmp_path / "a.tif")
    assert exif_orientation(tmp_path / "a.tif") == 1


def test_names_outside_ascii(tmp_path):
    folder = tmp_path / "Straße é 写真"
    folder.mkdir()
    path = folder / "ñandú 一.png"
    Image.fromarray(RGB).save(path)
    assert np.array_equal(read_image(path), RGB)


@pytest.mark.parametrize(
    "suffix", [".jpg", ".png", ".ppm", ".tif", ".bmp", ".webp", ".gif", ".tga", ".jp2"]
)
@pytest.mark.parametrize("read", [read_image, read_gray])
def test_file_cut_in_half_is_an_error_and_no_half_picture(write_image, suffix, read):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    path = half(write_image("cut" + suffix, Image.fromarray(noise)))
    with pytest.raises(NmfsyncError, match="cut") as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_image, read_gray, look_at])
@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("text.jpg", b"this is no picture\n", "is not an image of a known kind"),
        ("empty.png", b"", "is empty"),
        ("missing.png", None, "no such file"),
        ("folder.png", "folder", "is a folder"),
    ],
)
def test_what_is_no_image_is_named_in_one_line(tmp_path, read, name, content, fault):
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(NmfsyncError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {fault}")
    assert "\n" not in str(caught.value)


def test_more_pixels_than_can_be_decoded_is_an_error_before_decoding(tmp_path):
    path = tmp_path / "huge.pgm"
    path.write_bytes(b"P5 40000 40000 255\n")
    with pytest.raises(NmfsyncError, match="million pixels; reduce the image first"):
        read_gray(path)


def test_size_comes_from_the_header_alone(write_image):
    path = write_image("a.png", np.random.default_rng(0).integers(0, 256, (40, 30), np.uint8))
    assert look_at(half(path)).size == (30, 40)


# --- JPEG files without their end


def jpeg(**options):
    """A colourful JPEG file of 160 × 120 pixels."""
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(cv2.GaussianBlur(noise, (0, 0), 1.5)).save(file, "JPEG", **options)
    return file.getvalue()


KINDS = {"baseline": {}, "progressive": {"progressive": True}, "grey": {"subsampling": 0}}


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_jpeg_that_lacks_its_end_is_read_with_a_warning(write_image, kind, lost):
    content = jpeg(**KINDS[kind])
    whole = read_image(write_image("whole.jpg", content))
    path = write_image("short.jpg", content[:-lost])
    assert (read_image(path) != whole).any(axis=2).mean() < 0.01
    with pytest.warns(NmfsyncWarning, match=r"short\.jpg: the file is incomplete: its end"):
        extract(path, contrast=0)


def test_jpeg_with_something_after_its_end_is_read(write_image):
    content = jpeg()
    whole = read_image(write_image("whole.jpg", content))
    assert np.array_equal(read_image(write_image("more.jpg", content + b"\0more" * 99)), whole)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("kind", KINDS)
def test_jpeg_that_lacks_more_is_an_error(write_image, kind, share):
    content = jpeg(**KINDS[kind])
    path = write_image("cut.jpg", content[: int(len(content) * share)])
    with pytest.raises(NmfsyncError, match=r"cut\.jpg: is damaged or incomplete"):
        read_image(path)


def test_progressive_jpeg_that_lacks_whole_scans_is_an_error(write_image):
    """Every scan that it has is complete, so nothing but their number tells."""
    content = jpeg(progressive=True)
    starts = [match.start() for match in re.finditer(b"\xff\xda", content)]
    for start in starts[1:]:
        path = write_image("cut.jpg", content[: content.rindex(b"\xff\xc4", 0, start)])
        with pytest.raises(NmfsyncError, match=r"cut\.jpg: is damaged or incomplete"):
            read_image(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fill", [b"\0", b"\xff"])
def test_jpeg_whose_second_half_is_empty_is_an_error(write_image, kind, fill):
    content = jpeg(**KINDS[kind])
    cut = content[: len(content) // 2]
    path = write_image("cut.jpg", cut + fill * len(cut))
    with pytest.raises(NmfsyncError, match=r"cut\.jpg: is damaged or incomplete"):
        read_image(path)


def test_stored_pixels_are_grey_or_blue_green_red(write_image):
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    colour = np.stack([grey, 2 * grey, 3 * grey], axis=-1)
    assert np.array_equal(read_stored(write_image("grey.png", grey)), grey)
    assert np.array_equal(read_stored(write_image("colour.png", colour)), colour)
