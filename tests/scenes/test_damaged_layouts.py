"""Homographies, cameras and descriptions of data sets that are damaged: one line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from builders import NO_FILES, no_file, picture, result_or_line
from nmfsync import NmfsyncError
from nmfsync.scenes import catalogue, listing
from nmfsync.scenes.layouts import read_epfl, read_folder, read_homographies, read_middlebury
from nmfsync.scenes.scene import Scene

SIZE = (64, 48)
H = "1 0.5 3\n0 1 -2e-1\n0, 0, 1  # a comment\n"
CAMERA = "100 0 30\n0 200 20\n0 0 1\n0.1 0 0\n0 0 1\n-1 0 0\n0 -1 0\n1 2 3\n64 48\n"
ROW = "100 0 30 0 200 20 0 0 1 0 -1 0 0 0 -1 1 0 0 2 3 -1"
BOUNDS = "the bounding box is (-1 -2 -3) (1 2 3)\n"

# The reader of a layout, the file that is damaged, and its sound content.
LAYOUTS = {
    "homographies": (read_homographies, "H1to2p", H),
    "epfl": (read_epfl, "0001.jpg.camera", CAMERA),
    "middlebury": (read_middlebury, "x_par.txt", f"2\nb.png {ROW}\na.png {ROW}\n"),
    "bounds": (read_middlebury, "README.txt", BOUNDS),
}


def write(folder, layout):
    """Write a sound scene; return its reader, and the path and content of one of its files."""
    reader, name, content = LAYOUTS[layout]
    names = {"homographies": ("img1.png", "img2.png"), "epfl": ("0000.jpg", "0001.jpg")}
    for image in names.get(layout, ("a.png", "b.png")):
        picture(folder / image, SIZE)
    if layout == "epfl":
        (folder / "0000.jpg.camera").write_text(CAMERA)
    if layout == "bounds":
        (folder / "x_par.txt").write_text(LAYOUTS["middlebury"][2])
    (folder / name).write_text(content)
    return reader, folder / name, content.encode()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_anywhere(tmp_path, layout):
    reader, path, sound = write(tmp_path, layout)
    assert isinstance(reader("set/a", tmp_path), Scene)

    @settings(max_examples=80, derandomize=True, database=None)
    @given(strategies.damaged(sound) | st.binary(max_size=40))
    def check(content):
        path.write_bytes(content)
        scene = result_or_line(reader, "set/a", tmp_path)
        assert isinstance(scene, Scene) or str(tmp_path) in scene

    check()


ODD = [
    *("²", "٣", "1_0", "1e999", "-1e999", "nan", "inf", "1e308", "1e-308", "0x10", "1j", "1,5,5"),
    *("--1", "½", "1" * 5000, "x" * 10**6, "\x1b[31m", "\u202e"),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_word_in_place_of_any_number(tmp_path, layout):
    reader, path, sound = write(tmp_path, layout)
    words = sound.decode().partition("#")[0].split(" ")
    for odd in ODD:
        for place in range(0, len(words), 3):
            path.write_text(" ".join([*words[:place], odd, *words[place + 1 :]]))
            scene = result_or_line(reader, "set/a", tmp_path)
            if odd in ODD[:3]:
                assert isinstance(scene, str) or layout == "bounds", (odd, place)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", NO_FILES)
def test_no_file_at_all(tmp_path, layout, kind):
    reader, path, _ = write(tmp_path, layout)
    no_file(path, kind)
    scene = result_or_line(reader, "set/a", tmp_path)
    assert isinstance(scene, str) or layout == "bounds"


@pytest.mark.parametrize("count", ["²", "٢", "2 2", "-2", "2.0", "9" * 30])
def test_the_number_of_cameras(tmp_path, count):
    picture(tmp_path / "a.png", SIZE)
    (tmp_path / "x_par.txt").write_text(f"{count}\na.png {ROW}\n")
    with pytest.raises(NmfsyncError, match=r"x_par\.txt: the first line must be the number"):
        read_middlebury("set/a", tmp_path)


def test_a_missing_image_is_named_with_near_ones(tmp_path):
    _, path, sound = write(tmp_path, "middlebury")
    path.write_bytes(sound.replace(b"b.png", b"B.png"))
    with pytest.raises(NmfsyncError, match=r"the image B\.png is missing; did you mean b\.png"):
        read_middlebury("set/a", tmp_path)


@pytest.mark.parametrize("name", ["²a.png", "a²1.png", "٣.png", "½.png"])
def test_names_with_other_digits(tmp_path, name):
    for image in ("1.png", name):
        picture(tmp_path / image, SIZE)
    assert len(read_folder(tmp_path).paths) == 2


def test_a_rotation_that_overflows_is_none(tmp_path):
    _, path, sound = write(tmp_path, "epfl")
    path.write_bytes(sound.replace(b"0 0 1\n-1 0 0", b"1e200 -1e200 1e200\n-1 0 0"))
    with pytest.raises(NmfsyncError, match="R is not a rotation"):
        read_epfl("set/a", tmp_path)


# --- The catalogue

TOML = """\
name = "x"
title = "X"
homepage = "h"
citation = "c"
terms = "t"
format = "epfl"

[[scenes]]
name = "a"
files = { "f" = "0" }
archives = [{ urls = ["u"], sha256 = "0" }]
"""


@pytest.fixture
def description(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "CATALOGUE", tmp_path)
    path = tmp_path / "x.toml"
    path.write_text(TOML)
    return path


def test_a_damaged_description(description):
    assert catalogue.datasets()[0].scenes[0].name == "x/a"

    @settings(max_examples=100, derandomize=True, database=None)
    @given(strategies.damaged(TOML.encode()))
    def check(content):
        description.write_bytes(content)
        found = result_or_line(catalogue.datasets)
        assert isinstance(found, list) or f"{description}: " in found

    check()


@pytest.mark.parametrize("key", ["name", "title", "format", "files", "archives", "urls", "scenes"])
@pytest.mark.parametrize("value", ["3", "[1, [2]]", "{ a = 1 }", "2020-01-01", "true"])
def test_values_of_other_types(description, key, value):
    lines = TOML.splitlines()
    if key == "urls":
        lines[-1] = f"archives = [{{ urls = {value} }}]"
    elif key == "scenes":
        lines = [*lines[:6], f"scenes = {value}"]
    else:
        lines = [f"{key} = {value}" if line.startswith(f"{key} =") else line for line in lines]
    description.write_text("\n".join(lines))
    found = result_or_line(catalogue.datasets)
    fits = (key, value) in (("files", "{ a = 1 }"), ("urls", "[1, [2]]"))
    assert isinstance(found, list) if fits else f"{description}: " in found


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_description_at_all(description, kind):
    no_file(description, kind)
    found = result_or_line(catalogue.datasets)
    assert found == [] if kind == "nothing" else f"{description}: " in found


@pytest.mark.parametrize("content", [b"", b"no space", b"\xff\xfe", b"a b c\n\n"])
def test_a_damaged_record_of_hashes(tmp_path, content):
    (tmp_path / catalogue.RECORD).write_bytes(content)
    scene = catalogue.SceneEntry("x/a")
    assert isinstance(result_or_line(catalogue._known_hashes, scene, tmp_path), (dict, str))


def test_natural_order_knows_only_plain_digits():
    assert sorted(["a10", "a²", "a2"], key=listing._natural) == ["a2", "a10", "a²"]
