"""How the commands speak, warn and stop."""

import codecs
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import typer

from nmfsync.errors import collected_warnings, printable


def say(text: object, err: bool = False) -> None:
    """Print a line of text from anywhere: it is data, and acts neither on us nor on a terminal."""
    print(printable(str(text)), file=sys.stderr if err else sys.stdout, flush=True)


class _Terminated(KeyboardInterrupt):
    """SIGTERM: what `timeout`, `kill` and batch systems send first."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, and neither cause more than one line."""

    def stop(number: int, _frame: object) -> None:
        # An object that is being made at this moment may be unable to end as it should.
        sys.unraisablehook = lambda _fault: None
        raise _Terminated if number == signal.SIGTERM else KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as for a command in the background
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible(remark: str) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end work with one line; what is compiled meanwhile is shown."""
    from nmfsync.runtime.compiling import compilation_shown

    try:
        with compilation_shown():
            yield
    except KeyboardInterrupt as stop:
        say(f"Interrupted; {remark}", err=True)
        raise typer.Exit(code_of(stop)) from None


def code_of(stop: BaseException | None) -> int:
    """Return the exit code of a program that was stopped."""
    return 143 if isinstance(stop, _Terminated) else 130


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the warnings of the work inside the block, a line each."""
    with collected_warnings() as texts:
        yield
    for text in texts:
        say(f"Warning: {text}", err=True)


def open_streams() -> None:
    """Make stdout and stderr take any text, and be there."""
    codecs.register_error(_PLAIN, _in_plain_letters)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed, and the next file to be opened would be in its place
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_PLAIN)


_PLAIN = "nmfsync.plain"

_PLAIN_LETTERS = {"–": "-", "→": "->", "≥": ">=", "≤": "<=", "×": "x", "…": "...", "θ": "theta"}


def _in_plain_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace characters that the encoding of a stream lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    error.end = error.start + 1
    plain = _PLAIN_LETTERS.get(error.object[error.start])
    return (plain, error.end) if plain else codecs.backslashreplace_errors(error)
