"""Folders of images, with homographies or without."""

from pathlib import Path

import numpy as np
import pytest

from builders import picture
from nmfsync import NmfsyncError
from nmfsync.scenes.catalogue import load_scene


def names(scene, folder):
    return [path.relative_to(folder).as_posix() for path in scene.paths]


def test_folder_of_images_is_sorted_naturally(tmp_path):
    for name in ["img10.png", "img2.PNG", "img1.png", "B.jpg", "a.jpg"]:
        picture(tmp_path / name)
    scene = load_scene(str(tmp_path))
    assert names(scene, tmp_path) == ["a.jpg", "B.jpg", "img1.png", "img2.PNG", "img10.png"]
    assert scene.name == f"images/{tmp_path.name}"
    assert scene.truth is None


def test_other_files_and_dot_files_are_left_out(tmp_path):
    for name in ["b.png", "a.png", "._a.png", ".hidden/c.png"]:
        picture(tmp_path / name)
    for name in [".DS_Store", "Thumbs.db", "notes.txt"]:
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.png").mkdir()
    assert names(load_scene(str(tmp_path)), tmp_path) == ["a.png", "b.png"]


def test_subfolder_images_is_found(tmp_path):
    for name in ["images/b.png", "images/a.png"]:
        picture(tmp_path / name)
    scene = load_scene(str(tmp_path))
    assert names(scene, tmp_path) == ["images/a.png", "images/b.png"]
    assert scene.name == f"images/{tmp_path.name}"


def test_images_of_subfolders_are_found_if_there_are_no_others(tmp_path):
    for name in ["left/2.png", "left/10.png", "right/1.png", ".trash/1.png"]:
        picture(tmp_path / name)
    assert names(load_scene(str(tmp_path)), tmp_path) == [
        "left/2.png",
        "left/10.png",
        "right/1.png",
    ]


def test_names_outside_ascii(tmp_path):
    folder = tmp_path / "Straße 日本"
    for name in ["é.png", "ü.png"]:
        picture(folder / name)
    assert load_scene(str(folder)).name == "images/Straße 日本"


def test_empty_folder(tmp_path):
    with pytest.raises(NmfsyncError, match="no images found; at least two are needed"):
        load_scene(str(tmp_path))


def test_one_image_is_too_few_and_the_unreadable_one_is_named(tmp_path):
    picture(tmp_path / "a.png")
    with pytest.raises(NmfsyncError, match="only one image found; at least two"):
        load_scene(str(tmp_path))
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(NmfsyncError, match=r"only one image found \(.*b\.png"):
        load_scene(str(tmp_path))


# --- Homographies

IDENTITY = "1 0 0\n0 1 0\n0 0 1\n"


def oxford(folder: Path, text: str | bytes = IDENTITY) -> str:
    picture(folder / "img1.ppm", (8, 6))
    picture(folder / "img2.ppm", (10, 6))
    content = text.encode() if isinstance(text, str) else text
    (folder / "H1to2p").write_bytes(content)
    return str(folder)


@pytest.mark.parametrize(
    "text",
    [
        "2 0 6\n0 2 0\n0 0 2\n",
        "  2.0e+00 0 6 \r\n0 2 0\r\n0 0 2\r\n\r\n",
        "2 0 6 0 2 0 0 0 2",
        "# from image 1 to 2\n2 0 6 # first row\n0 2 0\n0 0 2\n",
        "\ufeff2 0 6\n0 2 0\n0 0 2",
        "-2,0,-6\n0,-2,0\n0,0,-2\n",
    ],
    ids=["plain", "CRLF", "one line", "comments", "byte order mark", "commas, negative"],
)
def test_homography_files_are_read_in_every_form(tmp_path, text):
    truth = load_scene(oxford(tmp_path, text)).truth
    assert truth.maps[1].tolist() == [[1, 0, 3], [0, 1, 0], [0, 0, 1]]
    assert truth.image_sizes.tolist() == [[8, 6], [10, 6]]
    xy, valid = truth.transfer(0, 1, np.array([[1.0, 2.0], [7.0, 2.0]]))
    assert xy.tolist() == [[4, 2], [10, 2]]
    assert valid.tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1 0 0\n0 1 0\n0 0", "a homography must have 9 numbers, got 8"),
        ("", "a homography must have 9 numbers, got 0"),
        ("1 0 0\n0 one 0\n0 0 1", "something that is not a number .*'one'"),
        (b"\xff\xd8\xff\xe0 picture", "something that is not a number"),
        ("1 0 0\n2 0 0\n0 0 1", "the homography must be finite and invertible"),
        ("1 0 0\n0 nan 0\n0 0 1", "the homography must be finite and invertible"),
    ],
)
def test_faulty_homography_file_is_named(tmp_path, text, fault):
    with pytest.raises(NmfsyncError, match=rf"H1to2p: .*{fault}"):
        load_scene(oxford(tmp_path, text))


def test_missing_homography_is_named(tmp_path):
    folder = oxford(tmp_path)
    picture(tmp_path / "img3.ppm")
    with pytest.raises(NmfsyncError, match="H1to3p: no such file, but its image exists"):
        load_scene(folder)


def test_missing_image_is_named(tmp_path):
    folder = oxford(tmp_path)
    picture(tmp_path / "img4.ppm")
    with pytest.raises(NmfsyncError, match="image 3 of 4 is missing"):
        load_scene(folder)


def test_two_files_for_one_image_are_named(tmp_path):
    folder = oxford(tmp_path)
    picture(tmp_path / "img2.png")
    with pytest.raises(NmfsyncError, match=r"img2\.png and img2\.ppm|img2\.ppm and img2\.png"):
        load_scene(folder)


def test_ten_views_are_in_numerical_order(tmp_path):
    for number in range(1, 11):
        picture(tmp_path / f"img{number}.png", (10 * number, 5))
        (tmp_path / f"H1to{number}p").write_text(IDENTITY)
    truth = load_scene(str(tmp_path)).truth
    assert truth.image_sizes[:, 0].tolist() == list(range(10, 110, 10))


def test_hpatches_layout(tmp_path):
    for number in (1, 2):
        picture(tmp_path / f"{number}.ppm")
    (tmp_path / "H_1_2").write_text("1 0 3\n0 1 0\n0 0 1\n")
    assert load_scene(str(tmp_path)).truth.maps[1][0, 2] == 3
