"""Finished stages of a run, kept on disk so that the next run starts from the last one."""

import json
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nmfsync.errors import NmfsyncWarning
from nmfsync.runtime.cache import Arrays, load, save

T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    """What a stage took, and what it warned of.

    Attributes
    ----------
    seconds : float
        Wall time. That of matches is for the pairs that no earlier run had kept.
    peak_memory_mb : float
        Memory that Python and NumPy had allocated at the peak, beyond what was
        there before (10⁶ bytes).
    warnings : list of str
    """

    seconds: float
    peak_memory_mb: float
    warnings: list[str]


def run_stage(
    path: Path,
    key: str,
    compute: Callable[[], T],
    pack: Callable[[T], Arrays],
    unpack: Callable[[Arrays], T],
    prepare: Callable[[], Any] = lambda: None,
) -> tuple[T, Record]:
    """Return a stage's result, from disk if it was written with the same key.

    Parameters
    ----------
    path : Path
        The `.npz` file of the stage.
    key : str
        Says what the result is made from: input, settings, versions. A missing
        or damaged file, or one with another key, is made again.
    compute : callable
        Makes the result.
    pack, unpack : callable
        Turn the result into named arrays, and back.
    prepare : callable
        Called before the result is made, and not counted in what that takes.

    Returns
    -------
    result
        What `compute` returned, now or then.
    Record
    """
    stored = _stored(path, key)
    if stored is not None:
        arrays, record = stored
        return unpack(arrays), record
    prepare()
    result, record = measure(compute)
    text = json.dumps({"key": key, "record": asdict(record)})
    save(path, {"stage": np.array(text), **pack(result)})
    return result, record


def measure(compute: Callable[[], T]) -> tuple[T, Record]:
    """Call `compute`; return its result, and what it took and warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NmfsyncWarning)
        tracemalloc.start()
        try:
            start = time.perf_counter()
            result = compute()
            seconds = time.perf_counter() - start
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    ours = []
    for warning in caught:
        if issubclass(warning.category, NmfsyncWarning):
            ours.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return result, Record(seconds, peak / 1e6, ours)


def _stored(path: Path, key: str) -> tuple[Arrays, Record] | None:
    arrays = load(path)
    if arrays is None or "stage" not in arrays:
        return None
    stage = json.loads(str(arrays.pop("stage")))
    return (arrays, Record(**stage["record"])) if stage["key"] == key else None
