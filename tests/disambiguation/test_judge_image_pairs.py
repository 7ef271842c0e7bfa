"""Look-alike pairs of images are found, and nothing that is unambiguous is taken apart."""

from dataclasses import fields
from typing import NamedTuple

import numpy as np
import pytest

from nmfsync.disambiguation.bridges import bridges, groups, restored
from nmfsync.disambiguation.method import judge_image_pairs
from nmfsync.disambiguation.triplets import beliefs
from nmfsync.disambiguation.unique import Rates, log_odds
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.matches import PairwiseMatches, StoredKeypoints
from nmfsync.types.verdicts import EVIDENCE, PairVerdict

WINDOW = (800, 600)  # pixels
FOUND = 0.75  # of the points in a photograph are detected


class Photographs(NamedTuple):
    matches: PairwiseMatches
    keypoints: list[StoredKeypoints]
    wrong: set[tuple[int, int]]


def reordered(photographs, order):
    """Number the same photographs in another order; the n-th one is number order[n] of these."""
    place = np.argsort(order)
    pairs = {(place[p.i], place[p.j]): p.rows for p in photographs.matches.by_image_pair()}
    matches = PairwiseMatches.from_pairs(pairs, photographs.matches.sizes[order])
    return Photographs(matches, [photographs.keypoints[n] for n in order], set())


def photograph(points, looks, corners, seed=0, drop=0.0):
    """Photograph a painted wall from the front; what looks the same matches at one shift.

    Of every shift between two images, those matches are kept that most agree with, as
    verification does; `wrong` are the pairs of images at a wrong shift.
    """
    rng = np.random.default_rng(seed)
    seen, xy = [], []
    for corner in corners:
        at = points - corner
        inside = ((at > 0) & (at < WINDOW)).all(axis=1) & (rng.random(len(points)) < FOUND)
        seen.append(np.flatnonzero(inside))
        xy.append(at[inside] + rng.normal(0, 0.5, (inside.sum(), 2)))
    pairs, wrong = {}, set()
    for i in range(len(seen)):
        for j in range(i + 1, len(seen)):
            p, q = np.nonzero(looks[seen[i]][:, None] == looks[seen[j]])
            shifts = np.round((xy[j][q] - xy[i][p]) / 8)
            kinds, of, counts = np.unique(shifts, axis=0, return_inverse=True, return_counts=True)
            if not len(kinds) or counts.max() < 20:
                continue
            kept = (of.ravel() == counts.argmax()) & (rng.random(len(p)) >= drop)
            pairs[i, j] = np.column_stack([p, q])[kept]
            true = np.asarray(corners[i]) - corners[j]
            if np.abs(kinds[counts.argmax()] * 8 - true).max() > 20:
                wrong.add((i, j))
    matches = PairwiseMatches.from_pairs(pairs, [len(points) for points in seen])
    nothing = [np.zeros(len(places), np.float32) for places in xy]
    keypoints = [
        StoredKeypoints(places.astype(np.float32), none, none, WINDOW)
        for places, none in zip(xy, nothing, strict=True)
    ]
    return Photographs(matches, keypoints, wrong)


def wall(width, n, seed, height=600):
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 1, (n, 2)) * (width, height)


def street(seed, houses=3):
    """A row of equal houses 500 pixels wide with gardens between them, 500 wide."""
    house = wall(500, 130, seed)
    parts, looks = [], []
    for n in range(houses):
        garden = wall(500, 150, seed + 10 * n + 1) + np.array([1000 * n + 500, 0])
        parts += [house + np.array([1000 * n, 0]), garden]
        looks += [np.arange(130), 1000 * (n + 1) + np.arange(150)]
    corners = [np.array([x, 0.0]) for x in np.arange(0, 1000 * houses - 700, 190)]
    return photograph(np.concatenate(parts), np.concatenate(looks), corners, seed)


def row(seed):
    """A wall, along which every photograph overlaps with the next three."""
    points = wall(3000, 1200, seed)
    corners = [np.array([x, 0.0]) for x in range(0, 2200, 250)]
    return photograph(points, np.arange(1200), corners, seed)


def chain(seed):
    """Every photograph overlaps with the next one alone."""
    points = wall(4000, 1600, seed)
    return photograph(points, np.arange(1600), [np.array([x, 0.0]) for x in range(0, 3200, 500)])


def grid(seed):
    points = wall(2000, 1600, seed, height=1500)
    corners = [np.array([x, y], float) for x in (0, 400, 800, 1200) for y in (0, 300, 600, 900)]
    return photograph(points, np.arange(1600), corners, seed)


def bridge(seed):
    """Two places that one pair of photographs links."""
    points = wall(2600, 1000, seed)
    corners = [np.array([x, 0.0]) for x in (0, 50, 100, 150, 600, 1250, 1650, 1700, 1750)]
    return photograph(points, np.arange(1000), corners, seed)


def poor(seed):
    """Photographs of one place that share a third of what they could, here and there."""
    points = wall(1000, 500, seed)
    corners = [np.array([x, 0.0]) for x in range(0, 200, 25)]
    return photograph(points, np.arange(500), corners, seed, drop=0.6)


def two(seed):
    points = wall(1000, 300, seed)
    return photograph(points, np.arange(300), [np.zeros(2), np.array([150.0, 0])], seed)


def judge(photographs):
    tracks = synchronise(photographs.matches, progress=False)
    return judge_image_pairs(photographs.matches, tracks, photographs.keypoints)


def left_out(verdicts):
    return {(v.i, v.j) for v in verdicts if not v.right}


@pytest.mark.parametrize("scene", [row, chain, grid, bridge, poor, two])
def test_what_is_unambiguous_is_not_taken_apart(scene):
    photographs = scene(0)
    verdicts = judge(photographs)
    assert not photographs.wrong
    assert len(verdicts) == sum(1 for _ in photographs.matches.by_image_pair())
    assert not left_out(verdicts)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_street_loses_all_look_alikes_and_stays_in_one_piece(seed):
    photographs = street(seed)
    verdicts = judge(photographs)
    assert len(photographs.wrong) > 20
    assert photographs.wrong <= left_out(verdicts)
    right = np.array([(v.i, v.j) for v in verdicts if v.right])
    assert np.ptp(groups(len(photographs.keypoints), right)) == 0
    assert all(bool(v.reason) != v.right for v in verdicts)


def test_the_order_of_the_images_does_not_matter():
    one = street(0)
    order = np.random.default_rng(3).permutation(len(one.keypoints))
    forward, shuffled = judge(one), judge(reordered(one, order))
    back = {tuple(sorted((int(order[i]), int(order[j])))) for i, j in left_out(shuffled)}
    assert back == left_out(forward)


def test_no_matches_and_no_features_are_no_fault():
    none = StoredKeypoints(np.empty((0, 2), np.float32), *(np.empty(0, np.float32),) * 2, None)
    matches = PairwiseMatches.from_entries([], [], [0, 0, 0])
    assert judge(Photographs(matches, [none] * 3, set())) == []


def test_all_evidence_is_explained():
    known = {"i", "j", "matches", "tracks", "right", "reason"}
    assert set(EVIDENCE) == {field.name for field in fields(PairVerdict)} - known


def test_a_wrong_side_makes_an_unknown_side_wrong_and_two_right_sides_a_right_one():
    # Pairs 01, 02, 12: every one is seen from the third image.
    sides, shares = np.array([[0, 1, 2], [1, 0, 2], [2, 0, 1]]), np.ones(3)
    assert beliefs(np.array([-3.0, 2.0, 0.3]), sides, shares)[2] < 0
    assert beliefs(np.array([3.0, 2.0, -0.3]), sides, shares)[2] > 0
    assert beliefs(np.array([-3.0, -3.0, 0.3]), sides, shares)[2] > 0


def test_unique_tracks_speak_at_any_rate_of_matches():
    assert log_odds(Rates(unique=0.1, alike=0.1, unique_expected=300, alike_expected=300)) > 0
    assert log_odds(Rates(unique=0.0, alike=0.1, unique_expected=300, alike_expected=300)) < 0
    assert log_odds(Rates(unique=0.0, alike=0.6, unique_expected=300, alike_expected=3)) == 0


def test_bridges_are_the_pairs_without_which_there_are_more_groups():
    pairs = np.array([(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5), (5, 6)])
    assert bridges(8, pairs).tolist() == [False] * 3 + [True] + [False] * 3 + [True]


def test_the_strongest_bridge_comes_back_unless_it_contradicts_itself():
    # Two groups of three images, and one image alone.
    pairs = np.array([(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (5, 6)])
    right = np.array([True] * 4 + [False] * 4)
    strength = np.array([9.0, 9, 9, 9, 8, 5, 3, 1])
    in_doubt = np.array([1.0, 1, 1, 1, -0.5, 0.1, 0.2, -0.5])
    assert np.flatnonzero(restored(7, pairs, right, in_doubt, strength)).tolist() == [
        0,
        1,
        2,
        3,
        5,
        7,
    ]
    wrong = np.where(right, 1, -2.0)
    assert restored(7, pairs, right, wrong, strength).tolist() == right.tolist()
