"""What a method will take, estimated before it starts: too much is refused in one line."""

from typing import NamedTuple

import psutil

from nmfsync.errors import TooLargeError

MAX_MINUTES = 15.0  # by default, of the estimate

FREE_SHARE = 0.9  # of the free memory that a method may take

# Seconds for one multiplication and addition in a product of large matrices, on one core.
PRODUCT, PRODUCT_SINGLE = 7e-11, 3.1e-11  # in double and single precision


class Effort(NamedTuple):
    """Time on one core and memory that a method will take, in round figures."""

    seconds: float
    memory: float  # bytes
    problem: str  # what it is for: "2,000 connected features"


NO_EFFORT = Effort(0.0, 0.0, "")


def require_effort(method: str, effort: Effort, max_minutes: float) -> None:
    """Raise TooLargeError if a method would take too long, or does not fit into memory."""
    remedy = "use fewer features or another method"
    available = psutil.virtual_memory().available
    if effort.memory > FREE_SHARE * available:
        raise TooLargeError(
            f"{method} needs about {effort.memory / 1e9:,.1f} GB for {effort.problem}, "
            f"but {available / 1e9:,.1f} GB are free; {remedy}"
        )
    minutes = effort.seconds / 60
    if minutes > max_minutes:
        raise TooLargeError(
            f"{method} would take about {_round(minutes):,} minutes for {effort.problem}, "
            f"more than {max_minutes:g}; {remedy}, or in Python a larger max_minutes"
        )


def _round(minutes: float) -> int:
    """Two digits of it are more than the estimate knows."""
    return int(float(f"{max(minutes, 1):.2g}"))
