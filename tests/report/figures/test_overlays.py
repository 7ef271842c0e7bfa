"""Overlays of matches on two images."""

from io import BytesIO

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image
from scipy import ndimage

from builders import matches_of
from nmfsync.evaluation.errors import match_errors
from nmfsync.report.figures.overlays import PANEL_TITLE, overlay_pairs, pair_figure
from nmfsync.report.figures.style import to_png
from nmfsync.scenes.scene import Scene
from nmfsync.types.truth import Homographies
from three_images import SIZES, features_at, results_for, three_images

RIGHT, WRONG, UNKNOWN = "#009E73", "#D55E00", "#444444"


def pixels_of(figure):
    return np.asarray(Image.open(BytesIO(to_png(figure))).convert("RGB")).astype(int)


def rgb(colour):
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text)]


@pytest.mark.parametrize(("left", "right"), [(0, 1), (1, 2), (2, 0)])
def test_match_ends_lie_on_the_features_of_images_of_different_sizes(tmp_path, left, right):
    scene, features = three_images(tmp_path)
    only = {
        i: features_at([features[i].xy[0]] if i in (left, right) else [], SIZES[i])
        for i in range(3)
    }
    sizes = [len(only[i]) for i in range(3)]
    for i in range(3):  # one white square an image, found again in the picture below
        pixels = np.zeros((SIZES[i][1], SIZES[i][0]), np.uint8)
        x, y = features[i].xy[0].astype(int)
        pixels[y - 1 : y + 2, x - 1 : x + 2] = 255
        Image.fromarray(pixels).save(scene.paths[i])
    chosen = [only[i] for i in range(3)]
    pictures = []
    for matches in (matches_of([], sizes), matches_of([(0, 1)], sizes)):
        errors = {"input": match_errors(matches, chosen, scene.truth)}
        pictures.append(pixels_of(pair_figure(scene, chosen, errors, (left, right))))
    before, after = (picture[PANEL_TITLE:-60] for picture in pictures)
    bright = (before[..., 0] > 230) & (before[..., 0] < 252)  # pale white is no paper white
    drawn = np.abs(after - before).max(axis=2) > 40
    squares, found = ndimage.label(bright)
    centres = sorted((x, y) for y, x in ndimage.center_of_mass(bright, squares, [1, 2]))
    assert found == 2
    columns = np.nonzero(drawn.any(axis=0))[0]
    # A match ends in dots of 2 pixels radius.
    ends = (columns.min() + 2, columns.max() - 2)
    for (x, y), end in zip(centres, ends, strict=True):
        assert abs(end - x) < 1.5
        assert np.abs(after[round(y), round(x)] - rgb(RIGHT)).max() < 60


def test_titles_count_right_wrong_and_unknown_matches(tmp_path):
    scene, features = three_images(tmp_path)
    features[0] = features_at([(20, 30), (50, 20), (99, 79)], SIZES[0])
    maps = scene.truth.maps.copy()
    maps[1, :2, 2] = (50, 10)  # takes (99, 79) outside image 2
    features[1] = features_at([(70, 40), (10, 10), (5, 5)], SIZES[1])
    scene = Scene(scene.name, scene.paths, Homographies(maps, np.array(SIZES)))
    matches = matches_of([(0, 3), (1, 4), (2, 5)], [3, 3, 3])
    errors = {"nmfsync": match_errors(matches, features, scene.truth)}
    figure = pair_figure(scene, features, errors, (0, 1))
    assert "NmfSync: 1 right, 1 wrong, 1 unknown" in texts(figure)
    picture = pixels_of(figure)[PANEL_TITLE:-60]
    for colour in (RIGHT, WRONG, UNKNOWN):
        assert (np.abs(picture - rgb(colour)).max(axis=2) < 25).sum() > 50


def test_without_truth_lines_have_one_colour_and_titles_say_so(tmp_path):
    scene, features = three_images(tmp_path, truth=False)
    errors = {"input": match_errors(results_for(features)["input"], features, None)}
    figure = pair_figure(scene, features, errors, (0, 1))
    assert "input: 3 matches, truth unknown" in texts(figure)
    picture = pixels_of(figure)
    for colour in (RIGHT, WRONG):
        assert not (np.abs(picture - rgb(colour)).max(axis=2) < 25).any()


def test_pairs_are_the_first_image_with_the_second_a_middle_and_the_last():
    assert overlay_pairs(1) == []
    assert overlay_pairs(2) == [(0, 1)]
    assert overlay_pairs(3) == [(0, 1), (0, 2)]
    assert overlay_pairs(30) == [(0, 1), (0, 15), (0, 29)]
