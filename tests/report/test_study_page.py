"""The report of a study."""

import re
from dataclasses import replace

from builders import TINY_STUDY
from nmfsync.report.study_page import study_figure, write_study_report
from nmfsync.study.definitions import Parameter
from nmfsync.study.runner import run_samples


def test_report_shows_figure_and_verdicts(tmp_path):
    results = run_samples(TINY_STUDY, tmp_path, 2, progress=False)
    write_study_report(tmp_path, TINY_STUDY, results)
    first = {name: (tmp_path / name).read_bytes() for name in ("figure.png", "figure.pdf")}
    assert first["figure.pdf"].startswith(b"%PDF")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for verdict in results.verdicts:
        assert verdict.claim in page
    assert "://" not in page  # "http" alone may stand in the picture's base64
    write_study_report(tmp_path, TINY_STUDY, results)
    assert first == {name: (tmp_path / name).read_bytes() for name in first}


def test_report_shows_the_means_over_every_parameter(tmp_path):
    results = run_samples(TINY_STUDY, tmp_path, 2, progress=False)
    write_study_report(tmp_path, TINY_STUDY, results)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    row = r'<tr><th scope="row">(sigma|k)</th>(.*?)</tr>'
    rows = dict(re.findall(row, page, re.DOTALL))  # of the f-score
    for parameter in ("sigma", "k"):
        means = results.means("f_score")[parameter]
        cells = re.findall(r"<td>(.*?)</td>", rows[parameter])
        best = max(means.values())
        for cell, mean in zip(cells, means.values(), strict=True):
            assert f"{mean:.3f}" in cell
            assert ("best" in cell) == (f"{mean:.3f}" == f"{best:.3f}")


def test_figure_of_many_parameters_has_several_lines(tmp_path):
    many = tuple(Parameter("sigma", f"label {n}", (0.2, 0.8), {}, f"noise {n}") for n in range(8))
    study = replace(TINY_STUDY, parameters=many)
    figure = study_figure(study, run_samples(study, tmp_path, 1, progress=False).rows)
    upper, lower = figure.subfigs
    assert len(upper.axes) == 6 * len(study.metrics)
    assert len(lower.axes) == 2 * len(study.metrics)
    assert [axes.get_xlabel() for axes in lower.axes][-2:] == ["label 6", "label 7"]
