"""Finished stages of a run, kept on disk so that the next run starts from the last one."""

import json
import platform
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nmfsync.cache import digest, load, save
from nmfsync.errors import NmfsyncWarning
from nmfsync.files import sha256_of

T = TypeVar("T")
Arrays = Mapping[str, Any]

LIBRARIES = ("nmfsync", "numpy", "scipy", "opencv-python-headless")


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


def key_of(*parts: Any) -> str:
    """Digest of arrays and of anything that JSON can hold: equal parts, equal key."""
    return digest(*parts).hex()


@cache
def source_digest(function: Callable[..., Any]) -> str:
    """SHA-256 of the source code of the package, or the module, that a function comes from.

    What was made by other code must not be taken for a result of this one.
    """
    name = (getattr(function, "__module__", None) or "").partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return ""
    path = Path(file)
    sources = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    return key_of([sha256_of(source) for source in sources])


def made_by() -> list[Any]:
    """Versions and source code behind all results, as JSON can hold them."""
    return [versions(), source_digest(made_by)]


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


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
