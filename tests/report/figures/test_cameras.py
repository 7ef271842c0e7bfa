"""From which sides cameras and points are drawn."""

import numpy as np
import pytest

from nmfsync.report.figures.cameras import _principal_axes


@pytest.mark.parametrize("count", [1, 2, 3, 4, 500])
def test_sides_are_three_perpendicular_directions_for_any_number_of_points(count):
    axes = _principal_axes(np.random.default_rng(count).normal(size=(count, 3)))
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)


def test_points_extend_most_along_the_first_direction():
    points = np.random.default_rng(0).normal(size=(500, 3)) * [1, 9, 3]
    assert np.abs(_principal_axes(points)).argmax(axis=1).tolist() == [1, 2, 0]
