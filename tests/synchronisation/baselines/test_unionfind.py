"""Union-find: small cases by hand."""

import warnings

import pytest

from builders import matches_of
from nmfsync import NmfsyncWarning
from nmfsync.synchronisation.baselines.unionfind import unionfind


def test_unionfind_follows_chains_and_drops_contradictions():
    """0-2-4 is a track; 1-3-5 too, but 5 leads back to 6 of the image of 1."""
    consistent = matches_of([(0, 2), (2, 4), (1, 3)], [2, 2, 2])
    assert unionfind(consistent).universe.tolist() == [0, 1, 0, 1, 0, 2]
    contradictory = matches_of([(0, 3), (3, 5), (1, 4), (4, 6), (6, 2)], [3, 2, 2])
    with pytest.warns(NmfsyncWarning, match="^4 of 7 features are in tracks that see an image"):
        result = unionfind(contradictory)
    assert result.universe.tolist() == [0, 1, 2, 0, 3, 0, 4]


def test_unionfind_is_silent_if_nothing_is_dropped():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unionfind(matches_of([(0, 1)], [1, 1]))
