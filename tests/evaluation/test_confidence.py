"""The estimated precision: by hand, by a plain definition, and on problems with known truth."""

import numpy as np
import pytest
from hypothesis import given

import strategies
from nmfsync import MultiMatching, PairwiseMatches, evaluation, synthetic
from nmfsync.evaluation.confidence import SUREST
from nmfsync.evaluation.errors import MatchErrors


def test_direct_matches_and_those_over_a_third_feature_by_hand():
    """Three images with a feature each; the input links 0–1 and 1–2."""
    known = PairwiseMatches.from_entries([0, 1], [1, 2], [1, 1, 1], [0.9, 0.5])
    confidence = evaluation.estimate_confidence(MultiMatching([0, 0, 0], [1, 1, 1]), known)
    assert confidence.p.tolist() == [0, 0, 1]
    assert confidence.q.tolist() == [1, 2, 2]
    assert confidence.probability == pytest.approx([0.9, 0.45, 0.5])
    assert confidence.precision == pytest.approx((0.9 + 0.45 + 0.5) / 3)


def test_a_closed_triangle_is_surer_than_its_matches():
    known = PairwiseMatches.from_entries([0, 0, 1], [1, 2, 2], [1, 1, 1], [0.9, 0.2, 0.5])
    confidence = evaluation.estimate_confidence(MultiMatching([0, 0, 0], [1, 1, 1]), known)
    expected = [1 - 0.1 * (1 - 0.2 * 0.5), 1 - 0.8 * (1 - 0.9 * 0.5), 1 - 0.5 * (1 - 0.9 * 0.2)]
    assert confidence.probability == pytest.approx(expected)


def test_chains_of_any_length_count():
    """Matches in a row from image 0 to image 6, each right with the probability .9."""
    chain = np.arange(6)
    known = PairwiseMatches.from_entries(chain, chain + 1, [1] * 7, [0.9, 0.9, 0.9, 0.9, 0.9, 0.8])
    confidence = evaluation.estimate_confidence(MultiMatching([0] * 7, [1] * 7), known)
    of = {(p, q): v for p, q, v in zip(*confidence, strict=True)}
    assert of[0, 5] == pytest.approx(0.9**5)
    assert of[0, 6] == pytest.approx(0.9**5 * 0.8)


def test_what_the_input_does_not_link_is_not_believed():
    known = PairwiseMatches.from_entries([0], [1], [1, 1, 1], [0.9])
    confidence = evaluation.estimate_confidence(MultiMatching([0, 0, 0], [1, 1, 1]), known)
    assert confidence.probability == pytest.approx([0.9, 0, 0])


def test_nothing_is_estimated_without_matches():
    matches = PairwiseMatches(np.eye(3), [1, 1, 1])
    assert evaluation.estimate_confidence(matches, matches).precision is None


def by_definition(result, known):
    """The probability of every match p < q, as the docstring of `estimate_confidence` says."""
    R, w = result.W.toarray() > 0, np.minimum(known.W.toarray(), SUREST)
    np.fill_diagonal(w, 0)
    np.fill_diagonal(R, val=False)
    w[~R] = 0
    P = 1 - (1 - w) * np.prod(1 - w[:, :, None] * w[None], axis=1)
    P[~R] = 0
    for _ in range(6):
        longer = (P[:, :, None] * P[None]).max(axis=1, initial=0)
        P = np.where(R & (P == 0), longer, P)
    return P[np.triu(R)]


@given(strategies.pairwise_matches(weighted=True))
def test_agrees_with_the_definition(known):
    for result in (
        known,
        known.unweighted(),
        MultiMatching(known.image_of * 0 + np.arange(len(known.image_of)), known.sizes),
    ):
        confidence = evaluation.estimate_confidence(result, known)
        assert confidence.probability == pytest.approx(by_definition(result, known))


@pytest.mark.parametrize("hub", [0, 20, 39])
def test_agrees_with_the_definition_where_one_feature_has_far_more_matches(hub):
    rng = np.random.default_rng(0)
    leaves = np.delete(np.arange(40), hub)
    p, q = np.minimum(leaves, hub), np.maximum(leaves, hub)
    p, q = np.append(p, leaves[:-1:3]), np.append(q, leaves[1::3])
    known = PairwiseMatches.from_entries(p, q, [1] * 40, rng.uniform(0.2, 0.9, len(p)))
    for result in (known, MultiMatching([0] * 40, known.sizes)):
        confidence = evaluation.estimate_confidence(result, known)
        assert confidence.probability == pytest.approx(by_definition(result, known))


@given(strategies.multi_matchings())
def test_pairs_of_images_and_tracks_add_up_to_the_whole(result):
    known = PairwiseMatches(0.7 * result.W, result.sizes)
    confidence = evaluation.estimate_confidence(result, known)
    pairs, counts, precision = evaluation.precision_by_image_pair(confidence, result.image_of)
    assert counts.sum() == len(confidence.p)
    assert (counts * precision).sum() == pytest.approx(confidence.probability.sum())
    assert (pairs[:, 0] < pairs[:, 1]).all()
    tracks = evaluation.precision_by_track(confidence, result)
    size = np.bincount(result.universe, minlength=result.universe_size)
    assert np.isnan(tracks).tolist() == (size < 2).tolist()
    assert np.nansum(tracks * (size * (size - 1) // 2)) == pytest.approx(
        confidence.probability.sum()
    )


def test_the_estimate_is_near_the_truth_where_the_probabilities_are():
    """Matches whose weights are their true probabilities; those above .6 are the result.

    Paths are not quite independent, so that the estimate is somewhat too large.
    """
    W, W_gt, sizes = synthetic.generate(k=20, d=20, rho=0.6, sigma=0.5, seed=0)
    rng = np.random.default_rng(0)
    p, q = np.triu(W.toarray(), 1).nonzero()
    right = W_gt.toarray()[p, q] > 0
    score = rng.normal(np.where(right, 1, -1), 1)
    share = right.mean()
    weights = 1 / (1 + np.exp(-(np.log(share / (1 - share)) + 2 * score)))
    known = PairwiseMatches.from_entries(p, q, sizes, np.clip(weights, 0.001, 0.999))
    sure = known.at_least(0.6)
    confidence = evaluation.estimate_confidence(sure, known)
    true = W_gt.toarray()[confidence.p, confidence.q].mean()
    assert abs(confidence.precision - true) < 0.1


def test_reliability_by_hand():
    """Every direction that is judged counts, as for the precision."""
    confidence = evaluation.Confidence(
        np.array([0, 0, 1, 2]), np.array([3, 4, 4, 5]), np.array([0.95, 0.97, 0.31, 0.35])
    )
    p, q = np.array([0, 0, 1, 2, 3, 4, 4, 5]), np.array([3, 4, 4, 5, 0, 0, 1, 2])
    error = np.array([0.001, 0.001, 0.2, np.nan, 0.002, 0.03, np.nan, np.nan])
    found = evaluation.reliability(confidence, MatchErrors(p, q, error))
    assert found["probability"] == pytest.approx([0.31, 0.96])
    assert found["right"] == pytest.approx([0, 0.75])
    assert found["judged"] == [1, 4]


@given(strategies.pairwise_matches(weighted=True))
def test_the_matches_stay_as_they_are(known):
    before = known.W.copy()
    evaluation.estimate_confidence(known, known)
    assert np.array_equal(known.W.data, before.data)
    assert np.array_equal(known.W.indices, before.indices)
