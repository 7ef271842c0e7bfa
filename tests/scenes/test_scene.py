"""What a scene says of its images."""

from pathlib import Path

import pytest

from nmfsync.scenes.scene import Scene


@pytest.mark.parametrize(
    ("paths", "labels"),
    [
        (["a/1.png", "a/2.png"], ("1", "2")),
        (["a/1.png", "a/1.jpg", "a/2.png"], ("1.png", "1.jpg", "2")),
        (["x/1.png", "y/1.png", "y/2.png"], ("x/1.png", "y/1.png", "2")),
        (["a/1.png", "a/1.jpg", "a/1.png.png"], ("1.png", "1.jpg", "1.png.png")),
        (["x/1.png", "x/1.jpg", "y/1.png"], ("x/1.png", "1.jpg", "y/1.png")),
    ],
)
def test_every_image_has_a_label_of_its_own(paths, labels):
    found = Scene("set/scene", tuple(map(Path, paths))).labels
    assert len(set(found)) == len(paths)
    assert found == labels
