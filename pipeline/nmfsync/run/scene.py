"""The whole way of a scene: images, features, matches, synchronisation, evaluation, report."""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nmfsync import synthetic
from nmfsync.errors import (
    NmfsyncError,
    NmfsyncWarning,
    TooLargeError,
)
from nmfsync.evaluation.confidence import (
    Confidence,
    estimate_confidence,
    precision_by_track,
)
from nmfsync.evaluation.curves import ratio_curve
from nmfsync.evaluation.errors import MatchErrors, errors_of_all
from nmfsync.evaluation.image_graph import graph_of_images
from nmfsync.evaluation.measure import evaluate, evaluate_image_pairs
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.exchange.tracks import write_tracks
from nmfsync.matching.cues import describe
from nmfsync.matching.kernels import LENGTH
from nmfsync.matching.match import match
from nmfsync.matching.nearest import mutual_nearest, prepare
from nmfsync.matching.pairs import select_pairs
from nmfsync.matching.verification import count_verified, verify
from nmfsync.report.image_graph import graph_warnings
from nmfsync.report.paper import write_scene_figures
from nmfsync.report.scene_page import write_scene_report
from nmfsync.run.export import export
from nmfsync.run.features import extract_features
from nmfsync.run.image_pairs import without_wrong_pairs
from nmfsync.run.kernels import compile_beside
from nmfsync.run.prepare import Prepared, done_before, last_evaluation, prepare_scene
from nmfsync.run.settings import NONE, Settings
from nmfsync.run.stages import Stages, pictures_folder, stages_folder
from nmfsync.run.truth import measure_depth_quality, with_truth
from nmfsync.runtime.cache import (
    Arrays,
    code_behind,
    code_of,
    key_of,
    versions,
)
from nmfsync.runtime.files import sha256_of
from nmfsync.runtime.provenance import Costs
from nmfsync.runtime.publish import publication
from nmfsync.scenes.scene import Scene
from nmfsync.synchronisation.duplicates import mark_duplicates
from nmfsync.synchronisation.methods import (
    DEFAULT_METHOD,
    METHODS,
    MIN_PROBABILITY,
    resolve_universe_size,
)
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.arrays import IntArray
from nmfsync.types.features import DescriptorsOf, Features
from nmfsync.types.matches import (
    Matches,
    MultiMatching,
    PairwiseMatches,
    StoredKeypoints,
    matches_from_arrays,
)
from nmfsync.types.verdicts import PairVerdict


def run_scene(
    name: str,
    settings: Settings | None = None,
    out: Path | str = "outputs",
    data: Path | str | None = None,
    progress: Callable[[str], None] | None = None,
    first: bool = True,
    command: str = "Python: run_scene",
) -> SceneEvaluation:
    """Take one scene from its images to its report.

    Writes `evaluation.json`, `report.html`, `tracks.csv`, the pictures, and if asked for the
    figures for papers, to `<out>/<data set>/<scene>/`, all together at the end. Own images are
    scenes of the data set "images", named by their folder; if another folder of that name was
    there before, a digest follows the name, and a warning says so. Finished stages are kept in
    its folder `stages`, and are used again as long as what they depend on stays the same:
    images, settings, libraries and code; of features and matches, those of
    every image and pair of images.

    Parameters
    ----------
    name : str
        A scene of the catalogue, for instance "graffiti/graf", or a folder of images.
    settings : Settings, optional
    out : Path or str
    data : Path or str, optional
        Folder with local copies of the data sets.
    progress : callable, optional
        Called with the name of every step (`Settings.steps`) before it starts;
        also shows progress bars inside the long ones.
    first : bool
        False for a folder whose plain name is meant for another one.
    command : str
        What the provenance says was called.

    Returns
    -------
    SceneEvaluation
        The content of `evaluation.json`.

    Raises
    ------
    NmfsyncError
        If the scene cannot be read, its images lie where the outputs go, or no method can
        handle it.
    OSError
        If the output cannot be written.
    """
    prepared = prepare_scene(name, settings, out, data, progress, first)
    return done_before(prepared, progress) or run_prepared(prepared, progress, command)


def run_prepared(
    prepared: Prepared, progress: Callable[[str], None] | None, command: str
) -> SceneEvaluation:
    """Take a scene from its images to its report; see `run_scene`."""
    step = progress or (lambda _step: None)
    scene, settings, folder = prepared.scene, prepared.settings, prepared.folder
    stages = Stages(stages_folder(folder), bars=progress is not None)
    compile_beside(settings.solvers)
    step("features")
    scene, features = extract_features(scene, settings, stages)
    step("matches")
    matches, verification, verdicts = _match(scene, features, settings, stages, prepared.for_mapper)
    step("truth")
    scene = with_truth(scene, features, matches, stages)
    depth_quality = measure_depth_quality(scene, features, stages)
    arguments = (settings.universe_size, settings.theta, settings.seed)
    options = {name: _options(name, settings) for name in settings.solvers}
    used = {name: METHODS[name].settings(matches, *arguments, own) for name, own in options.items()}
    results: dict[str, Matches] = {"input": matches}
    too_large = []
    for method in settings.solvers:
        step(method)
        try:
            result = _synchronise(matches, method, arguments, options[method], used[method], stages)
            results[method], _ = result, result.W  # every match is judged, so W has to fit
        except TooLargeError as error:
            too_large.append(f"{method} left out: {error}")
    if settings.solvers and len(results) == 1:
        raise NmfsyncError(f"{scene.name}: {'; '.join(too_large)}")
    export(settings, scene, prepared.target, features, results, folder)
    step("report")
    errors = errors_of_all(results, features, scene.truth, stages.bars)
    confidences = {
        method: estimate_confidence(result, matches) for method, result in results.items()
    }
    tracks = next((m for m, r in results.items() if isinstance(r, MultiMatching)), "input")
    image_pairs, left_out = evaluate_image_pairs(
        results[tracks], confidences[tracks], errors[tracks]
    )
    graph = graph_of_images(results[tracks], confidences[tracks])
    evaluation = SceneEvaluation(
        scene=scene.name,
        images=len(scene.paths),
        features=int(matches.sizes.sum()),
        sizes=matches.sizes.tolist(),
        universe_size=resolve_universe_size(settings.universe_size, matches.sizes),
        truth=scene.truth.kind if scene.truth else "none",
        settings=_all_settings(settings, used),
        methods={
            method: evaluate(
                result,
                features,
                scene.truth,
                stages.records[_stage_of(method)].seconds,
                stages.records[_stage_of(method)].peak_memory_mb,
                scene.cameras,
                errors[method],
                confidences[method],
                progress=stages.bars,
            )
            for method, result in results.items()
        },
        warnings=prepared.remarks
        + graph_warnings(graph, scene.names)
        + stages.warnings()
        + too_large,
        left_out=dict(scene.left_out),
        tracks=tracks,
        ratio_curve=_ratio_curve(matches, errors["input"], scene),
        image_pairs=image_pairs,
        image_pairs_left_out=left_out,
        depth_quality=depth_quality,
        verification=verification,
        image_graph=graph,
        verdicts=verdicts,
        provenance=prepared.clock.provenance(command, _inputs(scene), _costs(stages)),
    )
    before = last_evaluation(prepared)
    if before == evaluation:  # apart from when and how
        return before
    with publication(folder, prepared.origin) as new:
        figures, kept = settings.figures, pictures_folder(folder)
        _write(new, scene, features, results, errors, confidences, evaluation, figures, kept)
    return evaluation


def _inputs(scene: Scene) -> dict[str, str]:
    """Return the SHA-256 of every image, by name."""
    digests = scene.digests or map(sha256_of, scene.paths)
    return dict(zip(scene.names, digests, strict=True))


def _costs(stages: Stages) -> list[Costs]:
    """Return what the stages took, under the names that a reader knows."""
    names = {_stage_of("input"): "matches"}
    return [
        replace(costs, stage=names.get(costs.stage, costs.stage.removeprefix(_stage_of(""))))
        for costs in stages.costs()
    ]


def _ratio_curve(
    matches: PairwiseMatches, errors: MatchErrors, scene: Scene
) -> dict[str, list[float | None]]:
    if scene.truth is None or matches.ratios is None:
        return {}
    return ratio_curve(errors, matches.ratios, matches.sizes)


def _match(
    scene: Scene,
    features: Sequence[Features],
    settings: Settings,
    stages: Stages,
    for_mapper: bool,
) -> tuple[PairwiseMatches, dict[str, int], list[PairVerdict]]:
    """Match the chosen pairs of images, and leave out what is not to be synchronised.

    Also returns what the verification kept, and what was found out about pairs of images.
    """
    pairs = stages.measure(
        "pairs",
        lambda: select_pairs(settings.pairs or "all", features, scene.names, progress=stages.bars),
    )
    # RootSIFT matches better; all else is as in the papers.
    described = [f.rooted() for f in features] if for_mapper else features
    limits = (settings.ratio, settings.distance, settings.evidence, settings.geometry, for_mapper)
    matches, verification = stages.run(
        _stage_of("input"),
        "matches.npz",
        key_of(code_of("matching"), stages.keys["features"], pairs, limits),
        lambda: _match_pairs(described, pairs, settings, stages),
        _pack_matches,
        _unpack_matches,
        _compile_matching,
    )
    matches.descriptors = DescriptorsOf(features)  # which the stage does not keep
    verdicts: list[PairVerdict] = []
    if settings.disambiguate:
        matches, verdicts = _leave_out_look_alikes(matches, features, stages)
    if for_mapper:
        matches = stages.measure(
            "near-duplicates", lambda: mark_duplicates(matches, [f.xy for f in features])
        )
    return matches, verification, verdicts


def _leave_out_look_alikes(
    matches: PairwiseMatches, features: Sequence[Features], stages: Stages
) -> tuple[PairwiseMatches, list[PairVerdict]]:
    """Judge the pairs of images, and leave out the matches of those that are wrong."""
    keypoints = [StoredKeypoints(f.xy, f.scale, f.orientation, f.image_size) for f in features]
    before = stages.keys[_stage_of("input")]
    stage, code = "look-alikes", code_of("disambiguation", "synchronisation")
    verdicts = stages.run(
        stage,
        "look-alikes.npz",
        key_of(code, before),
        lambda: without_wrong_pairs(matches, keypoints, stages.bars)[1],
        lambda found: {"verdicts": np.array(json.dumps([asdict(v) for v in found]))},
        lambda arrays: [PairVerdict(**v) for v in json.loads(str(arrays["verdicts"]))],
        lambda: _compile_method(DEFAULT_METHOD, matches.weighted),
    )
    stages.keys[_stage_of("input")] = key_of(before, stages.keys[stage])
    wrong = {(v.i, v.j) for v in verdicts if not v.right}
    return (matches.without_image_pairs(wrong) if wrong else matches), verdicts


def _pack_matches(stage: tuple[PairwiseMatches, dict[str, int]]) -> Arrays:
    matches, verification = stage
    return {**matches.arrays(), "verification": np.array(json.dumps(verification))}


def _unpack_matches(arrays: Arrays) -> tuple[PairwiseMatches, dict[str, int]]:
    return PairwiseMatches.from_arrays(arrays), json.loads(str(arrays["verification"]))


def _match_pairs(
    features: Sequence[Features], pairs: IntArray, settings: Settings, stages: Stages
) -> tuple[PairwiseMatches, dict[str, int]]:
    matches = match(
        features,
        settings.ratio,
        weighted=True,
        progress=stages.bars,
        distance=settings.distance,
        pairs=pairs,
        cache=stages.folder / "matches",
    )
    matches = matches.at_least(settings.evidence or 0)
    if matches.W.nnz == matches.W.shape[0]:
        text = "no two images have a match; add images that overlap, or use more --features"
        warnings.warn(text, NmfsyncWarning, stacklevel=2)
        return matches, {}
    if settings.geometry in (None, NONE):
        return matches, {}
    verified = verify(
        matches,
        [f.xy for f in features],
        settings.geometry,
        progress=stages.bars,
        cache=stages.folder / "verified",
        sizes=[f.image_size for f in features],
    )
    return verified, count_verified(matches, verified)


def _synchronise(
    matches: PairwiseMatches,
    method: str,
    arguments: tuple[int | str, float | None, int],
    options: dict[str, Any],
    used: dict[str, Any],
    stages: Stages,
) -> Matches:
    return stages.run(
        _stage_of(method),
        f"methods/{method}.npz",
        key_of(stages.keys[_stage_of("input")], used, code_behind(METHODS[method].function)),
        lambda: synchronise(matches, method, *arguments, progress=stages.bars, **options),
        lambda result: result.arrays(),
        matches_from_arrays,
        lambda: _compile_method(method, matches.weighted),
    )


def _options(method: str, settings: Settings) -> dict[str, Any]:
    if METHODS[method].uses_weights or not settings.min_probability:
        return {}
    return {MIN_PROBABILITY: settings.min_probability}


def _stage_of(method: str) -> str:
    """Name of a method's stage, which no other stage has."""
    return f"method {method}"


@cache
def _compile_matching() -> None:
    """Compile the kernels of the matching, so that this does not count as its time."""
    one, pairs = prepare([np.ones((1, LENGTH), np.uint8)]), np.zeros((1, 2), np.int64)
    found = mutual_nearest(one, one, pairs)
    mutual_nearest(one, one, pairs, found)
    frames = np.ones((1, 4), np.float32)
    describe(found[0], found[0], frames, frames)


@cache
def _compile_method(name: str, weighted: bool) -> None:
    """Compile a method's kernels for such matches, so that this does not count as its time."""
    if METHODS[name].compiles:
        W, _, sizes = synthetic.generate(k=6, d=4, rho=1.0, sigma=0.5)
        p, q = sparse.triu(W, 1).nonzero()
        weights = np.where((p + q) % 2, 0.9, 0.6) if weighted else None
        synchronise(PairwiseMatches.from_entries(p, q, sizes, weights), name, universe_size=4)


def _all_settings(settings: Settings, used: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of the run, and what every method was called with."""
    theta = {method: values.get("theta", 0.0) for method, values in used.items()}
    options = {
        method: {name: value for name, value in values.items() if name != "method"}
        for method, values in used.items()
    }
    values = asdict(settings)
    for name in ("figures", "colmap", "hloc"):  # which change no result
        del values[name]
    values["methods"] = list(settings.methods or ())  # as JSON has it
    return {**values, "theta": theta, "options": options, "versions": versions()}


def _write(
    new: Path,
    scene: Scene,
    features: Sequence[Features],
    results: dict[str, Matches],
    errors: dict[str, MatchErrors],
    confidences: dict[str, Confidence],
    evaluation: SceneEvaluation,
    figures: bool,
    kept: Path,
) -> None:
    """Write everything a scene's folder shows to a new one."""
    text = json.dumps(evaluation.to_dict(), indent=1)
    (new / "evaluation.json").write_text(text, encoding="utf-8")
    tracks = results[evaluation.tracks]
    if isinstance(tracks, MultiMatching):
        precision = precision_by_track(confidences[evaluation.tracks], tracks)
        xy = [f.xy for f in features]
        write_tracks(new / "tracks.csv", tracks, scene.names, xy, precision)
    write_scene_report(new, scene, features, results, errors, confidences, evaluation, kept)
    if figures:
        write_scene_figures(new, scene, features, results, errors, evaluation, kept)
