"""Depth maps and meshes that are damaged: one line, never another error or a hang."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings

import strategies
from builders import NO_FILES, no_file, result_or_line
from nmfsync.truth.depth_files import depth_maps_beside
from nmfsync.truth.depths import DepthMaps
from nmfsync.truth.mesh import mesh_beside, render_mesh
from nmfsync.types.camera import Camera

CAMERA = Camera(np.diag([3.0, 3.0, 1.0]), np.eye(3), np.zeros(3), (3, 2))
WALL = np.full((2, 3), 2.5, np.float32)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "a.jpg"
    cv2.imwrite(str(path), np.zeros((2, 3), np.uint8))
    return path


def depth_maps(image):
    return depth_maps_beside([image], [CAMERA])


def write_map(image, suffix):
    path = image.with_name(f"a.jpg.depth{suffix}")
    if suffix == ".npy":
        np.save(path, WALL)
    else:
        cv2.imwrite(str(path), WALL if suffix == ".pfm" else WALL.astype(np.uint16))
        image.with_name("depth_scale.txt").write_text("0.5")
    return path


@pytest.mark.parametrize("suffix", [".npy", ".pfm", ".png"])
def test_damaged_anywhere(image, suffix):
    path = write_map(image, suffix)
    sound = path.read_bytes()
    assert isinstance(depth_maps(image), DepthMaps)

    @settings(max_examples=100, derandomize=True, database=None)
    @given(strategies.damaged(sound))
    def check(content):
        path.write_bytes(content)
        maps = result_or_line(depth_maps, image)
        assert isinstance(maps, DepthMaps) or f"{path}: " in maps

    check()


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("suffix", [".npy", ".pfm", ".png", "scale"])
def test_no_file_at_all(image, kind, suffix):
    path = write_map(image, ".png" if suffix == "scale" else suffix)
    no_file(image.with_name("depth_scale.txt") if suffix == "scale" else path, kind)
    maps = result_or_line(depth_maps, image)
    if maps is None:  # exactly as if there were no depth map
        assert kind in ("nothing", "broken link", "circular link")
    else:
        assert f"{image.parent}/" in maps


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 3), np.complex64),
        np.ones((2, 3), "V4"),
        np.full((2, 3), "a"),
        np.ones((2, 3), [("z", "f4")]),
        np.full((2, 3), 1.0, "O"),
        np.ones((0, 3)),
        np.ones(()),
        np.ones((3, 2)),
        np.ones((2, 3), "M8[s]"),
    ],
)
def test_arrays_that_are_no_depths(image, array):
    np.save(image.with_name("a.npy"), array, allow_pickle=True)
    assert "a.npy: " in result_or_line(depth_maps, image)


@pytest.mark.parametrize("shape", [(10**8, 10**8), (2**62, 4), (-1, 3), (10**6, 10**6), (2, 3, 9)])
def test_headers_that_claim_too_much(image, shape):
    with image.with_name("a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"shape": shape, "fortran_order": False, "descr": "<f4"}
        )
        file.write(bytes(24))
    assert "a.npy: " in result_or_line(depth_maps, image)


def test_depths_beyond_single_precision_are_no_surface(image):
    np.save(image.with_name("a.npy"), np.array([[1e300, -1e300, 1], [np.inf, np.nan, 0]]))
    assert np.isfinite(depth_maps(image).maps[0]).tolist() == [[False, False, True], [False] * 3]


# --- Meshes

OBJ = """\
mtllib secret.mtl
v -9 -9 2
v 9 -9 2
v 0 9 2
usemtl m
f 1 2 3
"""
PLY = """\
ply
format ascii 1.0
comment TextureFile secret.png
element vertex 3
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
-9 -9 2
9 -9 2
0 9 2
3 0 1 2
"""


def mesh_depths(path):
    found = mesh_beside(path.parent)
    return None if found is None else render_mesh(found, [CAMERA])


@pytest.fixture(params=[".obj", ".ply"])
def mesh(request, tmp_path):
    pytest.importorskip("trimesh", reason="needs the extra `mesh`")
    pytest.importorskip("embreex", reason="needs the extra `mesh`")
    path = tmp_path / f"m{request.param}"
    path.write_text(OBJ if request.param == ".obj" else PLY)
    return path


def test_a_mesh_damaged_anywhere(mesh):
    sound = mesh.read_bytes()
    assert isinstance(mesh_depths(mesh), DepthMaps)

    @settings(max_examples=100, derandomize=True, database=None)
    @given(strategies.damaged(sound))
    def check(content):
        mesh.write_bytes(content)
        maps = result_or_line(mesh_depths, mesh)
        assert maps is None or isinstance(maps, DepthMaps) or f"{mesh}: " in maps

    check()


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_mesh_at_all(mesh, kind):
    no_file(mesh, kind)
    maps = result_or_line(mesh_depths, mesh)
    assert maps is None if kind == "nothing" else f"{mesh}: " in maps


def test_other_files_that_a_mesh_names_are_not_read(mesh):
    """Opening a pipe would wait for ever."""
    for name in ("secret.mtl", "secret.png"):
        no_file(mesh.with_name(name), "pipe")
    assert isinstance(mesh_depths(mesh), DepthMaps)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("9 -9 2", "nan nan nan"), ("9 -9 2", "1e300 1e300 1e300"), ("1 2 3", "1 2 900"),
        ("0 1 2", "0 1 900"), ("face 1", "face 1000000000000"), ("face 1", "face " + "9" * 5000),
        ("vertex 3", "vertex 99999999999"), ("1 2 3", "-1 -2 -3000"), ("0 1 2", "0 1 -1"),
    ],
)  # fmt: skip
def test_odd_meshes(mesh, old, new):
    mesh.write_text(mesh.read_text().replace(old, new))
    maps = result_or_line(mesh_depths, mesh)
    assert maps is None or isinstance(maps, DepthMaps) or f"{mesh}: " in maps
