"""What is said on the terminal while kernels are compiled.

Apart from the kernels, so that a process which calls none does not load the compiler.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from nmfsync.runtime.progress import DELAY, bar, note


class _Display:
    """Shows which kernel is compiled, once that takes long."""

    def __init__(self, bars: bool) -> None:
        self._bars = bars
        self._bar: Any = None
        self._started: list[float] = []  # of a kernel, and of those that it calls
        self._spent, self._kernels = 0.0, 0

    def start(self, kernel: str, is_kept: Callable[[], bool]) -> None:
        self._started.append(time.monotonic())
        self._kernels += 1
        if self._spent + self._started[-1] - self._started[0] > DELAY:
            _say_once(is_kept())
            self._show(kernel)

    def end(self) -> None:
        started = self._started.pop() if self._started else time.monotonic()
        if not self._started:
            self._spent += time.monotonic() - started
            self.close()

    def _show(self, kernel: str) -> None:
        if self._bar is None:
            self._bar = bar(None, "Compiling", "kernel", self._bars, self._kernels)
        self._bar.set_description_str(f"Compiling {kernel}", refresh=False)
        self._bar.n = self._kernels
        self._bar.refresh()

    def close(self) -> None:
        """Take the bar away until there is more to compile."""
        if self._bar is not None:
            self._bar.leave = False
            self._bar.close()
            self._bar = None


_displays: list[_Display] = []


@contextmanager
def compilation_shown(bars: bool = True) -> Iterator[None]:
    """Say on stderr, once, if the block has to compile for longer than `DELAY`.

    Parameters
    ----------
    bars : bool
        Also show which kernel is compiled, if stderr is a terminal.
    """
    display = _Display(bars)
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)
        display.close()


def start(kernel: str, is_kept: Callable[[], bool]) -> None:
    """Be told that a kernel is compiled from now on, and whether its code can be kept."""
    for display in _displays:
        display.start(kernel, is_kept)


def end() -> None:
    """Be told that the last kernel that was started is compiled."""
    for display in _displays:
        display.end()


@contextmanager
def counted(kernel: str, is_kept: Callable[[], bool]) -> Iterator[None]:
    """Count the block as the compilation of a kernel."""
    start(kernel, is_kept)
    try:
        yield
    finally:
        end()


@cache
def _say_once(kept: bool) -> None:
    when = "the first time only" if kept else "every time, as no folder for it is writable"
    note(f"Compiling for this computer, {when}: about a quarter of a minute")
