"""The files of a run for mappers: a COLMAP database, and files of hloc."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.exchange.colmap import check_unused, content_of
from nmfsync.exchange.formats import COLMAP
from nmfsync.exchange.new_database import NewImage, pinhole, write_new_database
from nmfsync.exchange.new_hloc import HLOC_FILES, check_hloc_names, write_new_hloc
from nmfsync.run.settings import NONE, Settings
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import check_target, put, sha256_of, staging
from nmfsync.runtime.publish import locked, read_record, write_record
from nmfsync.scenes.images import IMAGE_SUFFIXES
from nmfsync.scenes.listing import files_in
from nmfsync.scenes.scene import Scene
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches, StoredKeypoints

# In the record of a folder of outputs: path of a file -> digests of its content. That of the next
# one comes first, then that of the one before: a run may be killed before it puts one in place.
_EXPORTS = "exports"


def check_exports(settings: Settings, scenes: Sequence[str]) -> None:
    """Raise NmfsyncError if files for mappers are asked for that cannot be written.

    Parameters
    ----------
    settings : Settings
    scenes : sequence of str
        All that the run is about.
    """
    if not settings.exports:
        return
    options = " and ".join(settings.exports)
    if len(scenes) > 1:
        raise NmfsyncError(f"{options}: files for one scene, got {len(scenes)}; name one of them, "
                           f"for instance {scenes[0]}")  # fmt: skip
    if settings.colmap is not None:
        optional("pycolmap", "colmap")
        if Path(settings.colmap).suffix.lower() not in COLMAP.endings:
            raise NmfsyncError(f"{settings.colmap}: the name of a database must end in .db")
    if settings.hloc is not None:
        optional("h5py", "hloc")
        if os.path.lexists(settings.hloc) and not Path(settings.hloc).is_dir():
            raise NmfsyncError(f"{settings.hloc}: is no folder; name one for the files of hloc")


def check_targets(settings: Settings, scene: Scene, name: str, folder: Path) -> None:
    """Raise NmfsyncError if a file for mappers is there that no run of this scene wrote.

    Parameters
    ----------
    settings : Settings
    scene : Scene
    name : str
        What the user called it.
    folder : Path
        Where its outputs go.
    """
    if settings.hloc is not None:
        check_hloc_names(_names(scene, name))
    for path in _targets(settings):
        _check_ours(path, folder)


def images_of(folder: Path | str) -> Path:
    """Return the folder that the names of own photographs start from, for a mapper.

    It is the folder itself, or its folder `images` if it has no images beside that.
    """
    inner = Path(folder, "images")
    own = any(path.suffix.lower() in IMAGE_SUFFIXES for path in files_in(Path(folder)))
    return inner if inner.is_dir() and not own else Path(folder)


def export(
    settings: Settings,
    scene: Scene,
    name: str,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    folder: Path,
) -> None:
    """Write the files for mappers that are asked for.

    They get those matches of the input that the first cycle-consistent result keeps, or
    without a method all of them.

    Parameters
    ----------
    settings : Settings
        Resolved ones.
    scene, name, folder
        As for `check_targets`.
    features : sequence of Features
        Of every image of the scene.
    results : dict of str to PairwiseMatches or MultiMatching
        "input", and those of the methods, in their order.
    """
    if not settings.exports:
        return
    images, matches = new_images_of(scene, name, features), _chosen(settings, results)
    if settings.colmap is not None:
        target, verified = Path(settings.colmap), settings.geometry != NONE
        _replace(
            [target],
            folder,
            lambda new: write_new_database(new / target.name, images, matches, verified),
        )
    if settings.hloc is not None:
        _replace(_targets_of_hloc(settings.hloc), folder,
                 lambda new: write_new_hloc(new, images, matches))  # fmt: skip


def _targets(settings: Settings) -> list[Path]:
    database = [] if settings.colmap is None else [Path(settings.colmap)]
    return database + ([] if settings.hloc is None else _targets_of_hloc(settings.hloc))


def _targets_of_hloc(folder: Path | str) -> list[Path]:
    return [Path(folder, name) for name in HLOC_FILES]


def _replace(targets: Sequence[Path], folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make files in a folder aside, and put them in place."""
    with staging(targets[0]) as new:
        write(new)
        for target in targets:
            _check_ours(target, folder)  # again: another program may have been faster
            _record(target, _digest(new / target.name), folder)
            put(new / target.name, target)


def _check_ours(path: Path, folder: Path) -> None:
    """Raise NmfsyncError if a file exists, and is not what a run of this scene has written."""
    if not os.path.lexists(path):
        return
    digests = _known(path, folder)
    if not digests:
        raise NmfsyncError(
            f"{path}: exists already, and no run of this scene wrote it; name another file"
        )
    check_target(path, [], overwrite=True)
    if _digest(path) not in digests:
        raise NmfsyncError(
            f"{path}: another program has changed it since a run wrote it; name another file, or "
            "remove this one"
        )
    if path.suffix.lower() in COLMAP.endings:
        check_unused(path)


def _digest(path: Path) -> str:
    """Identify the content of a file, which for a database is not its bytes."""
    return content_of(path) if path.suffix.lower() in COLMAP.endings else sha256_of(path)


def _known(path: Path, folder: Path) -> list[str]:
    """Return what the folder of outputs says that a file may be."""
    exports = read_record(folder).get(_EXPORTS)
    digests = exports.get(_key(path, folder)) if isinstance(exports, dict) else None
    return digests if isinstance(digests, list) else []


def _record(path: Path, digest: str, folder: Path) -> None:
    """Note in the folder of outputs that this file is about to be written."""
    with locked(folder):
        record, before = read_record(folder), [_digest(path)] if path.exists() else []
        exports = record.get(_EXPORTS)
        known = exports if isinstance(exports, dict) else {}
        known = {**known, _key(path, folder): list(dict.fromkeys([digest, *before]))}
        write_record(folder, {**record, _EXPORTS: known})


def _key(path: Path, folder: Path) -> str:
    """Name a file from the folder of outputs, so that both can be moved together."""
    place = path.parent.resolve() / path.name
    try:
        return Path(os.path.relpath(place, folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return place.as_posix()


def _chosen(settings: Settings, results: Mapping[str, Matches]) -> PairwiseMatches:
    """Return the matches for a mapper, with the weights that they had in the input."""
    matches = results["input"]
    assert isinstance(matches, PairwiseMatches)
    if not settings.solvers:
        return matches
    for result in results.values():
        if isinstance(result, MultiMatching):
            kept = result.kept_of(matches).W
            return matches.with_matrix(matches.W.multiply(kept.astype(bool)))
    raise NmfsyncError(
        f"no result is cycle-consistent, so nothing is written to {' and '.join(settings.exports)}"
    )


def new_images_of(scene: Scene, name: str, features: Sequence[Features]) -> list[NewImage]:
    """Return the images of a scene, which the user called `name`, for a mapper."""
    known = scene.cameras or (None,) * len(scene.paths)
    names = _names(scene, name)
    return [
        NewImage(
            image,
            own.image_size,
            None if camera is None else pinhole(camera),
            StoredKeypoints(own.xy, own.scale, own.orientation, own.image_size),
            own.rooted().descriptors,
            path,
        )
        for image, own, camera, path in zip(names, features, known, scene.paths, strict=True)
    ]


def _names(scene: Scene, name: str) -> list[str]:
    """Return the names of the images for a mapper: paths below the folder of the photographs."""
    parents = [path.parent for path in scene.paths]
    folder = images_of(name) if scene.folder else Path(os.path.commonpath(parents))
    if not all(path.is_relative_to(folder) for path in scene.paths):
        folder = Path(name)
    return [path.relative_to(folder).as_posix() for path in scene.paths]
