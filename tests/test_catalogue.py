"""Names, folders and homography files."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.scenes import catalogue
from nmfsync.scenes.catalogue import load_scene, scene_names

DATA = os.environ.get("NMFSYNC_DATA")
needs_graffiti = pytest.mark.skipif(
    not DATA or not (Path(DATA) / "graffiti" / "wall").is_dir(),
    reason="needs the Graffiti data set in the folder named by NMFSYNC_DATA",
)
IDENTITY = "1 0 0\n0 1 0\n0 0 1\n"


def picture(path: Path, size=(8, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path)
    return path


def names(scene, folder):
    return [path.relative_to(folder).as_posix() for path in scene.paths]


# --- Names


def test_shipped_catalogue_has_graffiti_and_the_sample():
    assert {"graffiti", "sample"} <= {found.name for found in catalogue.datasets()}
    graffiti = catalogue.dataset("graffiti")
    assert graffiti.theta == 0.4
    assert sum(len(scene.files) for scene in graffiti.scenes) == 88
    assert all(len(archive.urls) == 2 for scene in graffiti.scenes for archive in scene.archives)


def test_every_hash_in_the_catalogue_is_a_sha256():
    for found in catalogue.datasets():
        for scene in found.scenes:
            hashes = [*scene.files.values(), *(a.sha256 for a in scene.archives if a.sha256)]
            assert all(len(h) == 64 and set(h) <= set("0123456789abcdef") for h in hashes)


def test_scene_names():
    eight = ["bark", "bikes", "boat", "graf", "leuven", "trees", "ubc", "wall"]
    assert scene_names("graffiti") == [f"graffiti/{name}" for name in eight]
    assert scene_names("graffiti/graf") == ["graffiti/graf"]
    assert scene_names("sample") == ["sample/astronaut"]


def test_folder_stands_for_itself(tmp_path):
    assert scene_names(str(tmp_path)) == [str(tmp_path)]


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("grafiti", "did you mean graffiti?"),
        ("graffiti/graff", "did you mean graffiti/graf?"),
        ("zzz", "known are epfl, graffiti, middlebury, paper, sample"),
        ("graffiti/zzz", "known are graffiti/bark"),
        ("paper/zzz", "known are graffiti/bark"),
    ],
)
def test_unknown_name_gets_a_suggestion(target, hint):
    with pytest.raises(NmfsyncError) as caught:
        load_scene(target)
    assert hint in str(caught.value)
    assert repr(target) in str(caught.value)


def test_unknown_data_set_is_an_error():
    with pytest.raises(NmfsyncError, match="did you mean graffiti"):
        catalogue.dataset("Graffiti")


def test_data_set_of_several_scenes_is_not_a_scene():
    with pytest.raises(NmfsyncError, match="has 8 scenes; choose one of graffiti/bark"):
        load_scene("graffiti")


def test_file_instead_of_a_folder(tmp_path):
    path = picture(tmp_path / "a.png")
    with pytest.raises(NmfsyncError, match=r"a\.png: is a file; name the folder"):
        load_scene(str(path))


# --- Catalogue files


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name = ", "not a TOML file"),
        ('name = "x"', "the key 'title' is missing"),
        ('colour = "red"', "the key 'colour' is unknown"),
        ('[[scenes]]\nname = "a"\nfile = "b"', "the key 'file' is unknown"),
        ("[[scenes]]\nfiles = {}", "the key 'name' is missing"),
        (
            'name = "x"\ntitle = ""\nhomepage = ""\ncitation = ""\nterms = ""\nformat = "epfl"',
            "the key 'theta' is missing",
        ),
        (
            'name = "x"\ntitle = ""\nformat = "stereo"\ntheta = 0.0\n'
            'homepage = ""\ncitation = ""\nterms = ""',
            r"format 'stereo' is unknown \(known are homographies",
        ),
    ],
)
def test_faulty_catalogue_file_is_named(tmp_path, monkeypatch, text, fault):
    monkeypatch.setattr(catalogue, "CATALOGUE", tmp_path)
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(NmfsyncError, match=rf"x\.toml: {fault}"):
        catalogue.datasets()


def test_member_that_does_not_exist_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "CATALOGUE", tmp_path)
    (tmp_path / "x.toml").write_text(
        'name = "x"\ntitle = ""\nhomepage = ""\ncitation = ""\nterms = ""\nmembers = ["y/a"]'
    )
    with pytest.raises(NmfsyncError, match=r"x\.toml: there is no scene 'y/a'"):
        scene_names("x")


def test_copies_of_epfl_and_middlebury_need_no_more_than_images_and_cameras():
    assert not any(scene.files for scene in catalogue.dataset("epfl").scenes)
    for scene in catalogue.dataset("middlebury").scenes:
        assert all(name.endswith((".png", "_par.txt")) for name in scene.files)
    files = {s.name.split("/")[1]: len(s.files) for s in catalogue.dataset("middlebury").scenes}
    assert files == {
        "temple": 0,
        "templeRing": 48,
        "templeSparseRing": 17,
        "dino": 364,
        "dinoRing": 49,
        "dinoSparseRing": 17,
    }


# --- Folders of images


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
    for name in ["images/b.png", "images/a.png", "outputs/overlay.png"]:
        picture(tmp_path / name)
    scene = load_scene(str(tmp_path))
    assert names(scene, tmp_path) == ["images/a.png", "images/b.png"]
    assert scene.name == f"images/{tmp_path.name}"


def test_own_images_come_before_those_of_subfolders(tmp_path):
    for name in ["a.png", "b.png", "small/a.png"]:
        picture(tmp_path / name)
    assert names(load_scene(str(tmp_path)), tmp_path) == ["a.png", "b.png"]


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


def test_unreadable_image_is_left_out_with_a_warning(tmp_path):
    picture(tmp_path / "a.png")
    picture(tmp_path / "c.png")
    (tmp_path / "b.jpg").write_text("this is no picture")
    with pytest.warns(NmfsyncWarning, match=r"skipped .*b\.jpg"):
        scene = load_scene(str(tmp_path))
    assert names(scene, tmp_path) == ["a.png", "c.png"]


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


@needs_graffiti
@pytest.mark.parametrize("name", scene_names("graffiti"))
def test_graffiti_is_read_and_intact(name):
    scene = load_scene(name, DATA)
    assert [path.stem for path in scene.paths] == [f"img{i}" for i in range(1, 7)]
    assert np.all(scene.truth.maps[:, 2, 2] == 1)
    assert {check.status for check in catalogue.check_files(name, DATA)} == {"ok"}


@needs_graffiti
def test_the_first_view_of_wall_is_larger():
    sizes = load_scene("graffiti/wall", DATA).truth.image_sizes
    assert sizes.tolist() == [[1000, 700], *[[880, 680]] * 5]
