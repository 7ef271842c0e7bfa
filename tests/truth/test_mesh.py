"""Depths of meshes, against those of the rendered scene."""

import sys
from pathlib import Path

import numpy as np
import pytest

import rendered
from builders import one_line
from nmfsync import NmfsyncError
from nmfsync.runtime.files import sha256_of
from nmfsync.truth import mesh as mesh_module
from nmfsync.truth.mesh import render_mesh
from nmfsync.types.camera import Camera
from real_data import real_data


@pytest.fixture
def ray_casting():
    pytest.importorskip("trimesh", reason="needs the extra `mesh`")
    pytest.importorskip("embreex", reason="needs the extra `mesh`")


@pytest.mark.usefixtures("ray_casting")
@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_a_mesh_renders_to_the_depths_of_its_surfaces(tmp_path, suffix):
    scene = rendered.scene()
    path = tmp_path / "scene.ply"
    rendered.write_mesh(path)
    if suffix == ".obj":
        path = _as_obj(path)
    maps = render_mesh(path, scene.cameras[::3]).maps
    for depth, exact in zip(maps, scene.depths[::3], strict=True):
        assert (np.isfinite(depth) == np.isfinite(exact)).mean() > 0.9995
        difference = np.abs(depth / exact - 1)[np.isfinite(depth) & np.isfinite(exact)]
        assert np.quantile(difference, 0.5) < 1e-6  # the board is exact
        assert np.quantile(difference, 0.99) < 1e-3  # the spheres have flat faces


def _as_obj(ply: Path) -> Path:
    lines = ply.read_text().split("end_header\n")[1].splitlines()
    faces = [line.split()[1:] for line in lines if line.startswith("3 ") and line.count(".") == 0]
    points = lines[: len(lines) - len(faces)]
    path = ply.with_suffix(".obj")
    with path.open("w") as file:
        file.write("mtllib colours.mtl\nusemtl none\n")  # a file that need not be there
        file.writelines(f"v {point}\n" for point in points)
        file.writelines("f {} {} {}\n".format(*(int(p) + 1 for p in face)) for face in faces)
    return path


@pytest.mark.usefixtures("ray_casting")
def test_far_from_the_origin_nothing_is_lost(tmp_path):
    scene = rendered.scene()
    far = np.array([3.5e6, 5.4e6, 400.0])  # metres, as on a map
    rendered.write_mesh(tmp_path / "far.ply", far)
    camera = scene.cameras[3]
    moved = Camera(camera.K, camera.R, camera.t - camera.R @ far, camera.size)
    depth = render_mesh(tmp_path / "far.ply", [moved]).maps[0]
    assert np.nanquantile(np.abs(depth / scene.depths[3] - 1), 0.5) < 1e-5


@pytest.mark.usefixtures("ray_casting")
def test_blocks_of_rays_make_no_difference(tmp_path, monkeypatch):
    rendered.write_mesh(tmp_path / "scene.ply", steps=12)
    cameras = rendered.scene().cameras[:1]
    whole = render_mesh(tmp_path / "scene.ply", cameras).maps[0]
    monkeypatch.setattr(mesh_module, "RAYS_AT_ONCE", 7 * 320)  # 240 is no multiple of 7
    np.testing.assert_array_equal(render_mesh(tmp_path / "scene.ply", cameras).maps[0], whole)


@pytest.mark.usefixtures("ray_casting")
def test_a_mesh_elsewhere(tmp_path):
    rendered.write_mesh(tmp_path / "scene.ply", shift=(100, 0, 0), steps=12)
    with pytest.raises(NmfsyncError, match="same coordinate system") as error:
        render_mesh(tmp_path / "scene.ply", rendered.scene().cameras)
    assert "scene.ply: covers less than 1%" in one_line(error)


@pytest.mark.usefixtures("ray_casting")
@pytest.mark.parametrize("name", ["scene.ply", "scene.obj", "scene.xyz123"])
@pytest.mark.parametrize("content", [b"", b"hello"])
def test_a_file_that_is_no_mesh(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NmfsyncError, match=name) as error:
        render_mesh(tmp_path / name, rendered.scene().cameras)
    one_line(error)


@pytest.mark.usefixtures("ray_casting")
def test_a_mesh_that_has_changed(tmp_path):
    path = tmp_path / "scene.ply"
    rendered.write_mesh(path, steps=12)
    before = sha256_of(path)
    render_mesh(path, rendered.scene().cameras[:1], before)
    rendered.write_mesh(path, steps=6)
    with pytest.raises(NmfsyncError, match=r"scene\.ply: has changed while it was used"):
        render_mesh(path, rendered.scene().cameras[:1], before)


@pytest.mark.usefixtures("ray_casting")
def test_a_mesh_that_is_missing(tmp_path):
    with pytest.raises(NmfsyncError, match=r"scene\.ply: no such file"):
        render_mesh(tmp_path / "scene.ply", rendered.scene().cameras)


def test_a_mesh_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(NmfsyncError, match=r"pip install \"nmfsync\[mesh\]\"") as error:
        render_mesh(tmp_path / "scene.ply", rendered.scene().cameras)
    one_line(error)


@pytest.mark.usefixtures("ray_casting")
def test_the_point_cloud_of_dino_is_no_mesh():
    cloud = real_data("middlebury/dinoSparseRing/dinoSparseRing-pmvs.ply")
    with pytest.raises(NmfsyncError, match="contains points but no triangles") as error:
        render_mesh(cloud, rendered.scene().cameras)
    one_line(error)
