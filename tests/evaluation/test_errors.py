"""Errors of matches, by hand, and by the epipolar lines of the rendered scene."""

import numpy as np
import pytest

import rendered
from nmfsync import MultiMatching, PairwiseMatches, evaluation
from nmfsync.evaluation.errors import errors_of_all
from nmfsync.truth.epipolar import epipolar_distance
from two_images import TWO, TWO_MATCHES, images_with, shifted_by


def test_errors_are_shares_of_the_largest_image_dimension():
    errors = evaluation.match_errors(TWO_MATCHES, TWO, shifted_by(10))
    by_pair = dict(zip(zip(errors.p, errors.q, strict=True), errors.error, strict=True))
    assert by_pair == {(0, 2): 0.0, (2, 0): 0.0, (1, 3): 5 / 101, (3, 1): 5 / 101}


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


def test_errors_of_many_images_are_those_of_every_pair():
    """Matches of three images, some of them missing, in an order that is not that of q."""
    cameras = rendered.scene().cameras[:3]
    rng = np.random.default_rng(1)
    points = [rng.uniform((0, 0), rendered.SIZE, (4, 2)) for _ in cameras]
    found = images_with(*points, size=rendered.SIZE)
    matches = MultiMatching([0, 1, 2, 3, 3, 0, 4, 1, 1, 2, 0, 5], [4, 4, 4])
    errors = evaluation.epipolar_errors(matches, found, cameras)
    assert len(errors.p) == 16
    for p, q, error in zip(errors.p, errors.q, errors.error, strict=True):
        (i, a), (j, b) = divmod(p, 4), divmod(q, 4)
        xy = found[i].xy[a : a + 1], found[j].xy[b : b + 1]
        expected = epipolar_distance(cameras[i], cameras[j], *xy)[0] / max(rendered.SIZE)
        assert error == pytest.approx(expected, rel=1e-9)


def test_several_results_have_the_errors_of_each(monkeypatch):
    """To the last bit, also where one match is alone in its pair; shared ones are measured once."""
    truth, rng, n = rendered.scene(), np.random.default_rng(1), 40
    features = images_with(*rng.uniform((0, 0), rendered.SIZE, (3, n, 2)), size=rendered.SIZE)
    results = {
        "tracks": MultiMatching(np.tile(np.arange(n), 3), [n] * 3),
        "half": MultiMatching(
            [*range(n), *range(n // 2), *range(n, 2 * n - n // 2), *range(n)], [n] * 3
        ),
        "others": PairwiseMatches.from_entries([0, 1, n], [n + 1, n, 2 * n + 3], [n] * 3),
        "alone": PairwiseMatches.from_entries([5], [n + 5], [n] * 3),
    }
    each = {name: evaluation.match_errors(of, features, truth) for name, of in results.items()}
    calls, transfer = [], type(truth).transfer
    monkeypatch.setattr(
        type(truth), "transfer", lambda *of: calls.append((of[1:3], len(of[3]))) or transfer(*of)
    )
    together = errors_of_all(results, features, truth)
    for name, errors in each.items():
        for of in ("p", "q", "error"):
            assert np.array_equal(getattr(errors, of), getattr(together[name], of), equal_nan=True)
    assert sum(np.isfinite(errors.error).sum() for errors in each.values()) > n
    several = [images for images, points in calls if points > 1]
    assert len(several) == len(set(several)) == 6
