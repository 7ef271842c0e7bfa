"""Truth from depths: on hand-made rows of pixels, on a rendered scene, on real data."""

import itertools
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import rendered
from nmfsync.errors import NmfsyncError
from nmfsync.features.sift import extract
from nmfsync.matching.match import match
from nmfsync.scenes.images import image_size
from nmfsync.truth import mesh as mesh_module
from nmfsync.truth.depth_files import depth_maps_beside
from nmfsync.truth.depths import DepthMaps, FeatureDepths
from nmfsync.truth.mesh import render_mesh
from nmfsync.types.camera import Camera
from real_data import real_data

NONE = np.nan
SEEN_FROM = [(i, j) for i, j in itertools.permutations(range(7), 2) if abs(i - j) in (1, 3, 6)]


def row_camera(x: float, distortion=(0.0,) * 5) -> Camera:
    """Look along z from (x, 0, 0): a point at depth z moves by -100 Δx / z pixels."""
    K = np.array([[100.0, 0, 4], [0, 100.0, 0], [0, 0, 1]])
    return Camera(K, np.eye(3), np.array([-x, 0, 0]), (9, 1), distortion)


def row_maps(first, second, x: float = 0.1) -> DepthMaps:
    maps = [np.array([row], dtype=np.float32) for row in (first, second)]
    return DepthMaps((row_camera(0), row_camera(x)), maps)


def places(*x) -> np.ndarray:
    return np.array([[value, 0.0] for value in x])


# ---- depth maps by hand


def test_a_point_moves_by_its_disparity():
    moved, valid = row_maps([10] * 9, [10] * 9).transfer(0, 1, places(3, 4.5))
    np.testing.assert_allclose(moved, places(2, 3.5))
    assert valid.all()


def test_a_point_that_leaves_the_image_is_invalid():
    _, valid = row_maps([10] * 9, [10] * 9).transfer(0, 1, places(0, 0.4, 0.6, 1))
    assert valid.tolist() == [False, False, True, True]  # the image begins at -0.5


def test_a_point_outside_its_own_image_has_no_depth():
    truth = row_maps([10] * 9, [10] * 9)
    assert truth.transfer(1, 0, places(-0.6, -0.4, 8.6))[1].tolist() == [False, True, False]


def test_a_point_behind_the_other_camera_is_invalid():
    back = Camera(row_camera(0).K, np.diag([-1.0, 1, -1]), np.zeros(3), (9, 1))
    maps = [np.full((1, 9), 10, np.float32)] * 2
    _, valid = DepthMaps((row_camera(0), back), maps).transfer(0, 1, places(4))
    assert not valid.any()


def test_a_point_without_depth_is_invalid():
    truth = row_maps([10, 10, 10, NONE, NONE, 10, 10, 10, 10], [10] * 9)
    _, valid = truth.transfer(0, 1, places(2, 2.4, 2.6, 3, 4, 4.4, 4.6, 5))
    assert valid.tolist() == [True, True, False, False, False, False, True, True]


def test_between_two_pixels_of_a_depth_edge_there_is_no_depth():
    truth = row_maps([10, 10, 10, 10, 20, 20, 20, 20, 20], [10] * 9)
    _, valid = truth.transfer(0, 1, places(2.9, 3, 3.1, 3.5, 3.9))
    assert valid.tolist() == [True, True, False, False, False]


def test_what_lies_behind_a_nearer_surface_is_hidden():
    # The pixels 5 to 8 at depth 10 land on 4 to 7; image 1 has something nearer at 4 and 5.
    truth = row_maps([10] * 9, [10, 10, 10, 10, 5, 5, 10, 10, 10])
    _, valid = truth.transfer(0, 1, places(4, 5, 6, 7, 8))
    assert valid.tolist() == [True, False, False, True, True]


def test_depths_agree_within_one_percent():
    truth = row_maps([10] * 9, [10, 10, 10.09, 9.91, 10.12, 9.88, 10, 10, 10])
    _, valid = truth.transfer(0, 1, places(3, 4, 5, 6))
    assert valid.tolist() == [True, True, False, False]


def test_a_hole_of_the_other_map_cannot_be_judged():
    truth = row_maps([10] * 9, [10, 10, NONE, 10, 10, 10, 10, 10, 10])
    assert truth.transfer(0, 1, places(2, 3, 4))[1].tolist() == [True, False, True]


def test_interpolation_is_exact_on_a_tilted_plane():
    inverse = np.linspace(0.1, 0.11, 9)
    moved, valid = row_maps(1 / inverse, [NONE] * 9).transfer(0, 1, places(4.25))
    np.testing.assert_allclose(moved, places(4.25 - 10 * np.interp(4.25, range(9), inverse)))
    assert not valid.any()


def test_lens_distortion_is_honoured():
    cameras = (row_camera(0), row_camera(0, (10.0, 0, 0, 0, 0)))
    truth = DepthMaps(cameras, [np.full((1, 9), 10, np.float32)] * 2)
    # The radius is 0.03; the factor 1 + 10 · 0.03².
    np.testing.assert_allclose(truth.transfer(0, 1, places(7))[0], places(4 + 3 * 1.009))
    np.testing.assert_allclose(truth.transfer(1, 0, places(4 + 3 * 1.009))[0], places(7), atol=1e-4)


def test_no_points_are_no_fault():
    moved, valid = row_maps([10] * 9, [10] * 9).transfer(0, 1, np.empty((0, 2)))
    assert moved.shape == (0, 2)
    assert valid.shape == (0,)


def test_maps_that_do_not_fit_the_cameras():
    flat = np.full((1, 9), 10, np.float32)
    with pytest.raises(NmfsyncError, match="1 depth maps for 2 cameras"):
        DepthMaps((row_camera(0), row_camera(1)), [flat])
    with pytest.raises(NmfsyncError, match=r"of image 2: has 1 × 9 pixels, but its image 9 × 1"):
        DepthMaps((row_camera(0), row_camera(1)), [flat, flat.T])


# ---- the rendered scene


def _near_edge(scene: rendered.Rendered, i: int, xy: np.ndarray) -> np.ndarray:
    """Whether another surface (or none) shows within 1.5 pixels: the next pixels but one."""
    here = scene.surface_at(i, xy)
    ring = [(1.5 * np.cos(a), 1.5 * np.sin(a)) for a in np.arange(8) * np.pi / 4]
    return np.any([scene.surface_at(i, xy + step) != here for step in ring], axis=0)


def _random_pixels(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, np.array(rendered.SIZE) - 0.5, (4000, 2))


def test_transferred_points_are_right_to_half_a_pixel():
    scene = rendered.scene()
    truth = DepthMaps(scene.cameras, scene.depths)
    errors = []
    for i, j in SEEN_FROM:
        xy = _random_pixels(i)
        moved, valid = truth.transfer(i, j, xy)
        exact, visible = scene.transfer(i, j, xy)
        errors.append(np.linalg.norm(moved - exact, axis=1)[valid & visible])
    errors = np.concatenate(errors)
    assert len(errors) > 30_000
    assert errors.max() < 0.5
    assert np.quantile(errors, 0.95) < 0.02


def test_hidden_points_are_told_from_visible_ones():
    """Right are valid and visible, or neither; points that show no surface do not count."""
    scene = rendered.scene()
    truth = DepthMaps(scene.cameras, scene.depths)
    right, known, clear, visible = [], [], [], []
    for i, j in SEEN_FROM:
        xy = _random_pixels(i)
        xy = xy[scene.surface_at(i, xy) >= 0]
        exact, sees = scene.transfer(i, j, xy)
        right.append(truth.transfer(i, j, xy)[1] == sees)
        known.append(truth.transfer(i, i, xy)[1])
        clear.append(~_near_edge(scene, i, xy) & ~_near_edge(scene, j, exact))
        visible.append(sees)
    right, known, clear, visible = map(np.concatenate, (right, known, clear, visible))
    assert right[known].mean() > 0.99
    assert right[clear].mean() > 0.9999
    assert right[~visible].mean() > 0.95
    # Beside a depth edge of image i no depth is known, which here counts as a fault.
    assert right.mean() > 0.975
    # There must be something to tell apart.
    assert clear.mean() < 0.95
    assert (~visible).mean() > 0.05


def test_the_pixels_themselves_have_their_own_depth():
    scene = rendered.scene()
    truth = DepthMaps(scene.cameras, scene.depths)
    right = []
    for i, j in SEEN_FROM:
        xy = np.rint(_random_pixels(i)).clip(0, np.array(rendered.SIZE) - 1)
        right.append(truth.transfer(i, j, xy)[1] == scene.transfer(i, j, xy)[1])
    assert np.mean(right) > 0.99


# ---- depths at features


def feature_depths(second_xy, second_depth) -> FeatureDepths:
    xy = [places(3, 6), np.asarray(second_xy, dtype=float)]
    depth = [np.array([10.0, NONE]), np.asarray(second_depth, dtype=float)]
    return FeatureDepths((row_camera(0), row_camera(0.1)), xy, depth)


def test_a_feature_moves_at_its_depth():
    moved, valid = feature_depths(places(7), [10]).transfer(0, 1, places(3, 3.0005, 6, 4))
    np.testing.assert_allclose(moved[:2], places(2, 2.0005))
    # Neither a feature without depth nor a point that is no feature can be judged.
    assert valid.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("x", "depth", "visible"),
    [(4, 9.0, False), (4, 9.8, True), (4, 12.0, True), (4, NONE, True), (5.5, 5.0, True)],
    ids=["nearer", "about-as-near", "behind", "unknown", "elsewhere"],
)
def test_a_feature_is_hidden_by_a_nearer_one(x, depth, visible):
    truth = feature_depths(places(x), [depth])
    assert truth.transfer(0, 1, places(3))[1].tolist() == [visible]


def test_a_feature_behind_the_other_camera_is_invalid():
    back = Camera(row_camera(0).K, np.diag([-1.0, 1, -1]), np.zeros(3), (9, 1))
    truth = FeatureDepths((row_camera(0), back), [places(4)] * 2, [np.array([10.0])] * 2)
    assert not truth.transfer(0, 1, places(4))[1].any()


def test_images_without_features():
    truth = FeatureDepths(
        (row_camera(0), row_camera(0.1)), [np.empty((0, 2)), places(3)], [np.empty(0), np.ones(1)]
    )
    assert truth.transfer(0, 1, places(3))[1].tolist() == [False]
    assert truth.transfer(1, 0, np.empty((0, 2)))[1].shape == (0,)


def test_depths_that_do_not_fit_the_features():
    with pytest.raises(NmfsyncError, match="image 2 has 1 features, but 2 depths"):
        feature_depths(places(3), [10, 10])
    with pytest.raises(NmfsyncError, match="2 cameras, but features of 1 images"):
        FeatureDepths((row_camera(0), row_camera(1)), [places(3)], [np.ones(1)])


def test_features_of_the_rendered_scene_move_as_they_should():
    scene = rendered.scene()
    xy = [extract(image, 400).xy for image in scene.images]
    exact_depths = [scene.depth_at(i, place) for i, place in enumerate(xy)]
    moved, valid = FeatureDepths(scene.cameras, xy, exact_depths).transfer(1, 4, xy[1])
    exact, visible = scene.transfer(1, 4, xy[1])
    assert valid.sum() > 200
    np.testing.assert_allclose(moved[valid], exact[valid], atol=1e-6)
    assert (valid & visible).sum() > 0.97 * visible.sum()


# ---- depth maps in files

WALL = np.array([[10.0, 10.5, NONE], [2.0, 10.0, 10.0]], dtype=np.float32)


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


def one_line(error: pytest.ExceptionInfo) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


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
    expected = np.array([[NONE] * 3, [1, 2, 3]])
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


# ---- meshes


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
    monkeypatch.setattr(mesh_module, "_RAYS_AT_ONCE", 7 * 320)  # 240 is no multiple of 7
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
def test_a_mesh_that_is_missing(tmp_path):
    with pytest.raises(NmfsyncError, match=r"scene\.ply: no such file"):
        render_mesh(tmp_path / "scene.ply", rendered.scene().cameras)


def test_a_mesh_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(NmfsyncError, match=r"pip install \"nmfsync\[mesh\]\"") as error:
        render_mesh(tmp_path / "scene.ply", rendered.scene().cameras)
    one_line(error)


# ---- real data


def _epfl_camera(image: Path) -> Camera:
    values = np.array(Path(f"{image}.camera").read_text().split(), dtype=float)
    R = values[12:21].reshape(3, 3).T
    size = (int(values[24]), int(values[25]))
    calibrated = Camera(values[:9].reshape(3, 3), R, -R @ values[21:24], size)
    return calibrated.scaled_to(image_size(image))


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


@pytest.mark.usefixtures("ray_casting")
def test_the_point_cloud_of_dino_is_no_mesh():
    cloud = real_data("middlebury/dinoSparseRing/dinoSparseRing-pmvs.ply")
    with pytest.raises(NmfsyncError, match="contains points but no triangles") as error:
        render_mesh(cloud, rendered.scene().cameras)
    one_line(error)
