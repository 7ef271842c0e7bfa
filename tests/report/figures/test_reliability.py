"""Probabilities against the truth."""

import numpy as np

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.figures.reliability import pooled, reliability_figure

ONE = {"probability": [0.12, 0.95], "right": [0.5, 0.9], "judged": [4, 20]}
TWO = {"probability": [0.18, 0.62, 0.91], "right": [0.0, 0.7, 0.8], "judged": [12, 10, 60]}


def scene_with(reliability):
    method = MethodEvaluation(
        {}, {}, 10, 20, 0.0, True, 1.0, 1.0, reliability=reliability
    )  # fmt: skip
    return SceneEvaluation("a/b", 2, 9, [4, 5], 4, "homographies", {}, {"clustersync": method})


def test_scenes_are_taken_together_class_by_class():
    together = pooled([ONE, TWO])
    np.testing.assert_allclose(together["probability"], [2.64 / 16, 0.62, 73.6 / 80])
    np.testing.assert_allclose(together["right"], [2 / 16, 0.7, 66 / 80])
    assert together["judged"] == [16, 10, 80]


def test_a_class_with_few_matches_is_hollow_and_off_the_line():
    figure = reliability_figure([scene_with(ONE)], ["clustersync"])
    upper, _, lower, _ = figure.axes
    _, line, few = upper.lines  # the first is the diagonal
    np.testing.assert_allclose(line.get_xydata(), [[95, 90]])
    np.testing.assert_allclose(few.get_xydata(), [[12, 50]])
    assert few.get_markerfacecolor() == "white"
    np.testing.assert_allclose([bar.get_height() for bar in lower.patches], [100 / 6, 500 / 6])


def test_thin_lines_show_the_scenes():
    scenes = [scene_with(ONE), scene_with(TWO), scene_with({})]
    upper = reliability_figure(scenes, ["clustersync"]).axes[0]
    assert sum(line.get_linewidth() < 1 for line in upper.lines) == 2  # two scenes know it
    assert upper.get_title(loc="left") == "ClusterSync: 106 matches judged"
