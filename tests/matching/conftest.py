"""Both kernels that find nearest neighbours."""

import pytest

from nmfsync.matching import nearest, nearest_vnni


@pytest.fixture(params=[True, False], ids=["bytes", "BLAS"])
def kernel(request, monkeypatch):
    """Either way of making products."""
    if request.param and not nearest_vnni.multiplies_bytes():
        pytest.skip("this processor has no VPDPBUSD")
    monkeypatch.setattr(nearest, "USE_BYTES", request.param)
