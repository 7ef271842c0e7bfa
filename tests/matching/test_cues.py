"""What tells right matches from wrong ones, against plain NumPy and by hand."""

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import make_features
from nmfsync.matching.cues import ANGLE, DECOY, RATIO, SIZE, SUPPORT, X, Y, describe, frames_of

LONE = np.log(0.1 / 1)  # support of a match without neighbours


def ratio_of(rows):
    """Distance by that to the second nearest, 1 without one."""
    squared, second = rows[:, 2].astype(float), rows[:, 3].astype(float)
    return np.sqrt(np.divide(squared, second, out=np.ones(len(rows)), where=second > 0))


def neighbours(p, q, found, left):
    """Which matches are asked about the match of p and q: those of the smallest square."""
    at = left[found[:, 0], :2]
    low, (width, height) = at.min(axis=0), np.ptp(at, axis=0)
    n = len(found)
    side = max(np.sqrt(width * height * 2 / n), max(width, height) * 2 / n, 1)
    cells_away = np.abs(np.floor((at - low) / side) - np.floor((left[p, :2] - low) / side))
    away = cells_away.max(axis=1)
    reach = next(r for r in count(1) if (away <= r).sum() > 16 or (away <= r).all())
    return (away <= reach) & (found[:, 0] != p) & (found[:, 1] != q)


def agreement(p, q, found, left, right):
    """How much every match agrees with that of p and q, from 0 to 1."""
    s, turn = right[q, SIZE] / left[p, SIZE], right[q, ANGLE] - left[p, ANGLE]
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    away = left[found[:, 0], :2] - left[p, :2]
    error = right[q, :2] + s * away @ rotation.T - right[found[:, 1], :2]
    tolerance = 0.4 * s * np.linalg.norm(away, axis=1) + 4 * max(1, s)
    return np.exp(-(error**2).sum(axis=1) / tolerance**2)


def sums(rows, weight, found, left, right):
    """Σ w g and Σ w over the neighbours of every row, (n, 2)."""
    result = []
    for p, q in rows[:, :2]:
        w = weight * neighbours(p, q, found, left) if len(found) else weight
        result.append([(w * agreement(p, q, found, left, right)).sum(), w.sum()])
    return np.reshape(result, (-1, 2))


def same_place(decoy, found, left, right):
    """Whether the match of one end of a decoy leads to where its other end is."""
    p, q = decoy[:2]
    close = [
        np.hypot(*(a[:2] - b[:2])) < 0.5 * max(a[SIZE], b[SIZE])
        for s, t in found[:, :2]
        for a, b in [(left[p], left[s]) if t == q else (right[q], right[t])]
        if s == p or t == q
    ]
    return any(close)


def described(found, decoys, left, right):
    """What the docstring of `describe` says, match by match: (n, 7)."""
    left, right = left.astype(float), right.astype(float)
    first = 1 - ratio_of(found) ** 4
    agree = sums(found, first, found, left, right)[:, 0]
    weight = first * agree / (agree + 1)
    kept = [decoy[3] >= 0 and not same_place(decoy, found, left, right) for decoy in decoys]
    decoys = decoys[np.array(kept, bool)]
    exponent = [
        1 + (1 - weight[found[:, 0] == p]).sum() / 2 + (1 - weight[found[:, 1] == q]).sum() / 2
        for p, q in decoys[:, :2]
    ]
    rows = np.concatenate([found, decoys])
    ratio = np.concatenate([ratio_of(found), ratio_of(decoys) ** np.array(exponent)])
    agree, every = sums(rows, weight, found, left, right).T
    support = np.log((agree + 0.1) / (every + 1))
    return np.column_stack([rows, ratio, support, np.arange(len(rows)) >= len(found)])


def random_frames(rng, n, extent):
    """Features at whole pixels, many at the same place if the extent is small."""
    xy = rng.integers(0, np.add(extent, 1), (n, 2)) + rng.integers(-50, 50, 2)
    size, angle = rng.choice([1, 2, 3, 8, 20], n), rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([xy, size, angle]).astype(np.float32)


def random_matches(rng, pairs):
    """Distances for pairs (p, q) of features: some are equal, some 0, some have no second."""
    n = len(pairs)
    second = rng.integers(0, 1000, n)
    nearest = (second * rng.choice([0, 0.5, 0.9, 1], n)).astype(np.int64)
    second[rng.random(n) < 0.1] = -1
    return np.column_stack([pairs, nearest, second]).astype(np.int32)


def partial_permutation(rng, m, n):
    """Pair off some features of images with m and n."""
    size = rng.integers(0, min(m, n) + 1)
    return np.column_stack([np.sort(rng.permutation(m)[:size]), rng.permutation(n)[:size]])


@settings(max_examples=150)
@given(
    sizes=st.tuples(st.integers(0, 70), st.integers(0, 70)),
    extent=st.sampled_from([(0, 0), (3, 4), (500, 0), (0, 200), (300, 200)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_the_definition(sizes, extent, seed):
    """In images, strips, and where all features are at one place."""
    rng = np.random.default_rng(seed)
    left, right = (random_frames(rng, n, extent) for n in sizes)
    found, decoys = (random_matches(rng, partial_permutation(rng, *sizes)) for _ in range(2))
    decoys = decoys[~(decoys[:, None, :2] == found[None, :, :2]).all(axis=2).any(axis=1)]
    result = describe(found, decoys, left, right)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, described(found, decoys, left, right), rtol=1e-4, atol=1e-4)


def lattice(wrong=()):
    """Matches of a lattice of 7 × 7 points that is turned by 90° and made twice as large.

    The `wrong` ones lead far away. Returns the matches and the frames of both images.
    """
    x, y = np.divmod(np.arange(49.0), 7) * np.array([[30], [30]])
    left = np.column_stack([x, y, np.full(49, 4), np.full(49, 0.1)]).astype(np.float32)
    turned = [1000 - 2 * y, 2 * x, np.full(49, 8), np.full(49, 0.1 + np.pi / 2)]
    right = np.column_stack(turned).astype(np.float32)
    right[list(wrong), :2] += 300
    number = np.arange(49)
    found = np.column_stack([number, number, np.full(49, 25), np.full(49, 100)]).astype(np.int32)
    return found, left, right


NO_DECOYS = np.empty((0, 4), np.int32)


def test_matches_whose_neighbours_move_as_they_do_have_support():
    result = describe(lattice()[0], NO_DECOYS, *lattice()[1:])
    np.testing.assert_allclose(result[:, RATIO], 0.5)
    assert result[:, SUPPORT].min() > -0.2  # log((Σ w + .1) / (Σ w + 1)) at best


def test_matches_whose_neighbours_do_not_move_as_they_do_have_none():
    support = describe(lattice(wrong=[10, 24])[0], NO_DECOYS, *lattice(wrong=[10, 24])[1:])[
        :, SUPPORT
    ]
    assert support[[10, 24]].max() < -2
    assert np.delete(support, [10, 24]).min() > -0.4


def test_turning_scaling_and_shifting_the_second_image_changes_nothing():
    found, left, right = lattice(wrong=[10, 24, 25])
    c, s = np.cos(0.8), np.sin(0.8)
    moved = right.copy()
    moved[:, :2] = 3 * right[:, :2] @ np.array([[c, s], [-s, c]]) + [500, -70]
    moved[:, SIZE] *= 3
    moved[:, ANGLE] += 0.8
    result = describe(found, NO_DECOYS, left, right)
    np.testing.assert_allclose(describe(found, NO_DECOYS, left, moved), result, atol=1e-4)


def test_a_scale_or_orientation_that_does_not_fit_costs_support():
    found, left, right = lattice()
    for column, change in ((SIZE, right[:, SIZE]), (ANGLE, 1.0)):
        frames = right.copy()
        frames[:, column] += change
        assert describe(found, NO_DECOYS, left, frames)[:, SUPPORT].max() < -0.8


def test_the_order_of_the_matches_makes_no_difference():
    found, left, right = lattice(wrong=range(5, 30))
    order = np.random.default_rng(0).permutation(49)
    result = describe(found, NO_DECOYS, left, right)
    again = describe(found[order], NO_DECOYS, left, right)
    np.testing.assert_allclose(again, result[order], atol=1e-5)


def pair_of_matches(second=(36, 100)):
    """Two matches 0–0 and 1–1, the ratios of decoys 0–1 and 1–0, and frames far from each other."""
    frames = np.array([[0, 0, 10, 0], [200, 0, 10, 0]], np.float32)
    found = np.array([[0, 0, 100, 100], [1, 1, 100, 100]], np.int32)
    decoys = np.array([[0, 1, *second], [1, 0, *second]], np.int32)
    return found, decoys, frames, frames.copy()


def test_a_decoy_in_place_of_two_wrong_matches_has_the_squared_ratio():
    """Matches of the ratio 1 have no weight."""
    result = describe(*pair_of_matches())
    assert result[:, DECOY].tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(result[:, RATIO], [1, 1, 0.36, 0.36], rtol=1e-6)
    np.testing.assert_allclose(result[:, SUPPORT], LONE, rtol=1e-6)


def test_a_decoy_in_place_of_two_right_matches_has_its_own_ratio():
    found, left, right = lattice()
    decoys = np.array([[0, 48, 36, 100]], np.int32)
    assert describe(found, decoys, left, right)[-1, RATIO] == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("away", "kept"), [(4, 0), (6, 2)])
def test_decoys_at_the_place_of_a_match_are_left_out(side, away, kept):
    """Features of 10 pixels that are nearer than 5 to each other show one point."""
    found, decoys, *frames = pair_of_matches()
    frames[side][1, X] = away
    assert describe(found, decoys, *frames)[:, DECOY].sum() == kept


def test_decoys_without_a_second_nearest_are_left_out():
    assert describe(*pair_of_matches(second=(36, -1)))[:, DECOY].tolist() == [0, 0]


def test_one_match_alone_and_none():
    found, _, left, right = pair_of_matches()
    alone = describe(found[:1], NO_DECOYS, left, right)
    np.testing.assert_allclose(alone, [[0, 0, 100, 100, 1, LONE, 0]], rtol=1e-6)
    assert describe(NO_DECOYS, NO_DECOYS, left, right).shape == (0, 7)
    assert describe(NO_DECOYS, NO_DECOYS, left[:0], right[:0]).shape == (0, 7)


def test_a_decoy_far_from_all_matches_asks_them_all():
    """However many cells away they are."""
    found, left, right = lattice()
    left = np.vstack([left, [-3000, 9000, 4, 0.1]]).astype(np.float32)
    right = np.vstack([right, [1000 - 2 * 9000, -6000, 8, 0.1 + np.pi / 2]]).astype(np.float32)
    decoys = np.array([[49, 49, 36, 100]], np.int32)
    near = describe(found, decoys, left, right)[-1]
    assert near[SUPPORT] > -0.2


def test_frames_are_in_pixels_and_radians():
    features = make_features([(3, 4), (5, 6)], scale=0)
    features.orientation[1] = 90
    frames = frames_of(features)
    assert frames.dtype == np.float32
    assert frames[:, [X, Y]].tolist() == [[3, 4], [5, 6]]
    np.testing.assert_allclose(frames[:, ANGLE], [0, np.pi / 2])
    assert (frames[:, SIZE] > 0).all()  # or scales would have no ratio
