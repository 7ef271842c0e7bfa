"""FCM and precision by thresholds, by hand."""

from scipy import sparse

from nmfsync import PairwiseMatches, evaluation
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
