"""Finished stages of a run, kept on disk so that the next run starts from the last one."""

import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nmfsync.errors import collected_warnings
from nmfsync.runtime.cache import Arrays, load, save
from nmfsync.runtime.provenance import Costs, cpu_time

T = TypeVar("T")

_STAGES = "stages"  # the folder of finished stages in a folder of outputs


def stages_folder(folder: Path) -> Path:
    """Return where a folder of outputs keeps finished stages."""
    return folder / _STAGES


def pictures_folder(folder: Path) -> Path:
    """Return where a folder of outputs keeps what was drawn."""
    return stages_folder(folder) / "pictures"


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
    cpu_seconds : float or None
        See `Costs`.
    """

    seconds: float
    peak_memory_mb: float
    warnings: list[str]
    cpu_seconds: float | None = None


class Stages:
    """The stages of one run.

    Parameters
    ----------
    folder : Path
        Where finished stages are kept.
    bars : bool
        Show progress bars inside the stages if stderr is a terminal.

    Attributes
    ----------
    records : dict of str to Record
        By name of the stage, in the order in which they ran.
    keys : dict of str to str
        By name of the stage: a digest of all that its result depends on.
    kept : set of str
        Names of the stages whose results were on disk.
    """

    def __init__(self, folder: Path, bars: bool) -> None:
        self.folder, self.bars = folder, bars
        self.records: dict[str, Record] = {}
        self.keys: dict[str, str] = {}
        self.kept: set[str] = set()

    def measure(self, name: str, compute: Callable[[], T]) -> T:
        """Run a stage whose result is not kept; return its result."""
        result, self.records[name] = measure(compute)
        return result

    def run(
        self,
        name: str,
        file: str,
        key: str,
        compute: Callable[[], T],
        pack: Callable[[T], Arrays],
        unpack: Callable[[Arrays], T],
        prepare: Callable[[], Any] = lambda: None,
    ) -> T:
        """Return a stage's result, from disk if it was written with the same key.

        Parameters
        ----------
        name : str
            The stage in `records` and `keys`.
        file : str
            Name of its `.npz` file in the folder.
        key : str
            Digest of what the result depends on: input, settings, code. A missing
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
        """
        path = self.folder / file
        self.keys[name] = key
        stored = load(path, key, lambda arrays: (_record_in(arrays), unpack(arrays)))
        if stored is not None:
            self.records[name], result = stored
            self.kept.add(name)
            return result
        prepare()
        result = self.measure(name, compute)
        record = json.dumps(asdict(self.records[name]))
        save(path, key, {**pack(result), "record": np.array(record)})
        return result

    def warnings(self) -> list[str]:
        """Return what the stages warned of, each text once."""
        return list(dict.fromkeys(w for record in self.records.values() for w in record.warnings))

    def costs(self) -> list[Costs]:
        """Return what the stages took, in the order in which they ran."""
        return [
            Costs(name, record.seconds, record.cpu_seconds, name in self.kept)
            for name, record in self.records.items()
        ]


def measure(compute: Callable[[], T]) -> tuple[T, Record]:
    """Call `compute`; return its result, and what it took and warned of."""
    with collected_warnings() as texts:
        tracemalloc.start()
        try:
            start, cpu = time.perf_counter(), cpu_time()
            result = compute()
            seconds, cpu = time.perf_counter() - start, cpu_time() - cpu
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    return result, Record(seconds, peak / 1e6, texts, cpu)


def _record_in(arrays: dict[str, Any]) -> Record:
    """Take the record out of a stage's arrays."""
    return Record(**json.loads(str(arrays.pop("record"))))
