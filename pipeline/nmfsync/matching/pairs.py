"""Which pairs of images to match: all, near ones in order, the most similar, or those of a file."""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.errors import NmfsyncError, NmfsyncWarning, near_names, shown
from nmfsync.matching.similarity import nearest_pairs
from nmfsync.runtime.files import read_text
from nmfsync.types.arrays import BoolArray, IntArray
from nmfsync.types.features import Features

_LONGEST_LINE = 10_000  # characters; the path of a file has no more than 4,096


def all_pairs(k: int) -> IntArray:
    """Return all pairs of k images.

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
    """Return the pairs of images that are near each other in their order, as in a video.

    Parameters
    ----------
    k : int
        Number of images.
    window : int
        Largest difference between the numbers of two paired images.

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
        raise NmfsyncError(f"the window of sequential pairs must be at least 1, got {window}")
    partners = np.minimum(np.arange(k)[::-1], window)  # number of later partners of every image
    i = np.repeat(np.arange(k), partners)
    step = np.arange(len(i)) - np.repeat(np.cumsum(partners) - partners, partners)
    return np.column_stack([i, i + 1 + step]).astype(np.int64)


def read_pairs(path: Path | str, names: Sequence[str]) -> IntArray:
    """Read pairs from a text file in the format of hloc: two image names in every line.

    Empty lines and lines that start with # are skipped. A pair may occur more
    than once, in either order.

    Parameters
    ----------
    path : Path or str
    names : sequence of str
        Names of all images: paths from the folder of the images, with slashes.
        They may contain blanks.

    Returns
    -------
    (n, 2) int64 array
        As from `all_pairs`.

    Raises
    ------
    NmfsyncError
        If the file cannot be read or contains no pair, or a line does not
        consist of two different names of images.
    """
    index_of = {name: i for i, name in enumerate(names)}
    pairs = {
        _parse_line(line, index_of, f"{path}, line {number}")
        for number, text in enumerate(read_text(path).split("\n"), start=1)
        if (line := text.strip()) and not line.startswith("#")
    }
    if not pairs:
        raise NmfsyncError(
            f"{path}: contains no pair of images; write two image names in every line"
        )
    return np.array(sorted(pairs), dtype=np.int64)


def select_pairs(
    choice: str, features: Sequence[Features], names: Sequence[str], progress: bool = True
) -> IntArray:
    """Select the pairs of images to match.

    Parameters
    ----------
    choice : str
        "all"; "sequential:W", images at most W apart in their order (see
        `sequential_pairs`); "nearest:N", every image with the N most similar
        ones (see `nearest_pairs`); or the path of a file (see `read_pairs`).
    features : sequence of Features
        One item for every image.
    names : sequence of str
        Names of the images, as for `read_pairs`.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    (n, 2) int64 array
        As from `all_pairs`.

    Warns
    -----
    NmfsyncWarning
        If the pairs do not connect all images that have features.

    Raises
    ------
    NmfsyncError
        If the choice is none of these, or the file cannot be used.
    """
    if choice == "all":
        return all_pairs(len(features))
    kind, colon, count = choice.partition(":")
    if kind == "sequential" and colon:
        pairs = sequential_pairs(len(features), _parse_count(choice, count))
    elif kind == "nearest" and colon:
        pairs = nearest_pairs(features, _parse_count(choice, count), progress)
    elif os.path.exists(choice):
        pairs = read_pairs(choice, names)
    else:
        raise NmfsyncError(
            f"pairs {choice!r}: must be all, sequential:W, nearest:N or an existing file of pairs"
        )
    parts = _count_parts(pairs, np.array([len(f) > 0 for f in features], dtype=bool))
    if parts > 1:
        warnings.warn(
            f"pairs {choice!r} split the images into {parts} parts without a pair between them, "
            "which cannot share tracks; select more pairs",
            NmfsyncWarning,
            stacklevel=2,
        )
    return pairs


def _parse_count(choice: str, count: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", count):
        raise NmfsyncError(
            f"pairs {choice!r}: the part after the colon must be a whole number of at least 1"
        )
    return int(count)


def _count_parts(pairs: IntArray, has_features: BoolArray) -> int:
    """Count the connected parts of the images with features; images without connect nothing."""
    k = len(has_features)
    i, j = pairs[has_features[pairs].all(axis=1)].T
    graph = sparse.coo_array((np.ones(len(i), np.int8), (i, j)), shape=(k, k))
    parts, _ = connected_components(graph, directed=False)
    return int(parts - np.count_nonzero(~has_features))


def _parse_line(line: str, index_of: dict[str, int], place: str) -> tuple[int, int]:
    """Return the numbers of the two images in a line, the smaller one first.

    Names may contain blanks, so the line is split at every gap, and the one
    split that gives two names of images counts. `place` is file and line for
    the messages.
    """
    if len(line) > _LONGEST_LINE:
        raise NmfsyncError(f"{place}: must contain two image names, got '{shown(line)}'")
    splits = [(line[: gap.start()], line[gap.end() :]) for gap in re.finditer(r"\s+", line)]
    pairs = [(a, b) for a, b in splits if a in index_of and b in index_of]
    if len(pairs) > 1:
        raise NmfsyncError(
            f"{place}: '{shown(line)}' can be read as two image names in several ways"
        )
    if not pairs:
        raise NmfsyncError(f"{place}: {_missing_name(line, splits, index_of)}")
    i, j = sorted(index_of[name] for name in pairs[0])
    if i == j:
        raise NmfsyncError(f"{place}: {shown(pairs[0][0])} is paired with itself")
    return i, j


def _missing_name(line: str, splits: list[tuple[str, str]], index_of: dict[str, int]) -> str:
    """Say which of two names is no image, and what may be meant."""
    halves = [b if a in index_of else a for a, b in splits if a in index_of or b in index_of]
    unknown = (halves or [line.split()[0]])[0]
    hint = near_names(unknown, index_of)
    if len(splits) != 1:
        return f"must contain two image names, got '{shown(line)}'{hint}"
    return f"there is no image '{shown(unknown)}'{hint}"
