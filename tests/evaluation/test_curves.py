"""FCM and precision by thresholds, by hand."""

import numpy as np
import pytest
from scipy import sparse

from nmfsync import PairwiseMatches, evaluation
from nmfsync.evaluation import MatchErrors
from two_images import TWO, TWO_MATCHES, images_with, shifted_by


def test_fcm_divides_by_the_features_and_precision_by_the_judged():
    errors = evaluation.match_errors(TWO_MATCHES, TWO, shifted_by(10))
    assert evaluation.fcm(errors, [2, 2], [0.0, 0.04, 0.05]).tolist() == [0.5, 0.5, 1.0]
    assert evaluation.fcm(errors, [2, 8], [0.01]).tolist() == [0.5]  # at most 2 can match
    assert evaluation.precision_at(errors, [0.0, 0.05]).tolist() == [0.5, 1.0]


def test_images_without_features_or_matches():
    alone = PairwiseMatches(sparse.eye_array(2), [2, 0])
    errors = evaluation.match_errors(alone, images_with([(1, 1), (2, 2)], []), shifted_by(1))
    assert evaluation.fcm(errors, [2, 0]).tolist() == [0.0] * 51


def test_the_ratio_curve_is_thresholding_by_hand():
    """Two images with two features each: 0–2 has the ratio .5 and is right, 1–3 .9 and is wrong."""
    matches = PairwiseMatches.from_entries([0, 1], [2, 3], [2, 2])
    errors = MatchErrors(
        np.array([0, 1, 2, 3]), np.array([2, 3, 0, 1]), np.array([0.001, 0.2, 0.002, np.nan])
    )
    curve = evaluation.ratio_curve(errors, [0.5, 0.9], matches.sizes)
    at = {limit: (f, p) for limit, f, p in zip(*curve.values(), strict=True)}
    assert at[0.5] == (0.0, None)  # nothing is below
    assert at[0.6] == (0.5, 1.0)  # 2 right of 4 possible; 2 of 2 judged
    assert at[1.0] == (0.5, pytest.approx(2 / 3))
    assert at[1.0][0] == evaluation.fcm(errors, matches.sizes, [0.01])[0]
