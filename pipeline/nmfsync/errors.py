"""The one kind of error and the one kind of warning that are meant for the user."""

import difflib
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


def reason_of(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'output'}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "not enough memory; use fewer features, a smaller --universe, or other --methods"
    return " ".join(str(error).split())


def shown(text: object, most: int = 60) -> str:
    """Return text from outside as a message may quote it: printable, in one line, not long."""
    text = str(text)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


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
            texts += [str(w.message) for w in caught if issubclass(w.category, NmfsyncWarning)]
    for w in caught:
        if not issubclass(w.category, NmfsyncWarning):
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
