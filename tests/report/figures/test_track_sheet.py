"""The sheet of tracks: which are chosen, and their frames."""

import numpy as np
from PIL import Image

from nmfsync import MultiMatching
from nmfsync.evaluation.errors import match_errors
from nmfsync.report.figures.track_sheet import choose_tracks, choose_views
from nmfsync.report.figures.track_sheet import tracks_figure as draw_tracks
from nmfsync.scenes.scene import Scene
from three_images import features_at, three_images


def test_patch_frames_tell_right_from_wrong_tracks(tmp_path):
    scene, features = three_images(tmp_path)
    right = MultiMatching([0, 1, 2] * 3, [3, 3, 3])
    swapped = MultiMatching([0, 1, 2, 1, 0, 3, 0, 1, 4], [3, 3, 3])
    styles = []
    for matching in (right, swapped):
        errors = match_errors(matching, features, scene.truth)
        figure = draw_tracks(scene, features, matching, errors)
        styles.append([patch.get_linestyle() for patch in figure.axes[0].patches])
    # Three tracks in three images: the first view and two right ones each.
    assert styles[0] == ["-"] * 9
    # Track 1 is wrong in image 2, as is track 2; feature 3 is in no track.
    assert [style == "-" for style in styles[1]] == [True, False, True] * 2


def test_no_track_no_picture_of_tracks(tmp_path):
    scene, features = three_images(tmp_path)
    alone = MultiMatching(np.arange(9), [3, 3, 3])
    errors = match_errors(alone, features, scene.truth)
    assert draw_tracks(scene, features, alone, errors) is None


def test_chosen_tracks_are_long_and_those_of_equal_length_lie_apart():
    # Thirty short tracks in one corner, ten long ones along the diagonal.
    diagonal = [(10 * i, 10 * i) for i in range(10)]
    first = [(1, 2)] * 30 + diagonal
    views = [features_at(first, (100, 100)) for _ in range(3)]
    views[2] = features_at(diagonal, (100, 100))
    labels = np.concatenate([np.arange(40), np.arange(40), np.arange(30, 40)])
    matching = MultiMatching(labels, [40, 40, 10])
    tracks = choose_tracks(matching, views, np.arange(3))
    assert len(tracks) == 9
    starts = {views[0].xy[track[0]][0] for track in tracks}
    assert {0.0, 90.0} <= starts
    assert sum(len(track) == 3 for track in tracks) >= 8


def test_at_most_twelve_views_are_shown(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(path)
    scene = Scene("set/scene", (path,) * 30)
    features = [features_at([(10, 10)], (20, 20))] * 30
    matching = MultiMatching([0] * 30, [1] * 30)
    figure = draw_tracks(scene, features, matching, match_errors(matching, features, None))
    assert len(figure.axes[0].patches) == 12


def test_views_of_a_long_sequence_follow_its_longest_track():
    # Every image shows its own group of ten; image 7 to 10 share ten more points.
    labels = np.concatenate(
        [[*range(10)] if 7 <= i <= 10 else [*range(100 + 10 * i, 110 + 10 * i)] for i in range(30)]
    )
    assert choose_views(MultiMatching(labels, [10] * 30)).tolist() == [7, 8, 9, 10]
    everywhere = MultiMatching(np.tile(np.arange(10), 30), [10] * 30)
    views = choose_views(everywhere)
    assert len(views) == 12
    assert (views[0], views[-1]) == (0, 29)
    assert choose_views(MultiMatching([0, 1], [1, 1])).tolist() == [0, 1]
