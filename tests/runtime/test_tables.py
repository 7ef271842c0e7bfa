"""CSV files that no spreadsheet takes for a program."""

import csv

import pytest

from nmfsync.runtime.tables import write_table


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize(
    "text",
    [
        *("=cmd()", "+1+cmd", "-2+3", "@SUM(A1)", "\tx", "\rx", "\n=x", " =x", "=1", "-", "--1"),
        *("=", "-x.jpg", '=HYPERLINK("a","b")'),
    ],
)
def test_formulas_become_texts(tmp_path, text):
    write_table(tmp_path / "t.csv", ["name"], [[text]])
    assert rows_of(tmp_path / "t.csv") == [["name"], [f"'{text}"]]


@pytest.mark.parametrize(
    "value", ["a=b", "img-1.jpg", "-1.5", "+2", "-1e-05", -3, -1.5, "", "'=x", "a,b", "ü", "a\r=b"]
)
def test_everything_else_stays(tmp_path, value):
    write_table(tmp_path / "t.csv", ["name"], [[value]])
    assert rows_of(tmp_path / "t.csv") == [["name"], [str(value)]]


def test_names_that_are_not_text_can_be_written(tmp_path):
    write_table(tmp_path / "t.csv", ["a", "b"], [["\udcff", None]])
    assert rows_of(tmp_path / "t.csv")[1] == ["\\udcff", ""]
