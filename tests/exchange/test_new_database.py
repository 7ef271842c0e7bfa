"""New COLMAP databases and files of hloc: both kinds of mapper read them at once."""

import hashlib
import sqlite3
from contextlib import closing
from itertools import combinations

import numpy as np
import pytest
from PIL import ExifTags, Image

from colmap_scenes import POINTS, map_images, write_database
from nmfsync import NmfsyncError, PairwiseMatches
from nmfsync.exchange.new_database import CameraPrior, NewImage, pinhole, write_new_database
from nmfsync.exchange.new_hloc import write_new_hloc
from nmfsync.types.camera import Camera
from nmfsync.types.matches import StoredKeypoints

pycolmap = pytest.importorskip("pycolmap")


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """Six views of 300 points, with the right matches."""
    path = tmp_path_factory.mktemp("views") / "views.db"
    write_database(path, wrong=0, columns=4)
    matches = PairwiseMatches.from_colmap(path)
    images = [
        NewImage(name, (640, 480), None, keypoints, np.full((len(keypoints.xy), 128), 9, np.uint8))
        for name, keypoints in zip(matches.source.names, matches.source.keypoints(), strict=True)
    ]
    return images, matches


def rows(path, query):
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchall()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def keypoints_of(n, size=(60, 50)):
    empty = np.zeros(n, np.float32)
    return StoredKeypoints(np.zeros((n, 2), np.float32), empty, empty + np.nan, size)


def test_both_mappers_register_every_image(views, tmp_path):
    path = tmp_path / "new" / "model.db"
    write_new_database(path, *views)
    (model,) = map_images(path, tmp_path)
    assert model.num_reg_images() == len(views[0])
    assert model.compute_mean_reprojection_error() < 1
    options = pycolmap.GlobalPipelineOptions(random_seed=0)
    (model,) = pycolmap.global_mapping(path, tmp_path, tmp_path, options).values()
    assert model.num_reg_images() == len(views[0])


def test_the_same_input_gives_the_same_bytes(views, tmp_path):
    for name in ("a.db", "b.db"):
        write_new_database(tmp_path / name, *views)
    assert digest(tmp_path / "a.db") == digest(tmp_path / "b.db")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db", "b.db"]


def test_every_geometry_has_our_matches_and_a_pose(views, tmp_path):
    images, matches = views
    write_new_database(tmp_path / "a.db", images, matches)
    found = rows(tmp_path / "a.db", "SELECT rows, config, qvec, tvec FROM two_view_geometries")
    assert [n for n, *_ in found] == [len(b.rows) for b in matches.by_image_pair()]
    assert {config for _, config, *_ in found} <= {2, 3, 4, 5, 6}
    assert all(q and t for *_, q, t in found)
    back = PairwiseMatches.from_colmap(tmp_path / "a.db")
    assert abs(back.W - matches.W).nnz == 0
    for old, new in zip(images, back.source.keypoints(), strict=True):
        np.testing.assert_allclose(new.xy, old.keypoints.xy, atol=1e-4)
    data = rows(tmp_path / "a.db", "SELECT rows, cols, data FROM descriptors")
    assert {(n, columns) for n, columns, _ in data} == {(POINTS + 20, 128)}
    assert set(data[0][2]) == {9}


def test_a_written_copy_has_poses_too(tmp_path):
    write_database(tmp_path / "old.db", wrong=0, pairs=[(0, 1), (1, 2), (0, 2)])
    PairwiseMatches.from_colmap(tmp_path / "old.db").to_colmap(tmp_path / "a.db", verify=False)
    found = rows(tmp_path / "a.db", "SELECT config, qvec FROM two_view_geometries")
    assert len(found) == 3
    assert all(config in (2, 3, 4, 5, 6) and pose for config, pose in found)


def test_few_matches_get_a_kind_of_geometry_that_the_mapper_takes(tmp_path):
    matches = PairwiseMatches.from_entries([0, 1], [3, 4], sizes=[3, 2])
    images = [NewImage(f"{n}.jpg", (60, 50), None, keypoints_of(s)) for n, s in ((0, 3), (1, 2))]
    write_new_database(tmp_path / "a.db", images, matches)
    assert rows(tmp_path / "a.db", "SELECT rows, config FROM two_view_geometries") == [(2, 3)]
    assert rows(tmp_path / "a.db", "SELECT count(*) FROM descriptors") == [(0,)]


def photograph(path, exif, size=(60, 50)):
    noise = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    content = Image.Exif()
    inner = content.get_ifd(ExifTags.IFD.Exif)
    for name, value in exif.items():
        tag = ExifTags.Base[name]
        (inner if name.startswith("Focal") else content)[tag] = value
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(noise).save(path, exif=content)
    return path


def test_cameras_are_those_that_colmap_takes(tmp_path):
    phone = {"FocalLengthIn35mmFilm": 28, "Make": "A", "Model": "B"}
    cases = {
        "a.jpg": phone, "turned.jpg": {**phone, "Orientation": 6}, "sub/c é.jpg": phone,
        "longer.jpg": {**phone, "FocalLengthIn35mmFilm": 50}, "plain.jpg": {}, "plain2.jpg": {},
    }  # fmt: skip
    folder = tmp_path / "photographs"
    folder.mkdir()
    paths = {name: photograph(folder / name, exif) for name, exif in cases.items()}
    images = [NewImage(n, (60, 50), None, keypoints_of(1), None, p) for n, p in paths.items()]
    images.append(NewImage("gone.jpg", (50, 60), None, keypoints_of(1), None, folder / "gone.jpg"))
    matches = PairwiseMatches.from_entries([], [], sizes=[1] * len(images))
    write_new_database(tmp_path / "ours.db", images, matches)
    pycolmap.Database.open(tmp_path / "theirs.db").close()
    pycolmap.import_images(tmp_path / "theirs.db", folder, pycolmap.CameraMode.AUTO)
    query = (
        "SELECT name, model, width, height, params, prior_focal_length FROM images "
        "JOIN cameras USING (camera_id) WHERE name != 'gone.jpg' ORDER BY name"
    )
    assert rows(tmp_path / "ours.db", query) == rows(tmp_path / "theirs.db", query)
    shared = dict(rows(tmp_path / "ours.db", "SELECT name, camera_id FROM images"))
    assert shared["a.jpg"] == shared["turned.jpg"] == shared["sub/c é.jpg"]
    assert len(set(shared.values())) == len(images) - 2
    (gone,) = rows(tmp_path / "ours.db", "SELECT params, prior_focal_length FROM cameras "
                   f"WHERE camera_id = {shared['gone.jpg']}")  # fmt: skip
    assert np.frombuffer(gone[0]).tolist() == [72, 25, 30, 0]
    assert gone[1] == 0
    assert {path.suffix for path in folder.iterdir()} == {".jpg", ""}


def test_a_known_camera_is_written_as_it_is(tmp_path):
    K = np.array([[70.0, 0, 29.5], [0, 71, 24.5], [0, 0, 1]])
    camera = Camera(K, np.eye(3), np.zeros(3), (60, 50))
    lens = Camera(K, np.eye(3), np.zeros(3), (60, 50), (0.1, 0.2, 0.3, 0.4, 0))
    assert pinhole(camera) == CameraPrior("PINHOLE", (70, 71, 30, 25))
    assert pinhole(lens) == CameraPrior("OPENCV", (70, 71, 30, 25, 0.1, 0.2, 0.3, 0.4))
    images = [NewImage(f"{n}.jpg", (60, 50), pinhole(camera), keypoints_of(1)) for n in range(3)]
    write_new_database(tmp_path / "a.db", images, PairwiseMatches.from_entries([], [], [1] * 3))
    ((model, parameters, prior),) = rows(
        tmp_path / "a.db", "SELECT model, params, prior_focal_length FROM cameras"
    )
    assert (model, prior) == (1, 1)
    assert np.frombuffer(parameters).tolist() == [70, 71, 30, 25]


def test_what_does_not_belong_together_is_refused(views, tmp_path):
    images, matches = views
    with pytest.raises(NmfsyncError, match=r"2 images have the name view0\.jpg"):
        write_new_database(tmp_path / "a.db", [images[0], *images[:-1]], matches)
    with pytest.raises(NmfsyncError, match="other features than the matches"):
        write_new_database(tmp_path / "a.db", images[:-1], matches)
    write_new_database(tmp_path / "a.db", images, matches)
    with pytest.raises(NmfsyncError, match="exists already"):
        write_new_database(tmp_path / "a.db", images, matches)


def test_files_of_hloc_are_read_as_they_were_written(views, tmp_path):
    images, matches = views
    folder = tmp_path / "hloc"
    write_new_hloc(folder, images, matches)
    back = PairwiseMatches.from_hloc(folder / "matches.h5", folder / "features.h5")
    assert abs(back.W - matches.W).nnz == 0
    for old, new in zip(images, back.source.keypoints(), strict=True):
        np.testing.assert_array_equal(new.xy, old.keypoints.xy)
        assert new.image_size == (640, 480)
    lines = (folder / "pairs.txt").read_text().splitlines()
    names = [image.name for image in images]
    assert [tuple(line.split()) for line in lines] == list(combinations(names, 2))


@pytest.mark.parametrize(
    ("name", "fault"), [("a-b.jpg", "cannot distinguish"), ("c d.jpg", "has a space")]
)
def test_names_that_hloc_cannot_write_are_refused(name, fault, tmp_path):
    images = [NewImage(n, (60, 50), None, keypoints_of(1)) for n in ("a/b.jpg", name)]
    with pytest.raises(NmfsyncError, match=fault):
        write_new_hloc(tmp_path, images, PairwiseMatches.from_entries([], [], [1, 1]))
