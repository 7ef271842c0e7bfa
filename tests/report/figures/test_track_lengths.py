"""Bars of track lengths."""

import numpy as np

from nmfsync.evaluation.tracks import TrackCounts
from nmfsync.report.figures.track_lengths import lengths_figure


def test_bars_of_the_features_add_up_to_all_of_them():
    counts = {
        "input": TrackCounts(np.array([2, 2, 3]), lost=5, alone=1),
        "nmfsync": TrackCounts(np.array([2, 4, 4]), lost=0, alone=3),
    }
    fates, lengths = lengths_figure(counts).axes
    by_row = [sum(bars[row].get_width() for bars in fates.containers) for row in range(2)]
    assert by_row == [13, 13]
    heights = [[bar.get_height() for bar in bars] for bars in lengths.containers]
    assert heights == [[2, 1, 0], [1, 0, 2]]


def test_lengths_of_long_tracks_are_drawn_in_bins_that_miss_none():
    counts = {"input": TrackCounts(np.array([2, 5, 363]), lost=0, alone=0)}
    bars = lengths_figure(counts).axes[1].containers[0]
    assert sum(bar.get_height() for bar in bars) == 3
    assert len(bars) < 13
