"""How tracks are judged and what contradicts them, compared with plain loops."""

from itertools import chain, combinations

import numpy as np
import pytest

from builders import matches_of
from matched_images import Matched, matched_images
from nmfsync import MultiMatching
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.contradictions import (
    contradictions,
    features_taken,
    inconsistent_components,
    judge_tracks,
)
from nmfsync.evaluation.match_table import judge_matches, match_table


@pytest.fixture(scope="module", params=range(3))
def example(request) -> Matched:
    return matched_images(request.param)


def table_of(example: Matched):
    return match_table(example.confidences, [len(f) for f in example.features])


def tracks_of(result: MultiMatching) -> list[list[int]]:
    return [[int(result.offsets[i]) + f for i, f in track.tolist()] for track in result.tracks()]


def test_a_track_and_its_members_are_judged_by_all_pairs(example):
    table, result = table_of(example), example.results["clustersync"]
    judgement = judge_matches(table, example.errors, [101] * 5)
    found = judge_tracks(
        table, judgement, example.confidences["clustersync"], "clustersync", result
    )
    probability = example.matches("clustersync")
    for track in tracks_of(result):
        pairs = {pair: example.shares(*pair) for pair in combinations(track, 2)}
        at = result.universe[track[0]]
        shares = [*chain(*pairs.values())]
        assert found.judged[at] == len(shares)
        assert found.right[at] == sum(share <= 0.01 for share in shares)
        worst = 101 * max(shares, default=np.nan)
        assert found.pixels[at] == pytest.approx(worst, rel=1e-6, nan_ok=True)
        assert found.probability[at] == pytest.approx(np.mean([probability[p] for p in pairs]))
        for member in track:
            own = [pair for pair in pairs if member in pair]
            shares = [*chain(*(pairs[pair] for pair in own))]
            assert found.member_judged[member] == len(shares)
            assert found.member_right[member] == sum(share <= 0.01 for share in shares)
            mean = np.mean([probability[pair] for pair in own])
            assert found.member_probability[member] == pytest.approx(mean)


def test_contradictions_are_removed_matches_seen_from_a_member(example):
    table, result = table_of(example), example.results["clustersync"]
    found = contradictions(table, result)
    expected = set()
    for track in tracks_of(result):
        for p, q in example.matches("input"):
            if (p in track) != (q in track):
                expected.add((p, q) if p in track else (q, p))
    listed = list(zip(found.a.tolist(), found.b.tolist(), strict=True))
    assert len(listed) == len(expected)
    assert set(listed) == expected
    ends = np.sort(np.column_stack([found.a, found.b]))
    assert np.array_equal(ends, np.column_stack([table.p[found.row], table.q[found.row]]))


def test_the_feature_of_a_track_in_an_image(example):
    result = example.results["clustersync"]
    tracks, images = np.indices((result.universe_size, 5)).reshape(2, -1)
    expected = np.full((result.universe_size, 5), -1)
    expected[result.universe, result.image_of] = np.arange(len(result.universe))
    assert np.array_equal(features_taken(result, tracks, images), expected.ravel())


def test_inconsistent_components_are_split_into_tracks():
    # A chain through two features of image 0, which was cut at 1–4; and a consistent one.
    edges = [(0, 2), (2, 4), (1, 4), (3, 5)]
    known = matches_of(edges, [2, 2, 2])
    result = MultiMatching([0, 1, 0, 2, 0, 2], [2, 2, 2])
    table = match_table({"input": estimate_confidence(known, known)}, known.sizes)
    found = inconsistent_components(table, known, result)
    assert [of.tolist() for of in found[:5]] == [[4], [3], [3], [1], [1]]
    assert found.of_feature.tolist() == [0, 0, 0, -1, 0, -1]


def test_inconsistent_components_with_the_most_removed_matches_come_first():
    short, long = [(0, 4), (4, 6), (1, 6)], [(2, 5), (5, 7), (7, 8), (3, 8)]
    known = matches_of(short + long, [4, 2, 2, 1])
    result = MultiMatching(np.arange(9), known.sizes)
    table = match_table({"input": estimate_confidence(known, known)}, known.sizes)
    found = inconsistent_components(table, known, result)
    assert found.removed.tolist() == [4, 3]
    assert found.tracks.tolist() == [0, 0]
    assert found.of_feature.tolist() == [1, 1, 0, 0, 1, 0, 1, 0, 0]
