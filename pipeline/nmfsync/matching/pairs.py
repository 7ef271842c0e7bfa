"""Which pairs of images to match: all, those near in order, the most similar, or those of a file.

How similar two images are is told by a vector for every image, VLAD (Jégou,
Douze, Schmid, Pérez, CVPR 2010): descriptors go to the nearest word of a
vocabulary, their differences from it are added up, and every word's sum is
brought to length 1, so that repeated structure does not outweigh the rest
(Arandjelović, Zisserman, CVPR 2013). Descriptors are RootSIFT (the same
authors, CVPR 2012), and the vocabulary is learnt from the images themselves.
"""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.matching.similarity import nearest_pairs
from nmfsync.types.arrays import IntArray
from nmfsync.types.features import Features


def all_pairs(k: int) -> IntArray:
    """All pairs of k images.

    Returns
    -------
    (n, 2) int64 array
        Rows (i, j) with i < j, counted from 0, in lexicographic order.

    Examples
    --------
    >>> all_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return sequential_pairs(k, max(k, 1))


def sequential_pairs(k: int, window: int) -> IntArray:
    """Pairs of images that are near each other in their order, as those of a video.

    Parameters
    ----------
    k : int
        Number of images.
    window : int
        Images are paired if their numbers differ by at most this.

    Returns
    -------
    (n, 2) int64 array
        As from `all_pairs`.

    Raises
    ------
    NmfsyncError
        If the window is smaller than 1.

    Examples
    --------
    >>> sequential_pairs(4, 1).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    if window < 1:
        raise NmfsyncError(f"the window of sequential pairs must be at least 1, not {window}")
    later = np.minimum(np.arange(k)[::-1], window)  # partners of every image
    i = np.repeat(np.arange(k), later)
    place = np.arange(len(i)) - np.repeat(np.cumsum(later) - later, later)
    return np.column_stack([i, i + 1 + place]).astype(np.int64)


def read_pairs(path: Path | str, names: Sequence[str]) -> IntArray:
    """Read pairs from a text file in the format of hloc: two image names a line.

    Empty lines and those that start with # are skipped, and a pair may occur
    more than once, either way round.

    Parameters
    ----------
    path : Path or str
    names : sequence of str
        Names of the images, in their order: paths from the folder of the
        images, with slashes. They may contain blanks.

    Returns
    -------
    (n, 2) int64 array
        As from `all_pairs`.

    Raises
    ------
    NmfsyncError
        If the file cannot be read or holds no pair, or a line is not two different known names.
    """
    number = {name: i for i, name in enumerate(names)}
    pairs = {
        _read_pair(line, number, f"{path}, line {at}")
        for at, line in enumerate(_read_lines(path), start=1)
        if line and not line.startswith("#")
    }
    if not pairs:
        raise NmfsyncError(f"{path}: holds no pair of images; write two image names on every line")
    return np.array(sorted(pairs), dtype=np.int64)


def select_pairs(
    choice: str, features: Sequence[Features], names: Sequence[str], progress: bool = True
) -> IntArray:
    """Select the pairs of images to match.

    Parameters
    ----------
    choice : str
        "all"; "sequential:W", images at most W apart in their order;
        "nearest:N", every image with the N most similar ones; or else the path
        of a file, see `read_pairs`.
    features : sequence of Features
        Those of every image.
    names : sequence of str
        Names of the images, see `read_pairs`.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    (n, 2) int64 array
        As from `all_pairs`.

    Warns
    -----
    NmfsyncWarning
        If images with features are not connected by the pairs.

    Raises
    ------
    NmfsyncError
        If the choice is none of these, or the file is faulty.
    """
    if choice == "all":
        return all_pairs(len(features))
    kind, colon, count = choice.partition(":")
    if kind == "sequential" and colon:
        pairs = sequential_pairs(len(features), _count(choice, count))
    elif kind == "nearest" and colon:
        pairs = nearest_pairs(features, _count(choice, count), progress)
    elif os.path.exists(choice):
        pairs = read_pairs(choice, names)
    else:
        raise NmfsyncError(
            f"pairs {choice!r}: neither all, sequential:W or nearest:N, nor a file of pairs"
        )
    parts = _parts(pairs, np.array([len(f) > 0 for f in features], dtype=bool))
    if parts > 1:
        warnings.warn(
            f"pairs {choice!r} split the images into {parts} parts without a pair between them, "
            "which cannot share tracks; select more pairs",
            NmfsyncWarning,
            stacklevel=2,
        )
    return pairs


def _count(choice: str, count: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", count):
        raise NmfsyncError(f"pairs {choice!r}: after the colon must be a whole number from 1 on")
    return int(count)


def _parts(pairs: IntArray, has_features: NDArray[np.bool_]) -> int:
    """Count the connected parts of the images with features; the others connect nothing."""
    k = len(has_features)
    i, j = pairs[has_features[pairs].all(axis=1)].T
    graph = sparse.coo_array((np.ones(len(i), np.int8), (i, j)), shape=(k, k))
    parts, _ = connected_components(graph, directed=False)
    return int(parts - np.count_nonzero(~has_features))


def _read_lines(path: Path | str) -> list[str]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise NmfsyncError(f"{path}: not a text file in UTF-8") from None
    except FileNotFoundError:
        raise NmfsyncError(f"{path}: no such file") from None
    except OSError as error:
        raise NmfsyncError(f"{path}: cannot be read ({error.strerror})") from None
    if "\0" in text:
        raise NmfsyncError(f"{path}: not a text file")
    return [line.strip() for line in text.split("\n")]


def _read_pair(line: str, number: dict[str, int], place: str) -> tuple[int, int]:
    """Numbers of the two images on a line, the smaller one first."""
    splits = [(line[: gap.start()], line[gap.end() :]) for gap in re.finditer(r"\s+", line)]
    known = [(a, b) for a, b in splits if a in number and b in number]
    if len(known) > 1:
        raise NmfsyncError(f"{place}: {line!r} can be read as two image names in several ways")
    if not known and len(splits) == 1:
        unknown = next(name for name in splits[0] if name not in number)
        raise NmfsyncError(f"{place}: there is no image {unknown!r}")
    if not known:
        raise NmfsyncError(f"{place}: must hold two image names, not {line!r}")
    i, j = sorted(number[name] for name in known[0])
    if i == j:
        raise NmfsyncError(f"{place}: {known[0][0]} is paired with itself")
    return i, j
