"""Probabilities of matches: calibrated where decoys look like wrong matches, and on photographs."""

import numpy as np
import pytest

from nmfsync import evaluation, extract_all, load_scene, match, synchronise
from nmfsync.matching import evidence
from nmfsync.matching.cues import COLUMNS, RATIO, SUPPORT
from nmfsync.matching.evidence import learn_probabilities
from nmfsync.scenes.catalogue import scene_names
from real_data import real_data


def described(rng, ratio, support):
    """Rows whose ratio and support are normally distributed about these means, within limits."""
    rows = np.zeros((len(ratio), COLUMNS), np.float32)
    rows[:, RATIO] = np.clip(rng.normal(ratio, 0.08), 0.01, 1)
    rows[:, SUPPORT] = np.minimum(rng.normal(support, 0.5), -0.01)
    return rows


def simulated(share, n=20_000, seed=0):
    """Matches, decoys, and which matches are right: wrong ones look like decoys."""
    rng = np.random.default_rng(seed)
    right = rng.random(n) < share
    matches = described(rng, np.where(right, 0.7, 0.85), np.where(right, -0.8, -1.8))
    decoys = described(rng, np.full(n, 0.85), np.full(n, -1.8))
    return matches, decoys, right


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("n", [600, 20_000])
def test_of_matches_with_probability_p_the_share_p_is_right(share, n):
    matches, decoys, right = simulated(share, n)
    P = learn_probabilities(matches, decoys)
    assert P.mean() == pytest.approx(right.mean(), abs=0.06)
    bins = np.minimum((10 * P).astype(int), 9)
    gap = [abs((P - right)[bins == b].sum()) for b in range(10)]
    assert sum(gap) / n < 0.07


def test_fewer_decoys_than_matches_stand_for_all_wrong_matches():
    matches, decoys, _ = simulated(0.5)
    difference = learn_probabilities(matches, decoys[:4000]) - learn_probabilities(matches, decoys)
    assert np.abs(difference).mean() < 0.03


def test_log_odds_are_linear_in_ratio_and_support():
    """The smaller the ratio and the larger the support, the surer the match."""
    matches, decoys, _ = simulated(0.5)
    P = learn_probabilities(matches, decoys)
    within = (P > 0.002) & (P < 0.998)
    X = np.column_stack([np.ones(len(P)), matches[:, [RATIO, SUPPORT]]])[within]
    log_odds = np.log(P / (1 - P))[within]
    coefficients = np.linalg.lstsq(X, log_odds, rcond=None)[0]
    np.testing.assert_allclose(X @ coefficients, log_odds, atol=1e-6)
    assert coefficients[1] < 0 < coefficients[2]


def test_probabilities_are_never_certain():
    matches, decoys, right = simulated(0.5)
    matches[right] = [0, 0, 0, 0, 0.1, -0.01, 0]  # nothing is easier than to tell them apart
    P = learn_probabilities(matches, decoys)
    assert 0.001 <= P.min() < 0.002
    assert P.max() == pytest.approx(0.999)


def test_the_order_of_the_matches_makes_no_difference():
    matches, decoys, _ = simulated(0.5, 2000)
    P = learn_probabilities(matches, decoys)
    order = np.random.default_rng(1).permutation(2000)
    again = learn_probabilities(matches[order], decoys[order[::-1]])
    np.testing.assert_allclose(again, P[order], rtol=1e-6)


def test_a_sample_teaches_as_much(monkeypatch):
    matches, decoys, _ = simulated(0.5)
    P = learn_probabilities(matches, decoys)
    monkeypatch.setattr(evidence, "SAMPLES", 3000)
    assert 0 < np.abs(learn_probabilities(matches, decoys) - P).mean() < 0.03


def test_same_bits_for_any_number_of_threads(in_another_process):
    """With so many matches that linear algebra divides the work."""
    matches, decoys, _ = simulated(0.5, 100_000)
    here = learn_probabilities(matches, decoys)
    assert in_another_process(learn_probabilities, matches, decoys).tobytes() == here.tobytes()


@pytest.mark.parametrize(("matches", "decoys"), [(49, 1000), (1000, 49), (1000, 0), (0, 0)])
def test_few_matches_or_decoys_teach_nothing(matches, decoys):
    rows, nulls, _ = simulated(0.5, 1000)
    P = learn_probabilities(rows[:matches], nulls[:decoys])
    expected = np.clip(1 - rows[:matches, RATIO].astype(float) ** 4, 0.001, 0.999)
    np.testing.assert_allclose(P, expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("ratio", "support"), [(0.5, -1), (1, np.log(0.1)), (0, 0)])
def test_rows_that_are_all_equal_are_no_error(ratio, support):
    """A match that looks like every decoy is likely wrong, however small its ratio is."""
    rows = np.zeros((100, COLUMNS), np.float32)
    rows[:, RATIO], rows[:, SUPPORT] = ratio, support
    P = learn_probabilities(rows, rows)
    assert len(set(P)) == 1
    assert 0.001 <= P[0] <= 0.5


def predicted_and_true(name, limit):
    """Mean probability of the matches of a scene, and the share of them that is right."""
    scene = load_scene(name)
    features = extract_all(scene.paths, limit, progress=False)
    matches = match(features, weighted=True, progress=False)
    errors = evaluation.match_errors(matches, features, scene.truth)
    judged = np.isfinite(errors.error)
    P = matches.W[errors.p[judged], errors.q[judged]]
    return P.mean(), (errors.error[judged] <= 0.01).mean()


def test_the_mean_probability_predicts_the_precision_of_the_sample():
    predicted, true = predicted_and_true("sample/astronaut", 200)
    assert predicted == pytest.approx(true, abs=0.05)


@pytest.mark.parametrize("name", ["trees", "leuven"])
def test_the_mean_probability_predicts_the_precision_on_photographs(name):
    """Of the one, a third of the matches is right, of the other more than four of five."""
    real_data("graffiti")
    predicted, true = predicted_and_true(f"graffiti/{name}", 200)
    assert predicted == pytest.approx(true, abs=0.1)


def test_unrelated_photographs_are_not_matched():
    """The first images of the scenes of Graffiti: no match is likely, and no track remains."""
    real_data("graffiti")
    paths = [load_scene(name).paths[0] for name in scene_names("graffiti")]
    matches = match(extract_all(paths, 200, progress=False), weighted=True, progress=False)
    assert len(matches.ratios) > 1000
    assert matches.at_least(0.5).W.nnz == len(matches.image_of)
    assert synchronise(matches).tracks() == []
