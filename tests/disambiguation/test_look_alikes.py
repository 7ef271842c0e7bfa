"""Simulated look-alikes keep what they promise, and what is promised of them holds."""

from functools import cache

import numpy as np
import pytest

from builders import bits
from look_alikes import UNAMBIGUOUS, parts, simulate
from nmfsync.run.image_pairs import without_wrong_pairs
from nmfsync.truth.epipolar import epipolar_distance

simulated = cache(simulate)
QUICK = ("boxes weak", "cup weak", "chain", "star", "few")


@pytest.mark.parametrize("kind", QUICK)
def test_right_pairs_link_all_images(kind):
    images = simulated(kind)
    assert parts(images.right, len(images.cameras)) == 1
    assert bool(images.wrong) == (kind not in UNAMBIGUOUS)


@pytest.mark.parametrize("kind", QUICK)
def test_right_matches_lie_on_the_true_epipolar_lines(kind):
    images = simulated(kind)
    for pair in images.matches.by_image_pair():
        a, b = pair.i, pair.j
        xy_a, xy_b = (images.keypoints[n].xy[pair.rows[:, c]] for c, n in enumerate((a, b)))
        same = images.points[a][pair.rows[:, 0]] == images.points[b][pair.rows[:, 1]]
        assert (same.mean() > 0.5) == ((a, b) in images.right)
        error = epipolar_distance(images.cameras[a], images.cameras[b], xy_a, xy_b)
        assert np.percentile(error[same], 95) < 4 if same.any() else True


def test_a_seed_stands_for_one_set_of_photographs():
    a, b, other = (simulate("few", seed) for seed in (1, 1, 2))
    assert bits(a.matches) == bits(b.matches) != bits(other.matches)
    assert all(map(np.array_equal, a.points, b.points))


@pytest.mark.parametrize("kind", [kind for kind in QUICK if kind in UNAMBIGUOUS])
def test_no_unambiguous_pair_is_left_out(kind):
    images = simulated(kind)
    kept, verdicts = without_wrong_pairs(images.matches, images.keypoints)
    assert all(verdict.right for verdict in verdicts)
    assert bits(kept) == bits(images.matches)


def test_a_poster_on_three_walls_links_none_of_them():
    images = simulate("posters weak", seed=1)
    kept, _ = without_wrong_pairs(images.matches, images.keypoints)
    assert {(pair.i, pair.j) for pair in kept.by_image_pair()} == images.right
    assert parts(images.right, len(images.cameras)) == 3
