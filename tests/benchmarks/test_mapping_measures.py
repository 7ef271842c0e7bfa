"""What the benchmark of mapping measures by: alignment, dropped matches, and tables."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks.mapping import Model, Pose, drop_matches, nearest_rotation, pose_errors, read_poses
from benchmarks.mapping_tables import (
    Results,
    RunKey,
    broken,
    failures,
    mean_ratio,
    summary,
    with_table,
)
from benchmarks.mapping_ways import Prepared


def some_poses(rng: np.random.Generator) -> dict[str, Pose]:
    turns = Rotation.random(6, random_state=rng).as_matrix()
    return {f"{n}.jpg": Pose(turns[n], rng.normal(size=3)) for n in range(6)}


def moved(poses: dict[str, Pose], R: np.ndarray, scale: float) -> dict[str, Pose]:
    """The same cameras in another frame of the world."""
    return {name: Pose(pose.R @ R.T, scale * R @ pose.centre + 1) for name, pose in poses.items()}


def test_alignment_undoes_a_similarity() -> None:
    rng = np.random.default_rng(0)
    truth = some_poses(rng)
    found = moved(truth, Rotation.random(random_state=rng).as_matrix(), 3.0)
    assert pose_errors(found, truth) == pytest.approx((0, 0), abs=1e-4)


def test_errors_are_relative_to_all_true_centres() -> None:
    grid = [(0, 0, 1), (0, 0, -1), (2, 0, 0), (-2, 0, 0)]
    truth = {f"{n}": Pose(np.eye(3), np.array(c, float)) for n, c in enumerate(grid)}
    quarter = Rotation.from_euler("y", 40, degrees=True).as_matrix()
    # Two cameras nearer to the middle: the scale is 9/10 of the others' and 18/10 of theirs.
    found = dict(truth) | {n: Pose(np.eye(3), truth[n].centre / 2) for n in ("0", "1")}
    scale = (2 * 1 / 2 + 2 * 4) / (2 / 4 + 8)
    errors = [1 - scale / 2, 2 * scale - 2]
    camera, rotation = pose_errors(found, truth)
    assert camera == pytest.approx(100 * np.mean(errors) / np.sqrt(2.5))
    assert rotation == pytest.approx(0, abs=1e-4)
    found["0"] = Pose(quarter, found["0"].centre)
    assert pose_errors(found, truth)[1] > 10
    assert np.isnan(pose_errors(dict(list(truth.items())[:2]), truth)).all()


def test_a_mirror_image_is_no_rotation() -> None:
    rotation, values = nearest_rotation(np.diag([3.0, 2.0, -1.0]))
    assert np.linalg.det(rotation) == pytest.approx(1)
    assert values.sum() == pytest.approx(4)


def test_poses_are_read() -> None:
    poses = read_poses("# head\na.jpg 1 0 0 0 1 0 0 0 1 4 5 6\n")
    assert poses["a.jpg"].centre.tolist() == [4, 5, 6]
    assert np.array_equal(poses["a.jpg"].R, np.eye(3))


def test_drops_a_share_of_the_verified_matches(tmp_path) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    rows = np.stack([np.arange(2000)] * 2, axis=1).astype(np.uint32)
    database, copies = tmp_path / "a.db", [tmp_path / f"{n}.db" for n in range(3)]
    with pycolmap.Database.open(database) as opened:
        camera = pycolmap.Camera.create_from_model_name(1, "SIMPLE_RADIAL", 100, 100, 100)
        opened.write_camera(camera)
        for n in (1, 2):
            image = pycolmap.Image(name=f"{n}.jpg", camera_id=1, image_id=n)
            opened.write_image(image, True)
            opened.write_keypoints(n, np.zeros((2000, 2), np.float32))
        geometry = pycolmap.TwoViewGeometry()
        geometry.config, geometry.inlier_matches = 3, rows
        opened.write_two_view_geometry(1, 2, geometry)
    for copy, seed in zip(copies, (0, 0, 1), strict=True):
        drop_matches(database, copy, 0.01, seed)
    left = []
    for copy in copies:
        with pycolmap.Database.open(copy) as opened:
            geometry = opened.read_two_view_geometry(1, 2)
        assert geometry.config == 3
        left.append({tuple(row) for row in geometry.inlier_matches.tolist()})
    assert left[0] == left[1] != left[2]
    assert left[0] < {tuple(row) for row in rows.tolist()}
    assert 1960 < len(left[0]) < 1995


def results() -> Results:
    """Two scenes, of which COLMAP folds the second; ours has more observations."""
    made = {way: Prepared(3, 10, 1.0, way, "") for way in ("colmap", "run")}
    runs = {}
    for scene, camera in (("a/whole", 1.0), ("a/folded", 100.0)):
        for way, observations, error in (("colmap", 1000, camera), ("run", 1200, 2.0)):
            for seed in range(2):
                runs[RunKey(scene, way, "incremental", seed)] = Model(
                    1, 5, 300, observations, 0, 0, 3.0, 0.5, error, 0.1, 1.0
                )
    return Results(["a/whole", "a/folded"], dict.fromkeys(["a/whole", "a/folded"], made), runs)


def test_scenes_that_colmap_folds_are_left_out_of_means() -> None:
    assert mean_ratio(results(), "run", "observations") == pytest.approx(1.2)
    assert mean_ratio(results(), "run", "camera") == pytest.approx(2)
    assert "+100 %" in summary(results())


def test_says_what_fails_and_where() -> None:
    assert failures(results()) == ["a/whole, run: camera error +100 %"]
    lost = results()
    key = RunKey("a/folded", "run", "incremental", 1)
    lost.runs[key] = Model(2, 4, 300, 1000, 0, 0, 3.0, 0.5, 2.0, 0.1, 1.0)
    assert failures(lost)[1] == "a/folded, run: an image lost or a model split"
    assert broken(lost) == ["a/folded, run"]
    assert broken(results()) == []


def test_tables_replace_those_between_their_comments() -> None:
    page = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n"
    new = with_table(page, "x", "| new |")
    assert new == "a\n<!-- x: begin -->\n\n| new |\n\n<!-- x: end -->\nb\n"
    assert with_table(new, "x", "| new |") == new
    with pytest.raises(ValueError, match="no <!-- y: begin"):
        with_table(page, "y", "")
