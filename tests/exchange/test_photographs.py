"""Photographs are found by the names of a file of matches, and turned as they were for it."""

import os

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from nmfsync import NmfsyncError
from nmfsync.exchange.photographs import find_photographs, fit, misfit, turned
from nmfsync.types.matches import StoredKeypoints


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def keypoints(xy=((0, 0),), size=None):
    xy = np.array(xy, np.float32).reshape(-1, 2)
    return StoredKeypoints(xy, np.zeros(len(xy), "f4"), np.full(len(xy), np.nan, "f4"), size)


# Names ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "names", "expected"),
    [
        (["a.jpg", "sub/b.jpg"], ["a.jpg", "sub/b.jpg"], ["a.jpg", "sub/b.jpg"]),
        (["a.jpg", "x/a.jpg"], ["a.jpg"], ["a.jpg"]),  # the path counts first
        (["x/y/a.jpg"], ["a.jpg"], ["x/y/a.jpg"]),
        (["a.jpg"], ["images/a.jpg"], ["a.jpg"]),
        (["left/1.jpg", "right/1.jpg"], ["rig/right/1.jpg"], ["right/1.jpg"]),
        (["rig/left/1.jpg", "rig/right/1.jpg"], ["left\\1.jpg"], ["rig/left/1.jpg"]),
        (["IMG.JPG"], ["img.jpg"], ["IMG.JPG"]),
        (["IMG.JPG", "x/img.jpg"], ["img.jpg"], ["x/img.jpg"]),
        (["IMG.JPG", "Img.jpg", "a.jpg"], ["img.jpg", "a.jpg"], [None, "a.jpg"]),
        (["x/1.jpg", "y/1.jpg", "a.jpg"], ["1.jpg", "a.jpg"], [None, "a.jpg"]),
        # one file for two images belongs to the one whose folder it has, or to neither
        (["a/1.jpg"], ["a/1.jpg", "b/1.jpg"], ["a/1.jpg", None]),
        (["x/a/1.jpg"], ["a/1.jpg", "b/1.jpg"], ["x/a/1.jpg", None]),
        (["1.jpg", "a.jpg"], ["a/1.jpg", "b/1.jpg", "a.jpg"], [None, None, "a.jpg"]),
        (["e\u0301.jpg"], ["é.jpg"], ["e\u0301.jpg"]),
        ([".thumbnails/a.jpg", "b.jpg"], ["a.jpg", "b.jpg"], [None, "b.jpg"]),
    ],
)
def test_finds_files_by_name(tmp_path, files, names, expected):
    found, missing = find_photographs(make(tmp_path, *files), names)
    assert found == {n: tmp_path / file for n, file in enumerate(expected) if file}
    assert bool(missing) == (None in expected)


def test_a_name_does_not_lead_out_of_the_folder(tmp_path):
    make(tmp_path, "secret.jpg", "images/a.jpg")
    names = ["a.jpg", "../secret.jpg", str(tmp_path / "secret.jpg"), "x" * 5000, "", ".", "a.jpg/"]
    found, _ = find_photographs(tmp_path / "images", names)
    assert found == {0: tmp_path / "images" / "a.jpg"}


def test_links_to_photographs_and_folders_of_them_are_followed(tmp_path):
    make(tmp_path, "store/a.jpg", "store/b.jpg")
    images = make(tmp_path / "images", "c.jpg")
    (images / "a.jpg").symlink_to(tmp_path / "store" / "a.jpg")
    (images / "more").symlink_to(tmp_path / "store")
    (images / "circle").symlink_to(images)
    found, missing = find_photographs(images, ["a.jpg", "b.jpg", "c.jpg"])
    assert found == {0: images / "a.jpg", 1: images / "more" / "b.jpg", 2: images / "c.jpg"}
    assert missing == ""


def test_names_of_other_bytes_are_found(tmp_path):
    with open(os.fsencode(tmp_path) + b"/\xff.jpg", "wb"):
        pass
    found, _ = find_photographs(tmp_path, ["\\xff.jpg"])  # as a database's name is read
    assert os.fsencode(found[0]).endswith(b"/\xff.jpg")


def test_says_in_one_line_which_are_missing_and_what_is_like_them(tmp_path):
    make(tmp_path, "a.gif", "img_01.jpg", "x/2.jpg", "y/2.jpg")
    names = ["a.gif", "img_1.jpg", "2.jpg", "\x1b<b>.png", *(f"{n}.png" for n in range(9))]
    _, missing = find_photographs(tmp_path, names)
    assert missing.isprintable()
    assert "no photograph of 12 of 13 images" in missing
    assert "img_1.jpg (did you mean img_01.jpg?)" in missing
    assert "2.jpg (not clear whether it is x/2.jpg or y/2.jpg)" in missing
    assert "and 7 more" in missing


def test_a_folder_with_none_of_them_is_refused(tmp_path):
    make(tmp_path, "img_01.jpg")
    with pytest.raises(NmfsyncError, match=r"none of the 2 images.*IMG_1.jpg.*mean img_01.jpg"):
        find_photographs(tmp_path, ["IMG_1.jpg", "b.jpg"])
    with pytest.raises(NmfsyncError, match="is no folder"):
        find_photographs(tmp_path / "missing", ["a.jpg"])
    with pytest.raises(NmfsyncError, match="is no folder"):
        find_photographs(tmp_path / "img_01.jpg", ["a.jpg"])


# Sizes and turns -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "exif", "size", "expected"),
    [
        ((640, 480), 1, (640, 480), (1, (640, 480))),
        ((640, 480), 6, (640, 480), (1, (640, 480))),  # COLMAP takes what is stored
        ((640, 480), 6, (480, 640), (6, (480, 640))),  # older versions of hloc do not
        ((640, 480), 8, (240, 320), (8, (240, 320))),
        ((480, 480), 6, (480, 480), (1, (480, 480))),
        ((320, 240), 1, (640, 480), (1, (640, 480))),  # resized
        ((1024, 683), 1, (3000, 2000), (1, (3000, 2000))),  # and rounded
        ((3000, 2000), 1, (1024, 683), (1, (1024, 683))),
        ((640, 480), 1, (480, 640), None),
        ((640, 400), 1, (640, 480), None),  # cut
        ((640, 480), 1, None, (1, (640, 480))),
        ((640, 480), 6, None, (1, (640, 480))),
    ],
)
def test_the_size_of_the_features_decides(stored, exif, size, expected):
    assert fit(stored, exif, keypoints(size=size)) == expected


def test_features_outside_of_a_photograph_do_not_fit():
    inside, tall, far = [[639.9, 479.9]], [[300, 600]], [[1200, 900]]
    assert fit((640, 480), 6, keypoints(inside)) == (1, (640, 480))
    assert fit((640, 480), 6, keypoints(tall)) == (6, (480, 640))
    assert fit((640, 480), 1, keypoints(tall)) is None
    assert fit((640, 480), 6, keypoints(far)) is None
    assert fit((640, 480), 1, keypoints(far, size=(640, 480))) is None
    assert fit((640, 480), 1, keypoints([], size=(640, 480))) == (1, (640, 480))


@pytest.mark.parametrize("exif", range(1, 9))
def test_turns_as_other_programs_do(exif):
    picture = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3))
    picture.getexif()[ExifTags.Base.Orientation] = exif
    expected = np.asarray(ImageOps.exif_transpose(picture))
    assert np.array_equal(turned(np.asarray(picture), exif), expected)


def test_says_why_a_photograph_does_not_fit():
    text = "has 30 × 20 pixels, but its features are of an image of 30 × 30"
    assert misfit((30, 20), keypoints(size=(30, 30))) == text
    assert misfit((30, 20), keypoints([[50, 5]])) == "has features outside of its 30 × 20 pixels"
    far = keypoints([[90, 5]], size=(60, 40))
    assert misfit((30, 20), far) == "has features outside of its 60 × 40 pixels"
