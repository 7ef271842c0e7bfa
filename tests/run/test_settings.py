"""Settings of a run: what is out of range."""

import pytest

from nmfsync import NmfsyncError, Settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"methods": ()}, "no method given"),
        ({"methods": ("nmfsnc",)}, "did you mean nmfsync"),
        ({"features": 0}, "number of features must be at least 1"),
        ({"contrast": 1.0}, "contrast must be at least 0 and less than 1, got 1.0"),
        ({"ratio": 0.0}, "ratio must be greater than 0 and at most 1, got 0.0"),
        ({"distance": -1.0}, "distance must not be negative, got -1.0"),
        (
            {"geometry": "essential"},
            "geometry must be fundamental or homography, got 'essential'",
        ),
        ({"universe_size": 0}, "universe size must be auto or a whole number from 1, got 0"),
        ({"theta": 1.5}, "theta must be between 0 and 1, got 1.5"),
    ],
)
def test_settings_out_of_range(values, message):
    with pytest.raises(NmfsyncError, match=message):
        Settings(**values)
