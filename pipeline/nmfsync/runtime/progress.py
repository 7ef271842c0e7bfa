"""Progress bars: how they look, and who is to see them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any

from tqdm import tqdm

DELAY = 2.0  # seconds: work that is done by then shows no bar

_BETWEEN = 0.3  # seconds between two updates of the screen

_TICK = 1.0  # seconds after which a bar's clock goes on without an update

_wanted: ContextVar[bool] = ContextVar("wanted", default=False)


@contextmanager
def showing(wanted: bool) -> Iterator[None]:
    """Let the phases of the work inside the block show bars, or not.

    Without it they show none, and neither do threads that are started inside.
    """
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def bar(total: int | None, desc: str, unit: str, progress: bool = True, initial: int = 0) -> Any:
    """Return a bar for work that the user asked for by name, if stderr is a terminal.

    Parameters
    ----------
    total : int or None
        Number of steps; None if nobody knows.
    desc : str
        What is done.
    unit : str
        What a step is.
    progress : bool
        False for no bar.
    initial : int
        Steps that were done before, for instance by an earlier run.

    Returns
    -------
    tqdm
        It stays on the screen when done, unless another bar is above it.
    """
    return tqdm(initial=initial, leave=None, **_look(total, desc, unit, progress))


def phase(total: int | None, desc: str, unit: str) -> Any:
    """Return a bar for a phase of longer work, if this is inside of `showing(True)`.

    It appears after `DELAY`, shows that time passes even while a step takes
    long, and leaves nothing on the screen.

    Parameters
    ----------
    total, desc, unit
        As for `bar`.

    Returns
    -------
    tqdm
    """
    return _Phase(**_look(total, desc, unit, _wanted.get()))


def _look(total: int | None, desc: str, unit: str, wanted: bool) -> dict[str, Any]:
    return {
        "total": total,
        "desc": desc,
        "unit": unit,
        "disable": not wanted or None,  # None: unless stderr is a terminal
        "mininterval": _BETWEEN,
        "bar_format": "{desc}: {unit} {n_fmt} [{elapsed}, {rate_fmt}]" if total is None else None,
    }


class _Phase(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar that a thread draws again while the work itself has nothing to report."""

    def __init__(self, **options: Any) -> None:
        self._done = Event()
        self._clock = Thread(target=self._tick, daemon=True)
        super().__init__(leave=False, delay=DELAY, **options)
        if not self.disable:
            self._clock.start()

    def _tick(self) -> None:
        wait = DELAY
        while not self._done.wait(wait):
            self.delay = 0  # or `close` would take the bar for one that never appeared
            self.refresh()
            wait = _TICK

    def close(self) -> None:
        self._done.set()
        if self._clock.is_alive():
            self._clock.join()
        super().close()
