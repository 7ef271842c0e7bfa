"""Runs of several scenes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from tqdm import tqdm

from nmfsync.errors import NmfsyncError, reason_of
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.run.scene import run_scene
from nmfsync.run.settings import Settings, steps
from nmfsync.scenes import catalogue


def _is_dataset(target: str) -> bool:
    return any(entry.name == target for entry in catalogue.datasets())


def _run_all(
    names: list[str], settings: Settings, out: Path, data: Path | None, jobs: int
) -> tuple[dict[str, SceneEvaluation], dict[str, str]]:
    """Run all scenes; one that fails is reported, and the others go on.

    Returns the evaluations, and what is wrong with the scenes that have none.
    """
    done: dict[str, SceneEvaluation] = {}
    failed: dict[str, str] = {}
    total = len(steps(settings)) * len(names)
    with tqdm(total=total, unit="step", disable=None, leave=False) as bar:

        def finished(name: str, result: SceneEvaluation | str) -> None:
            if isinstance(result, str):
                failed[name] = result
                bar.write(f"Error: {result}", file=sys.stderr)
            else:
                done[name] = result

        if jobs == 1 or len(names) == 1:
            for name in names:
                finished(name, _run_one(name, settings, out, data, _advance(bar, name)))
        else:
            here = Path.cwd()
            work = (delayed(_run_elsewhere)(here, name, settings, out, data) for name in names)
            results = Parallel(n_jobs=jobs, return_as="generator")(work)
            for name, result in zip(names, results, strict=True):
                finished(name, result)
                bar.set_description(f"{name} done")
                bar.update(len(steps(settings)))
    return done, failed


def _run_one(
    name: str,
    settings: Settings,
    out: Path,
    data: Path | None,
    progress: Callable[[str], None] | None = None,
) -> SceneEvaluation | str:
    """Run one scene; return its evaluation, or what is wrong with it."""
    try:
        return run_scene(name, settings, out, data, progress)
    except (NmfsyncError, OSError, MemoryError) as error:
        return reason_of(error)


def _run_elsewhere(folder: Path, *arguments: Any) -> SceneEvaluation | str:
    """Run one scene in another process, which may have started in another folder."""
    os.chdir(folder)
    return _run_one(*arguments)


def _advance(bar: Any, name: str) -> Callable[[str], None]:
    """Show the step that starts, and count the one that ended."""

    def show(step: str) -> None:
        bar.update(0 if step == "images" else 1)
        bar.set_description(f"{name}: {step}")
        if step == "report":
            bar.update(1)

    return show
