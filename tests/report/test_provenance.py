"""The section that says where a result comes from."""

import html
import re

from nmfsync.report.page import environment
from nmfsync.runtime.provenance import Clock, Costs


def section(provenance, macro="provenance_section"):
    source = f'{{% from "provenance.html" import {macro} %}}{{{{ {macro}(p) }}}}'
    return environment().from_string(source).render(p=provenance)


def test_the_section_shows_command_files_and_times(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    files = {"<b>&.png": "ab" * 32, "c\u202e.png": "cd" * 32}
    stages = [Costs("features", 1.234, 2.5), Costs("nmfsync", 30.0, None, kept=True)]
    text = section(Clock().provenance("nmfsync run '<b>'", files, stages))
    assert "<b>" not in text
    assert "\u202e" not in text
    words = html.unescape(re.sub(r"<[^>]*>", "", text))
    for part in ("nmfsync run '<b>'", "1970-01-01 00:00:00 UTC", "<b>&.png", "cd" * 32,
                 "SHA-256 of 2 input files", "1.23", "2.50", "of an earlier run"):  # fmt: skip
        assert part in words


def test_of_very_many_files_the_first_are_listed():
    files = {f"{n}.png": f"{n:064}" for n in range(1002)}
    text = section(Clock().provenance("nmfsync run", files, []))
    assert f"{999:064}" in text
    assert f"{1000:064}" not in text
    assert "These are the first 1,000; evaluation.json has all." in text


def test_results_of_older_versions_have_none():
    assert section({}).strip() == ""
    assert section([], "dataset_provenance").strip() == ""
