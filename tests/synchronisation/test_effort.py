"""What would take too long, or more memory than there is, is refused before it starts."""

from types import SimpleNamespace

import numpy as np
import pytest

from builders import noisy, with_descriptors
from nmfsync import METHODS, NmfsyncError, PairwiseMatches, synchronise
from nmfsync.errors import TooLargeError

LIMITED = [name for name, record in METHODS.items() if record.effort is not None]


def test_methods_that_only_grow_linearly_have_no_limit():
    assert set(METHODS) - set(LIMITED) == {"clustersync", "unionfind"}


@pytest.mark.parametrize("method", LIMITED)
def test_the_limit_can_be_moved(method):
    """In one line, with the figures and a remedy. The limit itself changes no result."""
    matches = with_descriptors(noisy())
    message = (
        rf"^{method} would take about 1 minutes for .*, more than 1e-09; use fewer features or "
        "another method, or in Python a larger max_minutes$"
    )
    with pytest.raises(TooLargeError, match=message):
        synchronise(matches, method, max_minutes=1e-9)
    usual, patient = synchronise(matches, method), synchronise(matches, method, max_minutes=99)
    assert (usual.W != patient.W).nnz == 0
    assert "max_minutes" not in usual.settings
    for wrong in (0, "many", float("nan")):
        with pytest.raises(NmfsyncError, match="max_minutes must be a number greater than 0"):
            synchronise(matches, method, max_minutes=wrong)


@pytest.mark.parametrize("method", LIMITED)
def test_too_little_memory(method, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=10**4))
    with pytest.raises(TooLargeError, match=rf"^{method} needs about .* GB for .*, but 0.0 GB are"):
        synchronise(with_descriptors(noisy()), method)


def chain(m: int) -> PairwiseMatches:
    """Make one track through m images, each matched with the next one only."""
    return PairwiseMatches.from_entries(np.arange(m - 1), np.arange(1, m), [1] * m)


def estimated_minutes(matches: PairwiseMatches, method: str, universe_size="auto") -> float:
    record = METHODS[method]
    return record.estimate(matches, record.settings(matches, universe_size)).seconds / 60


def test_many_small_problems_are_not_one_large_one():
    """40,000 features in 2,000 tracks that differ in where they begin and end."""
    rng = np.random.default_rng(0)
    first, last = rng.integers(0, 8, 2000), rng.integers(12, 20, 2000)
    image = np.arange(20)[:, None]
    seen = (first <= image) & (image <= last)
    number = np.where(seen, np.cumsum(seen).reshape(seen.shape) - 1, -1)
    p, q = number[:-1][seen[:-1] & seen[1:]], number[1:][seen[:-1] & seen[1:]]
    tracks = PairwiseMatches.from_entries(p, q, seen.sum(axis=1))
    assert 0.1 < estimated_minutes(tracks, "matchals") < 3
    assert estimated_minutes(tracks, "clear") < 0.2
    assert estimated_minutes(tracks, "spectral") < 0.2
    # And a chain of a fourth of the features, in one piece, takes longer than all of them.
    assert estimated_minutes(chain(10_000), "matchals") > 3


@pytest.mark.parametrize("method", ["matchals", "clear"])
def test_large_problems_are_refused_at_once(method):
    m = 30_000
    with pytest.raises(TooLargeError, match=f"^{method} .* for .*30,000"):
        synchronise(chain(m), method)
