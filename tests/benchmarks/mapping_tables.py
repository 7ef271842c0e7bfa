"""Tables and the figure of the benchmark of mapping, for the page of the docs."""

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from benchmarks.mapping import MAPPERS, Model
from benchmarks.mapping_ways import BASELINE, OURS, WAYS, Prepared
from nmfsync.report.figures.style import to_png

PAGE = Path(__file__).parents[2] / "docs" / "mapping.md"
FOLDED = 50.0  # % of camera error: the model is another one, and no ratio of errors tells anything
MORE_OBSERVATIONS = 1.10  # times COLMAP's: what is asked of our ways
RUNS = int(os.environ.get("MAPPING_RUNS", "5"))
LEAST_SHOWN = 0.3  # ratio in the figure; what is less stands at its edge, with its number


class RunKey(NamedTuple):
    """What a run depends on."""

    scene: str
    digest: str
    mapper: str
    seed: int


@dataclass(frozen=True)
class Results:
    """All that is known: databases by scene and way, and runs of the mappers."""

    scenes: list[str]
    prepared: dict[str, dict[str, Prepared]]
    runs: dict[RunKey, Model]

    def models(self, scene: str, way: str, mapper: str = "incremental") -> list[Model]:
        """Return the runs of a way, in order of the seed."""
        made = self.prepared.get(scene, {}).get(way)
        if made is None:
            return []
        keys = (RunKey(scene, made.digest, mapper, seed) for seed in range(RUNS))
        return [self.runs[key] for key in keys if key in self.runs]

    def mean(self, scene: str, way: str, field: str, mapper: str = "incremental") -> float:
        """Return the mean of a figure over the runs; NaN without any."""
        if field == "prepare":
            made = self.prepared.get(scene, {}).get(way)
            return made.seconds if made else np.nan
        values = [getattr(model, field) for model in self.models(scene, way, mapper)]
        return float(np.mean(values)) if values else np.nan

    def ratio(self, scene: str, way: str, field: str, mapper: str = "incremental") -> float:
        """Return the mean of a figure by that of COLMAP; NaN if either is not known."""
        return (self.mean(scene, way, field, mapper)
                / self.mean(scene, BASELINE.name, field, mapper))  # fmt: skip

    def comparable(self) -> list[str]:
        """Return the scenes that COLMAP does not fold: a folded model is one of another place."""
        return [s for s in self.scenes if not self.mean(s, BASELINE.name, "camera") > FOLDED]


def write(results: Results, folder: Path) -> None:
    """Write mapping.csv, mapping.md and mapping.png, and the page if nothing is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"short": short(results), "summary": summary(results),
              "acceptance": acceptance(results), "street": street(results),
              "noise": noise(results), "global": global_table(results),
              "scenes": scene_table(results)}  # fmt: skip
    text = "\n\n".join(f"## {name}\n\n{table}" for name, table in tables.items())
    (folder / "mapping.md").write_text(text + "\n", encoding="utf-8")
    picture = to_png(figure_of(results))
    (folder / "mapping.png").write_bytes(picture)
    with (folder / "mapping.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(csv_rows(results))
    print(text)
    if complete(results):
        page = PAGE.read_text(encoding="utf-8")
        for name, table in tables.items():
            page = with_table(page, name, table)
        PAGE.write_text(page, encoding="utf-8")
        PAGE.with_suffix(".png").write_bytes(picture)
    print(f"written: {folder / 'mapping.png'}" + (f", {PAGE}" if complete(results) else ""))


def complete(results: Results) -> bool:
    """Say whether all scenes and ways have runs."""
    return len(results.scenes) == 9 and all(
        results.models(scene, way) for scene in results.scenes for way in WAYS
    )


def with_table(page: str, name: str, table: str) -> str:
    """Return a page with another table between the two comments of this name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"no {begin.strip()} with its end in the page")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def short(results: Results) -> str:
    """Say in a sentence for every one of our ways what it gains on the scenes."""
    lines = []
    for way in OURS:
        found = [verdict for verdict in verdicts(results) if verdict.way == way]
        if not found:
            continue
        passed = sum(not verdict.failures() for verdict in found)
        figures = "; ".join(
            f"{title} {_change(mean_ratio(results, way, field))} ({_extremes(results, way, field)})"
            for field, title in {"observations": "observations", "pixels": "reprojection error",
                                 "camera": "camera error"}.items()
        )  # fmt: skip
        lines.append(
            f"- **{WAYS[way].label}**: {figures}. It does all that is asked (below) on {passed} of "
            f"{len(found)} scenes."
        )
    return "\n".join(lines)


def _extremes(results: Results, way: str, field: str) -> str:
    """The least and the largest change on a scene."""
    ratios = {
        results.ratio(scene, way, field): scene.split("/")[1]
        for scene in results.comparable()
        if results.ratio(scene, way, field) > 0
    }
    if not ratios:
        return "–"
    least, most = min(ratios), max(ratios)
    return f"{ratios[least]} {_change(least)}, {ratios[most]} {_change(most)}"


def summary(results: Results) -> str:
    """One row a way: geometric means over the scenes of the ratios to COLMAP's figures."""
    columns = {"observations": "observations", "points": "points", "length": "track length",
               "pixels": "reprojection error", "camera": "camera error",
               "rotation": "rotation error", "prepare": "CPU to the database",
               "seconds": "CPU of the mapper"}  # fmt: skip
    rows = []
    for name, way in WAYS.items():
        scenes = [scene for scene in results.scenes if results.models(scene, name)]
        if scenes:
            ratios = (_change(mean_ratio(results, name, field)) for field in columns)
            rows.append([way.label, *ratios, *_faults(results, name, scenes)])
    return markdown(["way", *columns.values(), "images lost", "models split",
                     "doubled points (apart)"], rows)  # fmt: skip


def mean_ratio(results: Results, way: str, field: str, mapper: str = "incremental") -> float:
    """Geometric mean of the ratios to COLMAP over the scenes that have both; NaN without any."""
    ratios = np.array([results.ratio(s, way, field, mapper) for s in results.comparable()])
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    return float(np.exp(np.log(ratios).mean())) if len(ratios) else np.nan


def _change(ratio: float) -> str:
    if np.isnan(ratio):
        return "–"
    percent = round(100 * (ratio - 1))
    return f"{percent:+d} %".replace("-", "−") if percent else "0 %"


def _faults(results: Results, way: str, scenes: Sequence[str]) -> list[str]:
    """Images lost, further models, and doubled points: sums over the scenes of means of runs."""
    lost = sum(_images(results, scene) - results.mean(scene, way, "images") for scene in scenes)
    split = sum(results.mean(scene, way, "models") > 1 for scene in scenes)
    doubled, apart = (sum(results.mean(scene, way, field) for scene in scenes)
                      for field in ("doubled", "apart"))  # fmt: skip
    return [f"{lost:.1f}", f"{split}", f"{doubled:,.0f} ({apart:,.0f})"]


def _images(results: Results, scene: str) -> int:
    """Number of images that any run registers."""
    models = (results.models(scene, way, mapper) for way in WAYS for mapper in MAPPERS)
    return max((model.images for found in models for model in found), default=0)


class Verdict(NamedTuple):
    """What is asked of our ways on a scene; ratios to COLMAP's means."""

    way: str
    scene: str
    observations: float
    pixels: float
    camera: float  # NaN without truth
    whole: bool  # all images in one model, in every run

    def failures(self) -> list[str]:
        checks = {
            f"observations {_change(self.observations)}": self.observations >= MORE_OBSERVATIONS,
            f"reprojection error {_change(self.pixels)}": self.pixels <= 1,
            f"camera error {_change(self.camera)}": not self.camera > 1,
            "an image lost or a model split": self.whole,
        }
        return [text for text, good in checks.items() if not good]


def verdicts(results: Results) -> list[Verdict]:
    found = []
    for way in OURS:
        for scene in results.scenes:
            if results.models(scene, way):
                ratios = (
                    results.ratio(scene, way, f) for f in ("observations", "pixels", "camera")
                )
                found.append(Verdict(way, scene, *ratios, is_whole(results, scene, way)))
    return found


def is_whole(results: Results, scene: str, way: str) -> bool:
    """Say whether every run of a way leaves one model of all images."""
    everything = _images(results, scene)
    return all(m.models == 1 and m.images == everything for m in results.models(scene, way))


def broken(results: Results) -> list[str]:
    """Return the scenes and ways of ours that lose an image or split a model, unlike COLMAP."""
    return [
        f"{verdict.scene}, {verdict.way}"
        for verdict in verdicts(results)
        if is_whole(results, verdict.scene, BASELINE.name) and not verdict.whole
    ]


def failures(results: Results) -> list[str]:
    """Return a line for every scene on which one of our ways is not what is asked of it."""
    return [
        f"{verdict.scene}, {verdict.way}: {', '.join(failed)}"
        for verdict in verdicts(results)
        if (failed := verdict.failures())
    ]


def acceptance(results: Results) -> str:
    """One row a scene: what our ways pass, in words."""
    found = {(verdict.scene, verdict.way): verdict for verdict in verdicts(results)}
    ways = [way for way in OURS if any(way == known for _, known in found)]
    rows = [
        [scene.split("/")[1], *(_verdict_cell(found.get((scene, way))) for way in ways)]
        for scene in results.scenes
    ]
    return markdown(["scene", *(WAYS[way].label for way in ways)], rows)


def _verdict_cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "–"
    figures = " / ".join(_change(ratio) for ratio in verdict[2:5])
    return f"{figures}: " + ("fails" if verdict.failures() else "**passes**")


def street(results: Results) -> str:
    """Look-alike houses, by way and mapper: pairs of images, and cameras."""
    rows = []
    for way in WAYS:
        for scene in results.scenes:
            if scene.endswith("/street") and results.models(scene, way):
                made = results.prepared[scene][way]
                errors = (_camera_cell(results, scene, way, mapper) for mapper in MAPPERS)
                rows.append([WAYS[way].label, f"{made.pairs}", *errors])
    return markdown(["way", "pairs of images", *(f"camera error, {m} mapper" for m in MAPPERS)],
                    rows)  # fmt: skip


def _camera_cell(results: Results, scene: str, way: str, mapper: str) -> str:
    models = results.models(scene, way, mapper)
    if not models:
        return "–"
    return _spread([model.camera for model in models], lambda x: f"{x:.3g} %", ends=True)


def noise(results: Results) -> str:
    """What dropping 1 % of the matches changes in COLMAP's models, scene by scene."""
    rows = []
    for scene in results.scenes:
        if models := results.models(scene, BASELINE.name):
            spreads = (_relative_spread([getattr(model, field) for model in models])
                       for field in ("observations", "pixels", "camera"))  # fmt: skip
            rows.append([scene.split("/")[1], *spreads])
    return markdown(["scene", "observations", "reprojection error", "camera error"], rows)


def _relative_spread(values: Sequence[float]) -> str:
    """Standard deviation by mean."""
    share = np.std(values, ddof=len(values) > 1) / np.mean(values)
    return "–" if np.isnan(share) else f"{100 * share:.1f} %"


def global_table(results: Results) -> str:
    """The ways that the global mapper was tried on, scene by scene."""
    rows = [
        [scene.split("/")[1] if first else "", *_row(results, scene, way, "global")]
        for scene, way, first in _scene_by_scene(results, "global")
    ]
    return markdown(_SCENE_HEADINGS, rows)


def scene_table(results: Results) -> str:
    rows = [
        [scene.split("/")[1] if first else "", *_row(results, scene, way, "incremental")]
        for scene, way, first in _scene_by_scene(results, "incremental")
    ]
    return markdown(_SCENE_HEADINGS, rows)


_SCENE_HEADINGS = ["scene", "way", "pairs", "verified matches", "images", "models", "points",
                   "observations", "doubled (apart)", "track length", "reprojection error",
                   "camera error (least–most)", "rotation error", "CPU to the database",
                   "CPU of the mapper", "runs"]  # fmt: skip


def _scene_by_scene(results: Results, mapper: str):
    for scene in results.scenes:
        ways = [way for way in WAYS if results.models(scene, way, mapper)]
        yield from ((scene, way, way == ways[0]) for way in ways)


def _row(results: Results, scene: str, way: str, mapper: str) -> list[str]:
    made, models = results.prepared[scene][way], results.models(scene, way, mapper)

    def mean(field: str) -> float:
        return results.mean(scene, way, field, mapper)

    return [
        WAYS[way].label, f"{made.pairs}", f"{made.matches:,}", f"{mean('images'):.3g}",
        f"{mean('models'):.2g}", f"{mean('points'):,.0f}",
        _spread([model.observations for model in models], lambda x: f"{x:,.0f}"),
        f"{mean('doubled'):.0f} ({mean('apart'):.0f})", f"{mean('length'):.2f}",
        f"{mean('pixels'):.3f} px",
        _camera_cell(results, scene, way, mapper),
        _known(mean("rotation"), lambda x: f"{x:.2g}°"),
        _known(made.seconds, lambda x: f"{x:.0f} s"),
        f"{mean('seconds'):.1f} s", f"{len(models)}",
    ]  # fmt: skip


def _spread(values: Sequence[float], show: Callable[[float], str], ends: bool = False) -> str:
    """Mean and standard deviation, or mean and extremes."""
    if not np.isfinite(values).all():
        return "–"
    mean = show(float(np.mean(values)))
    if ends:
        return f"{mean} ({min(values):.3g}–{max(values):.3g})"
    return f"{mean} ± {np.std(values, ddof=len(values) > 1):.0f}"


def _known(value: float, show: Callable[[float], str]) -> str:
    return "–" if np.isnan(value) else show(value)


def csv_rows(results: Results) -> list[Sequence[object]]:
    """Means of all figures, by scene, way and mapper."""
    names = [field.name for field in fields(Model)]
    rows: list[Sequence[object]] = [
        ["scene", "way", "mapper", "runs", "pairs", "matches", "prepare_seconds", *names,
         *(f"{name}_deviation" for name in names)]
    ]  # fmt: skip
    for mapper in MAPPERS:
        for scene, way, _ in _scene_by_scene(results, mapper):
            made, models = results.prepared[scene][way], results.models(scene, way, mapper)
            figures = np.array([[getattr(model, name) for name in names] for model in models])
            deviations = figures.std(axis=0, ddof=len(models) > 1)
            rows.append([scene, way, mapper, len(models), made.pairs, made.matches, made.seconds,
                         *figures.mean(axis=0), *deviations])  # fmt: skip
    return rows


def figure_of(results: Results) -> Figure:
    """Ratios of our ways to COLMAP, scene by scene."""
    titles = {"observations": "observations", "pixels": "reprojection error",
              "camera": "camera error", "seconds": "CPU of the mapper"}  # fmt: skip
    figure = Figure((11, 1.2 + 0.45 * len(results.scenes)), layout="constrained")
    panels = figure.subplots(1, len(titles), sharey=True)
    heights = np.arange(len(results.scenes))
    for axes, (field, title) in zip(panels, titles.items(), strict=True):
        for n, way in enumerate(OURS):
            ratios = [results.ratio(scene, way, field) for scene in results.scenes]
            label = WAYS[way].label.replace("`", "")
            places = heights + 0.16 * (n - (len(OURS) - 1) / 2)
            shown = np.maximum(ratios, LEAST_SHOWN)
            axes.plot(shown, places, "osD^"[n], color=f"C{n}", markersize=5, label=label)
            for ratio, place in zip(ratios, places, strict=True):
                if ratio < LEAST_SHOWN:
                    axes.annotate(f"← {ratio:.1g}", (LEAST_SHOWN, place), (6, 0), fontsize=8,
                                  textcoords="offset points", va="center")  # fmt: skip
        for height in heights[::2]:
            axes.axhspan(height - 0.5, height + 0.5, color="0.95", zorder=0)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        _label_ratios(axes)
        axes.set_title(title)
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(heights, [scene.split("/")[1] for scene in results.scenes])
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center",
                  ncols=2)  # fmt: skip
    figure.supxlabel("ratio to COLMAP with its defaults (logarithmic)")
    return figure


def _label_ratios(axes) -> None:
    """Put plain numbers at a logarithmic axis, few enough not to touch."""
    least, most = axes.get_xlim()
    every = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 2, 3, 4, 6, 10, 100]
    few = [0.3, 0.5, 1, 2, 4, 10, 100]
    steps = every if most / least < 2 else few
    shown = [step for step in steps if least <= step <= most]
    axes.set_xticks(shown, [f"{step:g}" for step in shown], minor=False)
    axes.minorticks_off()
