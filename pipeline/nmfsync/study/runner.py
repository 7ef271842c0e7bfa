"""Run a study: random samples in parallel, kept on disk, and summed up in one tidy table."""

import csv
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from tqdm import tqdm

from nmfsync import evaluation
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.runtime.cache import code_behind, code_of
from nmfsync.runtime.files import atomic_write
from nmfsync.study.claims import Points
from nmfsync.study.definitions import Contestant, Parameter, Problem, Results, Row, Setting, Study
from nmfsync.synchronisation.synchronise import synchronise

Measured = dict[str, dict[str, float]]  # by method and metric


def run_samples(
    study: Study,
    folder: Path,
    samples: int | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> Results:
    """Run a study, or what is left of it, and write its table.

    Every sample is written to `samples.jsonl` in the folder as soon as it is
    done; one that is there is not computed again. The table, `results.csv`,
    depends on the seeds 0, 1, 2 … alone, not on the number of jobs.

    Parameters
    ----------
    study : Study
    folder : Path
    samples : int, optional
        Random samples a point; by default, as many as the study says.
    jobs : int
        Number of processes.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    Results

    Raises
    ------
    NmfsyncError
        If `samples` is not at least 1, or the data of the study are missing.
    """
    samples = study.samples if samples is None else samples
    if samples < 1:
        raise NmfsyncError(f"the number of samples must be at least 1, not {samples}")
    contestants = study.contestants()
    wanted = {
        _key(setting, seed): (setting, seed)
        for _, _, setting in _points(study)
        for seed in range(_samples(study, setting, samples))
    }
    store = folder / "samples.jsonl"
    header = _header(study, contestants)
    done = _read(store, header)
    missing = [wanted[key] for key in wanted if key not in done]
    work = (delayed(_measure)(study.problem, contestants, *task) for task in missing)
    with tqdm(
        total=len(wanted), initial=len(wanted) - len(missing), unit="sample", desc=study.name,
        disable=not progress or None,
    ) as bar:  # fmt: skip
        finished = Parallel(n_jobs=jobs, return_as="generator_unordered")(work) if missing else ()
        for setting, seed, measured in finished:
            done[_key(setting, seed)] = measured
            _append(store, header, json.dumps([_key(setting, seed), measured]))
            bar.update()
    points = [
        (parameter, value, _collect(setting, _samples(study, setting, samples), done))
        for parameter, value, setting in _points(study)
    ]
    rows = [row for point in points for row in _rows(study, *point)]
    _write_table(folder / "results.csv", rows)
    names = [contestant.name for contestant in contestants]
    found: Points = [(_column(parameter), value, values) for parameter, value, values in points]
    verdicts = [claim.check(found) for claim in study.claims(names)]
    return Results(rows, verdicts)


def _column(parameter: Parameter) -> str:
    """Name of a column: the parameter, and what is fixed beside it."""
    return " ".join([*map(str, parameter.fixed.values()), parameter.name])


def _points(study: Study) -> Iterator[tuple[Parameter, float, Setting]]:
    for parameter in study.parameters:
        for value in parameter.values:
            yield parameter, value, {**study.base, **parameter.fixed, parameter.name: value}


def _samples(study: Study, setting: Setting, samples: int) -> int:
    return int(min(samples, study.distinct(setting)))


def _key(setting: Setting, seed: int) -> str:
    """Identify a sample; folders do not belong to what is measured."""
    return json.dumps([{k: v for k, v in setting.items() if k != "data"}, seed], sort_keys=True)


def _header(study: Study, contestants: Sequence[Contestant]) -> str:
    """Say what the samples were made with; other samples are of no use."""
    made_by = [[c.name, code_behind(c.method.function), dict(c.options)] for c in contestants]
    return json.dumps([study.name, code_of("study", "evaluation"), made_by], sort_keys=True)


def _read(store: Path, header: str) -> dict[str, Measured]:
    """Return the samples in the file; put it right if other code made it, or it is torn."""
    if not store.exists():
        return {}
    lines = store.read_text(encoding="utf-8").splitlines(keepends=True)
    done: dict[str, Measured] = {}
    whole = [line for line in lines if line.endswith("\n")]
    if whole and whole[0] == header + "\n":
        done = dict(json.loads(line) for line in whole[1:])
        if whole == lines:
            return done
    with atomic_write(store) as temporary:
        kept = [json.dumps([key, measured]) + "\n" for key, measured in done.items()]
        temporary.write_text(header + "\n" + "".join(kept), encoding="utf-8")
    return done


def _append(store: Path, header: str, sample: str) -> None:
    if not store.exists():
        with atomic_write(store) as temporary:
            temporary.write_text(header + "\n", encoding="utf-8")
    with store.open("a", encoding="utf-8") as file:
        file.write(sample + "\n")


def _measure(
    problem: Any, contestants: Sequence[Contestant], setting: Setting, seed: int
) -> tuple[Setting, int, Measured]:
    """Let every contestant solve one problem."""
    task: Problem = problem(setting, seed)
    measured = {"input": _metrics(task.matches.W, task)}
    for contestant in contestants:
        with warnings.catch_warnings():
            # A universe that is too small is part of what is studied.
            warnings.simplefilter("ignore", NmfsyncWarning)
            result = synchronise(
                task.matches,
                contestant.method,
                task.universe_size,
                task.theta,
                seed,
                **contestant.options,
            )
        measured[contestant.name] = _metrics(result.W, task)
    return setting, seed, measured


def _metrics(W: sparse.csr_array, task: Problem) -> dict[str, float]:
    sizes = task.matches.sizes
    return {
        "cycle_error": evaluation.cycle_error(W, sizes),
        "gt_error": evaluation.gt_error(W, task.W_gt),
        "precision": evaluation.precision(W, task.W_gt),
        "recall": evaluation.recall(W, task.W_gt),
        "f_score": evaluation.f_score(W, task.W_gt),
        "matchings": (W.nnz - W.shape[0]) / 2,
    }


def _collect(
    setting: Setting, samples: int, done: dict[str, Measured]
) -> dict[str, dict[str, np.ndarray]]:
    """By method and metric: the values of all samples, in order of seed."""
    found = [done[_key(setting, seed)] for seed in range(samples)]
    return {
        method: {metric: np.array([s[method][metric] for s in found]) for metric in metrics}
        for method, metrics in found[0].items()
    }


def _rows(study: Study, parameter: Parameter, value: float, values: Any) -> Iterator[Row]:
    for method, metrics in values.items():
        for metric, numbers in metrics.items():
            n = len(numbers)
            error = numbers.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
            yield Row(
                study.name, _column(parameter), value, method, metric,
                float(numbers.mean()), float(error), n,
            )  # fmt: skip


def _write_table(path: Path, rows: Sequence[Row]) -> None:
    with (
        atomic_write(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        table = csv.writer(file)
        table.writerow(Row.__annotations__)
        for row in rows:
            *names, mean, error, samples = vars(row).values()
            table.writerow([*names, f"{mean:.8g}", f"{error:.8g}", samples])
