"""The one kind of error and the one kind of warning that are meant for the user."""

import difflib
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class NmfsyncError(Exception):
    """Input that cannot be used: one line that says what, where, and what to do."""


class NmfsyncWarning(UserWarning):
    """A result that is degraded: one line that says what is missing and why."""


class ChangedError(NmfsyncError):
    """A file is another one than before."""


class TooLargeError(NmfsyncError):
    """The problem is too large for this method."""


# Control characters, what reverses the direction of writing, and halves of characters that do
# not stand for a byte of a file name.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udc7f\udd00-\udfff]")


def printable(text: str) -> str:
    r"""Return text from outside, for instance a file's name, as one line that any file can hold.

    What would act on a terminal is written as an escape, like \x1b; bytes of a
    file name are read as UTF-8, whatever the locale, or else written as an escape.
    """
    if text.isprintable():
        return text
    text = UNPRINTABLE.sub(lambda c: c[0].encode("unicode_escape").decode(), text)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def reason_of(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{os.fsdecode(error.filename or 'output')}: {error.strerror}")
    if isinstance(error, MemoryError):
        return "not enough memory; use fewer features, a smaller --universe, or other --methods"
    if is_thread_limit(error):
        return "no more threads can be started; raise the limit (ulimit -u), or use --jobs 1"
    return printable(" ".join(str(error).split()))


def is_thread_limit(error: BaseException) -> bool:
    """Whether an error says that the system gives no more threads."""
    return isinstance(error, RuntimeError) and "can't start new thread" in str(error)


def shown(text: object, most: int = 60) -> str:
    """Return text from outside as a message may quote it: printable, in one line, not long."""
    text = str(text)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return printable(text)


def shortened(text: str, most: int) -> str:
    """Return a name that is not longer than this: printable, and of a long one begin and end."""
    text = printable(text)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-((most - 1) // 2) :]}"


def near_names(name: str, known: Iterable[str]) -> str:
    """Suggest up to three of the known names that are like this one, for the end of a message."""
    names = dict.fromkeys(known)
    # The comparison takes time proportional to the square of the lengths.
    near = difflib.get_close_matches(name[:200], [n for n in names if len(n) <= 200], n=3)
    by_case = [n for n in names if n.casefold() == name.casefold()]
    near = list(dict.fromkeys([*by_case, *near]))[:3]
    return f"; did you mean {' or '.join(map(shown, near))}?" if near else ""


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the texts of the `NmfsyncWarning`s of a block; pass other warnings on."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NmfsyncWarning)
        try:
            yield texts
        finally:
            kept = (w.message for w in caught if issubclass(w.category, NmfsyncWarning))
            texts += [printable(str(message)) for message in kept]
    for w in caught:
        if not issubclass(w.category, NmfsyncWarning):
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
