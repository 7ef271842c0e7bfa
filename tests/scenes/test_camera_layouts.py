"""Scene folders with cameras: EPFL and Middlebury."""

import os
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from builders import picture
from nmfsync.errors import NmfsyncError
from nmfsync.features.extract import extract_all
from nmfsync.matching.match import match
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.layouts import read_epfl, read_middlebury
from nmfsync.truth.epipolar import check_cameras, epipolar_distance
from real_data import real_data

# A camera at (1, 2, 3) that looks along the world's x axis, with the world's z axis up.
CAMERA = """\
100 0 30
0 200 20
0 0 1
0.1 0.02 0.003
0 0 1
-1 0 0
0 -1 0
1 2 3
64 48
"""
WORLD_TO_CAMERA = [[0, -1, 0], [0, 0, -1], [1, 0, 0]]
ROW = "100 0 30 0 200 20 0 0 1 0 -1 0 0 0 -1 1 0 0 2 3 -1"


SIZE = (64, 48)


def epfl(folder: Path, text: str = CAMERA, size: tuple[int, int] = SIZE) -> Path:
    """Write two images with cameras; the second is as given."""
    for number, content in enumerate([CAMERA, text]):
        picture(folder / f"000{number}.jpg", size)
        (folder / f"000{number}.jpg.camera").write_text(content)
    return folder


def middlebury(folder: Path, text: str = f"2\nb.png {ROW}\na.png {ROW}\n") -> Path:
    for name in ("a.png", "b.png"):
        picture(folder / name, SIZE)
    (folder / "x_par.txt").write_text(text)
    return folder


# --- EPFL


def test_epfl_camera_is_camera_to_world_with_its_centre(tmp_path):
    scene = read_epfl("set/a", epfl(tmp_path))
    assert [path.name for path in scene.paths] == ["0000.jpg", "0001.jpg"]
    assert scene.truth is None
    assert scene.bounds is None
    camera = scene.cameras[1]
    assert camera.R.tolist() == WORLD_TO_CAMERA
    assert camera.centre.tolist() == [1, 2, 3]
    assert camera.t.tolist() == [2, 3, -1]
    assert camera.K.tolist() == [[100, 0, 30], [0, 200, 20], [0, 0, 1]]
    assert camera.distortion == (0.1, 0.02, 0, 0, 0.003)
    assert camera.size == (64, 48)


def test_intrinsics_follow_a_smaller_image(tmp_path):
    camera = read_epfl("set/a", epfl(tmp_path, size=(32, 24))).cameras[0]
    assert camera.size == (32, 24)
    assert camera.K.tolist() == [[50, 0, 14.75], [0, 100, 9.75], [0, 0, 1]]


def test_camera_files_may_be_named_after_another_kind_of_image(tmp_path):
    epfl(tmp_path)
    (tmp_path / "0001.jpg.camera").rename(tmp_path / "0001.png.camera")
    assert len(read_epfl("set/a", tmp_path).cameras) == 2


def test_depth_maps_stored_as_pictures_are_no_images(tmp_path):
    picture(tmp_path / "0000.jpg.depth.png", SIZE)
    assert len(read_epfl("set/a", epfl(tmp_path)).paths) == 2


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("64 48", "64", "a camera must have 26 numbers .*, got 25"),
        ("64 48", "64 48 1", "a camera must have 26 numbers .*, got 27"),
        ("1 2 3", "1 two 3", "something that is not a number .*'two'"),
        ("1 2 3", "1 nan 3", "a number that is not finite"),
        ("64 48", "64 0", "the image size at the end must be positive, got 64 × 0"),
        ("64 48", "64 inf", "the image size .* is impossible|is for an image of"),
        ("64 48", "48 64", "for an image of 48 × 64 pixels, but 0001.jpg has 64 × 48"),
        ("100 0 30", "0 0 30", "focal lengths in K must be positive, got 0 and 200"),
        ("0 200 20\n0 0 1", "0 200 0\n30 20 1", "K must be upper triangular with last row 0 0 1"),
        ("-1 0 0", "-2 0 0", "R is not a rotation .* by 3"),
        ("-1 0 0", "1 0 0", "R is not a rotation but a reflection"),
    ],
)
def test_faulty_epfl_camera_is_named(tmp_path, old, new, fault):
    assert old in CAMERA
    folder = epfl(tmp_path, CAMERA.replace(old, new, 1))
    with pytest.raises(NmfsyncError, match=rf"0001\.jpg\.camera: .*({fault})") as caught:
        read_epfl("set/a", folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("gone", "fault"),
    [
        ("0001.jpg.camera", r"3 images but 2 camera files; 0001\.jpg\.camera is missing"),
        ("0001.jpg", r"2 images but 3 camera files; the image of 0001\.jpg\.camera is missing"),
    ],
)
def test_number_of_epfl_cameras_differs_from_that_of_images(tmp_path, gone, fault):
    epfl(tmp_path)
    picture(tmp_path / "0002.jpg", SIZE)
    (tmp_path / "0002.jpg.camera").write_text(CAMERA)
    (tmp_path / gone).unlink()
    with pytest.raises(NmfsyncError, match=fault):
        read_epfl("set/a", tmp_path)


def test_one_view_in_two_files_is_refused(tmp_path):
    epfl(tmp_path)
    picture(tmp_path / "0001.png", SIZE)
    with pytest.raises(NmfsyncError, match=r"0001\.jpg and 0001\.png belong to one camera"):
        read_epfl("set/a", tmp_path)


def test_a_single_camera_is_too_few(tmp_path):
    epfl(tmp_path)
    (tmp_path / "0001.jpg").unlink()
    (tmp_path / "0001.jpg.camera").unlink()
    with pytest.raises(NmfsyncError, match="at least two images with cameras"):
        read_epfl("set/a", tmp_path)


# --- Middlebury


def test_middlebury_camera_is_world_to_camera(tmp_path):
    scene = read_middlebury("set/a", middlebury(tmp_path))
    assert [path.name for path in scene.paths] == ["b.png", "a.png"]  # as listed
    camera = scene.cameras[0]
    assert camera.R.tolist() == WORLD_TO_CAMERA
    assert camera.t.tolist() == [2, 3, -1]
    assert camera.centre.tolist() == [1, 2, 3]
    assert camera.K.tolist() == [[100, 0, 30], [0, 200, 20], [0, 0, 1]]
    assert camera.size == (64, 48)
    assert scene.truth is None
    assert scene.bounds is None


def test_bounds_are_read_from_the_readme(tmp_path):
    (tmp_path / "README.txt").write_text(
        "A dinosaur (green).\r\nThe (tight) bounding box for it is\r\n(1 -2 3)\r\n(0.5 4 9)\r\n"
    )
    scene = read_middlebury("set/a", middlebury(tmp_path))
    assert scene.bounds.tolist() == [[0.5, -2, 3], [1, 4, 9]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", r"x_par\.txt: the first line must be the number of images"),
        (f"a.png {ROW}\nb.png {ROW}", r"x_par\.txt: the first line must be the number of images"),
        (f"3\na.png {ROW}\nb.png {ROW}", "the first line says 3 cameras, but 2 follow"),
        (f"1\na.png {ROW}", r"2 images but 1 cameras in x_par\.txt; b\.png has no camera"),
        (f"2\na.png {ROW}\nc.png {ROW}", r"2 images but 2 cameras .*; the image c\.png is missing"),
        (f"2\na.png {ROW}\na.png {ROW}", r"x_par\.txt, line 3: a\.png is listed twice"),
        (
            f"2\na.png {ROW}\n\nb.png {ROW} 7",
            r"line 4: a camera must have .* 21 numbers .*, got 22",
        ),
        ("2\na.png 1 2 3", r"line 2: a camera must have .* 21 numbers .*, got 3"),
        (f"2\na.png {ROW[:-2]}x\nb.png {ROW}", "line 2: contains something that is not a number"),
        (f"2\na.png -{ROW}\nb.png {ROW}", "line 2: the focal lengths in K must be positive"),
        (
            f"2\na.png {ROW}\nb.png {ROW.replace('1 0 0 2 3', '1 1 0 2 3')}",
            "line 3: R is not a rotation",
        ),
    ],
)
def test_faulty_middlebury_cameras_are_named(tmp_path, text, fault):
    with pytest.raises(NmfsyncError, match=fault) as caught:
        read_middlebury("set/a", middlebury(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_missing_and_ambiguous_camera_files(tmp_path):
    middlebury(tmp_path)
    (tmp_path / "y_par.txt").write_text("0\n")
    with pytest.raises(NmfsyncError, match=r"found x_par\.txt and y_par\.txt"):
        read_middlebury("set/a", tmp_path)
    for name in ("x", "y"):
        (tmp_path / f"{name}_par.txt").unlink()
    with pytest.raises(
        NmfsyncError, match=r"one camera file <name>_par\.txt is needed, found none"
    ):
        read_middlebury("set/a", tmp_path)


# --- Folders


@pytest.mark.parametrize("write", [epfl, middlebury])
def test_folder_with_cameras_is_read_with_them(tmp_path, write):
    scene = load_scene(str(write(tmp_path / "mine")))
    assert scene.name == "images/mine"
    assert len(scene.cameras) == 2


# --- Real data

COUNTS = {
    "epfl/fountain-P11": 11,
    "epfl/Herz-Jesu-P8": 8,
    "epfl/Herz-Jesu-P25": 25,
    "epfl/castle-P19": 19,
    "epfl/castle-P30": 30,
    "epfl/entry-P10": 10,
    "middlebury/temple": 312,
    "middlebury/templeRing": 47,
    "middlebury/templeSparseRing": 16,
    "middlebury/dino": 363,
    "middlebury/dinoRing": 48,
    "middlebury/dinoSparseRing": 16,
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_scene_is_read(name):
    real_data(name)
    scene = load_scene(name, os.environ["NMFSYNC_DATA"])
    assert len(scene.paths) == len(scene.cameras) == COUNTS[name]
    if name.startswith("middlebury"):
        for camera in scene.cameras:
            (xy,), (depth,) = camera.project([scene.bounds.mean(axis=0)])
            assert depth > 0
            assert (xy >= 0).all()
            assert (xy < camera.size).all()


@pytest.mark.parametrize(
    "name",
    [
        "epfl/fountain-P11",
        "epfl/Herz-Jesu-P8",
        "middlebury/dinoSparseRing",
        "middlebury/templeSparseRing",
    ],
)
def test_matches_lie_near_epipolar_lines_unless_the_conventions_are_swapped(name, tmp_path):
    folder = real_data(name)
    swapped = tmp_path / "swapped"
    swapped.mkdir()
    swap_conventions(folder, swapped)
    scene, wrong = load_scene(str(folder)), load_scene(str(swapped))
    features = extract_all(scene.paths, features=200)
    matches = match(features, progress=False)

    check_cameras(scene.cameras, features, matches, "plain")
    with pytest.raises(NmfsyncError, match=r"swapped: the cameras do not fit .* were inverted"):
        check_cameras(wrong.cameras, features, matches, "swapped")
    transposed = replace(scene, cameras=tuple(replace(c, R=c.R.T) for c in scene.cameras))
    with pytest.raises(NmfsyncError, match="would if R were transposed"):
        check_cameras(transposed.cameras, features, matches, "plain")
    assert share_within_two_pixels(scene, features) > 0.3
    assert share_within_two_pixels(wrong, features) < 0.05
    assert share_within_two_pixels(transposed, features) < 0.05


def share_within_two_pixels(scene, features) -> float:
    """Of the mutual nearest neighbours of all neighbouring images."""
    near = []
    for i in range(len(features) - 1):
        a, b = features[i], features[i + 1]
        pairs = cv2.BFMatcher(crossCheck=True).match(a.descriptors, b.descriptors)
        p, q = np.array([(pair.queryIdx, pair.trainIdx) for pair in pairs]).T
        distance = epipolar_distance(scene.cameras[i], scene.cameras[i + 1], a.xy[p], b.xy[q])
        near.append(distance < 2)
    return float(np.concatenate(near).mean())


def swap_conventions(folder: Path, target: Path) -> None:
    """Copy a scene with R and the last vector of the other convention in its camera files."""
    for path in folder.iterdir():
        if path.suffix == ".camera":
            numbers = np.array(path.read_text().split(), dtype=float)
            R, centre = numbers[12:21].reshape(3, 3), numbers[21:24]
            numbers[12:24] = [*R.T.ravel(), *(-R.T @ centre)]
            (target / path.name).write_text(" ".join(map(repr, numbers.tolist())))
        elif path.name.endswith("_par.txt"):
            count, *lines = path.read_text().splitlines()
            (target / path.name).write_text("\n".join([count, *map(swapped_row, lines)]))
        elif path.suffix in (".jpg", ".png"):
            (target / path.name).symlink_to(path)


def swapped_row(line: str) -> str:
    image, *words = line.split()
    numbers = np.array(words, dtype=float)
    R, t = numbers[9:18].reshape(3, 3), numbers[18:]
    numbers[9:] = [*R.T.ravel(), *(-R.T @ t)]
    return " ".join([image, *map(repr, numbers.tolist())])
