"""The photographs that a file of matches speaks of: found by name in a folder, and turned to fit.

COLMAP and today's hloc take the pixels as they are stored, older versions of hloc turned them as
EXIF asks. The size that is stored with the features tells which, unless the image is square.
"""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar

import numpy as np

from nmfsync.errors import NmfsyncError, near_names, shown
from nmfsync.types.arrays import AnyArray
from nmfsync.types.matches import StoredKeypoints

_MOST_NAMED = 5  # images in a warning
_MOST_COMPARED = 5000  # names of files that a missing name is compared with

# Features may lie this far outside of their image: 2 pixels, or what the half precision of hloc's
# files takes from large numbers.
_OUTSIDE, _ROUNDED = 2.0, 1e-3

# How EXIF asks to turn an image: exchange rows and columns, then reverse rows, reverse columns.
_TURNS = {
    1: (False, False, False), 2: (False, False, True), 3: (False, True, True),
    4: (False, True, False), 5: (True, False, False), 6: (True, False, True),
    7: (True, True, True), 8: (True, True, False),
}  # fmt: skip

Size = tuple[int, int]  # width and height in pixels

Item = TypeVar("Item")


def find_photographs(folder: Path, names: Sequence[str]) -> tuple[dict[int, Path], str]:
    """Find images below a folder by the names that a file of matches has for them.

    A name is a path in the folder. Otherwise it is the file below the folder with the same
    name, and of several the one whose folders agree most; at last without regard to upper and
    lower case. What is not unique does not count, and no file is taken for two images.

    Parameters
    ----------
    folder : Path
    names : sequence of str
        As in `Source.names`.

    Returns
    -------
    found : dict of int to Path
        The files of the images that were found, by number.
    missing : str
        Which were not, for a warning; "" for none.

    Raises
    ------
    NmfsyncError
        If the folder cannot be read or has none of the images.
    """
    files = files_below(folder)
    found = {n: name for n, name in enumerate(names) if name in files}
    for alike in (_normal, _folded):
        left = {n: name for n, name in enumerate(names) if n not in found}
        taken = set(found.values())
        found |= _by_last_part(left, [file for file in files if file not in taken], alike)
    missing = [name for n, name in enumerate(names) if n not in found]
    others = sorted(set(files) - set(found.values()))
    if not found:
        raise NmfsyncError(
            f"{folder}: has none of the {len(names):,} images, for instance "
            f"{_with_hint(names[0], others)}"
        )
    return {n: files[name] for n, name in found.items()}, _sentence(folder, missing, names, others)


def fit(stored: Size, exif: int, keypoints: StoredKeypoints) -> tuple[int, Size] | None:
    """Say how a photograph must be turned, and of which size it is, for its features to fit.

    Parameters
    ----------
    stored : tuple of int
        Its width and height as stored.
    exif : int
        How it asks to be turned, from 1 (not at all) to 8.
    keypoints : StoredKeypoints

    Returns
    -------
    tuple of int and (int, int), or None
        The turn, and the width and height in pixels of the image in which the positions
        are: not those of the photograph if it was resized. None if it is another photograph.
    """
    for turn in (1, exif):
        size = stored[::-1] if _TURNS[turn][0] else stored
        wanted = keypoints.image_size or size
        if _same_shape(size, wanted) and _holds(wanted, keypoints.xy):
            return turn, wanted
    return None


def turned(pixels: AnyArray, exif: int) -> AnyArray:
    """Turn pixels (h, w, …) as EXIF asks, from 1 to 8."""
    transposed, rows, columns = _TURNS[exif]
    pixels = pixels.swapaxes(0, 1) if transposed else pixels
    return np.ascontiguousarray(pixels[:: -1 if rows else 1, :: -1 if columns else 1])


def misfit(stored: Size, keypoints: StoredKeypoints) -> str:
    """Say why a photograph does not `fit`."""
    wanted = keypoints.image_size
    if wanted and not _same_shape(stored, wanted):
        pixels = " × ".join(map(str, stored)), " × ".join(map(str, wanted))
        return f"has {pixels[0]} pixels, but its features are of an image of {pixels[1]}"
    width, height = wanted or stored
    return f"has features outside of its {width} × {height} pixels"


def _same_shape(size: Size, wanted: Size) -> bool:
    """Whether one is the other, resized: the smaller one is exact to a pixel."""
    return abs(size[1] * wanted[0] - wanted[1] * size[0]) <= max(size[0], wanted[0])


def _holds(size: Size, xy: AnyArray) -> bool:
    slack = np.maximum(_OUTSIDE, _ROUNDED * np.array(size)) + 0.5
    return bool(((xy >= -slack) & (xy <= size + slack - 1)).all())


def files_below(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their paths in it, as a database spells them."""
    if not folder.is_dir():
        raise NmfsyncError(f"{folder}: is no folder; name that of the photographs")
    files, seen = {}, set()
    for parent, folders, names in os.walk(folder, onerror=_refuse(folder), followlinks=True):
        place = os.path.realpath(parent)
        if place in seen:  # a link that leads in a circle
            folders.clear()
            continue
        seen.add(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            files[_spelt(path.relative_to(folder).as_posix())] = path
    return files


def _refuse(folder: Path) -> Callable[[OSError], None]:
    def refuse(error: OSError) -> None:
        if error.filename == str(folder):  # others may be private, and not needed
            raise NmfsyncError(f"{folder}: cannot be read ({error.strerror})")

    return refuse


def _spelt(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _by_last_part(
    names: dict[int, str], files: Sequence[str], alike: Callable[[str], str]
) -> dict[int, str]:
    """Assign files to images that have the same last part, where this is unique both ways."""
    by_last = defaultdict(list)
    for file in files:
        by_last[alike(_last(file))].append(file)
    wishes = defaultdict(list)  # file -> (parts that agree, image)
    for image, name in names.items():
        agree = [(_agreement(alike(name), alike(f)), f) for f in by_last[alike(_last(name))]]
        if best := _only_best(agree):
            wishes[best[1]].append((best[0], image))
    winners = {file: _only_best(images) for file, images in wishes.items()}
    return {winner[1]: file for file, winner in winners.items() if winner}


def _only_best(scored: Iterable[tuple[int, Item]]) -> tuple[int, Item] | None:
    """Return the pair with the largest number; None if several have it, or there is none."""
    ranked = sorted(scored, key=lambda pair: -pair[0])
    unique = ranked and (len(ranked) == 1 or ranked[0][0] > ranked[1][0])
    return ranked[0] if unique else None


def _agreement(a: str, b: str) -> int:
    """Count the parts at the end of two paths that agree."""
    pairs = zip(reversed(_parts(a)), reversed(_parts(b)), strict=False)
    return next(
        (n for n, (x, y) in enumerate(pairs) if x != y), min(len(_parts(a)), len(_parts(b)))
    )


def _parts(name: str) -> tuple[str, ...]:
    return PurePosixPath(name.replace("\\", "/")).parts  # some databases are from Windows


def _last(name: str) -> str:
    return (_parts(name) or ("",))[-1]


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name)  # macOS takes letters and accents apart


def _folded(name: str) -> str:
    return _normal(name).casefold()


def _sentence(
    folder: Path, missing: Sequence[str], names: Sequence[str], files: Iterable[str]
) -> str:
    if not missing:
        return ""
    named = ", ".join(_with_hint(name, files) for name in missing[:_MOST_NAMED])
    more = f", and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
    return (
        f"{folder}: has no photograph of {len(missing):,} of {len(names):,} images: {named}{more}"
    )


def _with_hint(name: str, files: Iterable[str]) -> str:
    same = [file for file in files if _folded(_last(file)) == _folded(_last(name))]
    if same:
        return f"{shown(name)} (not clear whether it is {' or '.join(map(shown, same[:3]))})"
    known = [_last(file) for file in files][:_MOST_COMPARED]
    hint = near_names(_last(name), known).removeprefix("; ")
    return f"{shown(name)} ({hint})" if hint else shown(name)
