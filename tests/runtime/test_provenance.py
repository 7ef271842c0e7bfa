"""Where a result comes from: command, date, inputs, times."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.provenance import Clock, Costs, command_line, cpu_time, digest_of


def test_a_command_can_be_typed_again():
    assert command_line(["run", "my images", "--out", "it's"]) == (
        "nmfsync run 'my images' --out 'it'\"'\"'s'"
    )
    assert command_line(["run", "a\x1b[2J"]) == r"nmfsync run 'a\x1b[2J'"


def test_a_command_does_not_tell_the_home_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    words = ["run", "/home/somebody/my images", "--out=/home/somebody/o", "/home/somebodyelse"]
    assert command_line(words) == "nmfsync run ~/'my images' --out=~/o /home/somebodyelse"


def test_the_date_is_in_utc_and_obeys_source_date_epoch(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", Clock().date)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert Clock().date == "1970-01-02T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(NmfsyncError, match="must be seconds since 1970, got 'soon'"):
        Clock()


def test_one_digest_stands_for_all_files(tmp_path):
    """It is the one of what sha256sum prints."""
    lines = b""
    for name in ("a.png", "b c.png"):
        digest = hashlib.sha256(name.encode()).hexdigest()
        lines += f"{digest}  {name}\n".encode()
    files = dict(reversed(line.split("  ")) for line in lines.decode().splitlines())
    assert digest_of(files) == hashlib.sha256(lines).hexdigest()


def test_cpu_time_counts_processes_that_have_ended():
    before = cpu_time()
    subprocess.run([sys.executable, "-c", "for _ in range(10**7): pass"], check=True)
    assert cpu_time() - before > 0.05


def test_a_provenance_is_plain_and_ends_with_the_whole_run():
    stages = [Costs("features", 1.5, 2.5), Costs("matches", 0.5, None, kept=True)]
    provenance = Clock().provenance("nmfsync run", {"a.png": "00"}, stages)
    assert json.loads(json.dumps(provenance)) == provenance
    assert [costs["stage"] for costs in provenance["stages"][:2]] == ["features", "matches"]
    whole = provenance["stages"][2]
    assert whole["stage"].startswith("whole run")
    assert 0 <= whole["seconds"] < 60
    assert {"nmfsync", "python", "numpy"} <= provenance["versions"].keys()
    assert str(Path.home()) not in json.dumps(provenance)
