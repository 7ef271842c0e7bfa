"""Which methods lie above the curve of the ratio test, in figures and words."""

import numpy as np
import pytest

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.figures.trade_off import trade_off
from nmfsync.report.pictures import trade_off_sentence

CURVE = {"ratio": [0.5, 0.75, 1.0], "fcm": [0.1, 0.2, 0.4], "precision": [0.9, 0.8, 0.4]}


def scene_with(points, curve=CURVE, scene="a/b"):
    methods = {
        name: MethodEvaluation({"0.01": x}, {"0.01": y}, 10, 20, 0.0, name != "input", 1.0, 1.0)
        for name, (x, y) in points.items()
    }
    return SceneEvaluation(
        scene, 2, 9, [4, 5], 4, "homographies", {}, methods, ratio_curve=curve
    )  # fmt: skip


@pytest.mark.parametrize(
    ("point", "above"),
    [
        ((0.3, 0.61), True),  # halfway between two points, where the line has .6
        ((0.3, 0.6), False),
        ((0.05, 0.91), True),  # left of the curve its first precision counts
        ((0.05, 0.89), False),
        ((0.41, 0.1), True),  # no limit of the ratio test gets there
        ((0.4, 0.39), False),
    ],
)
def test_which_methods_lie_above_the_curve(point, above):
    values = trade_off([scene_with({"input": (0.4, 0.4), "clustersync": point})])
    assert values.lies_above("clustersync") is above


def test_of_limits_with_equal_fcm_the_most_precise_counts():
    curve = {"ratio": [0.5, 0.75, 1.0], "fcm": [0.1, 0.2, 0.2], "precision": [0.9, 0.8, 0.4]}
    values = trade_off([scene_with({"clustersync": (0.2, 0.7)}, curve)])
    assert not values.lies_above("clustersync")


def test_the_sentence_names_those_that_do_not_lie_above():
    points = {"input": (0.4, 0.4), "clustersync": (0.4, 0.9), "nmfsync": (0.3, 0.5)}
    scenes = [scene_with(points), scene_with({**points, "nmfsync": (0.3, 0.65)}, scene="a/c")]
    assert trade_off_sentence(trade_off(scenes[:1])) == (
        "Not above the line, so no better than a ratio test: NmfSync."
    )
    assert trade_off_sentence(trade_off(scenes[1:])) == "Every method lies above the line."
    both = trade_off_sentence(trade_off(scenes), [trade_off([scene]) for scene in scenes])
    assert both.endswith("above the scene's own line: ClusterSync 2, NmfSync 1.")


def test_means_are_over_the_scenes_where_all_is_known():
    first = scene_with({"input": (0.2, 0.4), "nmfsync": (0.3, 0.5)})
    curve = {key: [value + 0.1 for value in CURVE[key]] for key in CURVE} | {
        "ratio": CURVE["ratio"],
        "precision": [None, 0.6, 0.2],
    }
    second = scene_with({"input": (0.4, 0.6), "nmfsync": (0.5, 0.7)}, curve, "a/c")
    third = scene_with({"input": (0.9, 0.9)}, scene="a/d")
    values = trade_off([first, second, third])
    assert values.scenes == 2
    np.testing.assert_allclose(values.methods["nmfsync"], (0.4, 0.6))
    np.testing.assert_allclose(values.ratios, [0.75, 1.0])  # one scene lacks the first precision
    np.testing.assert_allclose(values.fcm, [0.25, 0.45])
    np.testing.assert_allclose(values.precision, [0.7, 0.3])


def test_without_a_curve_nothing_is_said():
    assert trade_off_sentence(trade_off([scene_with({"nmfsync": (0.3, 0.5)}, {})])) == ""
