"""The whole way of a scene: images, features, matches, synchronisation, evaluation, report."""

import csv
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync import synthetic
from nmfsync.cameras import Camera
from nmfsync.catalogue import datasets, load_scene
from nmfsync.depths import DepthMaps, FeatureDepths, depth_maps_beside, mesh_beside, render_mesh
from nmfsync.epipolar import check_cameras
from nmfsync.errors import NmfsyncError, NmfsyncWarning, TooLargeError
from nmfsync.evaluation import MatchErrors, SceneEvaluation, evaluate, match_errors
from nmfsync.features import CONTRAST, Features, extract_all
from nmfsync.files import atomic_write, sha256_of
from nmfsync.matches import (
    IntArray,
    Matches,
    MultiMatching,
    PairwiseMatches,
    matches_from_arrays,
)
from nmfsync.matching import match
from nmfsync.nearest import LENGTH, mutual_nearest, prepare
from nmfsync.pairs import select_pairs
from nmfsync.reconstruction import (
    DepthQuality,
    depth_quality,
    held_out_quality,
    neighbouring_views,
    reconstruct_depths,
)
from nmfsync.report import write_scene_report
from nmfsync.scene import Scene, Truth
from nmfsync.stages import (
    Record,
    key_of,
    made_by,
    measure,
    run_stage,
    source_digest,
    versions,
)
from nmfsync.synchronisation import (
    METHODS,
    check_arguments,
    resolve_theta,
    resolve_universe_size,
    synchronise,
)
from nmfsync.verification import MODELS, verify

# What the methods need to know of real images, where their authors' values differ.
IMAGE_OPTIONS: Mapping[str, Mapping[str, Any]] = {"matcheig": {"threshold": 0.5}}
# Kernels are compiled when first used on a machine, which takes some seconds.
COMPILED = frozenset({"clustersync", "nmfsync", "matchals"})
# Their authors define them for matches that are there or not, without weights.
UNWEIGHTED = frozenset({"nmfsync", "spectral", "matcheig", "matchals", "clear"})
DEFAULT_THETA = 0.4
# Features, evenly from all, at which the quality of reconstructed depths is measured: enough
# for its first two digits, and done in a few seconds.
QUALITY_FEATURES = 2000
HELD_OUT = "a view held out"


@dataclass(frozen=True)
class Settings:
    """What a run can be told.

    Attributes
    ----------
    methods : tuple of str
        Names in `METHODS`, in the order of the report.
    features : int
        At most this many features of an image.
    siblings : bool
        Keep a feature for every dominant orientation of a position.
    contrast : float
        SIFT's contrast threshold: a lower one finds more, weaker features.
    ratio : float or None
        Ratio test of the matching; None for no test.
    distance : float or None
        The largest distance of descriptors that match; None for no limit.
    pairs : str
        Which pairs of images are matched, see `select_pairs`.
    verify : str or None
        Geometric verification of the matches, "fundamental" or "homography";
        None for none.
    universe : int or "auto"
        Universe size d.
    theta : float or None
        How sure matches must be, see `synchronise`. None takes the method's own
        default, and for "nmfsync" the paper's value for the data set, or 0.4.
    seed : int

    Raises
    ------
    NmfsyncError
        If a value is out of range or a method unknown.
    """

    methods: tuple[str, ...] = field(default_factory=lambda: tuple(METHODS))
    features: int = 200
    siblings: bool = False
    contrast: float = CONTRAST
    ratio: float | None = None
    distance: float | None = None
    pairs: str = "all"
    verify: str | None = None
    universe: int | str = "auto"
    theta: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.methods:
            raise NmfsyncError(f"no method given; known are {', '.join(METHODS)}")
        if self.features < 1:
            raise NmfsyncError(f"the number of features must be at least 1, not {self.features}")
        if not 0 <= self.contrast < 1:
            raise NmfsyncError(f"the contrast must lie between 0 and 1, not {self.contrast}")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise NmfsyncError(f"the ratio must lie between 0 and 1, not {self.ratio}")
        if self.distance is not None and not self.distance >= 0:
            raise NmfsyncError(f"the largest distance must not be negative, as {self.distance} is")
        if self.verify is not None and self.verify not in MODELS:
            raise NmfsyncError(f"cannot verify by {self.verify!r}; known are {', '.join(MODELS)}")
        for method in self.methods:
            check_arguments(method, self.universe, self.theta, self.seed)


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
    thetas = {method: _theta(scene, method, settings) for method in settings.methods}
    folder = Path(out) / scene.name

    keys, features, matches, records = _match_images(
        scene, settings, folder / "stages", step, bars=progress is not None
    )
    step("truth")
    scene, records["truth"] = _with_truth(
        scene, features, matches, folder / "stages", keys.features, bars=progress is not None
    )
    quality, records["depth quality"] = _depth_quality(
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


def steps(settings: Settings) -> tuple[str, ...]:
    """Names of the steps of `run_scene`, in order."""
    return ("images", "features", "matches", "truth", *settings.methods, "report")


def _theta(scene: Scene, method: str, settings: Settings) -> float:
    """Return the theta asked for, else the paper's for its method and the data set, or 0.4."""
    if settings.theta is not None or method != "nmfsync":
        return resolve_theta(method, settings.theta)
    paper = {entry.name: entry.theta for entry in datasets()}
    return paper.get(scene.name.split("/")[0], DEFAULT_THETA)


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


def _with_truth(
    scene: Scene,
    features: Sequence[Features],
    matches: PairwiseMatches,
    folder: Path,
    key: str,
    bars: bool,
) -> tuple[Scene, Record]:
    """Give a scene with cameras its truth: a mesh, depth maps, or depths made from the images."""
    if scene.truth is not None or scene.cameras is None:
        return scene, Record(0.0, 0.0, [])
    cameras = scene.cameras
    _, record = measure(lambda: check_cameras(scene, features, matches))
    mesh = mesh_beside(scene.paths[0].parent)
    truth: Truth | None = None if mesh else depth_maps_beside(scene.paths, cameras)
    if truth is None:
        path, poses = folder / "depths.npz", _poses(cameras)
        if mesh:
            key = key_of(sha256_of(mesh), made_by(), poses)
            maps, stage = _depth_stage(path, key, lambda: render_mesh(mesh, cameras).maps)
            truth = DepthMaps(cameras, maps)
        else:
            xy = [f.xy for f in features]
            depths, stage = _depth_stage(
                path,
                key_of(key, "reconstructed", poses, _bounds(scene)),
                lambda: reconstruct_depths(scene.images, cameras, xy, scene.bounds, progress=bars),
            )
            truth = FeatureDepths(cameras, xy, depths)
        record = replace(record, warnings=record.warnings + stage.warnings)
    return replace(scene, truth=truth), record


def _depth_stage(
    path: Path, key: str, compute: Callable[[], Sequence[NDArray]]
) -> tuple[Sequence[NDArray], Record]:
    """Depths of every image, kept as one array an image."""
    return run_stage(
        path,
        key,
        compute,
        lambda depths: {str(i): depth for i, depth in enumerate(depths)},
        lambda arrays: [arrays[str(i)] for i in range(len(arrays))],
    )


def _poses(cameras: Sequence[Camera]) -> list[Any]:
    """Everything that a camera is, as JSON can hold it."""
    return [[c.K.tolist(), c.R.tolist(), c.t.tolist(), c.size, c.distortion] for c in cameras]


def _bounds(scene: Scene) -> list[Any] | None:
    return None if scene.bounds is None else scene.bounds.tolist()


def _depth_quality(
    scene: Scene, features: Sequence[Features], folder: Path, key: str, bars: bool
) -> tuple[dict[str, Any], Record]:
    """Measure how good depths from the images are: `SceneEvaluation.depth_quality`."""
    truth, cameras = scene.truth, scene.cameras
    if not cameras or not isinstance(truth, DepthMaps | FeatureDepths):
        return {}, Record(0.0, 0.0, [])
    xy = _evenly([f.xy for f in features], QUALITY_FEATURES)
    true: list[NDArray] = []
    if isinstance(truth, DepthMaps):
        true = [
            c.project(truth.points(i, a))[1]
            for i, (c, a) in enumerate(zip(cameras, xy, strict=True))
        ]

    def compute() -> DepthQuality:
        if not true:
            return held_out_quality(scene.images, cameras, xy, scene.bounds, progress=bars)
        found = reconstruct_depths(scene.images, cameras, xy, scene.bounds, progress=bars)
        return depth_quality(xy, found, true, cameras, neighbouring_views(cameras, scene.bounds))

    quality, record = run_stage(
        folder / "depth-quality.npz",
        key_of(
            key,
            "quality",
            QUALITY_FEATURES,
            _poses(cameras),
            _bounds(scene),
            [d.tolist() for d in true],
        ),
        compute,
        asdict,
        lambda arrays: DepthQuality(**{name: value.item() for name, value in arrays.items()}),
    )
    figures = {name: None if np.isnan(value) else value for name, value in asdict(quality).items()}
    against = truth.kind if true else HELD_OUT
    return {"against": against, "features": sum(map(len, xy)), **figures}, record


def _evenly(arrays: Sequence[NDArray], count: int) -> list[NDArray]:
    """Take at most `count` rows, evenly from all rows of all arrays."""
    offsets = np.cumsum([0, *map(len, arrays)])
    count = min(count, int(offsets[-1]))
    rows = np.arange(count) * offsets[-1] // max(count, 1)
    parts = np.split(rows, np.searchsorted(rows, offsets[1:-1]))
    return [a[part - start] for a, part, start in zip(arrays, parts, offsets, strict=False)]


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
        lambda: _compile(method),
    )


@cache
def _compile_matching() -> None:
    one = prepare([np.ones((1, LENGTH), np.uint8)])
    mutual_nearest(one, one, np.zeros((1, 2), np.int64))


@cache
def _compile(method: str) -> None:
    """Let a method's kernels be compiled, so that this does not count as its time."""
    if method not in COMPILED:
        return
    W, _, sizes = synthetic.generate(k=3, d=4, rho=1.0, sigma=0.5)
    METHODS[method](PairwiseMatches(W, sizes), 4)


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


def write_tracks(
    path: Path | str, result: MultiMatching, names: Sequence[str], xy: Sequence[NDArray]
) -> None:
    """Write tracks to a CSV file: one row for every feature of every track.

    Parameters
    ----------
    path : Path or str
    result : MultiMatching
    names : sequence of str
        Those of the images.
    xy : sequence of (n, 2) arrays
        Positions of the features of every image in pixels, the centre of the
        top-left pixel at (0, 0).
    """
    with (
        atomic_write(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        table = csv.writer(file)
        table.writerow(["track", "image", "feature", "x", "y"])
        for number, track in enumerate(result.tracks()):
            for image, feature in track.tolist():
                x, y = xy[image][feature]
                table.writerow([number, names[image], feature, f"{x:.3f}", f"{y:.3f}"])
