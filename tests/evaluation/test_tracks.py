"""Tracks counted, by hand."""

from builders import matches_of
from nmfsync import MultiMatching
from nmfsync.evaluation.tracks import track_counts


def test_union_find_throws_away_components_with_two_features_of_an_image():
    # Two points seen in three images; one wrong match (0 with 5) joins them.
    edges = [(0, 2), (2, 4), (1, 3), (3, 5)]
    counts = track_counts(matches_of(edges, [2, 2, 2]))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([3, 3], 0, 0)
    counts = track_counts(matches_of([*edges, (0, 5)], [2, 2, 2]))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([], 6, 0)
    counts = track_counts(matches_of([(0, 2)], [2, 2, 2]))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([2], 0, 4)


def test_synchronised_tracks_lose_nothing():
    counts = track_counts(MultiMatching([0, 1, 0, 2, 0, 1], [2, 2, 2]))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([2, 3], 0, 1)
