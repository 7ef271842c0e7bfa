"""Both ways of making products."""

import pytest

from nmfsync.matching import kernels, nearest


@pytest.fixture(params=[True, False], ids=["own", "BLAS"])
def kernel(request, monkeypatch):
    """The processor's own kernel, or BLAS."""
    if request.param and kernels.KERNEL is kernels.BLAS:
        pytest.skip("for this processor there is no kernel but BLAS")
    if not request.param:
        monkeypatch.setattr(nearest, "KERNEL", kernels.BLAS)
