"""NmfSync: its variants, its threshold, and the authors' demo."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import io

import strategies
from builders import same
from nmfsync import (
    MultiMatching,
    NmfsyncWarning,
    PairwiseMatches,
    evaluation,
    synchronise,
    synthetic,
)
from real_data import real_data

# Random d may be too small, on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*universe size:nmfsync.NmfsyncWarning")

VARIANTS = [
    {},
    {"initialisation": "spectral"},
    {"factor": "H"},
    {"factor": "symmetric"},
]


@pytest.mark.parametrize("options", VARIANTS)
@settings(max_examples=15)
@given(matches=strategies.pairwise_matches(), d=st.integers(1, 12))
def test_variants_of_nmfsync_are_consistent(options, matches, d):
    result = synchronise(matches, "nmfsync", d, **options)
    assert evaluation.cycle_error(result.W, matches.sizes) == 0.0


@pytest.mark.parametrize("options", VARIANTS)
def test_variants_of_nmfsync_keep_noise_free_matches(options):
    W, _, sizes = synthetic.generate(k=8, d=10, rho=0.6, sigma=0.0, seed=1)
    assert same(synchronise(PairwiseMatches(W, sizes), "nmfsync", 10, **options).W, W)


def test_authors_demo_instance():
    """Their own code under Octave: f-score .76325 -> .9942, cycle-error 1.2223 -> 0."""
    demo = io.loadmat(real_data("landmarks/nmfsync/demo_data.mat"))
    sizes = demo["dimVector"].ravel().astype(int)
    result = synchronise(PairwiseMatches(demo["Wnoisy"], sizes), "nmfsync", 50)
    assert evaluation.f_score(demo["Wnoisy"], demo["W_gt"]) == pytest.approx(0.76325, abs=1e-5)
    assert evaluation.cycle_error(demo["Wnoisy"], sizes) == pytest.approx(1.2223, abs=1e-4)
    assert evaluation.f_score(result.W, demo["W_gt"]) == pytest.approx(0.9942, abs=1e-4)
    assert evaluation.cycle_error(result.W, sizes) == 0.0


def test_theta_prunes_what_fits_badly():
    W, _, sizes = synthetic.generate(k=12, d=10, rho=0.7, sigma=0.6, seed=2)
    matches = PairwiseMatches(W, sizes)
    counts = [synchronise(matches, "nmfsync", 10, theta).W.nnz for theta in (0, 0.3, 0.6, 1)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_surplus_features_stay_alone():
    """Three features in an image, but d = 2: one of them gets no partner."""
    truth = MultiMatching([0, 1, 2, 0, 1, 2, 0, 1, 2], [3, 3, 3])
    with pytest.warns(NmfsyncWarning, match="^nmfsync: universe size 2 is too small: 3 of 9"):
        result = synchronise(PairwiseMatches(truth.W, truth.sizes), "nmfsync", 2)
    assert result.universe.tolist() == [0, 1, 2, 0, 1, 3, 0, 1, 4]
