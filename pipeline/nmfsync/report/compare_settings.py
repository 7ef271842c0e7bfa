"""What a comparison's sides were made with: what differs, and what makes them less comparable."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nmfsync.evaluation.comparison import Comparison
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.compare_words import listed
from nmfsync.report.figures.style import style_of
from nmfsync.report.page import count, flatten

_MOST_VALUES = 3  # of a setting that differs between scenes

_Name = tuple[str, str]  # of a setting, and the method that it is an option of, or ""

_Facts = Mapping[str, Mapping[_Name, str]]  # by scene: what a side was made with


def differing_settings(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Return what the sides were made with, where it differs on a scene: name, and their values."""
    sides = _facts_of_sides(comparison)
    names = dict.fromkeys(name for facts in sides for one in facts.values() for name in one)
    rows = {
        name: tuple(_distinct(one[name] for one in facts.values() if name in one)
                    for facts in sides)
        for name in names
        if _differs(sides, name)
    }  # fmt: skip
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (option, method), texts in rows.items():
        groups.setdefault((option, texts), []).append(method)
    return [
        (f"{option} ({listed(methods)})" if methods[0] else option, list(texts))
        for (option, texts), methods in groups.items()
    ]


def _facts_of_sides(comparison: Comparison) -> list[_Facts]:
    if comparison.between_methods:
        evaluations = comparison.runs[0].evaluations
        return [
            {s: {(name, ""): text for (name, _), text in _options(e, [method]).items()}
             for s, e in evaluations.items()}
            for method in comparison.sides
        ]  # fmt: skip
    return [
        {scene: _facts(e, comparison.methods) for scene, e in run.evaluations.items()}
        for run in comparison.runs
    ]


def _facts(evaluation: SceneEvaluation, methods: Sequence[str]) -> dict[_Name, str]:
    """Return the settings, versions and inputs of a run, by name and "" or method."""
    settings, origin = dict(evaluation.settings), _provenance(evaluation)
    if isinstance(settings.get("options"), Mapping):
        del settings["options"]
        settings.pop("theta", None)  # which is among the options of every method
    versions = _mapping(settings.pop("versions", None)), _mapping(origin.get("versions"))
    place = {name: origin[name] for name in ("platform", "threads") if name in origin}
    digest = _digest(evaluation)
    inputs = {
        "images": count(evaluation.images),
        "features in all images": count(evaluation.features),
        "universe size used": count(evaluation.universe_size),
        "ground truth": evaluation.truth,
        **({"input files (SHA-256)": digest[:16]} if digest else {}),
    }
    plain = flatten({**settings, **inputs, **place, "versions": {**versions[0], **versions[1]}})
    return {**{(name, ""): text for name, text in plain}, **_options(evaluation, methods)}


def _options(evaluation: SceneEvaluation, methods: Sequence[str]) -> dict[_Name, str]:
    options = _mapping(evaluation.settings.get("options"))
    return {
        (f"option {name}", style_of(method).name): text
        for method in methods
        for name, text in flatten(_mapping(options.get(method)))
    }


def _provenance(evaluation: SceneEvaluation) -> Mapping[str, Any]:
    return _mapping(evaluation.provenance)


def _mapping(content: Any) -> Mapping[str, Any]:
    return content if isinstance(content, Mapping) else {}


def _differs(sides: Sequence[_Facts], name: _Name) -> bool:
    scenes = dict.fromkeys(scene for facts in sides for scene in facts)
    return any(
        len({facts[scene].get(name, "–") for facts in sides if scene in facts}) > 1
        for scene in scenes
    )


def _distinct(texts: Iterable[str]) -> str:
    found = list(dict.fromkeys(texts))
    more = ["…"] if len(found) > _MOST_VALUES else []
    return "; ".join([*found[:_MOST_VALUES], *more]) or "–"


def remarks(comparison: Comparison) -> list[str]:
    """Return what restricts the comparison: other truth, other images, what is on one side only."""
    return [*_of_scenes(comparison), *_unlike(comparison), *_lone(comparison)]


def _of_scenes(comparison: Comparison) -> list[str]:
    """Say what a single scene does not tell, and whether it is several ones."""
    if len(comparison.scenes) > 1:
        return []
    (scene,) = comparison.scenes
    names = dict.fromkeys(run.evaluations[scene].scene for run in comparison.runs)
    alone = "One scene says nothing about others, so there are no intervals."
    if len(names) == 1:
        return [alone]
    return [f"The scenes are different ones: {listed(list(names))}. {alone}"]


def _unlike(comparison: Comparison) -> list[str]:
    kinds: list[tuple[Callable[[SceneEvaluation], Any], str]] = [
        (
            lambda e: e.truth,
            "The ground truth differs, so FCM and precision are not comparable",
        ),
        (_digest, "The images differ"),
        (lambda e: e.images, "The number of images differs"),
        (
            lambda e: e.features,
            "The number of features differs, and FCM and numbers of matches depend on it",
        ),
    ]
    texts = []
    for value, text in kinds:
        scenes = [s for s in comparison.scenes if len(_values(comparison, s, value)) > 1]
        if scenes:
            where = f" ({listed(scenes)})" if len(scenes) < len(comparison.scenes) else ""
            texts.append(f"{text}{where}.")
    return texts


def _values(
    comparison: Comparison, scene: str, value: Callable[[SceneEvaluation], Any]
) -> set[Any]:
    found = [run.evaluations[scene] for run in comparison.runs if scene in run.evaluations]
    return {value(e) for e in found} - {None}


def _digest(evaluation: SceneEvaluation) -> str | None:
    """Return the digest of the input files, which older runs do not know."""
    digest = _provenance(evaluation).get("digest")
    return digest if isinstance(digest, str) else None


def _lone(comparison: Comparison) -> list[str]:
    parts = (("scene", comparison.lone_scenes), ("method", comparison.lone_methods))
    return [
        f"Only in {label}, and not compared: {kind}{'s' if len(names) > 1 else ''} "
        f"{listed(names, 12)}."
        for kind, groups in parts
        for label, names in groups.items()
        if names
    ]
