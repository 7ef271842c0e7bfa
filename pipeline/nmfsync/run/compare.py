"""What runs have written, compared: what `nmfsync compare` does."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmfsync.errors import NmfsyncError, printable
from nmfsync.evaluation.comparison import Comparison, Run, compare_evaluations
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.compare_page import is_compare_page, write_compare_page
from nmfsync.runtime.files import check_target
from nmfsync.runtime.publish import recover

NAME = "evaluation.json"


def compare_runs(
    folders: Sequence[Path | str],
    methods: Sequence[str] | None = None,
    out: Path | str | None = None,
    overwrite: bool = False,
) -> Comparison:
    """Compare what several runs have written, or several methods of one run.

    Parameters
    ----------
    folders : sequence of Path or str
        Folders of outputs: of several data sets, of a data set or of a scene; or single
        files `evaluation.json`. Of two or more, the others are compared with the first one, method
        by method; of one, the methods are compared with the first of `methods`. Scenes are paired
        by name; if every run has exactly one scene, these are paired whatever their names.
    methods : sequence of str, optional
        Compare only these methods. For one folder, at least two.
    out : Path or str, optional
        The page to write. Without it, nothing is written.
    overwrite : bool
        Replace `out` whatever it is; otherwise only a page of an earlier comparison.

    Returns
    -------
    Comparison

    Raises
    ------
    NmfsyncError
        If an evaluation is missing or damaged, nothing can be compared, or `out` exists.
    OSError
        If the page cannot be written.

    Examples
    --------
    >>> import nmfsync
    >>> comparison = nmfsync.compare_runs(["before", "after"])  # doctest: +SKIP
    >>> comparison.contrasts[0].differences["fcm"].mean  # doctest: +SKIP
    0.0125
    """
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise NmfsyncError("nothing to compare: name one or more folders of outputs")
    found = [_evaluations_below(path) for path in paths]
    _check_different(paths, found)
    inputs = [file for files in found for file in files]
    target = None if out is None else Path(out)
    _check_page(target, inputs, overwrite)
    labels = labels_of(paths)
    runs = [Run(label, _read(path, files))
            for label, path, files in zip(labels, paths, found, strict=True)]  # fmt: skip
    comparison = compare_evaluations(runs, methods)
    if target is not None:
        _check_page(target, inputs, overwrite)  # again: reading may have taken long
        write_compare_page(target, comparison)
    return comparison


def labels_of(paths: Sequence[Path]) -> list[str]:
    """Name runs by what distinguishes their paths.

    Parameters
    ----------
    paths : sequence of Path
        Different ones.

    Returns
    -------
    list of str
        The parts of the paths but those that all begin or end with; of one path, its last part.
    """
    parts = [list(Path(os.path.abspath(path)).parts) for path in paths]
    parts = [p[:-1] if p[-1] == NAME and len(p) > 1 else p for p in parts]
    if len(set(map(tuple, parts))) < len(parts) or len(parts) == 1:
        return [printable(p[-1]) for p in parts]
    for end in (0, -1):
        while min(map(len, parts)) > 1 and len({p[end] for p in parts}) == 1:
            for p in parts:
                del p[end]
    return [printable("/".join(p)) for p in parts]


def _evaluations_below(path: Path) -> list[Path]:
    """Find the evaluations in a folder and below, in order of their paths."""
    if not path.is_dir():
        if not os.path.lexists(path):
            raise NmfsyncError(f"{path}: no such folder or file")
        return [path]
    found = list(_walk(path))
    if not found:
        raise NmfsyncError(
            f"{path}: no {NAME} in it or below; name a folder that nmfsync run has written to"
        )
    return found


def _walk(path: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for folder, inner, _ in os.walk(path, onerror=fail):
        if any(name.endswith(".pending") for name in inner):
            recover(Path(folder))  # what a run that was killed did not put in place
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if os.path.lexists(file := Path(folder, NAME)):
            inner.clear()  # below are only the stages of the scene
            yield file


def _check_different(paths: Sequence[Path], found: Sequence[Sequence[Path]]) -> None:
    first: dict[str, Path] = {}
    for path, files in zip(paths, found, strict=True):
        for file in files:
            other = first.setdefault(os.path.realpath(file), path)
            if other is not path:
                raise NmfsyncError(f"{file}: is in both {other} and {path}; nothing to compare")


def _check_page(target: Path | None, inputs: Sequence[Path], overwrite: bool) -> None:
    if target is not None:
        check_target(target, inputs, overwrite or is_compare_page(target))


def _read(path: Path, files: Sequence[Path]) -> dict[str, SceneEvaluation]:
    """Read evaluations, by scene, which must be different ones."""
    read: dict[str, tuple[Path, SceneEvaluation]] = {}
    for file in files:
        evaluation = SceneEvaluation.read(file)
        if evaluation.scene in read:
            raise NmfsyncError(
                f"{path}: has two results of {evaluation.scene}: {read[evaluation.scene][0]} and "
                f"{file}; name the folders of the runs one by one"
            )
        read[evaluation.scene] = file, evaluation
    return {scene: evaluation for scene, (_, evaluation) in read.items()}
