"""The truth of a scene with cameras, and how good it is."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.run.stages import Stages
from nmfsync.runtime.cache import code_of, key_of
from nmfsync.runtime.files import sha256_of
from nmfsync.scenes.layouts import homography_file
from nmfsync.scenes.scene import Scene
from nmfsync.truth.depth_files import depth_maps_beside
from nmfsync.truth.depths import DepthMaps, FeatureDepths
from nmfsync.truth.epipolar import check_cameras, check_homographies
from nmfsync.truth.mesh import mesh_beside, render_mesh
from nmfsync.truth.patches import upright_patches
from nmfsync.truth.plane_sweep import sweep_depths
from nmfsync.truth.quality import DepthQuality, depth_quality, held_out_quality
from nmfsync.truth.views import neighbouring_views
from nmfsync.types.camera import Camera, poses_of
from nmfsync.types.features import Features
from nmfsync.types.matches import PairwiseMatches
from nmfsync.types.truth import Homographies, Truth

# Features, evenly from all, at which the quality of reconstructed depths is measured: enough
# for its first two digits, and done in a few seconds.
QUALITY_FEATURES = 2000

HELD_OUT = "a view held out"


def with_truth(
    scene: Scene, features: Sequence[Features], matches: PairwiseMatches, stages: Stages
) -> Scene:
    """Give a scene with cameras its truth: a mesh, depth maps, or depths made from the images.

    Parameters
    ----------
    scene : Scene
    features : sequence of Features
        Those of every image.
    matches : PairwiseMatches
        To check cameras and homographies with; the truth does not depend on them.
    stages : Stages
        Of this run; "features" must have run.

    Returns
    -------
    Scene
        The same if it has a truth already, or no cameras.
    """
    if isinstance(scene.truth, Homographies):
        known, names = scene.truth, _with_homography_files(scene.paths)
        stages.measure("homographies", lambda: check_homographies(known, features, matches, names))
    if scene.truth is not None or scene.cameras is None:
        return scene
    cameras = scene.cameras
    folder = scene.paths[0].parent
    paths = [str(path) for path in scene.paths]
    stages.measure("cameras", lambda: check_cameras(cameras, features, matches, folder, paths))
    mesh = mesh_beside(folder)
    truth: Truth | None = None if mesh else depth_maps_beside(scene.paths, cameras)
    if truth is None:
        poses = poses_of(cameras)
        if mesh:
            sha256 = sha256_of(mesh)
            key = key_of(code_of("truth"), sha256, poses)
            maps = _run_depths(stages, key, lambda: render_mesh(mesh, cameras, sha256).maps)
            truth = DepthMaps(cameras, maps)
        else:
            xy = [f.xy for f in features]
            depths = _run_depths(
                stages,
                key_of(code_of("truth"), stages.keys["features"], poses, _bounds(scene)),
                lambda: sweep_depths(scene.images, cameras, xy, scene.bounds, progress=stages.bars),
                _compile_sweep,
            )
            truth = FeatureDepths(cameras, xy, depths)
    return replace(scene, truth=truth)


def _with_homography_files(paths: Sequence[Path]) -> list[str]:
    """Name every image, and the file of its homography."""
    first, *others = paths
    files = [homography_file(path.parent, n).name for n, path in enumerate(others, start=2)]
    return [str(first), *(f"{p} ({file})" for p, file in zip(others, files, strict=True))]


def _run_depths(
    stages: Stages,
    key: str,
    compute: Callable[[], Sequence[NDArray[Any]]],
    prepare: Callable[[], None] = lambda: None,
) -> Sequence[NDArray[Any]]:
    """Depths of every image, kept as one array an image."""
    return stages.run(
        "truth",
        "depths.npz",
        key,
        compute,
        lambda depths: {str(i): depth for i, depth in enumerate(depths)},
        lambda arrays: [arrays[str(i)] for i in range(len(arrays))],
        prepare,
    )


@cache
def _compile_sweep() -> None:
    """Compile the kernel of the plane sweep, so that this does not count as its time."""
    upright_patches(np.ones((1, 1), np.float32), np.zeros((1, 2)), np.zeros((2, 1)))


def measure_depth_quality(
    scene: Scene, features: Sequence[Features], stages: Stages
) -> dict[str, Any]:
    """Measure how good depths from the images are: `SceneEvaluation.depth_quality`.

    Parameters
    ----------
    scene : Scene
        With its truth.
    features : sequence of Features
        Those of every image.
    stages : Stages
        Of this run; "features" must have run.
    """
    truth, cameras = scene.truth, scene.cameras
    if not cameras or not isinstance(truth, DepthMaps | FeatureDepths):
        return {}
    xy = _spread_evenly([f.xy for f in features], QUALITY_FEATURES)
    true = _true_depths(truth, cameras, xy) if isinstance(truth, DepthMaps) else []

    def compute() -> DepthQuality:
        if not true:
            return held_out_quality(scene.images, cameras, xy, scene.bounds, progress=stages.bars)
        found = sweep_depths(scene.images, cameras, xy, scene.bounds, progress=stages.bars)
        return depth_quality(xy, found, true, cameras, neighbouring_views(cameras, scene.bounds))

    features_key, poses = stages.keys["features"], poses_of(cameras)
    quality = stages.run(
        "depth quality",
        "depth-quality.npz",
        key_of(code_of("truth"), features_key, QUALITY_FEATURES, poses, _bounds(scene), *true),
        compute,
        asdict,
        lambda arrays: DepthQuality(**{name: value.item() for name, value in arrays.items()}),
        _compile_sweep,
    )
    figures = {name: None if np.isnan(value) else value for name, value in asdict(quality).items()}
    against = truth.kind if true else HELD_OUT
    return {"against": against, "features": sum(map(len, xy)), **figures}


def _true_depths(
    truth: DepthMaps, cameras: Sequence[Camera], xy: Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    return [
        camera.project(truth.points(i, positions))[1]
        for i, (camera, positions) in enumerate(zip(cameras, xy, strict=True))
    ]


def _bounds(scene: Scene) -> list[Any] | None:
    return None if scene.bounds is None else scene.bounds.tolist()


def _spread_evenly(arrays: Sequence[NDArray[Any]], count: int) -> list[NDArray[Any]]:
    """Take at most `count` rows, evenly from all rows of all arrays."""
    offsets = np.cumsum([0, *map(len, arrays)])
    count = min(count, int(offsets[-1]))
    rows = np.arange(count) * offsets[-1] // max(count, 1)
    parts = np.split(rows, np.searchsorted(rows, offsets[1:-1]))
    return [a[part - start] for a, part, start in zip(arrays, parts, offsets, strict=False)]
