"""Detector-free matches of the rendered scene, whose truth is exact, made into tracks."""

import numpy as np
import pytest

import rendered
from detector_free import hloc_aggregation, rendered_pairs
from nmfsync.matching.merging import are_shared, merge, verify_positions
from nmfsync.types.positions import PositionPair


def pairs_of(simulated):
    return [PositionPair(i, j, *arrays) for (i, j), arrays in simulated.items()]


def errors(xy, rows):
    """Distances of matches from where they should be, in pixels; those that can be judged."""
    found = []
    for (i, j), matched in rows.items():
        moved, valid = rendered.scene().transfer(i, j, xy[i][matched[:, 0]].astype(float))
        found.append(np.linalg.norm(moved - xy[j][matched[:, 1]], axis=1)[valid])
    return np.concatenate(found)


@pytest.fixture(scope="module")
def simulated():
    return rendered_pairs()


@pytest.fixture(scope="module")
def verified(simulated):
    return verify_positions(pairs_of(simulated))


@pytest.fixture(scope="module")
def merged(verified):
    return merge(verified, 5)


def test_verification_leaves_out_what_neighbours_deny(simulated, verified):
    kept = sum(len(pair.scores) for pair in verified)
    assert (
        0.8 < kept / sum(len(scores) for *_, scores in simulated.values()) < 0.96
    )  # 5 % are wrong
    whole = {(p.i, p.j): np.column_stack([np.arange(len(p.xy0))] * 2) for p in verified}
    far = [errors({p.i: p.xy0, p.j: p.xy1}, {(p.i, p.j): whole[p.i, p.j]}) > 10 for p in verified]
    assert np.concatenate(far).mean() < 0.003


def test_a_track_has_one_place_of_an_image(merged):
    for track in merged.track:
        assert len(np.unique(track)) == len(track)
    for (i, j), rows in merged.rows.items():
        assert np.array_equal(merged.track[i][rows[:, 0]], merged.track[j][rows[:, 1]])
    lengths = np.bincount(np.concatenate(merged.track))
    assert lengths.min() >= 2
    assert lengths.mean() > 3.5


def test_more_observations_at_smaller_errors_than_hloc(simulated, merged):
    ours = errors(merged.xy, merged.rows)
    for max_error, cell_size in ((1, 1), (2, 8)):
        keypoints, matches = hloc_aggregation(simulated, max_error, cell_size)
        rows = {pair: r for pair, (r, _) in matches.items()}
        theirs = errors(keypoints, rows)
        assert np.median(ours) < 0.8 * np.median(theirs)
        assert np.mean(ours > 4) < 0.5 * np.mean(theirs > 4)
        assert len(ours) > 1.05 * len(theirs)


def test_keypoints_are_apart_where_tracks_begin(verified):
    few, many = (sum(map(len, merge(verified, 5, radius).xy)) for radius in (16.0, 4.0))
    assert many > 3 * few


def test_same_input_same_tracks(verified, merged):
    again = merge(verified, 5)
    assert all(np.array_equal(a, b) for a, b in zip(again.xy, merged.xy, strict=True))
    assert again.rows.keys() == merged.rows.keys()


def test_a_pair_that_contradicts_the_others_is_left_out(verified, merged):
    # All matches of images 0 and 3 are off by the same 12 pixels, which agrees with neighbours.
    shifted = [
        p._replace(xy1=p.xy1 + np.float32(12)) if (p.i, p.j) == (0, 3) else p for p in verified
    ]
    found = merge(shifted, 5)
    others = {pair: rows for pair, rows in found.rows.items() if pair != (0, 3)}
    assert len(found.rows[0, 3]) < 0.25 * len(merged.rows[0, 3])
    assert np.mean(errors(found.xy, others) > 6) < 0.02


def test_features_that_pairs_share_stay_where_they_are():
    # Feature n of three images is one point, but two of one image look alike in one pair.
    rng = np.random.default_rng(0)
    xy = [rng.random((30, 2)).astype(np.float32) * 200 for _ in range(4)]
    ones = np.ones(30, np.float32)
    pairs = [PositionPair(i, j, xy[i], xy[j], ones) for i in range(4) for j in range(i + 1, 4)]
    swapped = xy[3].copy()
    swapped[[4, 5]] = swapped[[5, 4]]
    pairs[2] = pairs[2]._replace(xy1=swapped)  # of images 0 and 3
    assert are_shared(pairs)
    found = merge(pairs, 4)
    assert [len(points) for points in found.xy] == [30] * 4
    for points, expected in zip(found.xy, xy, strict=True):
        assert {tuple(p) for p in points.tolist()} == {tuple(p) for p in expected.tolist()}
    assert len(np.unique(np.concatenate(found.track))) == 30
    assert len(found.rows[0, 3]) == 28
    assert len(found.rows[1, 3]) == 30


def test_detector_free_positions_are_not_shared(simulated):
    assert not are_shared(pairs_of(simulated))


def test_one_match_and_none():
    xy = np.array([[3, 4]], np.float32)
    found = merge([PositionPair(0, 2, xy, xy + 1, np.ones(1, np.float32))], 3)
    assert [len(points) for points in found.xy] == [1, 0, 1]
    assert found.rows[0, 2].tolist() == [[0, 0]]
    np.testing.assert_allclose(found.xy[2], xy + 1, atol=1e-4)
    assert merge([], 2).rows == {}
