"""Every method: consistent matches come back for any d, and nothing comes of nothing."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from builders import same
from nmfsync import METHODS, MultiMatching, NmfsyncWarning, PairwiseMatches, synchronise
from nmfsync.synchronisation.methods import resolve_universe_size
from nmfsync.synchronisation.numerics.components import label_components

# QuickMatch does not look at the matches.
ALL = [name for name, record in METHODS.items() if not record.needs_descriptors]

# By other ways through the same code.
VARIANTS = [
    *((name, {}) for name in ALL),
    ("nmfsync", {"initialisation": "spectral"}),
    ("nmfsync", {"factor": "H"}),
    ("nmfsync", {"factor": "symmetric"}),
    ("matcheig", {"threshold": 0.0}),
]


@pytest.fixture(autouse=True)
def _degraded_results_are_allowed():
    warnings.filterwarnings("ignore", category=NmfsyncWarning)


def matches_of(truth: MultiMatching) -> PairwiseMatches:
    return PairwiseMatches(truth.W, truth.sizes)


def check_recovered(method: str, truth: MultiMatching, d: int | str, **options) -> None:
    assert same(synchronise(matches_of(truth), method, d, **options).W, truth.W)


@pytest.mark.parametrize(("method", "options"), VARIANTS)
@settings(max_examples=12)
@given(truth=strategies.multi_matchings(), data=st.data())
def test_consistent_matches_come_back_for_any_sufficient_d(method, options, truth, data):
    """Whatever images see: nothing, the same, or other points than the rest do."""
    m, d = len(truth.universe), truth.universe_size
    if m:
        check_recovered(method, truth, data.draw(st.integers(d, m)), **options)
        check_recovered(method, truth, 10 * m, **options)
        if resolve_universe_size("auto", truth.sizes) >= d:
            check_recovered(method, truth, "auto", **options)


CASES = {
    "two images": MultiMatching(np.tile(np.arange(12), 2), [12, 12]),
    "three images that see a part": MultiMatching(
        [*range(40), *range(20, 50), *range(15, 50)], [40, 30, 35]
    ),
    "two groups of images": MultiMatching([0, 1, 0, 1, 2, 3, 2, 3], [2, 2, 2, 2]),
    "images without features": MultiMatching([0, 1, 2, 0, 1, 3], [0, 3, 0, 3, 0]),
    "one match": MultiMatching([0, 1, 2, 0, 3, 4], [3, 3]),
    "many images": MultiMatching(np.tile(np.arange(3), 60), [3] * 60),
}


@pytest.mark.parametrize("truth", CASES.values(), ids=CASES)
@pytest.mark.parametrize("method", ALL)
def test_consistent_matches_come_back(method, truth):
    d, m = truth.universe_size, len(truth.universe)
    for size in {d, d + 1, (d + m) // 2, m - 1, m, "auto"}:
        if size == "auto" or d <= size:
            check_recovered(method, truth, size)


@pytest.mark.parametrize("method", [m for m in ALL if "universe_size" in METHODS[m].arguments])
def test_a_long_track_has_one_eigenvector(method):
    """All its other eigenvalues are 0: of a component too large for the dense solver."""
    check_recovered(method, MultiMatching([0] * 1510, [1] * 1510), 4)


@pytest.mark.parametrize("method", ALL)
@settings(max_examples=15)
@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=5), d=st.integers(1, 30))
def test_no_match_from_nothing(method, sizes, d):
    """Above all with d features in every image, where each has room in the first image."""
    alone = MultiMatching(np.arange(sum(sizes)), sizes)
    check_recovered(method, alone, d)
    if sizes[0]:
        check_recovered(method, MultiMatching(np.arange(3 * sizes[0]), [sizes[0]] * 3), sizes[0])


@pytest.mark.parametrize(("method", "options"), VARIANTS)
@settings(max_examples=15)
@given(matches=strategies.pairwise_matches(weighted=True), data=st.data())
def test_matches_follow_paths_of_matches(method, options, matches, data):
    """With one d that is most likely to fit images of equal size, and any other."""
    if not matches.sizes.sum():
        return
    d = data.draw(st.one_of(st.sampled_from(sorted({*matches.sizes} - {0})), st.integers(1, 12)))
    component = label_components(matches.W)
    for given_matches in (matches, matches.unweighted()):
        W = synchronise(given_matches, method, int(d), **options).W
        assert np.isfinite(W.data).all()
        p, q = W.tocoo().coords
        assert (component[p] == component[q]).all()


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e-3])
def test_tiny_weights_are_bounded(method, scale):
    """Probabilities next to nothing: no error, and no match that has no path."""
    W = np.kron(np.ones((3, 3)), np.eye(2)) * scale
    W[np.triu_indices(6)] *= np.linspace(0.5, 1, 21)
    W = np.triu(W, 1)
    result = synchronise(PairwiseMatches(W + W.T, [2, 2, 2]), method, 2)
    assert result.W.nnz <= 18


def test_warnings_name_their_method_once():
    """And say what to do."""
    truth = MultiMatching([0, 1, 2, 0, 1, 2], [3, 3])
    for method in ("nmfsync", "spectral", "matcheig"):
        with pytest.warns(NmfsyncWarning) as caught:
            synchronise(matches_of(truth), method, 2)
        assert [str(warning.message) for warning in caught] == [
            f"{method}: universe size 2 is too small: 2 of 6 matched features cannot be "
            "represented and lose their matches; give a larger one"
        ]
    twice = PairwiseMatches.from_entries([0, 2, 3], [2, 3, 1], [2, 1, 1])
    with pytest.warns(NmfsyncWarning, match="^unionfind: 4 of 4 features are in tracks that see"):
        synchronise(twice, "unionfind")
