"""The README is true: its Python runs, and its commands and links exist."""

import re
import shlex
from pathlib import Path
from unittest import mock

import pytest
import typer
from typer.main import get_command

from nmfsync import METHODS
from nmfsync.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with mock.patch.dict(METHODS):  # what the code adds is gone afterwards
        exec(compile(code, "README.md", "exec"), {})


COMMANDS = [
    shlex.split(line, comments=True)
    for block in blocks("sh")
    for line in block.splitlines()
    if line.startswith("nmfsync ")
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_exists_with_these_options(words):
    command = get_command(app)
    context = typer.Context(command, info_name="nmfsync")
    arguments = words[1:]
    while hasattr(command, "commands"):
        command = command.commands[arguments.pop(0)]
    command.make_context(command.name, arguments, parent=context)


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
