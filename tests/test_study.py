"""Studies: the same numbers whoever computes them, and claims that are checked, not believed."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nmfsync import (
    METHODS,
    MultiMatching,
    NmfsyncError,
    NmfsyncWarning,
    Settings,
    synchronise,
)
from nmfsync.report.study_page import write_study_report
from nmfsync.study import runner
from nmfsync.study.claims import Comparison, Consistency, Robustness
from nmfsync.study.definitions import STUDIES, MethodVariant, Parameter
from nmfsync.study.runner import run_samples

TINY = replace(
    STUDIES["synthetic"],
    base={**STUDIES["synthetic"].base, "k": 6, "d": 5},
    parameters=(Parameter("sigma", "noise σ", (0.2, 0.8)), Parameter("k", "images k", (4, 6))),
    methods=lambda: [MethodVariant(name, METHODS[name]) for name in ("nmfsync", "spectral")],
)


def run(folder, samples=3, **options):
    return run_samples(TINY, folder, samples, progress=False, **options)


def computed(monkeypatch) -> list:
    """Record the problems that are solved from here on (in this process)."""
    seeds = []

    def spy(setting, seed, make=TINY.problem):
        seeds.append((setting["k"], setting["sigma"], seed))
        return make(setting, seed)

    monkeypatch.setattr(sys.modules[__name__], "TINY", replace(TINY, problem=spy))
    return seeds


def test_table_is_tidy_and_right(tmp_path):
    results = run(tmp_path)
    with (tmp_path / "results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == [
        "study", "parameter", "value", "method", "metric", "mean", "standard_error", "samples",
    ]  # fmt: skip
    assert len(table) == len(results.rows) == 4 * 3 * 6  # points, methods, metrics
    assert {row["method"] for row in table} == {"input", "nmfsync", "spectral"}
    samples = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    errors = [
        measured["nmfsync"]["gt_error"]
        for key, measured in samples[1:]
        if json.loads(key)[0]["sigma"] == 0.8
    ]
    row = next(
        row for row in table
        if (row["value"], row["method"], row["metric"]) == ("0.8", "nmfsync", "gt_error")
    )  # fmt: skip
    assert float(row["mean"]) == pytest.approx(np.mean(errors))
    assert float(row["standard_error"]) == pytest.approx(np.std(errors, ddof=1) / np.sqrt(3))
    assert row["samples"] == "3"


def test_number_of_jobs_changes_nothing(tmp_path):
    for jobs in (1, 2):
        run(tmp_path / str(jobs), jobs=jobs)
    one, two = ((tmp_path / jobs / "results.csv").read_bytes() for jobs in "12")
    assert one == two


def test_a_point_shared_by_two_columns_is_computed_once(tmp_path, monkeypatch):
    seeds = computed(monkeypatch)
    run(tmp_path)
    assert len(seeds) == len(set(seeds)) == 4 * 3
    # k = 6 with the noise of the base, 0.6, is a point of its own column only.
    assert {(k, sigma) for k, sigma, _ in seeds} == {(6, 0.2), (6, 0.8), (4, 0.6), (6, 0.6)}


def test_an_interrupted_study_continues(tmp_path, monkeypatch):
    run(tmp_path / "whole")
    run(tmp_path / "part")
    store = tmp_path / "part/samples.jsonl"
    text = store.read_bytes()
    store.write_bytes(text[: len(text) // 2])  # in the middle of a line
    whole_lines = text[: len(text) // 2].count(b"\n") - 1
    seeds = computed(monkeypatch)
    run(tmp_path / "part")
    assert len(seeds) == 4 * 3 - whole_lines
    again, whole = ((tmp_path / name / "results.csv").read_bytes() for name in ("part", "whole"))
    assert again == whole


def test_more_samples_add_to_those_there_are(tmp_path, monkeypatch):
    run(tmp_path, samples=2)
    seeds = computed(monkeypatch)
    run(tmp_path, samples=3)
    assert [seed for _, _, seed in seeds] == [2] * 4


def test_samples_of_other_code_are_not_used(tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr(runner, "code_behind", lambda function: "another version")
    seeds = computed(monkeypatch)
    run(tmp_path)
    assert len(seeds) == 4 * 3


def test_report_shows_figure_and_verdicts(tmp_path):
    results = run(tmp_path)
    write_study_report(tmp_path, TINY, results)
    first = {name: (tmp_path / name).read_bytes() for name in ("figure.png", "figure.pdf")}
    assert first["figure.pdf"].startswith(b"%PDF")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for verdict in results.verdicts:
        assert verdict.claim in page
    assert "://" not in page  # "http" alone may stand in the picture's base64
    write_study_report(tmp_path, TINY, results)
    assert first == {name: (tmp_path / name).read_bytes() for name in first}


def points(**methods):
    """Two points, sigma = 1 and sigma = 2, with the given f-scores of every method."""
    values = [
        {name: {"f_score": np.array(both[n]), "cycle_error": np.array(both[n])}
         for name, both in methods.items()}
        for n in (0, 1)
    ]  # fmt: skip
    return [("sigma", 1, values[0]), ("sigma", 2, values[1])]


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        (([0.9, 0.8], [0.5, 0.6]), ([0.7, 0.6], [0.4, 0.5]), "holds"),
        (([0.9, 0.8], [0.5, 0.6]), ([0.7, 0.6], [0.6, 0.7]), "holds in part"),
        (([0.5, 0.4], [0.5, 0.6]), ([0.7, 0.6], [0.5, 0.6]), "does not hold"),
        (([0.5, 0.7], [0.5, 0.6]), ([0.7, 0.5], [0.5, 0.6]), "no difference"),
    ],
)
def test_comparison_counts_points(a, b, outcome):
    verdict = Comparison("a", "b", "f_score", "higher").check(points(a=a, b=b))
    assert verdict.outcome == outcome
    assert verdict.claim == "a has a higher f-score than b"


def test_comparison_says_where_it_fails():
    verdict = Comparison("a", "b", "f_score", "lower").check(
        points(a=([0.1, 0.2], [0.9, 0.8]), b=([0.3, 0.4], [0.5, 0.4]))
    )
    assert str(verdict) == (
        "a has a lower f-score than b: holds in part. Lower at 1 of 2 points, higher at 1, the "
        "rest within two standard errors; on average 0.5 against 0.4. Higher at sigma = 2."
    )


def test_consistency_is_exact():
    none = points(a=([0.0, 0.0], [0.0, 0.0]))
    some = points(a=([0.0, 0.0], [0.0, 1e-9]))
    assert Consistency("a", "is").check(none).outcome == "holds"
    assert Consistency("a", "is").check(some).outcome == "does not hold"


def test_robustness_compares_worst_with_best():
    claim = Robustness("a", "sigma", "f_score")
    assert claim.check(points(a=([1.0, 1.0], [0.9, 0.92]))).outcome == "holds"
    verdict = claim.check(points(a=([1.0, 1.0], [0.8, 0.8])))
    assert verdict.outcome == "does not hold"
    assert "worst 0.800 at 2: 20% less" in verdict.detail


def alone(matches, universe_size, theta, seed):
    """Leave every feature alone: a method as a user would write it."""
    return MultiMatching(np.arange(matches.sizes.sum()), matches.sizes)


def test_a_method_of_ones_own_takes_part_everywhere(tmp_path, monkeypatch, nmfsync_command):
    monkeypatch.setitem(METHODS, "alone", alone)
    assert "alone" in Settings().methods
    assert "alone" in [variant.name for variant in STUDIES["synthetic"].methods()]
    outcome = nmfsync_command(
        "run", "--methods", "nmfsync,alone", "--features", 40, "--out", tmp_path
    )
    assert outcome.code == 0
    assert "alone" in outcome.out
    assert "alone" in (tmp_path / "sample/astronaut/report.html").read_text(encoding="utf-8")


def test_a_function_is_a_method():
    problem = TINY.problem({**TINY.base, "sigma": 0.2}, 0)
    result = synchronise(problem.matches, alone, 5)
    assert result.W.nnz == problem.matches.W.shape[0]
    with pytest.raises(NmfsyncError, match="alone has no option 'speed'"):
        synchronise(problem.matches, alone, 5, speed=1)
    with pytest.raises(NmfsyncError, match="must return a MultiMatching or PairwiseMatches"):
        synchronise(problem.matches, lambda *arguments: 5)


def install(folder: Path, name: str, code: str) -> None:
    """Put a package with an entry point into a folder, as pip would."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[nmfsync.methods]\n{name} = {name}:solve\n")


def test_methods_of_installed_packages_are_found(tmp_path):
    install(tmp_path, "mine", "import nmfsync\ndef solve(matches, universe_size, theta, seed): ...")
    install(tmp_path, "broken", "raise RuntimeError('out of order')")
    code = "import nmfsync; print(list(nmfsync.METHODS))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert "'mine'" in done.stdout
    assert "'broken'" not in done.stdout
    assert NmfsyncWarning.__name__ in done.stderr
    assert "the method broken (broken:solve) cannot be loaded: out of order" in done.stderr


def test_study_command(nmfsync_command, tmp_path):
    outcome = nmfsync_command("study", "initialisation", "--samples", 1, "--out", tmp_path)
    assert outcome.code == 0
    assert "rotated (SBRA) has a lower gt-error than positive part X₊" in outcome.out
    folder = tmp_path / "studies/initialisation"
    names = {path.name for path in folder.iterdir()}
    assert names == {"figure.pdf", "figure.png", "report.html", "results.csv", "samples.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "unknown study 'nonsense'; there are synthetic, sensitivity"),
        (["synthetic", "--samples", "0"], "number of samples must be at least 1, got 0"),
        (["landmarks"], "CMU VASC"),
    ],
)
def test_mistakes_get_one_line(nmfsync_command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.delenv("NMFSYNC_DATA", raising=False)
    outcome = nmfsync_command("study", *arguments, "--out", tmp_path, "--jobs", 1)
    assert outcome.code == 1
    assert message in outcome.err
    assert not list(tmp_path.rglob("*.*"))
    assert len(outcome.err.strip().splitlines()) == 1
