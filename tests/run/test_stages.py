"""Stages: kept with what they took and warned of."""

import warnings

import numpy as np
import pytest

from nmfsync import NmfsyncWarning
from nmfsync.run.stages import Stages, measure
from nmfsync.runtime.cache import key_of


def test_stage_keeps_result_record_and_warnings(tmp_path):
    def compute():
        warnings.warn("half of it is missing", NmfsyncWarning, stacklevel=1)
        return np.arange(3)

    def stage(key, compute=compute):
        stages = Stages(tmp_path, bars=False)
        result = stages.run("it", "s.npz", key, compute, lambda a: {"a": a}, lambda d: d["a"])
        return result, stages.records["it"]

    first, record = stage(key_of("settings", 1))
    again, stored = stage(key_of("settings", 1), compute=None)
    assert again.tolist() == first.tolist() == [0, 1, 2]
    assert stored == record
    assert record.warnings == ["half of it is missing"]
    other, _ = stage(key_of("settings", 2), compute=lambda: np.arange(5))
    assert len(other) == 5


def test_measure_sees_the_peak_and_passes_other_warnings_on():
    with pytest.warns(UserWarning, match="not ours"):
        result, record = measure(lambda: warnings.warn("not ours", UserWarning, stacklevel=1))
    assert (result, record.warnings) == (None, [])
    _, record = measure(lambda: np.ones(10**6).sum())
    assert 8 <= record.peak_memory_mb < 9
