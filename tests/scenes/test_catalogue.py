"""The catalogue: names, its files, and what is known of the data sets."""

import numpy as np
import pytest

from builders import picture
from nmfsync.errors import NmfsyncError
from nmfsync.scenes import catalogue
from nmfsync.scenes.catalogue import load_scene, scene_names
from real_data import real_data

# --- Names


def test_shipped_catalogue_has_graffiti_and_the_sample():
    assert {"graffiti", "sample"} <= {found.name for found in catalogue.datasets()}
    graffiti = catalogue.dataset("graffiti")
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
            'name = "x"\ntitle = ""\nhomepage = ""\ncitation = ""\nterms = ""',
            "the key 'format' is missing",
        ),
        (
            'name = "x"\ntitle = ""\nformat = "stereo"\nhomepage = ""\ncitation = ""\nterms = ""',
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


@pytest.mark.parametrize("name", scene_names("graffiti"))
def test_graffiti_is_read_and_intact(name):
    data = real_data(name).parents[1]
    scene = load_scene(name, data)
    assert [path.stem for path in scene.paths] == [f"img{i}" for i in range(1, 7)]
    assert np.all(scene.truth.maps[:, 2, 2] == 1)
    assert {check.status for check in catalogue.check_files(name, data)} == {"ok"}


def test_the_first_view_of_wall_is_larger():
    sizes = load_scene("graffiti/wall", real_data("graffiti/wall").parents[1]).truth.image_sizes
    assert sizes.tolist() == [[1000, 700], *[[880, 680]] * 5]


def test_the_paper_has_eighteen_instances_in_its_order():
    names = scene_names("paper")
    assert len(names) == len(set(names)) == 18
    assert [name.split("/")[0] for name in names] == [
        *["graffiti"] * 8,
        *["epfl"] * 6,
        *["middlebury"] * 4,
    ]
    assert names[:8] == scene_names("graffiti")
    assert names[8:14] == scene_names("epfl")
    assert set(names[14:]) < set(scene_names("middlebury"))


@pytest.mark.parametrize("home", [RuntimeError("no home"), "~/.cache/nmfsync"])
def test_without_a_home_downloads_have_another_place(monkeypatch, tmp_path, home):
    def os_cache(project):
        if isinstance(home, Exception):
            raise home
        return home

    monkeypatch.setattr(catalogue.pooch, "os_cache", os_cache)
    monkeypatch.setattr(catalogue, "private_folder", lambda: tmp_path)
    assert catalogue.cache_folder() == tmp_path / "nmfsync-data"
    monkeypatch.setattr(catalogue, "private_folder", lambda: None)
    assert catalogue.cache_folder().is_absolute()


def test_an_empty_target_is_not_the_present_folder():
    with pytest.raises(NmfsyncError, match="a target is empty"):
        scene_names("")
