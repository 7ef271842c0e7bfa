"""Depth maps in files beside the images: read, or named."""

from pathlib import Path

import cv2
import numpy as np
import pytest

import rendered
from builders import one_line
from nmfsync import NmfsyncError
from nmfsync.features.sift import extract
from nmfsync.matching.match import match
from nmfsync.scenes.images import look_at
from nmfsync.truth.depth_files import depth_maps_beside
from nmfsync.types.camera import Camera
from real_data import real_data

WALL = np.array([[10.0, 10.5, np.nan], [2.0, 10.0, 10.0]], dtype=np.float32)


@pytest.fixture
def pictures(tmp_path):
    """Two images of 3 × 2 pixels, and their cameras."""
    paths = [tmp_path / "a.jpg", tmp_path / "b.jpg"]
    for path in paths:
        cv2.imwrite(str(path), np.zeros((2, 3), np.uint8))
    return paths, [Camera(np.eye(3), np.eye(3), np.zeros(3), (3, 2))] * 2


def write_maps(paths, suffix: str, values: np.ndarray) -> None:
    for path in paths:
        file = str(path) + suffix if suffix.startswith(".depth") else str(path.with_suffix(suffix))
        if suffix.endswith(".npy"):
            np.save(file, values)
        else:
            assert cv2.imwrite(file, values)


def test_images_without_depth_maps(pictures):
    assert depth_maps_beside(*pictures) is None


@pytest.mark.parametrize("suffix", [".depth.npy", ".npy", ".depth.pfm", ".pfm"])
def test_depth_maps_beside_the_images(pictures, suffix):
    write_maps(pictures[0], suffix, WALL)
    truth = depth_maps_beside(*pictures)
    assert truth.kind == "depths (laser)"
    for depth in truth.maps:
        assert depth.dtype == np.float32
        np.testing.assert_array_equal(depth, WALL)


@pytest.mark.parametrize("suffix", [".depth.png", ".png"])
def test_depth_maps_of_whole_numbers_have_a_scale(pictures, suffix):
    write_maps(pictures[0], suffix, np.nan_to_num(WALL * 1000).astype(np.uint16))
    (pictures[0][0].parent / "depth_scale.txt").write_text("0.001\n")
    np.testing.assert_allclose(depth_maps_beside(*pictures).maps[1], WALL, rtol=1e-6)


@pytest.mark.parametrize("note", [None, "", "millimetres", "0", "nan", "1 2"])
def test_a_scale_that_is_missing_or_wrong(pictures, note):
    write_maps(pictures[0], ".depth.png", np.ones((2, 3), np.uint16))
    if note is not None:
        (pictures[0][0].parent / "depth_scale.txt").write_text(note)
    with pytest.raises(NmfsyncError, match=r"depth_scale\.txt.*the value 1") as error:
        depth_maps_beside(*pictures)
    one_line(error)


def test_a_picture_beside_the_image_is_no_depth_map(pictures):
    write_maps(pictures[0], ".png", np.ones((2, 3), np.uint8))
    assert depth_maps_beside(*pictures) is None


def test_an_image_is_not_its_own_depth_map(pictures):
    paths = [path.with_suffix(".png") for path in pictures[0]]
    write_maps(paths, ".png", np.ones((2, 3), np.uint16))
    (paths[0].parent / "depth_scale.txt").write_text("1")
    assert depth_maps_beside(paths, pictures[1]) is None


def test_zero_and_infinite_depths_are_holes(pictures):
    write_maps(pictures[0], ".npy", np.array([[0, -1, np.inf], [1, 2, 3.0]]))
    expected = np.array([[np.nan] * 3, [1, 2, 3]])
    np.testing.assert_array_equal(depth_maps_beside(*pictures).maps[0], expected)


def test_one_depth_map_missing_of_many(pictures):
    write_maps(pictures[0][:1], ".npy", WALL)
    with pytest.raises(NmfsyncError, match=r"b\.jpg: has no depth map, though 1 of the 2") as error:
        depth_maps_beside(*pictures)
    one_line(error)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (WALL.T, "has 2 × 3 pixels, but its image 3 × 2"),
        (np.ones((2, 3), np.int64), "values of type int64"),
        (np.stack([WALL] * 3), "contains 3 × 2 × 3 values"),
        (np.array([[None] * 3] * 2), "is no readable depth map"),
    ],
    ids=["size", "whole-numbers", "three-dimensions", "objects"],
)
def test_arrays_that_are_no_depth_maps(pictures, values, fault):
    write_maps(pictures[0], ".depth.npy", values)
    with pytest.raises(NmfsyncError, match=rf"a\.jpg\.depth\.npy: .*{fault}") as error:
        depth_maps_beside(*pictures)
    one_line(error)


def test_a_map_of_eight_bits(pictures):
    write_maps(pictures[0], ".depth.png", np.ones((2, 3), np.uint8))
    with pytest.raises(NmfsyncError, match=r"of type uint8; a depth map has .* 16-bit integers"):
        depth_maps_beside(*pictures)


@pytest.mark.parametrize("suffix", [".npy", ".pfm", ".exr", ".depth.png"])
@pytest.mark.parametrize("content", [b"", b"Pf\n3 2\n-1\nabc", b"\x93NUMPY\x01\x00"])
def test_a_damaged_file(pictures, suffix, content, capfd):
    for path in pictures[0]:
        path.with_name(
            path.name + suffix if suffix.startswith(".depth") else path.stem + suffix
        ).write_bytes(content)
    with pytest.raises(NmfsyncError, match=r"a\..*: is ") as error:
        depth_maps_beside(*pictures)
    one_line(error)


def test_an_exr_file_is_read_or_refused_in_one_line(pictures, monkeypatch):
    monkeypatch.setenv("OPENCV_IO_ENABLE_OPENEXR", "1")
    try:
        write_maps(pictures[0], ".exr", WALL)
    except cv2.error:  # OpenCV was built without EXR
        for path in pictures[0]:
            path.with_suffix(".exr").write_bytes(b"\x76\x2f\x31\x01\x02\x00\x00\x00")
        with pytest.raises(NmfsyncError, match=r"a\.exr: .*convert the depth maps to NPY or PFM"):
            depth_maps_beside(*pictures)
    else:
        np.testing.assert_array_equal(depth_maps_beside(*pictures).maps[0], WALL)


def test_written_depth_maps_of_the_rendered_scene(tmp_path):
    scene = rendered.scene()
    paths = rendered.write_epfl(tmp_path, scene, depth_maps=True)
    for read, depth in zip(depth_maps_beside(paths, scene.cameras).maps, scene.depths, strict=True):
        np.testing.assert_array_equal(read, depth)


def _epfl_camera(image: Path) -> Camera:
    values = np.array(Path(f"{image}.camera").read_text().split(), dtype=float)
    R = values[12:21].reshape(3, 3).T
    size = (int(values[24]), int(values[25]))
    calibrated = Camera(values[:9].reshape(3, 3), R, -R @ values[21:24], size)
    return calibrated.scaled_to(look_at(image).size)


def test_matches_of_fountain_move_onto_each_other():
    folder = real_data("epfl/fountain-P11")
    paths = sorted(folder.glob("*.jpg"))[2:5]
    truth = depth_maps_beside(paths, [_epfl_camera(path) for path in paths])
    assert truth is not None
    features = [extract(path, 1000) for path in paths]
    matches = match(features)
    for i, j in [(0, 1), (1, 2)]:
        a, b = matches.offsets[[i, j]]
        rows = matches.W[a : a + len(features[i].xy), b : b + len(features[j].xy)].tocoo()
        moved, valid = truth.transfer(i, j, features[i].xy[rows.row])
        error = np.linalg.norm(moved - features[j].xy[rows.col], axis=1)[valid]
        assert valid.mean() > 0.85
        assert np.median(error) < 0.5
        assert np.median(error[error < 8]) < 0.35  # without the wrong matches
