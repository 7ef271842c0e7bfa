"""The catalogue of data sets: from a name or a folder to a `Scene`.

Every data set is described by one TOML file (`datasets/README.md` says what it
holds). A scene called graffiti/graf lies in `<place>/graffiti/graf`, where the
place is the folder the caller names, else $NMFSYNC_DATA, else what ships with
the package, else the cache; what lies nowhere is downloaded into the cache.
"""

import dataclasses
import difflib
import itertools
import os
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import pooch

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.runtime.files import atomic_write, sha256_of
from nmfsync.scenes.download import describe, download, unpack
from nmfsync.scenes.layouts import READERS, files_below, read_folder, visible
from nmfsync.scenes.scene import Scene

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "datasets"

# An editable install finds the catalogue beside the source.
CATALOGUE = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parents[1] / "datasets"

RECORD = "SHA256SUMS"  # what arrived, where the catalogue knows no hashes

_T = TypeVar("_T")


@dataclass(frozen=True)
class Archive:
    """A file to download.

    Attributes
    ----------
    urls : sequence of str
        The same file at several addresses, tried in turn.
    sha256 : str or None
        Its hash in hexadecimal, if known.
    """

    urls: Sequence[str]
    sha256: str | None = None


@dataclass(frozen=True)
class SceneEntry:
    """What the catalogue knows of a scene.

    Attributes
    ----------
    name : str
        Data set and scene, for instance "graffiti/graf"; also its folder.
    archives : sequence of Archive
        All of them make up the scene. Empty for a scene that ships with the package.
    files : mapping of str to str
        SHA-256 of every file, by its path in the scene's folder. Empty if unknown.
    """

    name: str
    archives: Sequence[Archive] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataSet:
    """One file of the catalogue.

    Attributes
    ----------
    name, title : str
    homepage, citation, terms : str
    format : str
        How its scenes are read: a key of `READERS`.
    theta : float
        Pruning threshold of the paper's experiments on this data set (Sec. 5.2).
    scenes : sequence of SceneEntry
    members : sequence of str
        Scenes of other data sets, instead of scenes, format and threshold of its own.
    """

    name: str
    title: str
    homepage: str
    citation: str
    terms: str
    format: str = ""
    theta: float = 0.0
    scenes: Sequence[SceneEntry] = ()
    members: Sequence[str] = ()


Status = Literal["ok", "missing", "differs", "unknown"]


@dataclass(frozen=True)
class FileCheck:
    """What `verify` found out about one file.

    Attributes
    ----------
    path : Path
    status : str
        "ok", "missing", "differs" (from the hash that is known), or "unknown"
        (there, but no hash is known).
    """

    path: Path
    status: Status


def datasets() -> list[DataSet]:
    """All data sets of the catalogue, in order of name.

    Raises
    ------
    NmfsyncError
        If a file of the catalogue is faulty.
    """
    return [_read_dataset(path) for path in sorted(CATALOGUE.glob("*.toml"))]


def dataset(name: str) -> DataSet:
    """Look up one data set, for instance "graffiti".

    Raises
    ------
    NmfsyncError
        If there is none of this name.
    """
    for found in datasets():
        if found.name == name:
            return found
    raise _unknown(name)


def scene_names(target: str) -> list[str]:
    """Names of the scenes that `target` stands for, each fit for `load_scene`.

    Parameters
    ----------
    target : str
        A data set ("graffiti"), a scene ("graffiti/graf"), or a folder of
        images, which stands for itself. The catalogue comes first: a folder
        that is called like a data set is written "./graffiti".

    Raises
    ------
    NmfsyncError
        If it is none of these.
    """
    entries = _entries(target)
    if entries:
        return [scene.name for _, scene in entries]
    if Path(target).is_dir():
        return [target]
    if Path(target).exists():
        raise NmfsyncError(f"{target}: is a file; name the folder that holds the images")
    raise _unknown(target)


def _entries(target: str) -> list[tuple[DataSet, SceneEntry]]:
    """All scenes of the catalogue that the target names; none if it names none."""
    there = datasets()
    known = {scene.name: (found, scene) for found in there for scene in found.scenes}
    members = next((found.members for found in there if found.name == target), ())
    for member in members:
        if member not in known:
            raise NmfsyncError(f"{CATALOGUE / target}.toml: there is no scene {member!r}")
    chosen = members or [n for n, (found, _) in known.items() if target in (found.name, n)]
    return [known[name] for name in chosen]


def _unknown(target: str) -> NmfsyncError:
    """Return the error that says what there is instead, the closest first."""
    known = {
        found.name: found.members or [scene.name for scene in found.scenes] for found in datasets()
    }
    close = difflib.get_close_matches(target, [*known, *itertools.chain(*known.values())], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    family = target.partition("/")[0]
    there = ", ".join(known.get(family, known))
    return NmfsyncError(f"no data set, scene or folder {target!r}{hint} (there are {there})")


def _read_dataset(path: Path) -> DataSet:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NmfsyncError(f"{path}: not a TOML file ({error})") from None
    scenes = []
    for entry in table.get("scenes", []):
        archives = [_build(Archive, archive, path) for archive in entry.get("archives", [])]
        scene = _build(SceneEntry, {**entry, "archives": tuple(archives)}, path)
        scenes.append(dataclasses.replace(scene, name=f"{table.get('name')}/{scene.name}"))
    found = _build(DataSet, {**table, "scenes": tuple(scenes)}, path)
    if found.members:
        return found
    for key in ("format", "theta"):
        if key not in table:
            raise NmfsyncError(f"{path}: the key {key!r} is missing")
    if found.format not in READERS:
        known = ", ".join(READERS)
        raise NmfsyncError(f"{path}: format {found.format!r} is unknown (there are {known})")
    return found


def _build(kind: Callable[..., _T], table: dict[str, Any], path: Path) -> _T:
    """Make a dataclass from a table with exactly its keys."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    for key in table:
        if key not in {f.name for f in fields}:
            raise NmfsyncError(f"{path}: the key {key!r} is unknown")
    for f in fields:
        required = f.default is f.default_factory is dataclasses.MISSING
        if required and f.name not in table:
            raise NmfsyncError(f"{path}: the key {f.name!r} is missing")
    return kind(**table)


def cache_folder() -> Path:
    """Where downloads go: the user's cache folder for this program."""
    return Path(pooch.os_cache("nmfsync"))


def _places(data: Path | str | None) -> list[Path]:
    """Folders that may hold data sets, in the order in which they are looked at."""
    named = [data, os.environ.get("NMFSYNC_DATA")]
    return [*(Path(place) for place in named if place), CATALOGUE, cache_folder()]


def _find(scene: SceneEntry, places: Iterable[Path]) -> Path | None:
    """Find the first folder that holds every file of the scene."""
    folders = (place / scene.name for place in places)
    return next((folder for folder in folders if _lack(scene, folder) is None), None)


def _lack(scene: SceneEntry, folder: Path) -> str | None:
    """Say what is not there, by names alone: hashing all data before every run takes long."""
    if not folder.is_dir():
        return "no such folder"
    missing = [name for name in scene.files if not (folder / name).is_file()]
    if missing:
        return f"lacks {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
    return None if files_below(folder) else "empty"


def load_scene(name: str, data: Path | str | None = None) -> Scene:
    """Load a scene of the catalogue, or a folder of images.

    Parameters
    ----------
    name : str
        "graffiti/graf", or a folder. Of a folder, its own images are taken; if
        it has none, those in its subfolder `images`; if there are none either,
        those in all subfolders. Dot-files and files that are no images are
        left out, names are sorted naturally (img2 before img10). A folder with
        homographies in the Oxford (img1.ppm, H1to2p) or HPatches (1.ppm,
        H_1_2) layout, or with cameras in the EPFL (0000.jpg, 0000.jpg.camera)
        or Middlebury (dino_par.txt) layout, is read with them.
    data : Path or str, optional
        Folder that holds data sets, looked at first. What is neither there
        nor in $NMFSYNC_DATA nor in the cache is downloaded into the cache.

    Returns
    -------
    Scene
        Named as in the catalogue, or "images/<folder name>".

    Raises
    ------
    NmfsyncError
        If the name is unknown, the download fails, fewer than two images can
        be read, or the ground truth or the cameras are faulty.

    Warns
    -----
    NmfsyncWarning
        If files of a folder look like images but cannot be read.
    """
    name = str(name)
    names = scene_names(name)
    if len(names) > 1:
        raise NmfsyncError(f"{name} has {len(names)} scenes; choose one of {', '.join(names)}")
    entries = _entries(name)
    if not entries:
        return read_folder(Path(name))
    source, scene = entries[0]
    places = _places(data)
    folder = _find(scene, places) or _fetch_scene(scene, cache_folder(), places)
    return READERS[source.format](scene.name, folder)


def fetch(name: str, data: Path | str | None = None) -> list[Path]:
    """Download what is not there yet.

    Every scene appears whole and verified, or not at all; those that are
    there already are not downloaded again. Several processes may fetch the
    same scene at once.

    Parameters
    ----------
    name : str
        A data set or a scene.
    data : Path or str, optional
        Folder to download into. By default the cache, unless the scene is
        found in $NMFSYNC_DATA.

    Returns
    -------
    list of Path
        The folder of every scene.

    Raises
    ------
    NmfsyncError
        If the name is unknown, or a download fails: the message lists what
        happened at every address, and how to do it by hand.

    Warns
    -----
    NmfsyncWarning
        If nothing is known against which the download could be checked.
    """
    home = Path(data) if data else cache_folder()
    places = [home] if data else _places(None)
    folders = []
    for _, scene in _entries(name) or _not_in_catalogue(name):
        folder = _find(scene, places)
        if folder is None or not _is_sound(_check_files(_known_hashes(scene, folder), folder)):
            folder = _fetch_scene(scene, home, places)
        folders.append(folder)
    return folders


def verify(name: str, data: Path | str | None = None) -> list[FileCheck]:
    """Compare the files that `load_scene` would read with the hashes that are known.

    Parameters
    ----------
    name : str
        A data set or a scene.
    data : Path or str, optional
        As for `load_scene`.

    Returns
    -------
    list of FileCheck
        Every file that is known or there; the data are sound if none is
        "missing" or "differs".

    Raises
    ------
    NmfsyncError
        If the name is unknown.
    """
    checks = []
    for _, scene in _entries(name) or _not_in_catalogue(name):
        places = _places(data)
        partial = next((p / scene.name for p in places if (p / scene.name).is_dir()), None)
        folder = _find(scene, places) or partial or places[-1] / scene.name
        statuses = _check_files(_known_hashes(scene, folder), folder)
        if not statuses:
            statuses = {".": "missing"}
        checks += [FileCheck(folder / file, status) for file, status in statuses.items()]
    return checks


def _not_in_catalogue(name: str) -> list[tuple[DataSet, SceneEntry]]:
    if Path(name).exists():
        raise NmfsyncError(f"{name}: is not in the catalogue, so there is nothing to compare with")
    raise _unknown(name)


def _known_hashes(scene: SceneEntry, folder: Path) -> Mapping[str, str]:
    """Hashes of the catalogue, else those recorded when the files arrived."""
    record = folder / RECORD
    if scene.files or not record.is_file():
        return scene.files
    lines = (line.split(maxsplit=1) for line in record.read_text(encoding="utf-8").splitlines())
    return {name: sha256 for sha256, name in lines}


def _check_files(hashes: Mapping[str, str], folder: Path) -> dict[str, Status]:
    """Status of every file that is known or there, by its path in the folder."""
    there = [path.relative_to(folder).as_posix() for path in files_below(folder)]
    statuses: dict[str, Status] = {}
    for name in [*hashes, *(name for name in there if name not in hashes and name != RECORD)]:
        if name not in there:
            statuses[name] = "missing"
        elif name not in hashes:
            statuses[name] = "unknown"
        else:
            statuses[name] = "ok" if sha256_of(folder / name) == hashes[name] else "differs"
    return statuses


def _is_sound(statuses: Mapping[str, Status]) -> bool:
    return bool(statuses) and not {"missing", "differs"} & set(statuses.values())


def _fetch_scene(scene: SceneEntry, home: Path, places: Iterable[Path]) -> Path:
    """Download a scene into a folder beside its place, check it, and move it there."""
    target = home / scene.name
    if not scene.archives:
        raise NmfsyncError(f"{scene.name}: ships with nmfsync but is incomplete; reinstall nmfsync")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as work:
            new = Path(work) / "scene"
            new.mkdir()
            failures = _fetch_archives(scene, Path(work), new)
            if failures:
                raise _fetch_error(scene, failures, target, places)
            if not scene.files:
                _record(scene, new)
            _put(new, target)
    except OSError as error:
        raise NmfsyncError(f"{target}: cannot be written ({error})") from None
    return target


def _fetch_archives(scene: SceneEntry, work: Path, new: Path) -> list[str]:
    """Unpack every archive of the scene into `new`; return what went wrong, if anything."""
    for number, archive in enumerate(scene.archives):
        failures = []
        for mirror, url in enumerate(archive.urls):
            folder = work / f"{number}-{mirror}"
            try:
                content = _fetch_archive(url, archive.sha256, folder)
                _refuse_differing(scene, content)
            except (NmfsyncError, OSError) as error:
                failures.append(f"{url}: {error}")
            else:
                _move_files(content, new)
                break
        else:
            return failures
    statuses = _check_files(scene.files, new)
    missing = [name for name, status in statuses.items() if status == "missing"]
    urls = " ".join(archive.urls[0] for archive in scene.archives)
    return [f"{urls}: unpacked, but {name} is not in it" for name in missing]


def _fetch_archive(url: str, sha256: str | None, folder: Path) -> Path:
    """Download and unpack into `folder`; return the folder inside it that holds the files."""
    folder.mkdir()
    archive = folder.with_suffix(".archive")
    download(url, archive)
    found = sha256_of(archive)
    if sha256 and found != sha256:
        raise NmfsyncError(f"{describe(archive)}; wanted SHA-256 {sha256}")
    unpack(archive, folder)
    archive.unlink()
    while len(entries := visible(folder)) == 1 and entries[0].is_dir():
        folder = entries[0]
    return folder


def _refuse_differing(scene: SceneEntry, content: Path) -> None:
    for name, status in _check_files(scene.files, content).items():
        if status == "differs":
            found = sha256_of(content / name)
            raise NmfsyncError(f"{name} has SHA-256 {found}, wanted {scene.files[name]}")


def _fetch_error(
    scene: SceneEntry, failures: Sequence[str], target: Path, places: Iterable[Path]
) -> NmfsyncError:
    looked = [place / scene.name for place in places]
    files = ", ".join(PurePosixPath(archive.urls[0]).name for archive in scene.archives)
    lines = [
        f"{scene.name} could not be downloaded:",
        *(f"  {failure};" for failure in failures),
        "it was looked for in "
        + ", ".join(f"{folder} ({_lack(scene, folder) or 'damaged'})" for folder in looked)
        + ";",
        f"to put it in by hand, unpack {files} into {target}",
    ]
    return NmfsyncError("\n".join(lines))


def _record(scene: SceneEntry, folder: Path) -> None:
    """Write down the hashes of what arrived, so that `verify` notices later changes."""
    lines = [
        f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n"
        for path in files_below(folder)
    ]
    with atomic_write(folder / RECORD) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")
    if not all(archive.sha256 for archive in scene.archives):
        warnings.warn(
            f"{scene.name}: no hashes are known to check the download with; "
            f"those of the files that arrived are in {RECORD} beside them",
            NmfsyncWarning,
            stacklevel=4,
        )


def _put(new: Path, target: Path) -> None:
    """Move a finished folder to its place, at once if nothing is there yet."""
    try:
        new.rename(target)
    except OSError:
        # A damaged copy, or another process was faster: replace file by file.
        _move_files(new, target)


def _move_files(source: Path, target: Path) -> None:
    for path in files_below(source):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
