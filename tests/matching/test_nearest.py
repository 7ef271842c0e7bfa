"""The two kernels that find nearest neighbours."""

import numpy as np
import pytest

from builders import bits, random_features
from nmfsync.matching import nearest, nearest_vnni
from nmfsync.matching.match import match


def test_both_kernels_give_the_same_bits(monkeypatch):
    if not nearest_vnni.multiplies_bytes():
        pytest.skip("this processor has no VPDPBUSD")
    rng = np.random.default_rng(8)
    collection = [random_features(rng, n) for n in (700, 1, 1300)]
    collection[0].descriptors[:40] = 255  # the largest products
    collection[2].descriptors[30:60] = 255
    results = []
    for use_bytes in (True, False):
        monkeypatch.setattr(nearest, "USE_BYTES", use_bytes)
        results.append(match(collection, weighted=True))
    assert results[0].W.nnz > 2001
    assert bits(results[0]) == bits(results[1])


def test_a_processor_disguised_from_the_compiler_multiplies_by_blas(monkeypatch):
    monkeypatch.setattr(nearest_vnni.numba.config, "CPU_NAME", "generic")
    assert not nearest_vnni.multiplies_bytes()
