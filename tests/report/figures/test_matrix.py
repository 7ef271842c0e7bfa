"""Pictures of the match matrix."""

import numpy as np

from builders import matches_of
from nmfsync import MultiMatching
from nmfsync.report.figures.matrix import matrix_figure


def test_consistent_matches_line_up_in_the_matrix():
    # Image 2 lists the same four features backwards.
    result = MultiMatching([0, 1, 2, 3, 3, 2, 1, 0], [4, 4])
    figure = matrix_figure(matches_of([(0, 7), (1, 4)], [4, 4]), result, "nmfsync", ["a", "b"])
    before, after = (axes.images[0].get_array() for axes in figure.axes)
    inked = after.min(axis=2) < 1
    expected = np.zeros((8, 8), bool)
    expected[np.arange(4), np.arange(4, 8)] = expected[np.arange(4, 8), np.arange(4)] = True
    np.testing.assert_array_equal(inked, expected)
    # Of the input, one match stays (gray) and one, off the line, goes (orange).
    assert np.ptp(before[0, 4]) == 0
    assert before[1, 7, 0] - before[1, 7, 2] > 0.5
    assert (before.min(axis=2) < 1).sum() == 4


def test_the_matrix_of_many_features_is_counted_not_made():
    m = 100_000
    result = MultiMatching(np.tile(np.arange(m // 2), 2), [m // 2, m // 2])
    image = matrix_figure(result, result, "nmfsync", ["a", "b"]).axes[0].images[0]
    assert image.get_array().shape[0] <= 600
