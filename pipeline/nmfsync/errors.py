"""The one kind of error and the one kind of warning that are meant for the user."""


class NmfsyncError(Exception):
    """Input that cannot be used: one line that says what, where, and what to do."""


class NmfsyncWarning(UserWarning):
    """A result that is degraded: one line that says what is missing and why."""


class TooLargeError(NmfsyncError):
    """The problem is too large for this method."""
