"""Metrics on cases small enough to count by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import rendered
import strategies
from nmfsync import (
    Homographies,
    MultiMatching,
    NmfsyncError,
    PairwiseMatches,
    evaluation,
)
from nmfsync.truth.epipolar import epipolar_distance


def features(*images, size=(101, 51)):
    """Features at these positions, in images of 101 × 51 pixels."""
    return [
        SimpleNamespace(xy=np.array(xy, dtype=np.float32).reshape(-1, 2), image_size=size)
        for xy in images
    ]


def shifted_by(dx, k=2, size=(101, 51)):
    """Truth: image i shows everything i·dx pixels further right."""
    maps = np.array([[[1, 0, i * dx], [0, 1, 0], [0, 0, 1]] for i in range(k)], dtype=float)
    return Homographies(maps, np.array([size] * k))


# Two images: feature 0 moves by 10 px to feature 2, as in the truth; feature 1
# should move to (60, 20) but its partner, feature 3, lies 5 px beside that.
TWO = features([(10, 10), (50, 20)], [(20, 10), (65, 20)])
TWO_MATCHES = MultiMatching([0, 1, 0, 1], [2, 2])


def test_errors_are_shares_of_the_largest_image_dimension():
    errors = evaluation.match_errors(TWO_MATCHES, TWO, shifted_by(10))
    by_pair = dict(zip(zip(errors.p, errors.q, strict=True), errors.error, strict=True))
    assert by_pair == {(0, 2): 0.0, (2, 0): 0.0, (1, 3): 5 / 101, (3, 1): 5 / 101}


def test_fcm_divides_by_the_features_and_precision_by_the_judged():
    errors = evaluation.match_errors(TWO_MATCHES, TWO, shifted_by(10))
    assert evaluation.fcm(errors, [2, 2], [0.0, 0.04, 0.05]).tolist() == [0.5, 0.5, 1.0]
    assert evaluation.fcm(errors, [2, 8], [0.01]).tolist() == [0.5]  # at most 2 can match
    assert evaluation.precision_at(errors, [0.0, 0.05]).tolist() == [0.5, 1.0]


def test_points_that_leave_the_image_are_not_judged():
    """With a shift of 60 px feature 1 would land at x = 110; feature 3 goes to x = 5."""
    errors = evaluation.match_errors(TWO_MATCHES, TWO, shifted_by(60))
    by_pair = dict(zip(zip(errors.p, errors.q, strict=True), errors.error, strict=True))
    assert np.isnan(by_pair[1, 3])
    assert by_pair[3, 1] == pytest.approx(45 / 101)
    assert np.isfinite(errors.error).sum() == 2  # (0, 2) and (3, 1); (2, 0) leaves as well
    assert evaluation.precision_at(errors, [0.05]).tolist() == [0.0]


def test_no_truth_judges_nothing():
    errors = evaluation.match_errors(TWO_MATCHES, TWO, None)
    assert len(errors.p) == 4
    assert np.isnan(errors.error).all()
    assert np.isnan(evaluation.precision_at(errors, [0.05])).all()


def test_images_without_features_or_matches():
    alone = PairwiseMatches(sparse.eye_array(2), [2, 0])
    errors = evaluation.match_errors(alone, features([(1, 1), (2, 2)], []), shifted_by(1))
    assert evaluation.fcm(errors, [2, 0]).tolist() == [0.0] * 51


def test_errors_of_many_images_are_those_of_every_pair():
    """Matches of three images, some of them missing, in an order that is not that of q."""
    cameras = rendered.scene().cameras[:3]
    rng = np.random.default_rng(1)
    points = [rng.uniform((0, 0), rendered.SIZE, (4, 2)) for _ in cameras]
    found = features(*points, size=rendered.SIZE)
    matches = MultiMatching([0, 1, 2, 3, 3, 0, 4, 1, 1, 2, 0, 5], [4, 4, 4])
    errors = evaluation.epipolar_errors(matches, found, cameras)
    assert len(errors.p) == 16
    for p, q, error in zip(errors.p, errors.q, errors.error, strict=True):
        (i, a), (j, b) = divmod(p, 4), divmod(q, 4)
        xy = found[i].xy[a : a + 1], found[j].xy[b : b + 1]
        expected = epipolar_distance(cameras[i], cameras[j], *xy)[0] / max(rendered.SIZE)
        assert error == pytest.approx(expected, rel=1e-9)


def test_errors_that_are_known_are_not_measured_again():
    known = evaluation.match_errors(TWO_MATCHES, TWO, shifted_by(60))
    figures = evaluation.evaluate(TWO_MATCHES, TWO, shifted_by(10), 0, 0, errors=known)
    assert figures.judged == 2  # 4 by the other truth


def test_evaluate_puts_it_together():
    figures = evaluation.evaluate(TWO_MATCHES, TWO, shifted_by(10), 1.5, 20.0)
    assert (figures.fcm["0.01"], figures.precision["0.01"]) == (0.5, 0.5)
    assert (figures.fcm["0"], figures.fcm["0.05"], len(figures.fcm)) == (0.5, 1.0, 51)
    assert (figures.matchings, figures.judged) == (2, 4)
    assert (figures.cycle_error, figures.cycle_consistent) == (0.0, True)
    assert (figures.seconds, figures.peak_memory_mb) == (1.5, 20.0)
    unknown = evaluation.evaluate(TWO_MATCHES, TWO, None, 0, 0)
    assert (unknown.fcm, unknown.precision, unknown.judged) == ({}, {}, 0)


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


def test_cycle_error_refuses_two_matches_in_an_image():
    with pytest.raises(NmfsyncError, match="feature 0 has two matches in image 1"):
        evaluation.cycle_error(np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1]]), [1, 2])


@given(strategies.multi_matchings())
def test_cycle_error_of_consistent_matches_is_exactly_zero(truth):
    assert evaluation.cycle_error(truth.W, truth.sizes) == 0.0


def test_gt_error_precision_recall_f_score():
    """W has 4 ones, W_gt has 5, 3 of them common: 1 wrong, 2 missing."""
    W = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0]])
    W_gt = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    assert evaluation.gt_error(W, W_gt) == pytest.approx(np.sqrt(3))
    assert evaluation.precision(W, W_gt) == 3 / 4
    assert evaluation.recall(W, W_gt) == 3 / 5
    assert evaluation.f_score(W, W_gt) == pytest.approx(6 / 9)
