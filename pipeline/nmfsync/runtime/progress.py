"""Progress bars: their look, and when they are shown."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any

from tqdm import tqdm

DELAY = 2.0  # seconds before a bar appears; shorter work shows none

_BETWEEN = 0.3  # seconds between two updates of the screen

_TICK = 1.0  # seconds between two updates of a bar's clock while no step is finished

_shown: ContextVar[bool] = ContextVar("shown", default=False)


@contextmanager
def showing(shown: bool) -> Iterator[None]:
    """Show progress bars for the phases of the work inside the block, or not.

    Outside of such a block no phase shows a bar. Neither do the phases of
    threads that are started inside of it.
    """
    token = _shown.set(shown)
    try:
        yield
    finally:
        _shown.reset(token)


def bar(total: int | None, desc: str, unit: str, progress: bool = True, initial: int = 0) -> Any:
    """Return a progress bar for work that the user started, if stderr is a terminal.

    Parameters
    ----------
    total : int or None
        Number of steps; None if unknown.
    desc : str
        Name of the work.
    unit : str
        Name of a step.
    progress : bool
        False for no bar.
    initial : int
        Number of steps done before, for instance by an earlier run.

    Returns
    -------
    tqdm
        It stays on the screen at the end, unless another bar is above it.
    """
    return Bar(initial=initial, leave=None, **_options(total, desc, unit, progress))


def phase(total: int | None, desc: str, unit: str) -> Any:
    """Return a progress bar for a phase of longer work, inside of `showing(True)`.

    It appears after `DELAY`, its clock runs during a long step too, and it
    disappears at the end.

    Parameters
    ----------
    total, desc, unit
        As for `bar`.

    Returns
    -------
    tqdm
    """
    return _Phase(**_options(total, desc, unit, _shown.get()))


def note(line: str) -> None:
    """Write a line to stderr, above the bars."""
    if sys.stderr is not None:  # None if it was closed
        tqdm.write(line, file=sys.stderr)


def _options(total: int | None, desc: str, unit: str, shown: bool) -> dict[str, Any]:
    return {
        "total": total,
        "desc": desc,
        "unit": unit,
        "disable": not shown or None,  # None disables the bar unless stderr is a terminal
        "mininterval": _BETWEEN,
        "bar_format": "{desc}: {unit} {n_fmt} [{elapsed}, {rate_fmt}]" if total is None else None,
    }


class Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar without tqdm's thread, which only wakes bars that guess how often to redraw."""

    monitor_interval = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"miniters": 1, **options})


class _Phase(Bar):
    """A bar that a thread redraws during a long step, so that its clock runs on."""

    def __init__(self, **options: Any) -> None:
        self._done = Event()
        self._clock = Thread(target=self._tick, daemon=True)
        super().__init__(leave=False, delay=DELAY, **options)
        if not self.disable:
            with suppress(RuntimeError):  # no more threads: the clock stands still
                self._clock.start()

    def _tick(self) -> None:
        wait = DELAY
        while not self._done.wait(wait):
            self.delay = 0  # so that `close` knows that the bar has appeared
            self.refresh()
            wait = _TICK

    def close(self) -> None:
        self._done.set()
        if self._clock.is_alive():
            self._clock.join()
        super().close()
