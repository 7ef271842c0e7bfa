"""What is in a folder: its files in natural order, its images, and what is left out."""

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.publish import RECORD
from nmfsync.scenes.images import KNOWN_SUFFIXES, ImageFile, look_at, starts_like_an_image

# A folder that holds one of these files is one of our results: its pictures are no photographs.
_RESULTS = {RECORD, "evaluation.json"}

_MOST = 5  # items in a line


def files_in(folder: Path) -> list[Path]:
    """List the files of a folder in natural order (img2 before img10), without dot-files."""
    files = [path for path in visible(folder) if path.is_file()]
    return sorted(files, key=lambda path: _natural(path.name))


def visible(folder: Path) -> list[Path]:
    """List files and folders in a folder, without dot-files; none if the folder is missing."""
    try:
        entries = list(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise NmfsyncError(f"{folder}: cannot be read ({error.strerror})") from None
    return [path for path in entries if not path.name.startswith(".")]


def files_below(folder: Path) -> list[Path]:
    """List the files of a folder and its subfolders in natural order, without hidden ones."""
    found = []
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            found.append((_natural(relative.as_posix()), path))
    return [path for _, path in sorted(found)]


def _natural(text: str) -> tuple[list[tuple[int, str]], str]:
    """Sort key: numbers by value; the text itself decides between 01 and 1."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text.casefold())
    return [(int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts], text


def find_images(folder: Path) -> tuple[list[ImageFile], dict[str, str]]:
    """Find the images of a folder, and what is left out.

    Parameters
    ----------
    folder : Path
        The images are those of the folder itself; if none of them can be read,
        those of its subfolder `images`; if none of these can be read either,
        those of all subfolders, except folders with results of this program.

    Returns
    -------
    images : list of ImageFile
        In natural order.
    left_out : dict of str to str
        As `what_is_left_out` returns it.
    """
    entries, obstacles = _entries(folder)
    own = [path for path in entries if path.parent == folder]
    inner = [path for path in entries if path.parent == folder / "images"]
    level, images = own, list[ImageFile]()
    for level in (own, inner, entries):
        found = [_read(path) for path in level if _is_candidate(path)]
        images = [image for image in found if isinstance(image, ImageFile)]
        if images:
            break
    seen = {*own, *level}
    others = [path for path in entries if path not in seen]
    unread = seen - {image.path for image in images}
    left_out = _faults(unread, "changed while the folder was read")
    reason = "the folder itself has some" if level is own else "the folder images has some"
    return images, _sorted({**obstacles, **left_out, **_counts(others, reason)})


def what_is_left_out(folder: Path, images: Collection[Path], reason: str) -> dict[str, str]:
    """List what looks like an image in a folder, or may hold some, and is not read.

    Hidden files and files that do not look like images are not listed. The images of
    a subfolder are one item.

    Parameters
    ----------
    folder : Path
    images : collection of Path
        Images of the folder that are read.
    reason : str
        Why the other images of the folder itself are not read, if they could be.

    Returns
    -------
    dict of str to str
        Path of a file or subfolder -> reason, in natural order of the paths.
    """
    entries, obstacles = _entries(folder)
    own = {path for path in entries if path.parent == folder}
    left_out = _faults(own - set(images), reason)
    others = [path for path in entries if path not in own]
    return _sorted({**obstacles, **left_out, **_counts(others, "the folder itself has some")})


def summary(left_out: Mapping[str, str]) -> str:
    """Say in one line how much is left out, with an example."""
    path, reason = next(iter(left_out.items()))
    example = f"{path}, which {reason}"
    if len(left_out) == 1:
        return f"left out: {example}"
    return f"{len(left_out)} files or folders are left out, for instance {example}"


def listing(left_out: Mapping[str, str]) -> str:
    """Say in one line what is left out, and why: the first items."""
    items = [f"{path}: {reason}" for path, reason in left_out.items()]
    more = f"; and {len(items) - _MOST} more" if len(items) > _MOST else ""
    return "; ".join(items[:_MOST]) + more


def _entries(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """List what is below a folder and is no folder; and the subfolders that are not entered."""
    visible(folder)  # raises an error if the folder itself cannot be read
    entries, obstacles = [], {}

    def note(error: OSError) -> None:
        obstacles[str(error.filename)] = f"cannot be read ({error.strerror})"

    for parent, folders, files in os.walk(folder, onerror=note):
        here = Path(parent)
        if here != folder and _RESULTS.intersection(files):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (here / name for name in folders):
            if os.path.islink(path) and path != folder / "images":
                obstacles[str(path)] = "is a link to a folder, which is not followed"
        entries += [here / name for name in files if not name.startswith(".")]
    if (folder / "images").is_symlink():
        entries += files_in(folder / "images")
    return sorted(entries, key=lambda p: _natural(p.relative_to(folder).as_posix())), obstacles


def _is_candidate(path: Path) -> bool:
    """Whether a file is meant to be an image, by its name or else by its content."""
    if path.suffix.lower() in KNOWN_SUFFIXES or ".depth." in path.name:
        return path.suffix.lower() in KNOWN_SUFFIXES
    broken_link = not path.suffix and not os.path.exists(path)
    return broken_link or starts_like_an_image(path)


def _read(path: Path) -> ImageFile | str:
    """Look at an image file, or say why it cannot be read, as far as its header tells."""
    if path.suffix and path.suffix.lower() not in KNOWN_SUFFIXES:
        return f"holds an image, but names in {path.suffix} are not read; rename it to read it"
    try:
        return look_at(path)
    except NmfsyncError as error:
        return str(error).removeprefix(f"{path}: ")


def _faults(paths: Collection[Path], reason: str) -> dict[str, str]:
    """Say of every file that looks like an image why it is not read; not of depth maps."""
    chosen = (path for path in paths if _is_candidate(path) and ".depth." not in path.name)
    found = {str(path): _read(path) for path in chosen}
    return {path: read if isinstance(read, str) else reason for path, read in found.items()}


def _counts(paths: Collection[Path], reason: str) -> dict[str, str]:
    """Say of every folder how many images in it are not read."""
    images = (p for p in paths if p.suffix.lower() in KNOWN_SUFFIXES and ".depth." not in p.name)
    counts = Counter(path.parent for path in images)
    return {
        str(parent): f"has {count} image{'s' * (count > 1)}, not read because {reason}"
        for parent, count in counts.items()
    }


def _sorted(left_out: Mapping[str, str]) -> dict[str, str]:
    return {path: left_out[path] for path in sorted(left_out, key=_natural)}
