"""The features of a scene."""

import warnings
from collections.abc import Sequence

from nmfsync.errors import ChangedError, NmfsyncError, NmfsyncWarning
from nmfsync.features.extract import extract_readable
from nmfsync.run.settings import Settings
from nmfsync.run.stages import Stages
from nmfsync.runtime.cache import code_of, key_of
from nmfsync.scenes.listing import listing, summary
from nmfsync.scenes.scene import Scene
from nmfsync.types.features import Features


def extract_features(
    scene: Scene, settings: Settings, stages: Stages
) -> tuple[Scene, list[Features]]:
    """Extract the features of all images; return the scene without those that are damaged.

    Raises
    ------
    NmfsyncError
        If fewer than two images can be read, or one has changed since the scene was loaded.
    """
    assert settings.features is not None  # they are resolved
    assert settings.contrast is not None
    assert settings.orientations is not None
    options = (settings.features, settings.orientations, settings.contrast)

    def extract() -> tuple[Scene, list[Features]]:
        found = extract_readable(
            scene.paths,
            *options,
            progress=stages.bars,
            cache=stages.folder / "features",
            digests=scene.digests,
        )
        return _without_damaged(scene, found)

    readable, features = stages.measure("features", extract)
    stages.keys["features"] = key_of(code_of("features", "scenes"), readable.digests, options)
    return readable, features


def _without_damaged(
    scene: Scene, found: Sequence[Features | NmfsyncError]
) -> tuple[Scene, list[Features]]:
    """Leave out, with a warning, images that cannot be decoded, if the scene can do without."""
    for error in found:
        if isinstance(error, ChangedError) or (scene.strict and isinstance(error, NmfsyncError)):
            raise error
    reasons = {
        str(path): str(error).removeprefix(f"{path}: ")
        for path, error in zip(scene.paths, found, strict=True)
        if isinstance(error, NmfsyncError)
    }
    readable = scene.without(reasons)
    if len(readable.paths) < 2:
        raise NmfsyncError(
            f"{scene.name}: fewer than two images can be read ({listing(readable.left_out)})"
        )
    if reasons:
        warnings.warn(summary(reasons), NmfsyncWarning, stacklevel=2)
    return readable, [f for f in found if not isinstance(f, NmfsyncError)]
