"""The report of a study."""

from builders import TINY_STUDY
from nmfsync.report.study_page import write_study_report
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
