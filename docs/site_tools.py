"""What the site needs beyond Sphinx: help texts of the commands, and links."""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from typer.main import get_command

from nmfsync.cli.commands import app

WIDTH = 88  # columns of the help texts, about as wide as a page of the site


class HelpTexts(Directive):
    """The help text of every command, a section each."""

    def run(self) -> list[nodes.Node]:
        """Make the sections."""
        return [_section(name, command) for name, command in _commands(get_command(app))]


def _commands(command: Any, name: str = "nmfsync") -> Iterator[tuple[str, Any]]:
    yield name, command
    for part, below in getattr(command, "commands", {}).items():
        yield from _commands(below, f"{name} {part}")


def _section(name: str, command: Any) -> nodes.section:
    context = command.context_class(
        command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH
    )
    section = nodes.section(ids=[nodes.make_id(name)], names=[nodes.fully_normalize_name(name)])
    section += nodes.title(text=name)
    text = command.get_help(context)
    section += nodes.literal_block(text, text, language="text")
    return section


def keep_as_code(
    app: Sphinx, env: BuildEnvironment, node: nodes.Element, content: nodes.Element
) -> nodes.Element | None:
    """Leave a `name` of a docstring as code if this site has no entry of that name.

    Names of files, arguments and attributes are written like names of functions.
    """
    return content if node.get("reftype") == "obj" else None


def link_to_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links to the scripts of the gallery lead to the pages made of them."""
    source[0] = re.sub(r"\bgallery/(\w+)\.py\b", r"examples/\1.rst", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all this with Sphinx."""
    app.add_directive("help-texts", HelpTexts)
    app.connect("missing-reference", keep_as_code)
    app.connect("source-read", link_to_pages)
    return {"parallel_read_safe": True}
