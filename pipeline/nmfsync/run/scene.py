"""The whole way of a scene: images, features, matches, synchronisation, evaluation, report."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmfsync.errors import NmfsyncError, NmfsyncWarning, TooLargeError
from nmfsync.evaluation.errors import MatchErrors, match_errors
from nmfsync.evaluation.summary import SceneEvaluation, evaluate
from nmfsync.exchange.tracks import write_tracks
from nmfsync.features.extract import extract_all
from nmfsync.matching.match import match
from nmfsync.matching.nearest import mutual_nearest, prepare
from nmfsync.matching.nearest_vnni import LENGTH
from nmfsync.matching.pairs import select_pairs
from nmfsync.matching.verification import verify
from nmfsync.report.scene_page import write_scene_report
from nmfsync.run.settings import Settings, theta_of
from nmfsync.run.stages import Record, measure, run_stage
from nmfsync.run.truth import measure_depth_quality, with_truth
from nmfsync.runtime.cache import key_of, made_by, source_digest, versions
from nmfsync.runtime.files import atomic_write, sha256_of
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.scene import Scene
from nmfsync.synchronisation.methods import IMAGE_OPTIONS, METHODS, UNWEIGHTED, compile_method
from nmfsync.synchronisation.synchronise import resolve_universe_size, synchronise
from nmfsync.types.arrays import IntArray
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches, matches_from_arrays


def run_scene(
    name: str,
    settings: Settings | None = None,
    out: Path | str = "outputs",
    data: Path | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> SceneEvaluation:
    """Take one scene from its images to its report.

    Writes `evaluation.json`, `report.html`, `tracks.csv` and the pictures to
    `<out>/<data set>/<scene>/`. Finished stages are kept in its folder
    `stages`, and are used again as long as images, settings and libraries stay
    the same; of features and matches, those of every image and pair of images.

    Parameters
    ----------
    name : str
        A scene of the catalogue, for instance "graffiti/graf", or a folder of images.
    settings : Settings, optional
    out : Path or str
    data : Path or str, optional
        Folder with local copies of the data sets.
    progress : callable, optional
        Called with the name of every step (those of `steps`) before it starts;
        also shows progress bars inside the long ones.

    Returns
    -------
    SceneEvaluation
        The content of `evaluation.json`.

    Raises
    ------
    NmfsyncError
        If the scene cannot be read, or no method can handle it.
    OSError
        If the output cannot be written.
    """
    settings = settings or Settings()
    step = progress or (lambda name: None)
    step("images")
    scene = load_scene(name, data)
    thetas = {method: theta_of(scene, method, settings) for method in settings.methods}
    folder = Path(out) / scene.name

    keys, features, matches, records = _match_images(
        scene, settings, folder / "stages", step, bars=progress is not None
    )
    step("truth")
    scene, records["truth"] = with_truth(
        scene, features, matches, folder / "stages", keys.features, bars=progress is not None
    )
    quality, records["depth quality"] = measure_depth_quality(
        scene, features, folder / "stages", keys.features, bars=progress is not None
    )
    results: dict[str, Matches] = {"input": matches}
    left_out = []
    for method in settings.methods:
        step(method)
        try:
            results[method], records[method] = _synchronise(
                matches,
                method,
                thetas[method],
                settings,
                folder / "stages",
                keys.matches,
                bars=progress is not None,
            )
        except TooLargeError as error:
            left_out.append(f"{method} left out: {error}")
    if len(results) == 1:
        raise NmfsyncError(f"{scene.name}: {'; '.join(left_out)}")

    step("report")
    errors = {
        method: match_errors(result, features, scene.truth, progress is not None)
        for method, result in results.items()
    }
    warned = [text for record in records.values() for text in record.warnings]
    evaluation = SceneEvaluation(
        scene=scene.name,
        images=len(scene.paths),
        features=int(matches.sizes.sum()),
        sizes=matches.sizes.tolist(),
        universe_size=resolve_universe_size(settings.universe, matches.sizes),
        truth=scene.truth.kind if scene.truth else "none",
        settings={**asdict(settings), "theta": thetas, "versions": versions()},
        methods={
            method: evaluate(
                result,
                features,
                scene.truth,
                records[method].seconds,
                records[method].peak_memory_mb,
                scene.cameras,
                errors[method],
                progress=progress is not None,
            )
            for method, result in results.items()
        },
        warnings=list(dict.fromkeys(warned)) + left_out,
        depth_quality=quality,
    )
    _write(folder, scene, features, results, errors, evaluation)
    return evaluation


class _Keys(NamedTuple):
    """Keys of all that the features, and the matches, depend on."""

    features: str
    matches: str


def _match_images(
    scene: Scene, settings: Settings, folder: Path, step: Callable[[str], None], bars: bool
) -> tuple[_Keys, list[Features], PairwiseMatches, dict[str, Record]]:
    """Features and matches, with their keys."""
    records = {}
    step("features")
    digests = [sha256_of(path) for path in scene.paths]
    options = (settings.features, settings.siblings, settings.contrast)
    features, records["features"] = measure(
        lambda: extract_all(scene.paths, *options, progress=bars, cache=folder / "features")
    )
    step("matches")
    pairs, records["pairs"] = measure(
        lambda: select_pairs(settings.pairs, features, scene.names, progress=bars)
    )
    key = key_of(made_by(), digests, options)
    keys = _Keys(key, key_of(key, pairs, settings.ratio, settings.distance, settings.verify))
    matches, records["input"] = run_stage(
        folder / "matches.npz",
        keys.matches,
        lambda: _match(features, pairs, settings, folder, bars),
        PairwiseMatches.arrays,
        PairwiseMatches.from_arrays,
        _compile_matching,
    )
    return keys, features, matches, records


def _match(
    features: Sequence[Features], pairs: IntArray, settings: Settings, folder: Path, bars: bool
) -> PairwiseMatches:
    matches = match(
        features,
        settings.ratio,
        weighted=True,
        progress=bars,
        distance=settings.distance,
        pairs=pairs,
        cache=folder / "matches",
    )
    if matches.W.nnz == matches.W.shape[0]:
        warnings.warn("no two images have a match", NmfsyncWarning, stacklevel=2)
    elif settings.verify:
        cache = folder / "verified"
        xy = [f.xy for f in features]
        matches = verify(matches, xy, settings.verify, progress=bars, cache=cache)
    return matches


def _synchronise(
    matches: PairwiseMatches,
    method: str,
    theta: float,
    settings: Settings,
    folder: Path,
    key: str,
    bars: bool,
) -> tuple[Matches, Record]:
    options = IMAGE_OPTIONS.get(method, {})
    told = (method, settings.universe, theta, settings.seed)
    given = matches.unweighted() if method in UNWEIGHTED else matches
    return run_stage(
        folder / f"{method}.npz",
        key_of(key, told, options, source_digest(METHODS[method])),
        lambda: synchronise(given, *told, progress=bars, **options),
        lambda result: result.arrays(),
        matches_from_arrays,
        lambda: compile_method(method),
    )


@cache
def _compile_matching() -> None:
    one = prepare([np.ones((1, LENGTH), np.uint8)])
    mutual_nearest(one, one, np.zeros((1, 2), np.int64))


def _write(
    folder: Path,
    scene: Scene,
    features: Sequence[Features],
    results: dict[str, Matches],
    errors: dict[str, MatchErrors],
    evaluation: SceneEvaluation,
) -> None:
    """Write everything a scene's folder shows."""
    with atomic_write(folder / "evaluation.json") as temporary:
        temporary.write_text(json.dumps(evaluation.to_dict(), indent=1), encoding="utf-8")
    consistent = [r for r in results.values() if isinstance(r, MultiMatching)]
    if consistent:
        xy = [f.xy for f in features]
        write_tracks(folder / "tracks.csv", consistent[0], scene.names, xy)
    else:
        (folder / "tracks.csv").unlink(missing_ok=True)  # of a run with other methods
    write_scene_report(folder, scene, features, results, errors, evaluation)
