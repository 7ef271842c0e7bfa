"""Evaluations of several runs, or of several methods of one run, side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nmfsync.errors import NmfsyncError, near_names, shown
from nmfsync.evaluation.differences import METRICS, Difference, difference_of
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation


@dataclass(frozen=True)
class Run:
    """The evaluations of one run: its label, and by name of the scene."""

    label: str
    evaluations: Mapping[str, SceneEvaluation]


@dataclass(frozen=True)
class Contrast:
    """One side beside the first one.

    Attributes
    ----------
    subject : str
        What both sides share: the method if runs are compared, the run if methods are.
    side : str
        A run or a method, which is compared with the first one.
    differences : dict of str to Difference
        By key of the metric; those that both sides know.
    """

    subject: str
    side: str
    differences: Mapping[str, Difference]


@dataclass(frozen=True)
class Comparison:
    """Several runs compared method by method, or several methods of one run.

    Attributes
    ----------
    runs : tuple of Run
        Only the scenes that are compared.
    between_methods : bool
        Whether the sides are methods; otherwise they are runs.
    sides : tuple of str
        What is compared: labels of runs, or methods. The others are compared with the first.
    subjects : tuple of str
        What the sides share: methods, or the label of the one run.
    contrasts : tuple of Contrast
        Of every subject and every side but the first, in this order.
    lone_scenes, lone_methods : dict of str to tuple of str
        What is compared with nothing: by run, the scenes and methods that the first run lacks;
        of the first run itself, those that all others lack.
    """

    runs: tuple[Run, ...]
    between_methods: bool
    sides: tuple[str, ...]
    subjects: tuple[str, ...]
    contrasts: tuple[Contrast, ...]
    lone_scenes: Mapping[str, tuple[str, ...]]
    lone_methods: Mapping[str, tuple[str, ...]]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that are compared."""
        return self.sides if self.between_methods else self.subjects

    @property
    def scenes(self) -> tuple[str, ...]:
        """The scenes that are compared."""
        return tuple(dict.fromkeys(scene for run in self.runs for scene in run.evaluations))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """All differences, of all contrasts."""
        return tuple(d for contrast in self.contrasts for d in contrast.differences.values())

    def method_of(self, subject: str, side: str) -> str:
        """Return the method of one side."""
        return side if self.between_methods else subject

    def figures(self, subject: str, side: str) -> dict[str, MethodEvaluation]:
        """Return the figures of one side, by scene."""
        label = subject if self.between_methods else side
        run = next(run for run in self.runs if run.label == label)
        return _of_method(run, self.method_of(subject, side))


def compare_evaluations(runs: Sequence[Run], methods: Sequence[str] | None = None) -> Comparison:
    """Compare runs with the first one, or the methods of one run with the first method.

    Scenes are paired by name; if every run has exactly one scene, these are paired whatever
    their names.

    Parameters
    ----------
    runs : sequence of Run
        With different labels.
    methods : sequence of str, optional
        Compare only these; needed for one run.

    Returns
    -------
    Comparison

    Raises
    ------
    NmfsyncError
        If nothing can be compared: no scene or no method is in both, or a method is unknown.
    """
    chosen = None if methods is None else _chosen(runs, methods)
    if len(runs) == 1:
        return _between_methods(runs[0], chosen)
    return _between_runs(_with_common_names(runs), chosen)


def _between_runs(runs: Sequence[Run], chosen: Sequence[str] | None) -> Comparison:
    first, *others = runs
    for other in others:
        if not first.evaluations.keys() & other.evaluations.keys():
            raise NmfsyncError(
                f"{first.label} and {other.label} have no scene in common: "
                f"{_some_of(first.evaluations)}; {_some_of(other.evaluations)}"
            )
    scenes = _shared([run.evaluations for run in runs])
    used = [Run(r.label, {s: r.evaluations[s] for s in scenes if s in r.evaluations}) for r in runs]
    offered = {run.label: _methods_of([run], chosen) for run in used}
    methods = _shared(list(offered.values()))
    if not methods:
        raise NmfsyncError(f"{first.label} shares no method with another run")
    contrasts = [
        Contrast(method, run.label, found)
        for method in methods
        for run in used[1:]
        if (found := _differences(_of_method(used[0], method), _of_method(run, method)))
    ]
    return Comparison(
        tuple(used),
        False,
        tuple(run.label for run in runs),
        tuple(methods),
        tuple(contrasts),
        {run.label: tuple(s for s in run.evaluations if s not in scenes) for run in runs},
        {label: tuple(m for m in names if m not in methods) for label, names in offered.items()},
    )


def _between_methods(run: Run, methods: Sequence[str] | None) -> Comparison:
    if methods is None or len(methods) < 2:
        raise NmfsyncError(
            f"one run alone is compared with nothing: name a second one, or two or more of its "
            f"methods (--methods): {', '.join(map(shown, _methods_of([run])))}"
        )
    first = _of_method(run, methods[0])
    contrasts = tuple(
        Contrast(run.label, method, _differences(first, _of_method(run, method)))
        for method in methods[1:]
    )
    alone = [contrast.side for contrast in contrasts if not contrast.differences]
    if alone:
        raise NmfsyncError(f"no scene has both {methods[0]} and {alone[0]}")
    return Comparison((run,), True, tuple(methods), (run.label,), contrasts, {}, {})


def _chosen(runs: Sequence[Run], methods: Sequence[str]) -> list[str]:
    """Return the methods once each; raise NmfsyncError if no run has one of them."""
    known = _methods_of(runs)
    for method in methods:
        if method not in known:
            raise NmfsyncError(
                f"no method {shown(method)!r} in what is compared{near_names(method, known)}; "
                f"there are {', '.join(map(shown, known))}"
            )
    return list(dict.fromkeys(methods))


def _with_common_names(runs: Sequence[Run]) -> list[Run]:
    """Give the scenes one name if every run has exactly one."""
    names = [next(iter(run.evaluations)) for run in runs if len(run.evaluations) == 1]
    if len(names) < len(runs):
        return list(runs)
    name = " / ".join(dict.fromkeys(names))
    return [Run(run.label, {name: next(iter(run.evaluations.values()))}) for run in runs]


def _differences(
    before: Mapping[str, MethodEvaluation], after: Mapping[str, MethodEvaluation]
) -> dict[str, Difference]:
    found = {metric.key: difference_of(metric, before, after) for metric in METRICS}
    return {key: difference for key, difference in found.items() if difference is not None}


def _of_method(run: Run, method: str) -> dict[str, MethodEvaluation]:
    return {s: e.methods[method] for s, e in run.evaluations.items() if method in e.methods}


def _methods_of(runs: Iterable[Run], chosen: Sequence[str] | None = None) -> list[str]:
    """Return the methods of runs: all in order of appearance, or those chosen, in their order."""
    evaluations = (e for run in runs for e in run.evaluations.values())
    names = list(dict.fromkeys(name for e in evaluations for name in e.methods))
    return names if chosen is None else [name for name in chosen if name in names]


def _shared(groups: Sequence[Iterable[str]]) -> list[str]:
    """Return what the first group has, and any other one."""
    others = {name for group in groups[1:] for name in group}
    return [name for name in groups[0] if name in others]


def _some_of(scenes: Iterable[str]) -> str:
    names = list(map(shown, scenes))
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
