"""Run a study: random samples in parallel, kept on disk, and summarised in one table."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse

from nmfsync import evaluation
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.runtime.cache import code_behind, code_of, key_of
from nmfsync.runtime.compiling import compilation_shown
from nmfsync.runtime.files import atomic_write
from nmfsync.runtime.progress import Bar
from nmfsync.runtime.publish import locked
from nmfsync.runtime.tables import write_table
from nmfsync.runtime.workers import ending_with_this_process, results_of
from nmfsync.study.definitions import MethodVariant, Parameter, Problem, Setting, Study
from nmfsync.study.results import Points, Results, Row, Values
from nmfsync.synchronisation.synchronise import synchronise

Sample = dict[str, dict[str, float]]  # what one sample measured, by method and metric


def run_samples(
    study: Study,
    folder: Path,
    samples: int | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> Results:
    """Run a study, or the rest of an interrupted one.

    Every finished sample is appended to `samples.jsonl` in the folder, and is not
    computed again. The results depend on the seeds 0, 1, 2 … only, not on the
    number of jobs.

    Parameters
    ----------
    study : Study
    folder : Path
    samples : int, optional
        Number of random samples at a point; None takes the study's default.
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
        If `samples` is smaller than 1, or the data of the study are missing.
    """
    samples = study.samples if samples is None else samples
    if samples < 1:
        raise NmfsyncError(f"the number of samples must be at least 1, got {samples}")
    folder.mkdir(parents=True, exist_ok=True)
    measured = _measure_samples(study, folder / "samples.jsonl", samples, jobs, progress)
    collected = [
        (parameter, value, _collect(setting, _sample_count(study, setting, samples), measured))
        for parameter, value, setting in _points(study)
    ]
    rows = [row for point in collected for row in _rows(study, *point)]
    points: Points = [(parameter.column, value, values) for parameter, value, values in collected]
    names = [variant.name for variant in study.methods()]
    return Results(rows, [claim.check(points) for claim in study.claims(names)])


def _points(study: Study) -> Iterator[tuple[Parameter, float, Setting]]:
    """List the points of a study: parameter, its value, and the whole setting."""
    for parameter in study.parameters:
        for value in parameter.values:
            yield parameter, value, {**study.base, **parameter.fixed, parameter.name: value}


def _sample_count(study: Study, setting: Setting, samples: int) -> int:
    return int(min(samples, study.distinct(setting)))


def _key(setting: Setting, seed: int) -> str:
    """Identify a sample. The folder of the data does not matter, but their content does."""
    return json.dumps([{k: v for k, v in setting.items() if k != "data"}, seed], sort_keys=True)


def _measure_samples(
    study: Study, store: Path, samples: int, jobs: int, progress: bool
) -> dict[str, Sample]:
    """Return all samples of a study by key, those in the store and the missing ones."""
    methods = study.methods()
    wanted = {
        _key(setting, seed): (setting, seed)
        for _, _, setting in _points(study)
        for seed in range(_sample_count(study, setting, samples))
    }
    header = _header(study, methods)
    with locked(store.parent):
        measured = _read_store(store, header)
    missing = [wanted[key] for key in wanted if key not in measured]
    work = (
        delayed(_measure_elsewhere)(n == 0, study.problem, methods, *task)
        for n, task in enumerate(missing)
    )
    with Bar(
        total=len(wanted), initial=len(wanted) - len(missing), unit="sample", desc=study.name,
        disable=not progress or None,
    ) as progress_bar:  # fmt: skip
        parallel = Parallel(
            n_jobs=min(jobs, len(missing)) or 1,
            return_as="generator_unordered",
            **ending_with_this_process(),
        )
        with results_of(parallel, work) as finished:
            for setting, seed, sample in finished:
                measured[_key(setting, seed)] = sample
                with locked(store.parent):
                    _append(store, _line(header, _key(setting, seed), sample))
                progress_bar.update()
    return measured


def _header(study: Study, methods: Sequence[MethodVariant]) -> str:
    """Return the first line of the store: the code and libraries that the samples depend on."""
    made_by = [[v.name, code_behind(v.method.function), dict(v.options)] for v in methods]
    return json.dumps([study.name, code_of("study", "evaluation"), made_by], sort_keys=True)


def _read_store(store: Path, header: str) -> dict[str, Sample]:
    """Read the undamaged samples with this header, and remove everything else from the file."""
    content = store.read_bytes() if store.is_file() else b""
    first, *others = content.decode(errors="replace").splitlines() or [""]
    measured: dict[str, Sample] = {}
    for line in others if first == header else []:
        try:
            key, sample, _ = json.loads(line)
            whole = line == _line(header, key, sample)
        except Exception:  # whatever is wrong with a line, the remedy is to measure again
            continue
        if whole:
            measured[key] = sample
    lines = [header, *(_line(header, key, sample) for key, sample in measured.items())]
    kept = "".join(f"{line}\n" for line in lines).encode()
    if content != kept:
        with atomic_write(store) as temporary:
            temporary.write_bytes(kept)
    return measured


def _line(header: str, key: str, sample: Sample) -> str:
    """Return the line of a sample in the store, which ends with a digest of all it depends on."""
    return json.dumps([key, sample, key_of(header, key, sample)])


def _append(store: Path, line: str) -> None:
    """Append a line to the store."""
    with store.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _measure_elsewhere(speaks: bool, *arguments: Any) -> tuple[Setting, int, Sample]:
    """Measure one sample in another process; all may have to compile, and one says so."""
    with compilation_shown(bars=False) if speaks else nullcontext():
        return _measure(*arguments)


def _measure(
    make_problem: Callable[[Setting, int], Problem],
    methods: Sequence[MethodVariant],
    setting: Setting,
    seed: int,
) -> tuple[Setting, int, Sample]:
    """Solve one random problem with every method, and measure the results."""
    problem = make_problem(setting, seed)
    sample = {"input": _metrics(problem.matches.W, problem)}
    for variant in methods:
        with warnings.catch_warnings():
            # A universe that is too small is one of the conditions studied.
            warnings.simplefilter("ignore", NmfsyncWarning)
            result = synchronise(
                problem.matches,
                variant.method,
                problem.universe_size,
                problem.theta,
                seed,
                **variant.options,
            )
        sample[variant.name] = _metrics(result.W, problem)
    return setting, seed, sample


def _metrics(W: sparse.csr_array, problem: Problem) -> dict[str, float]:
    """Measure matches W (m, m) by every metric in `METRICS`."""
    return {
        "cycle_error": evaluation.cycle_error(W, problem.matches.sizes),
        "gt_error": evaluation.gt_error(W, problem.W_gt),
        "precision": evaluation.precision(W, problem.W_gt),
        "recall": evaluation.recall(W, problem.W_gt),
        "f_score": evaluation.f_score(W, problem.W_gt),
        "matchings": (W.nnz - W.shape[0]) / 2,
    }


def _collect(setting: Setting, count: int, measured: Mapping[str, Sample]) -> Values:
    """Return the values of all samples of a setting, in order of seed, by method and metric."""
    samples = [measured[_key(setting, seed)] for seed in range(count)]
    return {
        method: {metric: np.array([s[method][metric] for s in samples]) for metric in metrics}
        for method, metrics in samples[0].items()
    }


def _rows(study: Study, parameter: Parameter, value: float, values: Values) -> Iterator[Row]:
    """Summarise one point: a row for every method and metric."""
    for method, metrics in values.items():
        for metric, numbers in metrics.items():
            n = len(numbers)
            error = numbers.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
            yield Row(
                study.name, parameter.column, value, method, metric,
                float(numbers.mean()), float(error), n,
            )  # fmt: skip


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the table of a study, `results.csv`: one row for every point, method and metric."""
    cells = []
    for row in rows:
        *names, mean, error, samples = vars(row).values()
        cells.append([*names, f"{mean:.8g}", f"{error:.8g}", samples])
    write_table(path, list(Row.__annotations__), cells)
