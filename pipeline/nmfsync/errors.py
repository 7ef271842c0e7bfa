"""The one kind of error and the one kind of warning that are meant for the user."""


def reason_of(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'output'}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "not enough memory; use fewer features, a smaller --universe, or other --methods"
    return " ".join(str(error).split())


class NmfsyncError(Exception):
    """Input that cannot be used: one line that says what, where, and what to do."""


class NmfsyncWarning(UserWarning):
    """A result that is degraded: one line that says what is missing and why."""


class TooLargeError(NmfsyncError):
    """The problem is too large for this method."""
