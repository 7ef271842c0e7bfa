"""The catalogue of data sets: from a name or a folder to a `Scene`.

One TOML file describes each data set (`datasets/README.md` explains its keys).
The scene graffiti/graf is the folder `graffiti/graf` in the first data folder that
has it: the one that the caller names, $NMFSYNC_DATA, the data sets that ship with
the package, or the cache. If no data folder has it, it is downloaded into the cache.
"""

import dataclasses
import difflib
import itertools
import os
import re
import shlex
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar, get_origin

import pooch

from nmfsync.errors import NmfsyncError, NmfsyncWarning, shown
from nmfsync.runtime.files import (
    atomic_write,
    private_folder,
    read_text,
    reading,
    sha256_of,
    staging,
)
from nmfsync.scenes.download import describe, download, unpack
from nmfsync.scenes.layouts import READERS, read_folder
from nmfsync.scenes.listing import files_below, visible
from nmfsync.scenes.scene import Scene

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "datasets"

# An editable install finds the catalogue beside the source.
CATALOGUE = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parents[1] / "datasets"

# Folders of outputs that belong to no data set: those of own images, and of studies.
RESERVED = ("images", "studies")

# Hashes of the files of a download, where the catalogue has none.
RECORD = "SHA256SUMS"

_T = TypeVar("_T")

# What stands in a TOML file for the types of the fields below.
_KINDS: dict[Any, Any] = {str: str, Sequence: (list, tuple), Mapping: dict}


@dataclass(frozen=True)
class Archive:
    """A file to download.

    Attributes
    ----------
    urls : sequence of str
        Addresses of the same file, tried in this order.
    sha256 : str or None
        Its hash in hexadecimal. None if unknown.
    """

    urls: Sequence[str]
    sha256: str | None = None


@dataclass(frozen=True)
class SceneEntry:
    """A scene of the catalogue.

    Attributes
    ----------
    name : str
        Data set and scene, for instance "graffiti/graf"; also its folder.
    archives : sequence of Archive
        The scene consists of the files of all of them. Empty for a scene that
        ships with the package.
    files : mapping of str to str
        Path of every file in the scene's folder, and its SHA-256. Empty if unknown.
    """

    name: str
    archives: Sequence[Archive] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataSet:
    """A data set: one file of the catalogue.

    Attributes
    ----------
    name, title : str
    homepage, citation, terms : str
    format : str
        The layout of its scenes: a key of `READERS`.
    scenes : sequence of SceneEntry
    members : sequence of str
        Scenes of other data sets. A data set with members has no scenes and no format
        of its own.
    """

    name: str
    title: str
    homepage: str
    citation: str
    terms: str
    format: str = ""
    scenes: Sequence[SceneEntry] = ()
    members: Sequence[str] = ()


Status = Literal["ok", "missing", "differs", "unknown"]


@dataclass(frozen=True)
class FileCheck:
    """The result of `check_files` for one file.

    Attributes
    ----------
    path : Path
    status : str
        "ok", "missing", "differs" (its hash is not the known one) or "unknown"
        (the file exists, but no hash is known).
    """

    path: Path
    status: Status


def datasets() -> list[DataSet]:
    """Read all data sets of the catalogue, in order of name.

    Raises
    ------
    NmfsyncError
        If a file of the catalogue is invalid.
    """
    return [_read_dataset(path) for path in sorted(CATALOGUE.glob("*.toml"))]


def dataset(name: str) -> DataSet:
    """Look up one data set, for instance "graffiti".

    Raises
    ------
    NmfsyncError
        If there is no data set of this name.
    """
    for found in datasets():
        if found.name == name:
            return found
    raise _unknown(name)


def scene_names(target: str) -> list[str]:
    """Return the names of the scenes that `target` means, for `load_scene`.

    Parameters
    ----------
    target : str
        A data set ("graffiti"), a scene ("graffiti/graf"), or a folder of
        images, which is its own name. The catalogue comes first: write
        "./graffiti" for a folder with the name of a data set.

    Raises
    ------
    NmfsyncError
        If it is none of these.
    """
    entries = _entries(target)
    if entries:
        return [scene.name for _, scene in entries]
    if not target:
        raise NmfsyncError("a target is empty; name a data set, a scene or a folder of images")
    if Path(target).is_dir():
        return [target]
    if Path(target).exists():
        raise NmfsyncError(f"{target}: is a file; name the folder that holds the images")
    raise _unknown(target)


def is_in_catalogue(target: str) -> bool:
    """Say whether a target is a data set or a scene of the catalogue, and no folder."""
    return bool(_entries(target))


def _entries(target: str) -> list[tuple[DataSet, SceneEntry]]:
    """Find the scenes of the catalogue that the target names; none if it names none."""
    catalogue = datasets()
    known = {scene.name: (found, scene) for found in catalogue for scene in found.scenes}
    members = next((found.members for found in catalogue if found.name == target), ())
    for member in members:
        if member not in known:
            raise NmfsyncError(f"{CATALOGUE / target}.toml: there is no scene {member!r}")
    chosen = members or [n for n, (found, _) in known.items() if target in (found.name, n)]
    return [known[name] for name in chosen]


def _unknown(target: str) -> NmfsyncError:
    """Return an error that suggests the closest name and lists the known ones."""
    known = {
        found.name: found.members or [scene.name for scene in found.scenes] for found in datasets()
    }
    close = difflib.get_close_matches(target, [*known, *itertools.chain(*known.values())], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    family = target.partition("/")[0]
    names = ", ".join(known.get(family, known))
    return NmfsyncError(f"no data set, scene or folder {target!r}{hint} (known are {names})")


def _read_dataset(path: Path) -> DataSet:
    with reading(path, "is no description of a data set"):
        return _parse_dataset(path)


def _parse_dataset(path: Path) -> DataSet:
    try:
        table = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise NmfsyncError(f"not a TOML file ({shown(error, 200)})") from None
    scenes = []
    for entry in table.get("scenes", []):
        archives = [_build(Archive, archive, path) for archive in entry.get("archives", [])]
        scene = _build(SceneEntry, {**entry, "archives": tuple(archives)}, path)
        scenes.append(dataclasses.replace(scene, name=f"{table.get('name')}/{scene.name}"))
    found = _build(DataSet, {**table, "scenes": tuple(scenes)}, path)
    if found.name.lower() in RESERVED:
        raise NmfsyncError(f"{path}: the name {found.name!r} is reserved for other outputs")
    if found.members:
        return found
    if not found.format:
        raise NmfsyncError(f"{path}: the key 'format' is missing")
    if found.format not in READERS:
        known = ", ".join(READERS)
        raise NmfsyncError(f"{path}: format {found.format!r} is unknown (known are {known})")
    return found


def _build(kind: Callable[..., _T], table: dict[str, Any], path: Path) -> _T:
    """Make a dataclass from a table, whose keys must be those of the dataclass."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    for key in table:
        if key not in {f.name for f in fields}:
            raise NmfsyncError(f"{path}: the key {key!r} is unknown")
    for f in fields:
        required = f.default is f.default_factory is dataclasses.MISSING
        if required and f.name not in table:
            raise NmfsyncError(f"{path}: the key {f.name!r} is missing")
        wanted = _KINDS.get(get_origin(f.type) or f.type, object)
        if f.name in table and not isinstance(table[f.name], wanted):
            raise NmfsyncError(f"{path}: the key {f.name!r} must not be {shown(table[f.name])}")
    return kind(**table)


def cache_folder() -> Path:
    """Return the folder for downloads: the user's cache folder for this program."""
    try:
        folder = Path(pooch.os_cache("nmfsync"))
    except RuntimeError:  # without a home; older versions return a relative path instead
        folder = Path()
    if folder.is_absolute():
        return folder
    return (private_folder() or Path.cwd()) / "nmfsync-data"


def _data_folders(data: Path | str | None) -> list[Path]:
    """List the folders that may contain data sets, in the order in which they are searched."""
    named = [data, os.environ.get("NMFSYNC_DATA")]
    return [*(Path(folder) for folder in named if folder), CATALOGUE, cache_folder()]


def _find(scene: SceneEntry, data_folders: Iterable[Path]) -> Path | None:
    """Find the first folder that has every file of the scene."""
    folders = (folder / scene.name for folder in data_folders)
    return next((folder for folder in folders if _what_is_missing(scene, folder) is None), None)


def _what_is_missing(scene: SceneEntry, folder: Path) -> str | None:
    """Say what is missing, by names alone: hashing all data before every run takes long."""
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
        "graffiti/graf", or a folder. The images are those of the folder
        itself; if it has none, those of its subfolder `images`; if that has
        none either, those of all subfolders. Names are sorted naturally (img2
        before img10). What looks like an image but is not read is listed in
        `Scene.left_out`; other files are skipped.
        Homographies in the Oxford (img1.ppm, H1to2p) or HPatches (1.ppm,
        H_1_2) layout are read too, and so are cameras in the EPFL (0000.jpg,
        0000.jpg.camera) or Middlebury (dino_par.txt) layout.
    data : Path or str, optional
        A folder of data sets that is searched first. If a scene is neither
        there nor in $NMFSYNC_DATA nor in the cache, it is downloaded into the
        cache.

    Returns
    -------
    Scene
        Named as in the catalogue, or by `layouts.name_of_folder`.

    Raises
    ------
    NmfsyncError
        If the name is unknown, the download fails, a file of the catalogue is
        missing or is not the published one, fewer than two images can be read,
        or the ground truth or the cameras are invalid.

    Warns
    -----
    NmfsyncWarning
        If something in a folder is left out.
    """
    name = str(name)
    names = scene_names(name)
    if len(names) > 1:
        raise NmfsyncError(f"{name} has {len(names)} scenes; choose one of {', '.join(names)}")
    entries = _entries(name)
    if not entries:
        return read_folder(Path(name))
    source, scene = entries[0]
    data_folders = _data_folders(data)
    folder = _find(scene, data_folders) or _fetch_scene(scene, cache_folder(), data_folders)
    hashes = _known_hashes(scene, folder)
    _check_used(scene, folder, _statuses(hashes, folder))
    loaded = READERS[source.format](scene.name, folder)
    # What is used later are the images of these digests, whatever the files are by now.
    images = zip(loaded.paths, loaded.digests or (), strict=True)
    used = {path.relative_to(folder).as_posix(): digest for path, digest in images}
    changed = [name for name, digest in used.items() if hashes.get(name, digest) != digest]
    _check_used(scene, folder, dict.fromkeys(changed, "differs"))
    return loaded


def _check_used(scene: SceneEntry, folder: Path, statuses: Mapping[str, Status]) -> None:
    """Raise NmfsyncError if a file of a scene is missing or is not the known one."""
    bad = [name for name, status in statuses.items() if status in ("missing", "differs")]
    if not bad:
        return
    missing = statuses[bad[0]] == "missing"
    fault = "is missing" if missing else "is not the known file (its SHA-256 differs)"
    more = f", and {len(bad) - 1} more files are wrong" if bad[1:] else ""
    home = folder.parents[1]
    place = "" if home == cache_folder() else f" --data {shlex.quote(str(home))}"
    remedy = f"nmfsync data fetch {scene.name}{place}" if scene.archives else "reinstall nmfsync"
    raise NmfsyncError(f"{folder / bad[0]}: {fault}{more}; to replace what is wrong: {remedy}")


def fetch(name: str, data: Path | str | None = None) -> list[Path]:
    """Download the scenes that are missing.

    Every scene appears complete and checked, or not at all. Scenes that exist
    are not downloaded again. Several processes may fetch the same scene at once.

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
        If the name is unknown, or a download fails. The message lists the
        fault at every address and says how to install the files by hand.

    Warns
    -----
    NmfsyncWarning
        If no hashes are known to check the download with.
    """
    home = Path(data) if data else cache_folder()
    data_folders = [home] if data else _data_folders(None)
    folders = []
    for _, scene in _entries(name) or _not_in_catalogue(name):
        folder = _find(scene, data_folders)
        if folder is None or not _is_sound(_statuses(_known_hashes(scene, folder), folder)):
            folder = _fetch_scene(scene, home, data_folders)
        folders.append(folder)
    return folders


def check_files(name: str, data: Path | str | None = None) -> list[FileCheck]:
    """Compare the files that `load_scene` reads with their known hashes.

    Parameters
    ----------
    name : str
        A data set or a scene.
    data : Path or str, optional
        As for `load_scene`.

    Returns
    -------
    list of FileCheck
        Every file that is known or exists. The data are sound if no status is
        "missing" or "differs".

    Raises
    ------
    NmfsyncError
        If the name is unknown.
    """
    checks = []
    for _, scene in _entries(name) or _not_in_catalogue(name):
        folders = _data_folders(data)
        partial = next((f / scene.name for f in folders if (f / scene.name).is_dir()), None)
        folder = _find(scene, folders) or partial or folders[-1] / scene.name
        statuses = _statuses(_known_hashes(scene, folder), folder)
        if not statuses:
            statuses = {".": "missing"}
        checks += [FileCheck(folder / file, status) for file, status in statuses.items()]
    return checks


def _not_in_catalogue(name: str) -> list[tuple[DataSet, SceneEntry]]:
    if Path(name).exists():
        raise NmfsyncError(f"{name}: is not in the catalogue, so no hashes are known")
    raise _unknown(name)


def _known_hashes(scene: SceneEntry, folder: Path) -> Mapping[str, str]:
    """Return the hashes of the catalogue, or those recorded at the download."""
    record = folder / RECORD
    if scene.files or not record.exists():
        return scene.files
    lines = record.read_bytes().decode(errors="replace").splitlines() if record.is_file() else [""]
    found = [re.fullmatch("([0-9a-f]{64})  (.+)", line) for line in lines]
    if not all(found):
        return {RECORD: "damaged"}  # which no file has as its hash
    return {match[2]: match[1] for match in found if match}


def _statuses(hashes: Mapping[str, str], folder: Path) -> dict[str, Status]:
    """Check every file that is known or exists: its path in the folder, and its status."""
    existing = [path.relative_to(folder).as_posix() for path in files_below(folder)]
    statuses: dict[str, Status] = {}
    for name in [*hashes, *(name for name in existing if name not in hashes and name != RECORD)]:
        if name not in existing:
            statuses[name] = "missing"
        elif name not in hashes:
            statuses[name] = "unknown"
        else:
            statuses[name] = "ok" if sha256_of(folder / name) == hashes[name] else "differs"
    return statuses


def _is_sound(statuses: Mapping[str, Status]) -> bool:
    return bool(statuses) and not {"missing", "differs"} & set(statuses.values())


def _fetch_scene(scene: SceneEntry, home: Path, data_folders: Iterable[Path]) -> Path:
    """Download a scene into a temporary folder, check it, and move it to its place in `home`."""
    target = home / scene.name
    if not scene.archives:
        raise NmfsyncError(f"{scene.name}: ships with nmfsync but is incomplete; reinstall nmfsync")
    try:
        with staging(target) as work:
            new = work / "scene"
            new.mkdir()
            failures = _fetch_archives(scene, work, new)
            if failures:
                raise _fetch_error(scene, failures, target, data_folders)
            if not scene.files:
                _record(scene, new)
            _put(new, target)
    except OSError as error:
        raise NmfsyncError(f"{target}: cannot be written ({error})") from None
    return target


def _fetch_archives(scene: SceneEntry, work: Path, new: Path) -> list[str]:
    """Unpack every archive of the scene into `new`; return the faults, if there are any."""
    for number, archive in enumerate(scene.archives):
        failures = []
        for mirror, url in enumerate(archive.urls):
            folder = work / f"{number}-{mirror}"
            try:
                content = _fetch_archive(url, archive.sha256, folder)
                _check_content(scene, content)
            except (NmfsyncError, OSError) as error:
                failures.append(f"{url}: {error}")
            else:
                _move_files(content, new)
                break
        else:
            return failures
    statuses = _statuses(scene.files, new)
    missing = [name for name, status in statuses.items() if status == "missing"]
    urls = " ".join(archive.urls[0] for archive in scene.archives)
    return [f"{urls}: the archive does not contain {name}" for name in missing]


def _fetch_archive(url: str, sha256: str | None, folder: Path) -> Path:
    """Download and unpack into `folder`; return the folder inside it that contains the files."""
    folder.mkdir()
    archive = folder.with_suffix(".archive")
    download(url, archive)
    found = sha256_of(archive)
    if sha256 and found != sha256:
        raise NmfsyncError(f"{describe(archive)}; expected SHA-256 {sha256}")
    unpack(archive, folder)
    archive.unlink()
    while len(entries := visible(folder)) == 1 and entries[0].is_dir():
        folder = entries[0]
    return folder


def _check_content(scene: SceneEntry, content: Path) -> None:
    """Raise NmfsyncError if a file differs from its known hash."""
    for name, status in _statuses(scene.files, content).items():
        if status == "differs":
            found = sha256_of(content / name)
            raise NmfsyncError(f"{name} has SHA-256 {found}, expected {scene.files[name]}")


def _fetch_error(
    scene: SceneEntry, failures: Sequence[str], target: Path, data_folders: Iterable[Path]
) -> NmfsyncError:
    searched = [folder / scene.name for folder in data_folders]
    files = ", ".join(PurePosixPath(archive.urls[0]).name for archive in scene.archives)
    lines = [
        f"{scene.name} could not be downloaded:",
        *(f"  {failure};" for failure in failures),
        "searched "
        + ", ".join(f"{f} ({_what_is_missing(scene, f) or 'damaged'})" for f in searched)
        + ";",
        f"to install it by hand, unpack {files} into {target}",
    ]
    return NmfsyncError("\n".join(lines))


def _record(scene: SceneEntry, folder: Path) -> None:
    """Record the hashes of the downloaded files, so that `check_files` notices later changes."""
    lines = [
        f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n"
        for path in files_below(folder)
    ]
    with atomic_write(folder / RECORD) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")
    if not all(archive.sha256 for archive in scene.archives):
        warnings.warn(
            f"{scene.name}: no hashes are known to check the download with; "
            f"the hashes of the downloaded files are in {RECORD} beside them; compare them with "
            "those of a copy that you trust",
            NmfsyncWarning,
            stacklevel=4,
        )


def _put(new: Path, target: Path) -> None:
    """Move a finished folder to its place, in one step if the place is free."""
    try:
        new.rename(target)
    except OSError:
        # There is a damaged copy, or another process was faster: replace file by file.
        _move_files(new, target)


def _move_files(source: Path, target: Path) -> None:
    for path in files_below(source):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
