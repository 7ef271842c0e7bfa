"""Curves of methods: lines, colours, titles."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.figures.curves import dataset_figure, fcm_figure
from nmfsync.synchronisation.methods import METHODS


def methods_of(consistent):
    curve = {"0": 0.0, "0.01": 0.5, "0.05": 0.6}
    return {
        name: MethodEvaluation(curve, {**curve, "0": None}, 10, 20, 0.0, value, 1.0, 1.0)
        for name, value in consistent.items()
    }


def test_lines_are_solid_where_cycle_consistent_and_dashed_where_not():
    methods = methods_of({"input": False, "nmfsync": True, "matcheig": False, "other": True})
    evaluation = SceneEvaluation("a/b", 2, 9, [4, 5], 4, "homographies", {}, methods)
    figure = fcm_figure(evaluation)
    for axes in figure.axes:
        lines = {line.get_label(): line.is_dashed() for line in axes.lines}
        del lines["_child0"]  # the mark at 1 %
        assert lines == {"input": True, "NmfSync": False, "MatchEig": True, "other": False}
    legend = {
        text.get_text(): handle.is_dashed()
        for text, handle in zip(
            figure.legends[0].get_texts(), figure.legends[0].legend_handles, strict=True
        )
    }
    assert legend["solid: consistent"] is False
    assert legend["dashed: inconsistent"] is True


def test_a_method_looks_the_same_whatever_stands_beside_it():
    colours = []
    for names in (["input", "spectral"], ["nmfsync", "other", "spectral"]):
        methods = methods_of(dict.fromkeys(names, True))
        evaluation = SceneEvaluation("a/b", 2, 9, [4, 5], 4, "homographies", {}, methods)
        lines = {line.get_label(): line for line in fcm_figure(evaluation).axes[0].lines}
        colours.append((lines["Spectral"].get_color(), lines["Spectral"].get_marker()))
    assert colours[0] == colours[1]


def test_data_set_plots_are_titled_by_scene_and_size():
    evaluations = [
        SceneEvaluation(f"set/{n}", 2, 1234, [4, 5], 4, "homographies", {}, methods_of({"m": True}))
        for n in ("one", "two$x$")
    ]
    titles = [axes.get_title(loc="left") for axes in dataset_figure(evaluations).axes]
    assert titles == ["set/one, m = 1,234", r"set/two\$x\$, m = 1,234"]


@pytest.mark.parametrize("scenes", [1, 2, 5])
def test_text_and_legend_fit_in_the_figure(scenes):
    methods = methods_of(dict.fromkeys(["input", *METHODS], True))
    one = SceneEvaluation("set/one", 2, 9, [4, 5], 4, "homographies", {}, methods)
    figure = dataset_figure([one] * scenes)
    FigureCanvasAgg(figure).draw()
    legend, text = (
        item.get_window_extent() for item in (figure.legends[0], figure.subfigs[0].texts[0])
    )
    for box in (legend, text):
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= legend.y0 <= legend.y1 <= text.y0
