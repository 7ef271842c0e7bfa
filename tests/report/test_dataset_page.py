"""The report of a data set."""

import csv
import dataclasses
import re

import pytest

from nmfsync.report.dataset_page import write_dataset_report
from nmfsync.scenes.scene import Scene
from three_images import Page, evaluation_of, results_for, three_images


@pytest.fixture
def three(tmp_path):
    """A scene of three images, and their features."""
    return three_images(tmp_path / "images")


def two_scenes(scene, features):
    results = results_for(features)
    evaluation = evaluation_of(scene, features, results)
    other = Scene("set/<other>", scene.paths)
    del results["matcheig"]
    return [evaluation, evaluation_of(other, features, results)]


def test_data_set_report(three, tmp_path):
    scene, features = three
    write_dataset_report(tmp_path, "set & more", two_scenes(scene, features))
    html = (tmp_path / "report.html").read_text()
    page = Page(html)
    assert "set & more" in page.text
    assert "set/<other>" in page.text
    assert list(dict.fromkeys(link for link in page.links if not link.startswith("#"))) == [
        "scene/report.html",
        "%3Cother%3E/report.html",
    ]
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == {"fcm.png", "trade-off.png", "reliability.png"}
    assert len(page.sources) == len(pictures)
    # The mean is over the one scene with truth, so it repeats that scene's figures.
    table = html[html.index("FCM at 1 % of every scene") :].split("</table>")[0]
    mean = table[table.index(">Mean of 1</th>") :].split("</tr>")[0]
    row = table[table.index(">set/scene</a>") :].split("</tr>")[0]
    assert mean.split("<td>")[1:] == row.split("<td>")[1:]


def with_figures(evaluation, name, shares, consistent=("nmfsync", "clear"), coverage=0.5):
    """Return an evaluation with (FCM, precision) by method; time is the same for all."""
    plain = evaluation.methods["input"]
    methods = {
        method: dataclasses.replace(
            plain,
            fcm={"0.01": fcm},
            precision={"0.01": precision},
            cycle_consistent=method in consistent,
            coverage=coverage,
        )
        for method, (fcm, precision) in shares.items()
    }
    return dataclasses.replace(evaluation, scene=name, methods=methods)


def table_of(html, title):
    table = html[html.index(f"{title} of every scene") :].split("</table>")[0]
    rows = [row.split("</tr>")[0] for row in table.split("<tr>")[1:]]
    return [re.sub("<[^>]*>", " ", row.replace("</span></td>", "*</td>")).split() for row in rows]


@pytest.fixture
def ranked(three, tmp_path):
    """The page of two scenes on which three methods change places."""
    one = two_scenes(*three)[0]
    scenes = [
        with_figures(
            one,
            "set/a",
            {"input": (0.2, 0.6), "nmfsync": (0.3, 0.7), "clear": (0.1, 0.9), "matcheig": (0.9, 1)},
        ),
        with_figures(
            one,
            "set/b",
            {"input": (0.2, 0.6), "nmfsync": (0.4, 0.5), "clear": (0.4, 0.8), "matcheig": (0.9, 1)},
        ),
    ]
    write_dataset_report(tmp_path, "set", scenes)
    return (tmp_path / "report.html").read_text()


def test_means_and_ranks_of_the_scenes(ranked):
    heading, a, b, means, ranks = table_of(ranked, "FCM at 1 %")
    assert heading == ["Scene", "input", "NmfSync", "CLEAR", "MatchEig"]
    assert a[-4:] == ["20.0", "30.0*", "10.0", "90.0"]
    assert b[-4:] == ["20.0", "40.0*", "40.0*", "90.0"]
    assert means == ["Mean", "20.0", "35.0*", "25.0", "90.0"]
    # Methods without consistent results have no rank; NmfSync is first, then shares a rank.
    assert ranks == ["Mean", "rank", "–", "1.2*", "1.8", "–"]


def test_verdict_names_the_leaders_of_the_means(ranked):
    assert (
        "NmfSync has the highest mean FCM at 1 % (35.0 %; input 20.0 %), and "
        "CLEAR has the highest mean precision at 1 % (85.0 %; input 60.0 %)."
    ) in Page(ranked).text


def test_costs_have_neither_stars_nor_ranks(ranked):
    table = table_of(ranked, "Time in seconds")
    assert not any("*" in cell for row in table for cell in row)
    assert [row[0] for row in table] == ["Scene", "set/a", "set/b", "Mean"]


def test_one_scene_alone_has_no_mean(three, tmp_path):
    write_dataset_report(tmp_path, "set", two_scenes(*three)[:1])
    html = (tmp_path / "report.html").read_text()
    assert [row[0] for row in table_of(html, "FCM at 1 %")] == ["Scene", "set/scene"]
    assert "1 scene " in " ".join(Page(html).text.split())


def test_remarks_of_single_methods_stand_below_the_table(three, tmp_path):
    scene, features = three
    texts = {"nmfsync": "nmfsync: of the tracks shown", "input": "input: of one method"}
    evaluations = [
        dataclasses.replace(e, warnings=["of the run", *texts.values()])
        for e in two_scenes(scene, features)
    ]
    assert evaluations[0].tracks == "nmfsync"
    assert evaluations[0].remarks == [texts["input"]]
    write_dataset_report(tmp_path, "set", evaluations)
    above, below = (tmp_path / "report.html").read_text().split("FCM at 1 % of every scene", 1)
    assert "of the run" in above
    assert texts["nmfsync"] in above
    assert texts["input"] not in above
    assert texts["input"] in below


def test_data_set_report_compares_estimated_and_measured_precision(three, tmp_path):
    scene, features = three
    evaluations = two_scenes(scene, features)
    write_dataset_report(tmp_path, "set", evaluations)
    html = (tmp_path / "report.html").read_text()
    table = html[html.index("Estimated and measured precision") :].split("</table>")[0]
    first, second, means = (
        part.split("</tr>")[0] for part in table.split('<tr><th scope="row">')[-3:]
    )
    figures = []
    for name in ("input", "nmfsync"):
        method = evaluations[0].methods[name]
        estimated, measured = method.estimated_precision, method.precision["0.01"]
        assert f"<td>{100 * estimated:.1f} %</td>" in first
        assert f"<td>{100 * measured:.1f} %</td>" in first
        assert f"<td>{100 * (estimated - measured):+.1f}</td>".replace("-", "−") in first
        figures.append(f'<td colspan="3">{100 * abs(estimated - measured):.1f}</td>')
    assert "".join(figures) in means  # of the one scene with truth
    assert second.count("<td>–</td>") == 4  # measured, and difference


def test_data_set_links_follow_reports_to_where_they_are(three, tmp_path):
    scene, features = three
    (tmp_path / "set" / "scene").mkdir(parents=True)
    (tmp_path / "set" / "scene" / "report.html").touch()
    write_dataset_report(tmp_path / "paper", "paper", two_scenes(scene, features)[:1])
    page = Page((tmp_path / "paper" / "report.html").read_text())
    assert "../set/scene/report.html" in page.links


def test_data_set_csv_has_one_row_a_scene_and_method(three, tmp_path):
    scene, features = three
    evaluations = two_scenes(scene, features)
    write_dataset_report(tmp_path, "set", evaluations)
    with (tmp_path / "evaluation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["scene"], row["method"]) for row in rows] == [
        ("set/scene", "input"),
        ("set/scene", "nmfsync"),
        ("set/scene", "matcheig"),
        ("set/<other>", "input"),
        ("set/<other>", "nmfsync"),
    ]
    assert float(rows[1]["fcm_0.01"]) == evaluations[0].methods["nmfsync"].fcm["0.01"]
    assert float(rows[1]["precision_0.01"]) == 1
    estimated = evaluations[1].methods["input"].estimated_precision
    assert float(rows[3]["estimated_precision"]) == estimated
    assert rows[1]["cycle_consistent"] == "true"
    assert rows[3]["fcm_0.01"] == ""
    assert rows[0]["matchings"] == "5"


def test_data_set_without_truth(tmp_path, three):
    scene, features = three
    write_dataset_report(tmp_path, "set", two_scenes(scene, features))
    assert (tmp_path / "trade-off.png").exists()
    (tmp_path / "mine.png").touch()
    write_dataset_report(tmp_path, "set", two_scenes(scene, features)[1:])
    assert [path.name for path in tmp_path.glob("*.png")] == ["mine.png"]
    assert Page((tmp_path / "report.html").read_text()).sources == []


def test_without_truth_there_are_no_empty_columns(three, tmp_path):
    scene, features = three
    results = results_for(features)
    unknown = evaluation_of(dataclasses.replace(scene, truth=None), features, results)
    write_dataset_report(tmp_path, "set", [unknown])
    html = (tmp_path / "report.html").read_text()
    page = Page(html)
    assert ">–<" not in html
    assert "FCM at 1 % of every" not in html
    assert "Measured" not in page.text
    assert "Estimated precision" in page.text
    write_dataset_report(tmp_path, "set", [unknown, *two_scenes(scene, features)])
    html = (tmp_path / "report.html").read_text()
    assert table_of(html, "Precision at 1 %")[1][-3:] == ["–", "–", "–"]
