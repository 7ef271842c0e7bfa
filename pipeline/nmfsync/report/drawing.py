"""Figures as stages: drawn where their content changed, and several at a time.

A figure follows from a function and its arguments, and from nothing else: they are what its key is
made from, and what is sent to another process.
"""

import nmfsync.report.figures  # noqa: F401  # isort: skip  imports matplotlib first

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from matplotlib import ft2font
from matplotlib.figure import Figure

from nmfsync.report.figures.canvas import Photograph
from nmfsync.report.figures.style import PAGE, Look, default_look, to_pdf, to_png, to_svg
from nmfsync.report.method_styles import Records, records, use_records
from nmfsync.runtime.cache import Arrays, code_of_pages, key_of, load, save
from nmfsync.runtime.files import sha256_of
from nmfsync.runtime.helpers import helpers_for, with_helpers

# Files for this process and for every helper. A helper takes 0.9 s of CPU time to start, as long as
# three PNG files take to draw: 0.3 s each on the sample, a PDF and an SVG together 0.75 s. With the
# 10 files of a page, this process works for 2.3 s instead of 3.3 s on graffiti/graf, but both
# together a third longer: a loss where the other core has something to do. The 20 files of
# `--figures` are worth it: with those of the page 7.3 s instead of 9.9 s, together a fifth longer.
_FILES_EACH = 8

_WRITERS = {"png": to_png, "pdf": to_pdf, "svg": to_svg}

Files = dict[str, bytes]


@dataclass(frozen=True)
class Drawing:
    """A figure that is to be drawn.

    Attributes
    ----------
    name : str
        Of its files, without their endings.
    function : callable
        A function on the top level of a module, which returns the figure. It depends on its
        arguments, the look and the records of the methods only.
    arguments : tuple
        Plain values, arrays, photographs, and sequences, mappings and dataclasses of them.
    look : Look
    formats : tuple of str
        "png", "pdf", "svg"; drawn in this order.
    """

    name: str
    function: Callable[..., Figure]
    arguments: tuple[Any, ...]
    look: Look = PAGE
    formats: tuple[str, ...] = ("png",)

    def key(self) -> str:
        """Return a digest of all that the files follow from."""
        called = f"{self.function.__module__}:{self.function.__qualname__}"
        content = _content([called, self.look, self.formats, self.arguments, records()])
        return key_of(code_of_pages(), _libraries(), *content)

    def files(self) -> list[str]:
        """Return the names of the files."""
        return [f"{self.name}.{ending}" for ending in self.formats]


def draw(drawings: Sequence[Drawing], kept: Path | None = None) -> Files:
    """Return the content of the files of figures, by name.

    Parameters
    ----------
    drawings : sequence of Drawing
    kept : Path, optional
        Folder with what was drawn before: the last files of each name, under the key of the
        figure. What is damaged, or has another key, is drawn again.

    Returns
    -------
    dict of str to bytes
        The same bytes whether they are drawn now or were before, here or in another process.

    Raises
    ------
    NmfsyncError
        If a photograph cannot be read, or is another one by now.
    OSError
        If `kept` cannot be written.
    """
    keys = {} if kept is None else {drawing.name: drawing.key() for drawing in drawings}
    found = {d.name: _kept(kept, d, keys[d.name]) for d in drawings} if kept else {}
    missing = [drawing for drawing in drawings if not found.get(drawing.name)]
    helpers = helpers_for(sum(len(d.formats) for d in missing) // _FILES_EACH - 1)
    tasks = [(drawing, records()) for drawing in missing]
    for drawing, files in zip(missing, with_helpers(_drawn, tasks, helpers), strict=True):
        found[drawing.name] = files
        if kept is not None:
            arrays = {name: np.frombuffer(data, np.uint8) for name, data in files.items()}
            save(_place(kept, drawing), keys[drawing.name], arrays)
    return {name: data for drawing in drawings for name, data in found[drawing.name].items()}


def _kept(kept: Path, drawing: Drawing, key: str) -> Files:
    """Return the files of a figure from a folder; nothing if they are not there."""

    def unpack(arrays: Arrays) -> Files:
        return {name: arrays[name].tobytes() for name in drawing.files()}

    return load(_place(kept, drawing), key, unpack) or {}


def _place(kept: Path, drawing: Drawing) -> Path:
    return kept / f"{drawing.name}.npz"


def _drawn(drawing: Drawing, methods: Records) -> Files:
    """Draw a figure, maybe in a process that knows the methods of this package only."""
    with use_records(methods), default_look(drawing.look):
        figure = drawing.function(*drawing.arguments)
        contents = [_WRITERS[ending](figure) for ending in drawing.formats]
    return dict(zip(drawing.files(), contents, strict=True))


@cache
def _libraries() -> list[str]:
    """Return versions that pixels depend on, beside those of `code_of_pages`."""
    return [PIL.__version__, ft2font.__freetype_version__]


def _content(value: Any) -> Iterator[Any]:
    """Yield what a digest of a value is made from: arrays, and what JSON can hold."""
    if value is None or isinstance(value, bool | int | float | str | np.ndarray):
        yield value
    elif isinstance(value, np.generic):
        yield value.item()
    elif isinstance(value, Photograph):
        yield [value.sha256 or sha256_of(value.path), value.label]
    elif is_dataclass(value):
        yield type(value).__name__
        for field in fields(value):
            yield from _content(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield ["mapping", len(value)]
        for item in value.items():  # whose order may show
            yield from _content(item)
    elif isinstance(value, tuple | list):
        yield ["sequence", len(value)]
        for item in value:
            yield from _content(item)
    else:
        raise TypeError(f"figures cannot be drawn from {type(value).__name__}")
