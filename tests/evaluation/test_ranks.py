"""The ranks of methods over scenes."""

from nmfsync.evaluation.ranks import mean_ranks


def test_equal_values_share_a_rank_and_missing_ones_come_last():
    scenes = [
        {"a": 0.54201, "b": 0.54199, "c": 0.1},
        {"a": None, "b": 0.2, "c": 0.0},
        {"b": 0.3, "c": 0.4},
    ]
    assert mean_ranks(scenes) == {"a": (1.5 + 3 + 3) / 3, "b": (1.5 + 1 + 2) / 3, "c": 2.0}


def test_no_scenes_have_no_ranks():
    assert mean_ranks([]) == {}
    assert mean_ranks([{}, {}]) == {}
