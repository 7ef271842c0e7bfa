"""Folders of images: nothing that looks like one is left out without a word."""

import ast
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders import one_line, picture
from nmfsync import NmfsyncError, NmfsyncWarning
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.scene import Scene


def load(folder):
    """Load a folder in which something is left out; return names, and reasons by name."""
    with pytest.warns(NmfsyncWarning, match="left out") as caught:
        scene = load_scene(str(folder))
    assert len(caught) == 1
    reasons = {os.path.relpath(path, folder): why for path, why in scene.left_out.items()}
    return [os.path.relpath(path, folder) for path in scene.paths], reasons


@pytest.fixture
def album(tmp_path):
    """Two images, to which a test adds."""
    for name in ("a.png", "b.png"):
        picture(tmp_path / name)
    return tmp_path


UNREAD = {
    "c.heic": (b"\0\0\0\x18ftypheic", "is a HEIC image, which is not read; convert"),
    "c.HEIF": (b"anything", "is a HEIC image, which is not read; convert"),
    "c.jpg": (b"\0\0\0\x18ftypheic", "is a HEIC image, which is not read; convert"),
    "d.jpg": (b"\0\0\0\x18ftypavif", "is an AVIF image, which is not read; convert"),
    "c.avif": (b"\0\0\0\x18ftypavif", "is an AVIF image"),
    "c.NEF": (b"II*\0", "is a raw image of a camera"),
    "c.exr": (b"\x76\x2f\x31\x01", "is an OpenEXR image"),
    "c.svg": (b"<svg/>", "is an SVG drawing"),
    "c.JPG": (b"this is no picture", "is not an image of a known kind"),
    "c.tif": (b"", "is empty"),
    "c.png": (b"\x89PNG\r\n\x1a\n", "is damaged|is not an image"),
    "c": (b"\xff\xd8\xff", "is damaged|is not an image"),
    "a.png.bak": (b"\x89PNG\r\n\x1a\n", r"holds an image, but names in \.bak are not read"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_that_is_not_read_is_listed_with_the_reason(album, name):
    content, reason = UNREAD[name]
    (album / name).write_bytes(content)
    images, left_out = load(album)
    assert images == ["a.png", "b.png"]
    assert list(left_out) == [name]
    assert re.match(reason, left_out[name])


@pytest.mark.parametrize("name", ["c.jfif", "c.JPE", "c.gif", "c.jp2", "c.tga", "c"])
def test_other_kinds_of_images_are_read(album, name):
    kind = {".gif": "GIF", ".jp2": "JPEG2000", ".tga": "TGA"}.get(os.path.splitext(name)[1], "JPEG")
    Image.fromarray(np.full((6, 8, 3), (200, 100, 50), np.uint8)).save(album / name, kind)
    scene = load_scene(str(album))
    assert [path.name for path in scene.paths] == ["a.png", "b.png", name]
    assert np.abs(scene.images[2][3, 4].astype(int) - (200, 100, 50)).max() <= 3


def test_the_content_decides_and_not_the_name(album):
    shutil.copy(album / "a.png", album / "c.heic")
    assert len(load_scene(str(album)).paths) == 3


def test_links(album, tmp_path_factory):
    elsewhere = picture(tmp_path_factory.mktemp("elsewhere") / "x.png")
    (album / "outside.png").symlink_to(elsewhere)
    (album / "broken.png").symlink_to("nowhere.png")
    (album / "broken").symlink_to("nowhere")
    (album / "loop.png").symlink_to("loop.png")
    (album / "folder").symlink_to(elsewhere.parent)
    (album / "notes.txt").symlink_to("nowhere.txt")
    images, left_out = load(album)
    assert images == ["a.png", "b.png", "outside.png"]
    assert left_out == {
        "broken": "is a link to a file that does not exist",
        "broken.png": "is a link to a file that does not exist",
        "folder": "is a link to a folder, which is not followed",
        "loop.png": "cannot be read (Too many levels of symbolic links)",
    }


def test_what_is_no_file_is_not_opened(album):
    os.mkfifo(album / "pipe.png")
    with socket.socket(socket.AF_UNIX) as server:
        before = os.getcwd()
        os.chdir(album)  # the name of a socket must be short
        try:
            server.bind("socket.jpg")
        finally:
            os.chdir(before)
    (album / "device.tif").symlink_to(os.devnull)
    images, left_out = load(album)
    assert images == ["a.png", "b.png"]
    assert left_out == dict.fromkeys(
        ["device.tif", "pipe.png", "socket.jpg"], "is a pipe, socket or device, not a file"
    )


_AS_NOBODY = """
import os, sys
from nmfsync.scenes.layouts import read_folder
from pathlib import Path
folder = Path(sys.argv[1])
read_folder(folder)  # imports what another user may not read
os.seteuid(65534)
print(dict(read_folder(folder).left_out))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_rights_are_missing():
    """Root reads everything, so another user tries, in a folder that this user can reach."""
    with tempfile.TemporaryDirectory() as name:
        album = Path(name)
        album.chmod(0o755)
        for image in ("a.png", "b.png"):
            picture(album / image)
        picture(album / "locked.png").chmod(0)
        picture(album / "folder/c.png").parent.chmod(0)
        command = [sys.executable, "-W", "ignore", "-c", _AS_NOBODY, name]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(shown) == {
        f"{name}/folder": "cannot be read (Permission denied)",
        f"{name}/locked.png": "cannot be read; check its permissions",
    }


def test_mixed_folder_says_which_images_are_not_read(album):
    for name in ("images/1.png", "images/2.JPG", "small/deep/1.png", ".trash/1.png", "own/1.png"):
        picture(album / name)
    (album / "own/evaluation.json").touch()  # results of this program
    (album / "texts").mkdir()
    (album / "texts/2.HEIC").touch()
    assert load(album)[1] == {
        "images": "has 2 images, not read because the folder itself has some",
        "small/deep": "has 1 image, not read because the folder itself has some",
        "texts": "has 1 image, not read because the folder itself has some",
    }


def test_subfolder_images_is_read_and_the_others_are_listed(tmp_path):
    for name in ("images/1.png", "images/2.png", "left/1.png"):
        picture(tmp_path / name)
    for name in ("broken.jpg", "images/empty.png"):
        (tmp_path / name).touch()
    images, left_out = load(tmp_path)
    assert images == ["images/1.png", "images/2.png"]
    assert left_out == {
        "broken.jpg": "is empty; replace or remove the file",
        "images/empty.png": "is empty; replace or remove the file",
        "left": "has 1 image, not read because the folder images has some",
    }


def test_faults_in_subfolders_are_listed(tmp_path):
    for name in ("left/1.png", "right/1.png"):
        picture(tmp_path / name)
    (tmp_path / "right/2.heic").touch()
    images, left_out = load(tmp_path)
    assert images == ["left/1.png", "right/1.png"]
    assert list(left_out) == ["right/2.heic"]


def test_our_own_results_are_no_images(tmp_path):
    for name in ("left/1.png", "right/1.png", "outputs/images/x/overlay.png"):
        picture(tmp_path / name)
    (tmp_path / "outputs/images/x/evaluation.json").touch()
    assert len(load_scene(str(tmp_path)).paths) == 2


def test_all_reasons_are_in_the_error_if_too_few_can_be_read(tmp_path):
    picture(tmp_path / "a.png")
    for number in range(4):
        (tmp_path / f"{number}.heic").write_bytes(b"x")
    (tmp_path / "b.png").touch()
    with pytest.raises(NmfsyncError) as error:
        load_scene(str(tmp_path))
    text = one_line(error)
    assert "only one image found" in text
    assert text.count("is a HEIC image") == 4
    assert "b.png: is empty" in text


def test_images_without_homographies_are_listed(tmp_path):
    for name in ("img1.png", "img2.png", "extra.png", "more/img3.png"):
        picture(tmp_path / name)
    (tmp_path / "H1to2p").write_text("1 0 0 0 1 0 0 0 1")
    (tmp_path / "img3.heic").touch()
    images, left_out = load(tmp_path)
    assert images == ["img1.png", "img2.png"]
    assert list(left_out) == ["extra.png", "img3.heic", "more"]
    assert left_out["extra.png"] == "has no homography"


def test_the_order_of_the_folder_does_not_matter(tmp_path, monkeypatch):
    for name in ("b.png", "A.png", "10.png", "9.png"):
        picture(tmp_path / name)
    for name in ("z.heic", "Y.gif", "10.jpg", "2.jpg"):
        (tmp_path / name).touch()
    expected = load(tmp_path)
    listed = os.scandir

    class Reversed:
        def __init__(self, folder):
            with listed(folder) as entries:
                self.entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

        def __iter__(self):
            return self.entries

        def __next__(self):
            return next(self.entries)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()

        def close(self):
            pass

    monkeypatch.setattr(os, "scandir", Reversed)
    monkeypatch.setattr(os, "listdir", lambda p: [e.name for e in Reversed(p)])
    again = load(tmp_path)
    assert again == expected
    assert list(again[1]) == list(expected[1])


def test_an_image_leaves_a_scene_with_its_camera(tmp_path):
    paths = tuple(tmp_path / name for name in ("a.png", "b.png", "c.png"))
    scene = Scene("x", paths, cameras=("A", "B", "C"), left_out={"d.png": "is empty"})
    rest = scene.without({str(paths[1]): "is damaged"})
    assert (rest.paths, rest.cameras) == ((paths[0], paths[2]), ("A", "C"))
    assert rest.left_out == {"d.png": "is empty", str(paths[1]): "is damaged"}
