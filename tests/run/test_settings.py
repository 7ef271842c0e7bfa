"""Settings of a run: what is out of range."""

import pytest

from nmfsync import NmfsyncError, Settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"methods": ()}, "no method given"),
        ({"methods": ("nmfsnc",)}, "did you mean nmfsync"),
        ({"features": 0}, "number of features must be at least 1"),
        ({"contrast": 1.0}, "contrast must lie between 0 and 1"),
        ({"ratio": 0.0}, "ratio must lie between 0 and 1"),
        ({"distance": -1.0}, "largest distance must not be negative"),
        (
            {"verify": "essential"},
            "cannot verify by 'essential'; known are fundamental, homography",
        ),
        ({"universe": 0}, "universe size must be auto or at least 1"),
        ({"theta": 1.5}, "theta must lie between 0 and 1"),
    ],
)
def test_settings_out_of_range(values, message):
    with pytest.raises(NmfsyncError, match=message):
        Settings(**values)
