"""Files that belong together, put in place together.

A set of files is prepared in a folder aside, which one renaming then makes the
pending set of its place. From there on it is only moved: first the old files go,
the page about them before all others, then the new ones come, the page last. So
nobody ever sees files of two sets, and if the program is killed on the way, the
next one that uses the place moves the rest.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nmfsync.runtime.files import atomic_write, check_target, put, sha256_of, staging

# In a folder of outputs: what it belongs to, and the files of the last run. All else in it is
# the user's.
RECORD = "outputs.json"

_ORIGIN = "made_from"  # in a record: a digest of what the files of a run follow from, and theirs

FIGURES = "figures"  # the only folder in a folder of outputs that files of a run may be in

_PLAN = ".plan.json"  # in a pending set: which files come, and which go


@contextmanager
def publication(folder: Path, origin: str | None = None) -> Iterator[Path]:
    """Prepare the files of a folder of outputs; they replace those of the last run together.

    Parameters
    ----------
    folder : Path
        It is made if it does not exist. Files in it that no run wrote stay, unless a new one
        has the same name.
    origin : str, optional
        Digest of all that the files follow from, for `made_from`.

    Yields
    ------
    Path
        An empty folder to write the files to, and to `FIGURES` in it. If the block fails,
        nothing changes.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    with staging(folder / RECORD) as new:
        yield new
        files = (path for path in new.rglob("*") if path.is_file())
        names = sorted(path.relative_to(new).as_posix() for path in files)
        with locked(folder):
            finish(folder)
            _make_folders(folder, names)
            record = read_record(folder)
            made = None if origin is None else _with_content(new, names, origin)
            write_record(new, {**record, "files": names, _ORIGIN: made})
            commit(new, folder, [RECORD, *names], record.get("files", []))


@contextmanager
def publication_beside(
    targets: Sequence[Path], inputs: Sequence[Path], overwrite: bool
) -> Iterator[Path]:
    """Prepare files that lie beside the first of them; they are put in place together.

    Parameters
    ----------
    targets : sequence of Path
        In one folder. Of those that the block does not write, old ones go.
    inputs : sequence of Path
        Files that may not be replaced.
    overwrite : bool
        Replace what exists.

    Yields
    ------
    Path
        An empty folder to write files of these names to. If the block fails, nothing changes.

    Raises
    ------
    NmfsyncError
        If a target is an input, is no place for a file, or exists and may not be replaced.
    """
    first, *others = targets
    recover(first.parent, first.name)
    for target in targets:
        check_target(target, inputs, overwrite)
    with staging(first) as folder:
        yield folder
        with locked(first.parent):
            finish(first.parent, first.name)
            for target in targets:  # again: another run may have been faster
                check_target(target, inputs, overwrite)
            made = [target.name for target in targets if (folder / target.name).exists()]
            commit(folder, first.parent, made, [target.name for target in others], first.name)


def made_from(folder: Path, origin: str) -> bool:
    """Whether all files of the last run follow from this, and are as the run left them."""
    record = read_record(folder)
    names = record.get("files", [])
    return bool(names) and record.get(_ORIGIN) == _with_content(folder, names, origin)


def _with_content(folder: Path, names: Sequence[str], origin: str) -> list[str]:
    """Return an origin, and a digest of the files that are there now."""
    content = hashlib.sha256()
    for name in names:
        path = folder / name
        content.update(f"{name}:{sha256_of(path) if path.is_file() else ''}".encode())
    return [origin, content.hexdigest()]


def read_record(folder: Path) -> dict[str, Any]:
    """Return what a folder of outputs says about itself; nothing if it says nothing."""
    record = _read_json(folder / RECORD)
    return {**record, "files": _names(record.get("files"))} if record else {}


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Let a folder of outputs say what it belongs to (`input`) and which files are a run's."""
    with atomic_write(folder / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")


def commit(
    new: Path, folder: Path, names: Sequence[str], old: Sequence[str], label: str = ""
) -> None:
    """Put a finished set of files in place; only for who holds the lock of the folder.

    Parameters
    ----------
    new : Path
        Contains the files; a folder in `folder`. It is gone afterwards.
    folder : Path
    names : sequence of str
        The files of the set. The first one is replaced in one step, and never missing.
    old : sequence of str
        Files of the set before, which go. Missing ones count as gone.
    label : str
        Tells the sets of a folder apart, if it has several.
    """
    doomed = {*old, *names} - {names[0]}
    plan = {"new": [names[0], *_page_last(names[1:])], "old": _page_last(doomed)[::-1]}
    (new / _PLAN).write_text(json.dumps(plan), encoding="utf-8")
    new.rename(_pending(folder, label))
    try:
        finish(folder, label)
    except KeyboardInterrupt:
        finish(folder, label)
        raise


def finish(folder: Path, label: str = "") -> None:
    """Move what is left of a pending set, if there is one; only for who holds the lock."""
    pending = _pending(folder, label)
    if not pending.is_dir():
        return
    plan = _read_json(pending / _PLAN)
    names = _names(plan.get("new"))
    for name in _names(plan.get("old")):
        if name not in names or (pending / name).exists():  # otherwise it is a new one already
            (folder / name).unlink(missing_ok=True)
    _make_folders(folder, names)
    for name in names:
        if (pending / name).exists():
            put(pending / name, folder / name)
    for name in _names(plan.get("old")):
        with suppress(OSError):  # of the folder itself, or of one that still has files
            (folder / name).parent.rmdir()
    shutil.rmtree(pending)


def _make_folders(folder: Path, names: Sequence[str]) -> None:
    """Make the folders in a folder that files with these names lie in."""
    for place in {(folder / name).parent for name in names}:
        place.mkdir(exist_ok=True)


def recover(folder: Path, label: str = "") -> None:
    """Move what is left of a pending set of a run that was killed, if there is one."""
    if folder.is_dir():
        with locked(folder):
            finish(folder, label)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let no other process or thread be in such a block for the same folder.

    The lock ends with its process, however that ends, and leaves nothing behind:
    it is the folder that is locked. A file in it serves where folders cannot be
    locked (network file systems); where files cannot be either, nothing is.
    """
    handle = _lock(folder, os.O_RDONLY)
    if handle is None:
        handle = _lock(folder / ".nmfsync.lock", os.O_RDWR | os.O_CREAT)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(path: Path, flags: int) -> int | None:
    """Wait for the lock of a file or folder; None if there are no locks there."""
    try:
        handle = os.open(path, flags, 0o666)
    except OSError:
        return None
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _pending(folder: Path, label: str) -> Path:
    return folder / f".{label or 'outputs'}.pending"


def _page_last(names: Sequence[str] | set[str]) -> list[str]:
    return sorted(names, key=lambda name: (name.endswith("report.html"), name))


def _read_json(path: Path) -> dict[str, Any]:
    """Read a file of JSON; nothing if it is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _names(content: Any) -> list[str]:
    """Return the names of files in what was read; nothing that leads out of the folder."""
    names = content if isinstance(content, list) else []
    return [name for name in names if isinstance(name, str) and _is_inside(name)]


def _is_inside(name: str) -> bool:
    """Whether a name is that of a file in a folder of outputs, or in its folder of figures."""
    file = Path(name).name
    return file not in ("", "..") and name in (file, f"{FIGURES}/{file}")
