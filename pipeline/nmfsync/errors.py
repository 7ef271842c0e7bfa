"""The one kind of error and the one kind of warning that are meant for the user."""

import warnings
from collections.abc import Iterator
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
