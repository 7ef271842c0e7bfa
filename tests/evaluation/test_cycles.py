"""The cycle-error, by hand and by the formula of the paper."""

import numpy as np
import pytest
from hypothesis import given

import strategies
from nmfsync import NmfsyncError, PairwiseMatches, evaluation


def test_cycle_error_of_a_broken_triangle():
    """0–1 and 1–2 match, 0–2 do not. Through image 1 one entry disagrees in block (0, 2)
    and in block (2, 0), each with norm 1: 2 / 3³. Through images 0 and 2 nothing is seen
    to disagree, since only features with a match there take part."""
    W = np.eye(3)
    W[0, 1] = W[1, 0] = W[1, 2] = W[2, 1] = 1
    assert evaluation.cycle_error(W, [1, 1, 1]) == pytest.approx(2 / 27)


def naive_cycle_error(W, sizes) -> float:
    """The formula of the paper, block by block."""
    W, k = (W != 0).toarray().astype(float), len(sizes)
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    P = [[W[cuts[i] : cuts[i + 1], cuts[j] : cuts[j + 1]] for j in range(k)] for i in range(k)]
    total = 0.0
    for i in range(k):
        for j in range(k):
            for ell in range(k):
                R, C = P[i][ell].any(axis=1), P[ell][j].any(axis=0)
                product = P[i][ell][R] @ P[ell][j][:, C]
                total += np.linalg.norm(product - P[i][j][np.ix_(R, C)])
    return total / k**3


@given(strategies.pairwise_matches())
def test_cycle_error_is_the_formula_of_the_paper(matches):
    expected = naive_cycle_error(matches.W, matches.sizes)
    assert evaluation.cycle_error(matches.W, matches.sizes) == pytest.approx(expected)


def test_cycle_error_of_many_images_that_see_few_others():
    features = np.arange(80).reshape(40, 2)
    right = np.random.default_rng(0).permuted(features[1:], axis=1)
    matches = PairwiseMatches.from_entries(features[:-1].ravel(), right.ravel(), [2] * 40)
    expected = naive_cycle_error(matches.W, matches.sizes)
    assert expected > 0
    assert evaluation.cycle_error(matches.W, matches.sizes) == pytest.approx(expected)


def test_cycle_error_refuses_two_matches_in_an_image():
    with pytest.raises(NmfsyncError, match="feature 0 has two matches in image 1"):
        evaluation.cycle_error(np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1]]), [1, 2])


@given(strategies.multi_matchings())
def test_cycle_error_of_consistent_matches_is_exactly_zero(truth):
    assert evaluation.cycle_error(truth.W, truth.sizes) == 0.0
