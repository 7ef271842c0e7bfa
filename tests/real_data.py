"""Where tests find real data, if there are any."""

import os
from pathlib import Path

import pytest


def real_data(name: str) -> Path:
    """Return the path of a file or folder below $NMFSYNC_DATA, or skip the test."""
    folder = os.environ.get("NMFSYNC_DATA")
    if not folder:
        pytest.skip("needs real data: set NMFSYNC_DATA to a folder that holds them")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"needs real data: {name} is not in $NMFSYNC_DATA")
    return path
