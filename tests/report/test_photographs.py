"""The photographs of a page."""

import base64

import cv2
import numpy as np
import pytest

from nmfsync.errors import ChangedError, NmfsyncError
from nmfsync.report import photographs as module
from nmfsync.report.photographs import ViewerImage, photographs


def image_of(pixels) -> ViewerImage:
    return ViewerImage("a.png", "a", pixels.shape[1::-1], lambda: pixels)


def decoded(source: str) -> np.ndarray:
    data = base64.b64decode(source.removeprefix("data:image/jpeg;base64,"))
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


def noise(width: int, height: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(width: int, height: int) -> np.ndarray:
    return cv2.GaussianBlur(noise(width, height), (0, 0), 9)


def test_grey_stays_grey_and_colour_stays_colour():
    colour = smooth(90, 60)
    colour[:, :, 2] //= 2
    grey, same = map(decoded, photographs([image_of(colour[:, :, 0]), image_of(colour)]))
    assert grey.shape == (60, 90)
    assert same.shape == (60, 90, 3)
    assert np.abs(grey.astype(int) - colour[:, :, 0]).max() < 12
    assert np.abs(same.mean((0, 1)) - colour.mean((0, 1))).max() < 2


def test_a_large_photograph_is_reduced_in_its_proportions():
    assert decoded(photographs([image_of(smooth(2400, 1500))])[0]).shape == (750, 1200, 3)
    assert decoded(photographs([image_of(smooth(3, 2400))])[0]).shape == (1200, 2, 3)


@pytest.mark.parametrize("number", [1, 4])
def test_together_photographs_stay_below_the_limit(number):
    sources = photographs([image_of(noise(700, 500))] * number, most=400_000)
    assert sum(map(len, sources)) < 400_000 * 4 / 3 + 100
    assert all(max(decoded(source).shape) >= 320 for source in sources)


def test_of_too_many_photographs_those_shown_are_spread(monkeypatch):
    monkeypatch.setattr(module, "_MOST_PHOTOGRAPHS", 2)
    sources = photographs([image_of(smooth(9, 9))] * 4)
    assert [bool(source) for source in sources] == [True, False, True, False]


def test_without_a_file_and_with_a_file_that_cannot_be_read_there_is_no_photograph():
    def fail():
        raise NmfsyncError("gone")

    images = [ViewerImage("a", "a", (9, 9)), ViewerImage("b", "b", (9, 9), fail)]
    assert photographs([*images, image_of(smooth(9, 9))])[:2] == ["", ""]


def test_a_photograph_that_is_another_one_by_now_is_an_error():
    def changed():
        raise ChangedError("changed")

    with pytest.raises(ChangedError):
        photographs([ViewerImage("a", "a", (9, 9), changed)])
