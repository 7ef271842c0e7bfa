"""Figures and tables for papers."""

import re
from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image

from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.errors import match_errors
from nmfsync.report import dataset_page, drawing, paper, scene_page
from nmfsync.report.latex import Block, escape, scene_table, table
from nmfsync.report.page import Cell
from rendered import scene as rendered_scene
from three_images import evaluation_of, results_for, three_images


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Three images, and what belongs to their page."""
    scene, features = three_images(tmp_path_factory.mktemp("images"))
    results = results_for(features)
    errors = {name: match_errors(m, features, scene.truth) for name, m in results.items()}
    confidences = {name: estimate_confidence(m, results["input"]) for name, m in results.items()}
    evaluation = evaluation_of(scene, features, results)
    return scene, features, results, errors, confidences, evaluation


@pytest.fixture
def undrawn(monkeypatch):
    """Make figures without drawing them, which takes most of the time."""
    file = BytesIO()
    Image.new("RGB", (1, 1)).save(file, "PNG")
    contents = {"png": file.getvalue(), "pdf": b"", "svg": b""}
    writers = {ending: lambda figure, data=data: data for ending, data in contents.items()}
    monkeypatch.setattr(drawing, "_WRITERS", writers)
    monkeypatch.setattr(drawing, "helpers_for", lambda most: 0)


@pytest.mark.parametrize("cameras", [False, True])
def test_every_picture_of_the_page_has_its_figures(example, undrawn, tmp_path, cameras):
    scene, *others = example
    if cameras:
        scene = replace(scene, truth=None, cameras=rendered_scene().cameras[:3])
        others[-1] = replace(others[-1], truth="none")
    scene_page.write_scene_report(tmp_path, scene, *others)
    paper.write_scene_figures(tmp_path, scene, *others[:3], others[-1])
    pictures = {path.stem for path in tmp_path.glob("*.png")}
    for ending in ("pdf", "svg"):
        assert {path.stem for path in (tmp_path / "figures").glob(f"*.{ending}")} == pictures
    assert (tmp_path / "figures/table.tex").exists()


def rows_of(latex):
    return [line.removesuffix(r" \\").split(" & ") for line in latex.splitlines() if " & " in line]


def test_the_table_marks_the_best_as_the_page_does(example):
    evaluation = example[-1]
    methods = {**evaluation.methods, "spectral": evaluation.methods["nmfsync"]}
    heads, *rows = rows_of(scene_table(replace(evaluation, methods=methods)))
    assert [row[0] for row in rows] == ["input", "NmfSync", "MatchEig", "Spectral"]
    marked = {row[0]: [h for h, c in zip(heads, row, strict=True) if "textbf" in c] for row in rows}
    best = [r"FCM 1\,\%", r"Prec. 1\,\%"]
    assert marked == {"input": [], "NmfSync": best, "MatchEig": [], "Spectral": best}


def test_a_table_without_truth_has_no_empty_columns(example):
    evaluation = replace(example[-1], truth="none")
    assert rows_of(scene_table(evaluation))[0] == [
        "Method", "Matches", "Est. prec.", "Cycle-error", "Time (s)",
    ]  # fmt: skip


def test_names_cannot_act_on_latex():
    text = escape("\\input{x} 50 % & #1 $x$ a_b ~^ <\"'> [*]\n\u202e")
    for letter in "&%$#_":
        assert re.search(rf"(?<!\\){re.escape(letter)}", text) is None
    assert r"\textbackslash{}input\{x\}" in text
    assert "\n" not in text
    assert "[" not in text.replace("{[}", "")
    assert escape("ClusterSync 2") == "ClusterSync 2"


def test_every_row_has_all_columns():
    cells = [Cell("1.0", best=True), Cell("–")]
    latex = table(["Scene", "a&b", "c"], [Block("F", [("x", cells)]), Block("", [("y", cells)])])
    assert latex.count(r"\midrule") == 2
    assert rows_of(latex) == [
        ["Scene", r"a\&b", "c"],
        ["x", r"\textbf{1.0}", "--"],
        ["y", r"\textbf{1.0}", "--"],
    ]
    assert r"\begin{tabular}{lrr}" in latex
    assert latex.count("{") == latex.count("}")


def test_a_data_set_has_its_figures_if_asked_for(example, undrawn, tmp_path):
    evaluation = example[-1]
    scenes = [evaluation, replace(evaluation, scene="set/a_b")]
    dataset_page.write_dataset_report(tmp_path, "set", scenes, figures=True)
    pictures = {path.stem for path in tmp_path.glob("*.png")}
    assert {path.stem for path in (tmp_path / "figures").glob("*.pdf")} == pictures
    rows = rows_of((tmp_path / "figures/table.tex").read_text())
    assert rows[0] == ["Scene", "input", "NmfSync", "MatchEig"]
    assert [row[0] for row in rows[1:4]] == ["set/scene", r"set/a\_b", "Mean"]
    dataset_page.write_dataset_report(tmp_path, "set", scenes)
    assert not (tmp_path / "figures").exists()
