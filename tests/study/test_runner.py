"""Studies: the same numbers whoever computes them."""

import csv
import json
import os
import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from builders import TINY_STUDY as TINY
from builders import alone
from nmfsync import (
    METHODS,
    Settings,
)
from nmfsync.study import runner
from nmfsync.study.definitions import STUDIES
from nmfsync.study.names import STUDY_NAMES
from nmfsync.study.runner import run_samples, write_rows


def test_all_studies_have_their_names_in_the_list_of_names():
    assert tuple(STUDIES) == STUDY_NAMES


def run(folder, samples=3, **options):
    results = run_samples(TINY, folder, samples, progress=False, **options)
    write_rows(folder / "results.csv", results.rows)
    return results


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
        for key, measured, _ in samples[1:]
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


def test_damaged_samples_are_measured_again(tmp_path, monkeypatch):
    run(tmp_path)
    store, table = tmp_path / "samples.jsonl", (tmp_path / "results.csv").read_bytes()
    header, *lines = store.read_bytes().splitlines(keepends=True)
    rng = random.Random(0)
    seeds = computed(monkeypatch)
    for _ in range(8):
        at = rng.randrange(len(lines))
        line = bytearray(lines[at])
        place = rng.randrange(len(line))
        line[place] ^= 1 << rng.randrange(7)
        number = rng.randrange(10)  # a digit of a sample that looks right
        other = lines[at].replace(b"0.", b"0.%d" % number, 1)
        for damaged in (bytes(line), other, b"[1, 2, 3]\n", b"null\n", b"\xff\xfe\n", b"\n"):
            seeds.clear()
            store.write_bytes(b"".join([header, *lines[:at], damaged, *lines[at + 1 :]]))
            run(tmp_path)
            assert 1 <= len(seeds) <= 2  # two, if two lines became one
            assert (tmp_path / "results.csv").read_bytes() == table


def test_a_store_that_is_no_file_is_replaced_or_named(tmp_path):
    run(tmp_path, samples=1)
    store, whole = tmp_path / "samples.jsonl", (tmp_path / "samples.jsonl").read_bytes()
    for make in (os.mkfifo, lambda path: path.symlink_to("nothing"), lambda path: path.touch()):
        store.unlink()
        make(store)
        run(tmp_path, samples=1)
        assert store.read_bytes() == whole
    store.unlink()
    store.mkdir()
    with pytest.raises(IsADirectoryError):
        run(tmp_path, samples=1)


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


def test_damaged_samples_are_computed_again(tmp_path, monkeypatch):
    whole = run(tmp_path)
    store = tmp_path / "samples.jsonl"
    lines = store.read_text().splitlines(keepends=True)
    key, sample, seal = json.loads(lines[2])
    sample["nmfsync"]["recall"] += 0.1
    lines[1] = "[1, {" + lines[1]  # what a killed run left, and what another one added
    lines[2] = json.dumps([key, sample, seal]) + "\n"
    lines[3] = "null\n"
    store.write_text("".join(lines))
    seeds = computed(monkeypatch)
    assert run(tmp_path).rows == whole.rows
    assert len(seeds) == 3


def test_a_method_of_ones_own_takes_part_everywhere(
    tmp_path, monkeypatch, nmfsync_command, photographs
):
    monkeypatch.setitem(METHODS, "alone", alone)
    assert "alone" in Settings().resolved(own=False).methods
    assert "alone" in [variant.name for variant in STUDIES["synthetic"].methods()]
    outcome = nmfsync_command(
        "run", photographs, "--methods", "spectral,alone", "--features", 40, "--out", tmp_path
    )
    assert outcome.code == 0
    assert "alone" in outcome.out
    assert "alone" in (tmp_path / "images" / photographs.name / "report.html").read_text(
        encoding="utf-8"
    )


def test_means_are_over_all_values_of_a_parameter(tmp_path):
    results = run(tmp_path)
    of_sigma = [
        row.mean
        for row in results.rows
        if (row.parameter, row.method, row.metric) == ("sigma", "spectral", "f_score")
    ]
    assert len(of_sigma) == 2
    means = results.means("f_score")
    assert list(means) == ["sigma", "k"]
    assert means["sigma"]["spectral"] == pytest.approx(np.mean(of_sigma))


@pytest.mark.parametrize("parameter", STUDIES["robustness"].parameters, ids=lambda p: p.column)
def test_every_point_of_the_study_robustness_has_problems(parameter):
    study = STUDIES["robustness"]
    for value in parameter.values:
        problem = study.problem({**study.base, **parameter.fixed, parameter.name: value}, 0)
        assert problem.matches.W.nnz > len(problem.matches.image_of)
        assert problem.W_gt.shape == problem.matches.W.shape
