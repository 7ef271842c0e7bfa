"""Which folder the outputs of a scene go to: one input, one folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.cache import key_of
from nmfsync.runtime.files import is_temporary
from nmfsync.runtime.publish import locked, read_record, recover, write_record
from nmfsync.scenes.scene import Scene, scene_folder

_LONGEST = 200  # bytes of a name that gets a digest; file systems take 255


def claim_folder(scene: Scene, out: Path, first: bool = True) -> str:
    """Return the name of the folder in `out` that is this scene's own.

    A scene of the catalogue has its name. A folder of images has the name of its scene, unless
    another folder has it already: then a digest follows. The folder records its input before
    anything else is written to it, so that names stay the same in later runs.

    Parameters
    ----------
    scene : Scene
    out : Path
    first : bool
        The plain name may be taken if it is free.

    Returns
    -------
    str
        The path of the folder in `out`, with slashes.

    Raises
    ------
    NmfsyncError
        If the folder contains the images.
    OSError
        If the folder cannot be made.
    """
    name = scene.name if scene.folder is None else _claim(scene.name, scene.folder, out, first)
    folder = scene_folder(out, name)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder.resolve()
    if any(path.parent.resolve().is_relative_to(place) for path in scene.paths):
        raise NmfsyncError(f"{folder}: the images lie where their outputs go; use another --out")
    recover(folder)
    return name


def _claim(name: str, source: Path, out: Path, first: bool) -> str:
    """Return the name that belongs to a folder of images; claim one if none does."""
    owner = _relative(source, out)
    scene_folder(out, name).parent.mkdir(parents=True, exist_ok=True)
    with locked(scene_folder(out, name).parent):
        for candidate in _candidates(name, owner):
            known = _owner_of(scene_folder(out, candidate))
            if known is not None and (known == owner or _are_one(out.resolve() / known, source)):
                return candidate
        for candidate in _candidates(name, owner):
            if (first or candidate != name) and _is_free(scene_folder(out, candidate)):
                write_record(scene_folder(out, candidate), {"input": owner, "files": []})
                return candidate
    raise NmfsyncError(f"{out / name}: belongs to another input; use another --out")


def _candidates(name: str, owner: str) -> Iterator[str]:
    yield name
    digest = key_of(owner)
    short = name.encode()[:_LONGEST].decode(errors="ignore")
    for length in (8, len(digest)):
        yield f"{short}-{digest[:length]}"


def _relative(source: Path, out: Path) -> str:
    """Name a folder from the outputs, so that both can be moved together."""
    try:
        return Path(os.path.relpath(source, out.resolve())).as_posix()
    except ValueError:  # on another drive
        return source.as_posix()


def _owner_of(folder: Path) -> str | None:
    recover(folder)
    owner = read_record(folder).get("input")
    return owner if isinstance(owner, str) else None


def _are_one(folder: Path, other: Path) -> bool:
    """Say whether two paths lead to one folder: capitals may not count, nor where it is mounted."""
    try:
        return folder.samefile(other)
    except (OSError, ValueError):  # one of them is gone, or the record is damaged
        return False


def _is_free(folder: Path) -> bool:
    """Say whether a folder is missing or empty."""
    if not folder.is_dir():
        return not os.path.lexists(folder)
    return all(map(is_temporary, folder.iterdir()))
