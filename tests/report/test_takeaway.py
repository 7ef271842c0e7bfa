"""The sentence that a scene's page opens with."""

from dataclasses import replace

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.takeaway import take_away


def result(matches, fcm=None, precision=None, estimated=None, consistent=True, tracks=None):
    curves = [{} if value is None else {"0.01": value} for value in (fcm, precision)]
    return MethodEvaluation(
        *curves, matches, 9, 0.0, consistent, 1.0, 1.0, estimated, tracks=tracks, coverage=0.5
    )


def scene(tracks="clustersync", ratio_curve=None, **methods):
    return SceneEvaluation(
        "s", 2, 10, [5, 5], 5, "none", {}, methods, ratio_curve=ratio_curve or {}, tracks=tracks
    )


INPUT = result(1339, 0.24, 0.62, 0.57, consistent=False)
TAKEN = result(882, 0.20, 0.961, 0.943, tracks=285)
CURVE = {"ratio": [0.8, 1.0], "fcm": [0.16, 0.24], "precision": [0.9, 0.62]}


def test_with_truth_it_compares_with_input_and_ratio_test():
    assert take_away(scene(input=INPUT, clustersync=TAKEN, ratio_curve=CURVE)) == (
        "Take the tracks of ClusterSync: 882 matches in 285 tracks, 96 % right where the truth can "
        "judge (estimated: 94 %); the input has 1,339 matches, 62 % right (estimated: 57 %), and a "
        "ratio test that finds as many right ones is 76 % right."
    )
    more = replace(TAKEN, fcm={"0.01": 0.3})
    assert take_away(scene(input=INPUT, clustersync=more, ratio_curve=CURVE)).endswith(
        "(estimated: 57 %), and no ratio test finds as many right ones."
    )


def test_it_names_a_consistent_method_that_is_better():
    better = result(900, 0.21, 0.97, 0.95, tracks=280)
    text = take_away(scene(input=INPUT, clustersync=TAKEN, quickmatch=better))
    assert text.endswith("; QuickMatch is better here in FCM and precision.")
    loose = replace(better, cycle_consistent=False)
    assert "better" not in take_away(scene(input=INPUT, clustersync=TAKEN, quickmatch=loose))


def test_without_truth_it_estimates():
    before, after = result(1339, estimated=0.57), result(882, estimated=0.943, tracks=1)
    assert take_away(scene(input=before, clustersync=after)) == (
        "Take the tracks of ClusterSync: 882 matches in 1 track, about 94 % right (estimated); "
        "the input has 1,339 matches, about 57 % right (estimated)."
    )


def test_without_tracks_and_without_matches_it_says_so():
    before = result(10, estimated=0.5, consistent=False)
    assert take_away(scene("input", input=before, matcheig=before)) == (
        "No method of this run makes consistent tracks; the input has 10 matches, about 50 % right "
        "(estimated)."
    )
    assert "add images that overlap" in take_away(scene("input", input=result(0)))
