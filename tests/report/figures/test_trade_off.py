"""Points of methods, and the line of the ratio test."""

import numpy as np

from nmfsync.report.figures.trade_off import TradeOff, trade_off_figure

RATIOS = np.arange(0.5, 1.01, 0.1)
VALUES = TradeOff(
    1,
    {"input": (0.4, 0.5), "clustersync": (0.4, 0.9), "matcheig": (0.3, 0.6)},
    {"input": False, "clustersync": True, "matcheig": False},
    RATIOS,
    RATIOS - 0.4,
    1.4 - RATIOS,
)


def test_consistent_methods_are_filled_and_others_hollow():
    axes = trade_off_figure(VALUES).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["MatchEig"].get_markerfacecolor() == "white"
    assert lines["ClusterSync"].get_markerfacecolor() != "white"
    np.testing.assert_allclose(lines["ClusterSync"].get_xydata(), [[40, 90]])
    np.testing.assert_allclose(lines["input, ratio test"].get_xdata(), 100 * VALUES.fcm)
    assert [text.get_text() for text in axes.texts] == [".5", ".6", ".7", ".8", ".9"]


def test_without_a_ratio_test_there_are_points_only():
    nothing = np.empty(0)
    values = VALUES._replace(ratios=nothing, fcm=nothing, precision=nothing)
    assert len(trade_off_figure(values).axes[0].lines) == 3
