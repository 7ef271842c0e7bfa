"""Distances to epipolar lines, and what they say about cameras."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from builders import make_features
from nmfsync import extract_all, load_scene, match
from nmfsync.errors import NmfsyncError, NmfsyncWarning, collected_warnings
from nmfsync.scenes.catalogue import scene_names
from nmfsync.truth.epipolar import check_cameras, check_homographies, epipolar_distance
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import PairwiseMatches
from nmfsync.types.truth import Homographies
from real_data import real_data

ARRAYS = ("xy", "descriptors", "scale", "orientation")

K = np.array([[100.0, 0, 50], [0, 100, 50], [0, 0, 1]])
LEFT = Camera(K, np.eye(3), np.zeros(3), (101, 101))
# One unit to the right of LEFT: epipolar lines are the rows of the image.
RIGHT = Camera(K, np.eye(3), np.array([-1.0, 0, 0]), (101, 101))


def test_in_a_rectified_pair_the_distance_is_the_difference_of_the_rows():
    xy_a = np.array([[60.0, 20], [60, 20], [10, 90]])
    xy_b = np.array([[30.0, 20], [90, 23], [70, 85]])
    assert np.allclose(epipolar_distance(LEFT, RIGHT, xy_a, xy_b), [0, 3, 5], atol=1e-12)


def test_both_sides_count_in_the_pixels_of_their_own_image():
    zoomed = replace(RIGHT, K=np.array([[300.0, 0, 50], [0, 300, 50], [0, 0, 1]]))
    # Row 52 of LEFT is row 56 of the zoomed image, and its row 59 is row 53 of LEFT.
    distance = epipolar_distance(LEFT, zoomed, np.array([[50.0, 52]]), np.array([[50.0, 59]]))
    assert np.allclose(distance, (3 + 1) / 2)
    swapped = epipolar_distance(zoomed, LEFT, np.array([[50.0, 59]]), np.array([[50.0, 52]]))
    assert np.allclose(distance, swapped)


def test_distortion_is_removed_first():
    bent = replace(RIGHT, distortion=(-0.2, 0.05, 0.0, 0.0, 0.0))
    points = np.array([[-1.0, 1, 4], [1, -1.2, 3], [2, 2, 5]])
    xy_a, xy_b = LEFT.project(points)[0], bent.project(points)[0]
    assert epipolar_distance(LEFT, bent, xy_a, xy_b).max() < 1e-3
    assert epipolar_distance(LEFT, RIGHT, xy_a, xy_b).max() > 0.5


def test_cameras_at_one_place_have_no_epipolar_lines():
    distance = epipolar_distance(LEFT, LEFT, np.array([[1.0, 2]]), np.array([[3.0, 4]]))
    assert np.isnan(distance).all()


def test_no_matches_no_distances():
    assert epipolar_distance(LEFT, RIGHT, np.empty((0, 2)), np.empty((0, 2))).shape == (0,)


# --- check_cameras


def turned(degrees: float, centre: tuple[float, float, float]) -> Camera:
    """Stand at the centre, turned about the vertical and a little about the other axes."""
    a = np.radians([degrees / 3, degrees, degrees / 5])
    (cx, cy, cz), (sx, sy, sz) = np.cos(a), np.sin(a)
    R = (
        np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
        @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        @ np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    )
    return Camera(K, R, -R @ np.array(centre), (101, 101))


FOLDER, NAMES = Path("a"), ["x.png", "y.png", "z.png", "u.png"]  # what messages name

CAMERAS = (turned(20, (-3, 0.5, 1)), turned(-5, (0, 0, 0)), turned(-35, (3, -1, 2)))


def observed(cameras=CAMERAS, n=60) -> tuple[list[Features], PairwiseMatches]:
    """Features of n points in space, and all their matches."""
    points = np.random.default_rng(0).uniform([-2, -2, 4], [2, 2, 9], (n, 3))
    features = [make_features(camera.project(points)[0]) for camera in cameras]
    k = len(cameras)
    return features, PairwiseMatches(sparse.kron(np.ones((k, k)), sparse.eye(n)), [n] * k)


def test_cameras_that_fit_pass():
    check_cameras(CAMERAS, *observed(), FOLDER, NAMES)


@pytest.mark.parametrize(
    ("misread", "cause"),
    [
        (lambda c: replace(c, R=c.R.T, t=c.centre), "every camera were inverted"),
        (lambda c: replace(c, R=c.R.T, t=-c.R.T @ c.centre), "R were transposed"),
        (lambda c: replace(c, R=c.R.T), "R were transposed"),
        (lambda c: replace(c, t=c.centre), "centre and translation were exchanged"),
        (lambda c: replace(c, t=-c.R @ c.t), "centre and translation were exchanged"),
    ],
)
def test_cameras_read_in_another_convention_are_refused(misread, cause):
    wrong = [misread(camera) for camera in CAMERAS]
    with pytest.raises(NmfsyncError, match=f"a: the cameras do not fit .* 100% would if {cause}"):
        check_cameras(wrong, *observed(), FOLDER)


def test_cameras_of_other_images_are_doubted():
    others = (CAMERAS[1], CAMERAS[2], CAMERAS[0])
    with pytest.warns(NmfsyncWarning, match="do they belong together"):
        check_cameras(others, *observed(), FOLDER, NAMES)


def test_few_matches_prove_nothing():
    wrong = (CAMERAS[1], CAMERAS[2], CAMERAS[0])
    check_cameras(wrong, *observed(n=16), FOLDER)
    features, _ = observed()
    check_cameras(wrong, features, PairwiseMatches(sparse.eye(180), [60] * 3), FOLDER)


def test_one_camera_of_another_image_is_named():
    cameras = (*CAMERAS, turned(3, (1, -1, 0.5)))
    features, matches = observed(cameras)
    wrong = (*cameras[:2], turned(80, (9, 3, 2)), cameras[3])
    with pytest.warns(NmfsyncWarning, match=r"^z\.png: the cameras do not fit the images"):
        check_cameras(wrong, features, matches, FOLDER, NAMES)


# --- check_homographies


@pytest.fixture(scope="module")
def album():
    """Return the scene of the sample, its features and matches."""
    scene = load_scene("sample/astronaut")
    features = extract_all(scene.paths, progress=False)
    return scene, features, match(features, weighted=True, progress=False)


def doubted(maps, sizes, features, matches) -> list[str]:
    """Names of the images that are said not to fit their homographies."""
    with collected_warnings() as texts:
        names = [f"img{n}" for n in range(len(features))]
        check_homographies(Homographies(np.array(maps), sizes), features, matches, names)
    assert len(texts) <= 1
    return re.findall(r"img\d|\d more", "".join(texts).partition(":")[0])


def test_homographies_that_fit_pass(album):
    scene, features, matches = album
    assert doubted(scene.truth.maps, scene.truth.image_sizes, features, matches) == []


@pytest.mark.parametrize("wrong", range(6))
@pytest.mark.parametrize("kind", ["half the size", "inverted", "of another image"])
def test_one_wrong_homography_is_named(album, wrong, kind):
    scene, features, matches = album
    maps = scene.truth.maps.copy()
    if kind == "half the size":
        xy = (features[wrong].xy + 0.5) / 2 - 0.5
        features = [*features]
        features[wrong] = replace(features[wrong], xy=xy, image_size=(240, 240))
    elif wrong == 0:
        return  # it has no homography
    else:
        maps[wrong] = np.linalg.inv(maps[wrong]) if kind == "inverted" else maps[wrong % 5 + 1]
    assert doubted(maps, scene.truth.image_sizes, features, matches) == [f"img{wrong}"]


@pytest.mark.parametrize("kind", ["half the size", "inverted"])
def test_where_hardly_any_fits_the_others_are_named(album, kind):
    scene, features, matches = album
    maps, sizes = scene.truth.maps, scene.truth.image_sizes
    if kind == "half the size":
        features = [replace(f, xy=(f.xy + 0.5) / 2 - 0.5, image_size=(240, 240)) for f in features]
        assert doubted(maps, sizes, features, matches) == ["img1", "img2", "img3", "2 more"]
    else:  # two of which agree by chance
        maps = [np.linalg.inv(H) for H in maps]
        assert doubted(maps, sizes, features, matches)[-1] == "1 more"


def test_a_few_matches_disprove_no_homography(album):
    scene, features, _ = album
    few = [replace(f, **{n: getattr(f, n)[:9] for n in ARRAYS}) for f in features]
    matches = match(few, weighted=True, progress=False)
    maps = [np.linalg.inv(H) for H in scene.truth.maps]
    assert doubted(maps, scene.truth.image_sizes, few, matches) == []


# PGM images; homographies that are multiples of the usual ones; other sizes; few matches.
AWKWARD = [("boat", (0, 2, 5)), ("leuven", (0, 2, 5)), ("wall", (0, 1, 5)), ("graf", (1, 2, 5)),
           ("trees", (0, 5))]  # fmt: skip
LONG = [(name.split("/")[1], range(6)) for name in scene_names("graffiti")]
LONG += [("graf", (0, 1, 5)), ("wall", (0, 5))]


@pytest.mark.parametrize(
    ("name", "images"),
    [*AWKWARD, *(pytest.param(*case, marks=pytest.mark.benchmark) for case in LONG)],
)
def test_the_homographies_of_graffiti_fit(name, images):
    real_data(f"graffiti/{name}")
    scene = load_scene(f"graffiti/{name}")
    features = extract_all([scene.paths[n] for n in images], progress=False)
    matches = match(features, weighted=True, progress=False)
    maps, sizes = scene.truth.maps[list(images)], scene.truth.image_sizes[list(images)]
    assert doubted(maps @ np.linalg.inv(maps[0]), sizes, features, matches) == []
