"""Runs of several scenes and data sets: what `nmfsync run` does."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmfsync.errors import NmfsyncError, printable, reason_of
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.run.prepare import done_before, prepare_scene
from nmfsync.run.settings import Settings
from nmfsync.run.stages import pictures_folder
from nmfsync.runtime.cache import code_of_pages, key_of
from nmfsync.runtime.compiling import compilation_shown
from nmfsync.runtime.engine import engine as use_engine
from nmfsync.runtime.engines import DEFAULT_ENGINE
from nmfsync.runtime.progress import Bar
from nmfsync.runtime.publish import made_from
from nmfsync.runtime.workers import ending_with_this_process, results_of
from nmfsync.scenes.catalogue import datasets, is_in_catalogue, scene_names
from nmfsync.scenes.layouts import has_truth, name_of_folder


@dataclass(frozen=True)
class Batch:
    """What became of several scenes.

    Attributes
    ----------
    evaluations : dict of str to SceneEvaluation
        By name of the scene; a folder of images by the path it was given by. A folder that
        was given by several paths has the first.
    failures : dict of str to str
        What is wrong with the scenes that have no evaluation.
    reports : dict of str to Path
        The report of every data set among the targets.
    """

    evaluations: dict[str, SceneEvaluation] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    reports: dict[str, Path] = field(default_factory=dict)


def run_scenes(
    targets: Sequence[str] = ("sample",),
    settings: Settings | None = None,
    out: Path | str = "outputs",
    data: Path | str | None = None,
    jobs: int = 1,
    engine: str = DEFAULT_ENGINE,
    address: str | None = None,
    progress: bool = False,
    command: str = "Python: run_scenes",
) -> Batch:
    """Run several scenes and write their reports; a data set gets a report of its own.

    A scene that fails does not stop the others.

    Parameters
    ----------
    targets : sequence of str
        Data sets ("graffiti"), scenes ("graffiti/graf") and folders of images.
    settings : Settings, optional
    out : Path or str
        Every scene gets the folder `<out>/<data set>/<scene>`, see `run_scene`; a
        data set gets `report.html` and `evaluation.csv` in `<out>/<data set>`.
    data : Path or str, optional
        Folder with local copies of the data sets.
    jobs : int
        Number of scenes at once, each in a process.
    engine, address : str
        What extracts, matches and verifies, see `runtime.engine.engine`.
    progress : bool
        Show progress bars, and errors at once, if stderr is a terminal.
    command : str
        What the provenance says was called.

    Returns
    -------
    Batch

    Raises
    ------
    NmfsyncError
        If a target is unknown, or the engine cannot be used.
    """
    settings, out = settings or Settings(), Path(out)
    scenes = {target: scene_names(target) for target in targets}
    names = _different(name for group in scenes.values() for name in group)
    if jobs > 1 and engine != DEFAULT_ENGINE:
        raise NmfsyncError(
            f"several jobs work with engine {DEFAULT_ENGINE} only, got engine {engine}; "
            "use --jobs 1"
        )
    if settings.exports:
        from nmfsync.run.export import check_exports

        check_exports(settings, list(names))
    batch = Batch()
    with use_engine(engine, address):
        _run_all(batch, names, settings, out, data, jobs, progress, command)
    for target, group in scenes.items():
        _write_report(batch, target, group, out, settings.figures)
    return batch


def _different(names: Iterable[str]) -> dict[str, bool]:
    """Return every scene once, however its folder is named, and whether its plain name is free.

    Of several folders of one name, only the first may take it, whichever of them is done first.
    """
    first: dict[str, bool] = {}
    places: set[Any] = set()
    taken = set()
    for name in names:
        own = not is_in_catalogue(name)
        place = _place_of(Path(name)) if own else name
        if place not in places:
            plain = name_of_folder(Path(name)) if own else name
            first[name] = plain not in taken
            taken.add(plain)
            places.add(place)
    return first


def _place_of(folder: Path) -> tuple[int, int]:
    """Identify a folder, whatever path leads to it."""
    found = folder.stat()
    return found.st_dev, found.st_ino


def _run_all(
    batch: Batch,
    names: Mapping[str, bool],
    settings: Settings,
    out: Path,
    data: Path | str | None,
    jobs: int,
    progress: bool,
    command: str,
) -> None:
    steps = {name: len(_resolved(name, settings).steps) for name in names}
    total = sum(steps.values())
    with Bar(total=total, unit="step", disable=None if progress else True, leave=False) as bar:

        def finished(name: str, result: SceneEvaluation | str) -> None:
            if not isinstance(result, str):
                batch.evaluations[name] = result
                return
            batch.failures[name] = result
            if progress:
                bar.write(f"Error: {result}", file=sys.stderr)

        if jobs == 1 or len(names) == 1:
            for name, first in names.items():
                step = _advance(bar, name) if progress else None
                finished(name, _run_one(name, settings, out, data, step, first, command))
        else:
            from joblib import Parallel, delayed

            here = Path.cwd()
            work = (
                delayed(_run_elsewhere)(
                    here, n == 0, name, settings, out, data, None, first, command
                )
                for n, (name, first) in enumerate(names.items())
            )
            parallel = Parallel(
                n_jobs=min(jobs, len(names)), return_as="generator", **ending_with_this_process()
            )
            with results_of(parallel, work) as results:
                for name, result in zip(names, results, strict=True):
                    finished(name, result)
                    bar.set_description(f"{printable(name)} done")
                    bar.update(steps[name])


def _resolved(name: str, settings: Settings) -> Settings:
    """Say what a run of a scene does, before its images are there."""
    return settings.resolved(not is_in_catalogue(name) and not has_truth(Path(name)))


def _run_one(
    name: str,
    settings: Settings,
    out: Path,
    data: Path | str | None,
    progress: Callable[[str], None] | None,
    first: bool,
    command: str,
) -> SceneEvaluation | str:
    """Run one scene; return its evaluation, or what is wrong with it."""
    try:
        prepared = prepare_scene(name, settings, out, data, progress, first)
        if (evaluation := done_before(prepared, progress)) is None:
            from nmfsync.run.scene import run_prepared  # which takes a second

            evaluation = run_prepared(prepared, progress, command)
        return evaluation
    except (NmfsyncError, OSError, MemoryError) as error:
        return reason_of(error)


def _run_elsewhere(folder: Path, speaks: bool, *arguments: Any) -> SceneEvaluation | str:
    """Run one scene in another process, which may have started in another folder."""
    os.chdir(folder)
    # All processes may have to compile; one says so.
    with compilation_shown(bars=False) if speaks else nullcontext():
        return _run_one(*arguments)


def _advance(bar: Any, name: str) -> Callable[[str], None]:
    """Show the step that starts, and count the one that ended."""

    def show(step: str) -> None:
        bar.update(0 if step == "images" else 1)
        bar.set_description(f"{printable(name)}: {step}")
        if step == "report":
            bar.update(1)

    return show


def _write_report(
    batch: Batch, target: str, names: Sequence[str], out: Path, figures: bool
) -> None:
    """Write the report of a data set, if the target is one and any of its scenes has run."""
    entry = next((entry for entry in datasets() if entry.name == target), None)
    evaluations = [batch.evaluations[name] for name in names if name in batch.evaluations]
    if entry is None or not evaluations:
        return
    labels = {name: f"#{n} {name.split('/')[-1]}" for n, name in enumerate(entry.members, start=1)}
    left_out = [
        f"{labels.get(name, name)}: {batch.failures[name]}"
        for name in names
        if name in batch.failures
    ]
    described = [evaluation.to_dict() for evaluation in evaluations]
    origin = key_of(code_of_pages(), entry.title, described, labels, left_out, figures)
    if not made_from(out / target, origin):
        from nmfsync.report.dataset_page import write_dataset_report

        told = (entry.title, evaluations, labels, left_out, figures, origin)
        write_dataset_report(out / target, *told, pictures_folder(out / target))
    batch.reports[target] = out / target / "report.html"
