"""The evaluation of a method, put together."""

from nmfsync import evaluation
from two_images import TWO, TWO_MATCHES, shifted_by


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
    assert (figures.tracks, figures.mean_track_length, figures.coverage) == (2, 2.0, 1.0)
    unknown = evaluation.evaluate(TWO_MATCHES, TWO, None, 0, 0)
    assert (unknown.fcm, unknown.precision, unknown.judged) == ({}, {}, 0)
