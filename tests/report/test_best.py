"""Who may win a star."""

from dataclasses import replace

from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation
from nmfsync.report.best import LEAST_COVERAGE, best_methods
from nmfsync.report.page import mark_best, percent

ONE = MethodEvaluation({}, {}, 10, 20, 0.0, True, 1.0, 1.0, coverage=0.8)


def scene(**methods):
    return SceneEvaluation("s", 2, 10, [5, 5], 5, "none", {}, {"input": ONE, **methods})


def test_a_method_that_returns_hardly_anything_takes_no_part():
    enough = replace(ONE, coverage=LEAST_COVERAGE * 0.8)
    little = replace(ONE, coverage=LEAST_COVERAGE * 0.8 - 0.01)
    assert best_methods([scene(all=ONE, enough=enough, little=little)]) == {"all", "enough"}


def test_a_result_that_is_not_consistent_takes_no_part_and_raises_no_bar():
    loose = replace(ONE, cycle_consistent=False, coverage=1.0)
    small = replace(ONE, coverage=0.1)
    assert best_methods([scene(loose=loose, small=small)]) == {"small"}


def test_over_several_scenes_a_method_takes_part_in_all():
    loose = replace(ONE, cycle_consistent=False)
    assert best_methods([scene(a=ONE, b=ONE), scene(a=ONE, b=loose)]) == {"a"}
    assert best_methods([]) == set()


def test_files_of_earlier_versions_know_no_coverage():
    assert best_methods([scene(a=replace(ONE, coverage=None))]) == {"a"}


def test_only_what_takes_part_is_marked():
    cells = mark_best([0.9, 0.5, 0.7], percent, max, [False, True, True])
    assert [cell.best for cell in cells] == [False, False, True]
    assert not any(cell.best for cell in mark_best([0.9, 0.5], percent, max, [False, True]))
