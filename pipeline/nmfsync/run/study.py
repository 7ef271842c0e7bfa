"""Studies with their reports: what `nmfsync study` does."""

from dataclasses import dataclass, replace
from pathlib import Path

from joblib import cpu_count

from nmfsync.errors import NmfsyncError
from nmfsync.report.study_page import write_study_report
from nmfsync.runtime.files import sweep_below
from nmfsync.runtime.publish import publication, recover
from nmfsync.study.definitions import STUDIES
from nmfsync.study.landmarks import landmark_digests
from nmfsync.study.results import Results
from nmfsync.study.runner import run_samples, write_rows


@dataclass(frozen=True)
class StudyRun:
    """What a study found, and the page about it."""

    results: Results
    report: Path


def run_study(
    name: str,
    out: Path | str = "outputs",
    samples: int | None = None,
    data: Path | str | None = None,
    jobs: int | None = None,
    progress: bool = False,
) -> StudyRun:
    """Run one of the paper's experiments again, or what is left of it, and write its report.

    Writes `results.csv`, `figure.png`, `figure.pdf` and `report.html` to
    `<out>/studies/<name>`, all together at the end. An interrupted study
    continues where it stopped, and more samples add to those there are.

    Parameters
    ----------
    name : str
        "synthetic", "sensitivity", "initialisation", "symmetry",
        "landmarks" or "robustness".
    out : Path or str
    samples : int, optional
        Random samples a point; by default 100, 10 for "landmarks" and 5 for
        "robustness".
    data : Path or str, optional
        Folder that holds landmarks/, for the study of that name; by default $NMFSYNC_DATA.
    jobs : int, optional
        Number of processes; by default the number of cores.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    StudyRun

    Raises
    ------
    NmfsyncError
        If there is no such study, `samples` is less than 1, or its data are missing.
    """
    if name not in STUDIES:
        raise NmfsyncError(f"unknown study {name!r}; there are {', '.join(STUDIES)}")
    study = STUDIES[name]
    if "data" in study.base:
        files = {"data": data, "digests": landmark_digests(data)}
        study = replace(study, base={**study.base, **files})
    folder = Path(out) / "studies" / name
    recover(folder)
    sweep_below(folder)
    results = run_samples(study, folder, samples, jobs or cpu_count(), progress)
    with publication(folder) as new:
        write_rows(new / "results.csv", results.rows)
        write_study_report(new, study, results)
    return StudyRun(results, folder / "report.html")
