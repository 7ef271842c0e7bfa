"""The rendered scene, for the tests of truths."""

import pytest

import rendered


@pytest.fixture(scope="session")
def scene() -> rendered.Rendered:
    """Return the scene whose depths are known exactly."""
    return rendered.scene()
