"""What the terminal shows: at any width, without colours, in the right order."""

import json
import re
import shutil
from pathlib import Path

import pytest
from skimage import data

from builders import noisy
from nmfsync.cli.scenes import new_console, print_scene
from nmfsync.evaluation.summary import ImageGraph, MethodEvaluation, SceneEvaluation
from nmfsync.synchronisation.methods import METHODS

LONG = "a_method_of_somebody_with_a_very_long_name"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    monkeypatch.delenv("NMFSYNC_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def evaluation_of_nine():
    """All methods and one with a long name, and large figures."""
    figures = MethodEvaluation(
        {"0.01": 0.2}, {"0.01": 0.5}, 12_345_678, 20_000_000, 12.345, False, 1234.5, 12_345.0, 0.9
    )
    methods = dict.fromkeys(["input", *METHODS, LONG], figures)
    warnings = ["clustersync: the result is likely no better than the input"]
    return SceneEvaluation("images/" + "scene" * 20, 6, 1200, [200] * 6, 400, "homographies", {},
                           methods, warnings, image_graph=ImageGraph())  # fmt: skip


def test_sentences_break_on_terminals_only_and_nothing_is_coloured_elsewhere(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    print_scene(new_console(), evaluation_of_nine(), Path("outputs"))
    text = capsys.readouterr().out
    assert "matches of the input are right (estimated); measured against the ground truth" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_tables_fit_and_show_all(monkeypatch, capsys, columns):
    for name, value in {"COLUMNS": columns, "FORCE_COLOR": 1, "NO_COLOR": 1}.items():
        monkeypatch.setenv(name, str(value))  # a terminal, as far as rich knows
    evaluation = evaluation_of_nine()
    print_scene(new_console(), evaluation, Path("outputs"))
    lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    report = next(n for n, line in enumerate(lines) if line.startswith("Report:"))
    assert max(map(len, lines[:report])) <= columns
    words = " ".join(lines).split()
    for word in ("12,345,678", "50.0%", "1234.50", "12,345", *METHODS):
        assert word in words
    assert LONG not in words
    assert "a_method…ng_name" in words
    assert not any("…" in word for word in words if word[:2] not in ("a_", "im"))  # clipped
    rows = [line.split() for line in lines if line.strip().startswith("nmfsync ")]
    assert sum(len(row) - 1 for row in rows) == 8  # no figure is lost


def test_first_the_verdict_then_the_table_then_warnings_and_the_report(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    print_scene(new_console(), evaluation_of_nine(), Path("outputs"))
    text = capsys.readouterr().out
    places = [text.index(part) for part in
              ("6 images", "About 90 %", "cycle-",
               "Warning: clustersync:", "Report: ")]  # fmt: skip
    assert places == sorted(places)


@pytest.mark.usefixtures("without_report")
def test_run_takes_both_spellings_and_names_the_cat(nmfsync_command, photographs, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    shutil.copytree(photographs, "motorbikes")
    shutil.copy(Path(data.__file__).with_name("chelsea.png"), "motorbikes")
    found = []
    for options in (["--methods", "clustersync,unionfind"],
                    ["--method", "clustersync", "--method", "unionfind"]):  # fmt: skip
        outcome = nmfsync_command("run", "motorbikes", "--features", 100, *options)
        assert outcome.code == 0, outcome.err
        assert "Warning: chelsea.png looks unrelated to the other images" in outcome.out
        outputs = Path("outputs/images/motorbikes")
        found.append(json.loads((outputs / "evaluation.json").read_text()))
        (outputs / "tracks.csv").unlink()  # without which the second run had nothing to write
    assert list(found[0]["methods"]) == list(found[1]["methods"])
    first, second = (one["provenance"] for one in found)
    assert second["command"].endswith("--method clustersync --method unionfind")
    assert second["date"] == "1970-01-01T00:00:00Z"
    assert first["inputs"].keys() == {"chelsea.png", "view0.png", "view1.png", "view2.png"}
    kept = {costs["stage"] for costs in second["stages"] if costs["kept"]}
    assert kept == {"matches", "look-alikes", "clustersync", "unionfind"}
    assert found[0]["image_graph"]["unrelated"] == [0]


def test_synchronise_takes_both_spellings_but_one_method(nmfsync_command):
    noisy(k=5, d=6, rho=0.9, sigma=0.1, seed=0).save("m.npz")
    results = []
    for spelling in ("--method", "--methods"):
        outcome = nmfsync_command("synchronise", "m.npz", "-o", "o.npz", "--force",
                                  spelling, "unionfind")  # fmt: skip
        assert outcome.code == 0, outcome.err
        results.append(Path("o.npz.tracks.csv").read_bytes())
    assert results[0] == results[1]
    for options in (["--method", "unionfind,spectral"],
                    ["--method", "unionfind", "--methods", "spectral"]):  # fmt: skip
        outcome = nmfsync_command("synchronise", "m.npz", "-o", "o2.npz", *options)
        assert outcome.code == 1
        assert outcome.err == (
            "Error: synchronise takes one method, got unionfind, spectral; call it once for each\n"
        )
