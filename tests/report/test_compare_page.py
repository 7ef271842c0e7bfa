"""The page of a comparison, and what it says in words."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from compared import evaluation, figures, run
from nmfsync.evaluation.comparison import Run, compare_evaluations
from nmfsync.evaluation.differences import METRICS
from nmfsync.report.compare_page import is_compare_page, write_compare_page
from nmfsync.report.compare_settings import differing_settings, remarks
from nmfsync.report.compare_tables import groups, scene_rows
from nmfsync.report.compare_words import change_text, multiplicity, verdicts
from three_images import Page

METRIC = {metric.key: metric for metric in METRICS}
SURE = {"a": [0.20, 0.25, 0.30, 0.21], "b": [0.25, 0.31, 0.35, 0.27]}


def two(**others):
    """Compare runs in which ClusterSync gains about 5 points of FCM on four scenes."""
    return compare_evaluations(
        [run(label, clustersync=fcm, **others) for label, fcm in SURE.items()]
    )


def with_settings(label, settings, **others):
    one = evaluation("s", settings=settings, **others)
    return Run(label, {"s": one})


# Words


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("fcm", 0.0213, "+2.1"),
        ("fcm", -0.0013, "−0.13"),
        ("fcm", 1e-9, "0"),
        ("matches", -1234.6, "−1,235"),
        ("cycle_error", 0.5, "+0.50"),
        ("seconds", 1.204, "×1.20"),
        ("seconds", 0.00123, "×0.0012"),
        ("seconds", float("inf"), "×∞"),
    ],
)
def test_changes_as_text(key, value, text):
    assert change_text(METRIC[key], value) == text


def test_a_sure_difference_is_said_first():
    found = two(input=[0.3, 0.3, 0.3, 0.3])
    assert verdicts(found) == [
        "On 4 scenes, b differs from a: FCM at 1 % is higher with ClusterSync. "
        "The other 95 % intervals of FCM at 1 % and precision at 1 % contain 0."
    ]
    assert multiplicity(found).startswith("1 of 1 intervals exclude 0")


def test_a_difference_that_may_be_chance_is_none():
    runs = [run("a", m=[0.2, 0.3, 0.4]), run("b", m=[0.25, 0.2, 0.5])]
    (verdict,) = verdicts(compare_evaluations(runs))
    assert verdict.startswith("On 3 scenes, no difference in FCM at 1 % and precision at 1 %")


def test_one_scene_has_no_interval():
    runs = [run("a", input=[0.1], clustersync=[0.2]), run("b", input=[0.1], clustersync=[0.3])]
    found = compare_evaluations(runs)
    assert verdicts(found) == [
        "b beside a, with ClusterSync: FCM at 1 % is 30.0 % instead of 20.0 % and precision at 1 % "
        "is 80.0 % instead of 80.0 %."
    ]
    assert remarks(found) == ["One scene says nothing about others, so there are no intervals."]
    other = [Run("a", {"x": evaluation("x")}), Run("b", {"y": evaluation("y")})]
    (remark,) = remarks(compare_evaluations(other))
    assert remark.startswith("The scenes are different ones: x and y. One scene says nothing")
    assert multiplicity(found) == ""
    assert {row.interval for group in groups(found) for row in group.rows} <= {"–"}


def test_the_same_figures_are_said_to_be_so():
    runs = [run(label, m=[0.2, 0.3]) for label in "ab"]
    assert verdicts(compare_evaluations(runs)) == [
        "a and b have the same figures on 2 scenes, costs apart."
    ]


def test_methods_of_a_run_are_named_as_in_figures():
    one = run("a", clustersync=SURE["a"], unionfind=SURE["b"])
    (verdict,) = verdicts(compare_evaluations([one], ["clustersync", "unionfind"]))
    assert verdict.startswith("On 4 scenes, union-find differs from ClusterSync: FCM at 1 % is hi")


def test_without_truth_the_estimates_are_compared():
    runs = [
        Run(label, {f"s{n}": evaluation(f"s{n}", truth="none", m=figures(
            None, None, estimated_precision=0.5 + n / 10 + gain)) for n in range(3)})
        for label, gain in (("a", 0), ("b", 0.1))
    ]  # fmt: skip
    runs[1].evaluations["s0"].methods["m"] = figures(None, None, estimated_precision=0.61)
    found = compare_evaluations(runs)
    assert "estimated precision is higher with m" in verdicts(found)[0]
    assert scene_rows(found)[0] == ["Estimated precision"]
    assert not any(group.title.startswith("FCM") for group in groups(found))


def test_remarks_say_what_is_not_alike():
    a, b = (dict(two().runs[n].evaluations) for n in (0, 1))
    b["set/0"] = replace(b["set/0"], truth="depths", features=60)
    b["set/9"] = evaluation("set/9")
    found = compare_evaluations([Run("a", a), Run("b", b)])
    assert remarks(found) == [
        "The ground truth differs, so FCM and precision are not comparable (set/0).",
        "The number of features differs, and FCM and numbers of matches depend on it (set/0).",
        "Only in b, and not compared: scene set/9.",
    ]


# Settings


def test_only_what_differs_in_the_settings():
    options = {"input": {}, "clustersync": {"theta": 0.4}, "nmfsync": {"theta": 0.1}}
    methods = {name: figures() for name in options}
    common = {"seed": 0, "ratio": None, "theta": {"nmfsync": 0.1}, "options": options}
    other = {**common, "ratio": 0.8, "versions": {"numpy": "2.1"}, "theta": {"nmfsync": 0.2},
             "options": {**options, "nmfsync": {"theta": 0.2}}}  # fmt: skip
    found = compare_evaluations(
        [
            with_settings("a", {**common, "versions": {"numpy": "2.0"}}, **methods),
            with_settings("b", other, **methods),
        ]
    )
    assert differing_settings(found) == [
        ("ratio", ["–", "0.8"]),
        ("versions: numpy", ["2.0", "2.1"]),
        ("option theta (NmfSync)", ["0.1", "0.2"]),
    ]
    one = compare_evaluations([found.runs[0]], ["clustersync", "nmfsync", "input"])
    assert differing_settings(one) == [("option theta", ["0.4", "0.1", "–"])]


def test_versions_and_inputs_that_a_run_recorded():
    runs = [with_settings(label, {"versions": {"numpy": "2.0"}}) for label in "ab"]
    for run_, digest, numba in zip(runs, ("1" * 64, "2" * 64), ("0.61", "0.62"), strict=True):
        known = {"digest": digest, "date": digest, "versions": {"numba": numba}, "threads": 2}
        object.__setattr__(run_.evaluations["s"], "provenance", known)
    found = compare_evaluations(runs)
    assert differing_settings(found) == [
        ("input files (SHA-256)", ["1" * 16, "2" * 16]),
        ("versions: numba", ["0.61", "0.62"]),
    ]
    assert "The images differ." in remarks(found)


@pytest.mark.parametrize("settings", [{"options": 3}, {"versions": []}, {"theta": {"m": [1]}}])
def test_settings_of_any_form(settings):
    runs = [with_settings("a", settings), with_settings("b", {"x": {"y": float("nan")}})]
    assert differing_settings(compare_evaluations(runs))


# The page


def page_of(tmp_path, comparison):
    path = tmp_path / "compare.html"
    write_compare_page(path, comparison)
    assert is_compare_page(path)
    return path.read_text()


def test_page_has_the_figures_of_the_comparison(tmp_path):
    found = two(input=[0.3, 0.3, 0.3, 0.3])
    html = page_of(tmp_path, found)
    page = Page(html)
    text = " ".join(page.text.split())
    assert verdicts(found)[0] in text
    assert "Same settings." in text
    row = re.search('class="certain"><th scope="row">ClusterSync</th>(.*?)</tr>', html, re.S)[1]
    cells = re.findall(r"<td>(.*?)</td>", row)
    difference = found.contrasts[0].differences["fcm"]
    low, high = (f"{100 * value:+.1f}" for value in difference.interval)
    assert cells == ["+5.5", f"{low} to {high}", "better", "24.0 %", "29.5 %", "4"]
    assert f'aria-label="FCM at 1 %, ClusterSync: +5.5, {low} to {high}"' in html
    assert len(page.sources) == 1
    assert "ClusterSync in b 29.5 % and 80.0 %" in html
    assert all(link.startswith("#") for link in page.links)


def test_page_of_more_scenes_shows_means_and_is_the_same_again(tmp_path):
    runs = [run(label, m=[0.2 + shift + n / 100 for n in range(6)])
            for label, shift in (("a", 0), ("b", 0.1))]  # fmt: skip
    found = compare_evaluations(runs)
    html = page_of(tmp_path, found)
    assert "Means of 6 scenes." in html
    assert html == page_of(tmp_path, found)


def test_page_of_three_runs_and_of_methods(tmp_path):
    unknown = {name: figures(None, None) for name in ("clustersync", "input")}
    runs = [with_settings(label, {}, **unknown) for label in "abc"]
    html = page_of(tmp_path, compare_evaluations(runs))
    assert html.count('<p class="lead">') == 2
    assert '<th scope="col">Run</th>' in html
    html = page_of(tmp_path, compare_evaluations(runs[:1], ["clustersync", "input"]))
    assert "run <b>a</b>" in html
    assert Page(html).sources == []


def test_names_are_text(tmp_path):
    bad = "<b>\"'\x1b\u202e$x$"
    runs = [
        Run(
            f"{bad}{n}", {bad: evaluation(bad, {"s": f"{bad}{n}", bad: n}, **{bad: figures(n / 9)})}
        )
        for n in (1, 2)
    ]
    html = page_of(tmp_path, compare_evaluations(runs))
    assert '<b>"' not in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    Page(html)


def test_only_pages_of_comparisons_are_known_as_such(tmp_path):
    path = tmp_path / "x.html"
    unknown = {"m": figures(None, None)}
    page_of(tmp_path, compare_evaluations([with_settings(label, {}, **unknown) for label in "ab"]))
    assert not is_compare_page(path)
    path.write_text("<html>")
    assert not is_compare_page(path)
    path.unlink()
    path.symlink_to(tmp_path / "compare.html")
    assert not is_compare_page(path)
    assert not is_compare_page(Path(tmp_path))
