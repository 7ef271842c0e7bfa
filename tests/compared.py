"""Evaluations made up for comparisons, and folders of outputs that hold them."""

import json
from pathlib import Path

from nmfsync.evaluation.comparison import Run
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation

THRESHOLDS = ("0", "0.01", "0.05")


def figures(fcm: float | None = 0.3, precision: float | None = 0.8, **others) -> MethodEvaluation:
    """Figures of a method; without an FCM, of a scene without truth."""
    curves = [{t: value * float(t) * 20 if t == "0.05" else value for t in THRESHOLDS}
              if value is not None else {} for value in (fcm, precision)]  # fmt: skip
    values = {"matchings": 100, "judged": 150, "cycle_error": 0.0, "cycle_consistent": True,
              "seconds": 0.5, "peak_memory_mb": 12.0, "estimated_precision": 0.9}  # fmt: skip
    return MethodEvaluation(*curves, **{**values, **others})


def evaluation(scene="set/a", settings=None, features=30, truth="homographies", **methods):
    """Evaluation of a scene; methods by name, with "input" and "clustersync" by default."""
    methods = methods or {"input": figures(), "clustersync": figures(0.35, 0.9)}
    known = settings or {"features": 10, "versions": {"numpy": "2.0"}}
    return SceneEvaluation(
        scene, 3, features, [features // 3] * 3, 20, truth, known, methods, tracks="clustersync"
    )


def run(label: str, **scenes: list[float]) -> Run:
    """Make a run whose ClusterSync has these FCMs, on the scenes set/0, set/1 and so on."""
    by_method = {m: dict(enumerate(values)) for m, values in scenes.items()}
    count = max(map(len, scenes.values()))
    return Run(
        label,
        {
            f"set/{n}": evaluation(
                f"set/{n}", **{m: figures(v[n]) for m, v in by_method.items() if n in v}
            )
            for n in range(count)
        },
    )


def write(folder: Path, *evaluations: SceneEvaluation) -> Path:
    """Write evaluations where a run puts them; return the folder."""
    for one in evaluations:
        path = folder / one.scene / "evaluation.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one.to_dict()))
    return folder
