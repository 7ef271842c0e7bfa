"""Matches of detector-free matchers, whose positions belong to pairs of images.

Three kinds of files are read:

- HDF5 as hloc's `match_dense` writes it: for every pair `keypoints0` and `keypoints1` (n, 2),
  and `scores` (n,), which need not be there;
- `.npz`: an array (n, 4) or (n, 5) for every pair, named `a.jpg|b.jpg`: x and y in the first
  image, x and y in the second, and the score; or `names`, `pairs`, `counts`, `xy0`, `xy1` and
  `scores` of all pairs, one after the other;
- COLMAP databases in which no keypoint has matches in two images.

Positions are pixels, the centre of the top-left one is (0, 0); COLMAP's are half a pixel more.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.errors import NmfsyncError, NmfsyncWarning, shown
from nmfsync.exchange.colmap import read_colmap
from nmfsync.exchange.formats import COLMAP, HLOC, format_of
from nmfsync.exchange.hloc import flat_names, groups_with, open_hdf5, parse_key, read_dataset
from nmfsync.runtime.files import reading
from nmfsync.types.arrays import AnyArray
from nmfsync.types.matches import PairwiseMatches, read_arrays
from nmfsync.types.positions import PositionMatches, PositionPair

_FIRST, _SECOND, _SCORES = "keypoints0", "keypoints1", "scores"  # of a pair in hloc's file

_LISTS = ("names", "pairs", "counts", "xy0", "xy1")  # of the `.npz` with all pairs in one

# A pair before its images are numbered: two names, positions, positions, scores.
_Named = tuple[str, str, AnyArray, AnyArray, AnyArray]


def read_positions(path: Path | str, known: Sequence[str] = ()) -> PositionMatches:
    """Read matches whose positions belong to pairs of images.

    Parameters
    ----------
    path : Path or str
    known : sequence of str
        Names of photographs, without which the pairs of hloc's file cannot be told.

    Returns
    -------
    PositionMatches
        Without images that no pair has, but those of a COLMAP database. Scores are 1 if there
        are none, or if they are not in (0, 1].

    Warns
    -----
    NmfsyncWarning
        If pairs are empty, scores are not in (0, 1], or positions have half precision which
        moves them by more than half a pixel.

    Raises
    ------
    NmfsyncError
        If the file cannot be used; one line that says why.
    """
    path = Path(path)
    kind = format_of(path)
    if kind is COLMAP:
        return _from_colmap(path)
    pairs = _from_hloc(path, known) if kind is HLOC else _from_npz(path)
    with reading(path, "cannot be read"):
        return _numbered(path, pairs)


def belong_to_pairs(matches: PairwiseMatches) -> bool:
    """Whether no feature has matches in two images, although images have several others."""
    degree = np.diff(matches.W.indptr) - 1
    images: dict[int, int] = defaultdict(int)
    for pair in matches.by_image_pair():
        images[pair.i] += 1
        images[pair.j] += 1
    return bool(degree.max(initial=0) == 1 and max(images.values(), default=0) > 1)


def _from_colmap(path: Path) -> PositionMatches:
    matches = read_colmap(path)
    assert matches.source is not None
    if not belong_to_pairs(matches):
        raise NmfsyncError(
            f"{path}: its keypoints belong to images, and some have matches in several others; "
            "nmfsync synchronise makes these consistent"
        )
    xy = matches.source.xy()
    pairs = tuple(
        PositionPair(i, j, xy[i][rows[:, 0]], xy[j][rows[:, 1]], np.ones(len(rows), np.float32))
        for i, j, rows, _ in matches.by_image_pair()
    )
    return PositionMatches(path, matches.source.names, pairs)


def _from_hloc(path: Path, known: Sequence[str]) -> list[_Named]:
    with open_hdf5(path) as file:
        keys = groups_with(file, _FIRST)
        if not keys:
            raise NmfsyncError(
                f"contains no {_FIRST}, so that its matches are not positions; nmfsync "
                "synchronise takes matches of keypoints"
            )
        index_of, where = flat_names(tuple(known)), "among the photographs"
        named = [(key, *(known[n] for n in parse_key(key, index_of, where))) for key in keys]
        return [(a, b, *_arrays_of(file[key])) for key, a, b in named]


def _arrays_of(group: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    if _SECOND not in group:
        raise NmfsyncError(f"{shown(group.name)} has {_FIRST}, but no {_SECOND}")
    xy0, xy1 = (read_dataset(group, name) for name in (_FIRST, _SECOND))
    scores = read_dataset(group, _SCORES) if _SCORES in group else np.ones(len(xy0), np.float32)
    return xy0, xy1, scores


def _from_npz(path: Path) -> list[_Named]:
    with reading(path, "is no .npz file of matches"):
        arrays = read_arrays(path)
        if set(_LISTS) <= arrays.keys():
            return _from_lists(arrays)
        if "universe" in arrays or "indptr" in arrays:
            raise NmfsyncError(
                "contains matches of features, without positions; nmfsync synchronise takes them"
            )
        return [_from_table(name, table) for name, table in sorted(arrays.items())]


def _from_table(key: str, table: AnyArray) -> _Named:
    a, bar, b = key.partition("|")
    if not (a and bar and b) or "|" in b:
        raise NmfsyncError(
            f"the array {shown(key)} is not named like a pair, a.jpg|b.jpg, and the arrays "
            f"{', '.join(_LISTS)} are not all there"
        )
    if table.ndim != 2 or table.shape[1] not in (4, 5):
        raise NmfsyncError(
            f"{shown(key)} must be (n, 4), x y x y, or (n, 5) with scores, not {table.shape}"
        )
    scores = table[:, 4] if table.shape[1] == 5 else np.ones(len(table), np.float32)
    return a, b, table[:, :2], table[:, 2:4], scores


def _from_lists(arrays: Mapping[str, AnyArray]) -> list[_Named]:
    names, pairs, counts, xy0, xy1 = (arrays[name] for name in _LISTS)
    scores = arrays.get(_SCORES, np.ones(len(xy0), np.float32))
    whole = pairs.dtype.kind in "iu" and counts.dtype.kind in "iu" and names.dtype.kind == "U"
    if not whole or pairs.shape != (len(counts), 2) or names.ndim != 1 or counts.ndim != 1:
        raise NmfsyncError(
            f"names must be (k,) text, pairs (p, 2) and counts (p,) whole numbers, not "
            f"{names.shape}, {pairs.shape} and {counts.shape}"
        )
    if (counts < 0).any() or not counts.sum() == len(xy0) == len(xy1) == len(scores):
        raise NmfsyncError(
            f"counts add up to {counts.sum()}, but there are {len(xy0)}, {len(xy1)} and "
            f"{len(scores)} rows of xy0, xy1 and {_SCORES}"
        )
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < len(names):
        raise NmfsyncError(f"pairs must be numbers of images from 0 to {len(names) - 1}")
    ends = np.cumsum(counts)[:-1]
    parts = zip(pairs, *(np.split(a, ends) for a in (xy0, xy1, scores)), strict=True)
    return [(str(names[i]), str(names[j]), *rest) for (i, j), *rest in parts]


def _numbered(path: Path, named: Iterable[_Named]) -> PositionMatches:
    """Check pairs, number their images in order of name, and join several of two images."""
    named = list(named)
    names = tuple(sorted({name for a, b, *_ in named for name in (a, b)}))
    number = {name: n for n, name in enumerate(names)}
    parts: dict[tuple[int, int], list[AnyArray]] = defaultdict(list)
    empty, coarse = 0, 0.0
    for a, b, xy0, xy1, scores in named:
        _check_pair(a, b, xy0, xy1, scores)
        coarse = max(coarse, _coarseness(xy0), _coarseness(xy1))
        if not len(scores):
            empty += 1
            continue
        ends = (xy0, xy1) if a < b else (xy1, xy0)
        row = np.column_stack([*(e.astype(np.float32) for e in ends), scores.astype(np.float32)])
        parts[min(number[a], number[b]), max(number[a], number[b])].append(row)
    _warn(path, empty, len(named), coarse)
    if not parts:
        raise NmfsyncError("contains no matches")
    tables = {pair: np.concatenate(rows) for pair, rows in sorted(parts.items())}
    scored = all(((t[:, 4] > 0) & (t[:, 4] <= 1)).all() for t in tables.values())
    if not scored:
        text = (
            f"{path}: scores are not in (0, 1], so every match gets the weight 1; "
            "write scores in this range to have them used"
        )
        warnings.warn(text, NmfsyncWarning, stacklevel=3)
    pairs = tuple(
        PositionPair(
            i, j, t[:, :2].copy(), t[:, 2:4].copy(),
            t[:, 4].copy() if scored else np.ones(len(t), np.float32),
        )
        for (i, j), t in tables.items()
    )  # fmt: skip
    return PositionMatches(path, names, pairs)


def _check_pair(a: str, b: str, xy0: AnyArray, xy1: AnyArray, scores: AnyArray) -> None:
    both = f"{shown(a)} and {shown(b)}"
    if a == b:
        raise NmfsyncError(f"{shown(a)} has matches with itself")
    n = len(scores)
    if any(x.dtype.kind not in "fiu" for x in (xy0, xy1, scores)) or any(
        x.shape != shape for x, shape in ((xy0, (n, 2)), (xy1, (n, 2)), (scores, (n,)))
    ):
        raise NmfsyncError(
            f"the matches of {both} must be (n, 2), (n, 2) and (n,) numbers, not {xy0.shape}, "
            f"{xy1.shape} and {scores.shape}"
        )
    for name, values in ((a, xy0), (b, xy1), ("", scores[:, None])):
        with np.errstate(over="ignore"):
            bad = ~np.isfinite(values.astype(np.float32)).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            what = f"position {row} in {shown(name)}" if name else f"score {row}"
            raise NmfsyncError(
                f"{what} of the matches of {both} is {shown(values[row])}, which is not finite; "
                "match these images again"
            )


def _coarseness(xy: AnyArray) -> float:
    """Return by how many pixels half precision may have moved positions; 0 for other numbers."""
    if xy.dtype != np.float16 or not len(xy):
        return 0.0
    return float(np.spacing(np.abs(xy).max())) / 2


def _warn(path: Path, empty: int, count: int, coarse: float) -> None:
    if empty:
        text = f"{path}: {empty:,} of {count:,} pairs of images have no matches"
        warnings.warn(text, NmfsyncWarning, stacklevel=4)
    if coarse >= 0.5:
        text = (
            f"{path}: positions have half precision, which moves those of large images by up to "
            f"{coarse:g} pixels; write them as float32"
        )
        warnings.warn(text, NmfsyncWarning, stacklevel=4)
