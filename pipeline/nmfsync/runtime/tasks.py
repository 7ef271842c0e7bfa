"""Work on many items, of which some are known already: the one way for every stage.

What the cache knows is handed out; the rest is done on the engine, counted by a
progress bar, and stored.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.engine import stream
from nmfsync.runtime.progress import bar


class Store(Protocol):
    """Keeps results by the number of their item, as `PairCache` does."""

    def known(self) -> Iterator[tuple[NDArray[np.int64], Sequence[Any]]]:
        """Yield numbers of items, and their results."""
        ...

    def add(self, n: int, result: Any) -> None:
        """Keep the result of item n, at the latest when `flush` is called."""
        ...

    def flush(self) -> None:
        """Write what is not written yet."""
        ...


def cached_tasks(
    function: Callable[[Any], Sequence[Any]],
    count: int,
    batches: Callable[[NDArray[np.int64]], Sequence[NDArray[np.int64]]],
    argument: Callable[[NDArray[np.int64]], Any],
    store: Store | None,
    description: str,
    unit: str,
    progress: bool,
) -> Iterator[tuple[NDArray[np.int64], Sequence[Any]]]:
    """Yield the results of all items.

    What was finished is kept whatever ends the work: an error, Ctrl-C, or a
    caller that wants no more.

    Parameters
    ----------
    function : callable
        Takes the argument of a batch and returns a result for each of its items.
        A function of a module, see `engine.stream`.
    count : int
        Number of items.
    batches : callable
        Divides the numbers of items that are not known into tasks.
    argument : callable
        The numbers of a batch -> the argument of `function`, made when it is needed.
    store : Store or None
    description, unit : str
        What the progress bar says.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Yields
    ------
    numbers : (c,) int array
        Some items; each of them comes once.
    results : sequence, length c
    """
    missing = np.ones(count, bool)
    for numbers, results in store.known() if store else ():
        missing[numbers] = False
        yield numbers, results
    tasks = batches(np.flatnonzero(missing))
    calls = ((argument(task),) for task in tasks)
    with (
        bar(count, description, unit, progress, int((~missing).sum())) as progress_bar,
        closing(stream(function, calls)) as finished,
    ):
        try:
            for task, results in zip(tasks, finished, strict=True):
                if store:
                    for n, result in zip(task.tolist(), results, strict=True):
                        store.add(n, result)
                progress_bar.update(len(task))
                yield task, results
        finally:
            if store:
                store.flush()
