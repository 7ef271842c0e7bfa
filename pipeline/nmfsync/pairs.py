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
from scipy.cluster.vq import kmeans2
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features import Features
from nmfsync.matches import IntArray
from nmfsync.progress import bar
from nmfsync.synchronisation.parallel import map_blocks

FloatArray = NDArray[np.float32]

WORDS = 64  # of the vocabulary
_SAMPLES = 50_000  # descriptors to learn it from, at most
_PER_WORD = 40  # and at least so many for a word: one alone has no differences from it
_ITERATIONS = 20  # of k-means

# Vectors have this length and whole entries. Products, partial sums included, are then whole
# numbers below 2²⁴ and exact in single precision: equal similarities are equal.
_LENGTH = 4000

_ROWS = 256  # images whose similarities to all others every thread has in memory at a time


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


def nearest_pairs(features: Sequence[Features], neighbours: int, progress: bool = True) -> IntArray:
    """Pair every image with those most similar to it.

    Similarity is the product of the images' VLAD vectors, see the module. Equally
    similar images are taken in their order. The same features give the same
    pairs, whatever the number of threads. Besides the features, memory holds
    32 kB for every image.

    Parameters
    ----------
    features : sequence of Features
        Those of every image.
    neighbours : int
        Number of similar images for every image; fewer where there are not so many.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    (n, 2) int64 array
        As from `all_pairs`: pairs of which one image is among the nearest of
        the other. Images without features are in none.

    Raises
    ------
    NmfsyncError
        If the number of neighbours is smaller than 1.
    """
    if neighbours < 1:
        raise NmfsyncError(f"the number of neighbours must be at least 1, not {neighbours}")
    described = np.array([i for i, f in enumerate(features) if f.descriptors.any()], np.int64)
    if len(described) < 2:
        return np.empty((0, 2), np.int64)
    descriptors = [features[i].descriptors for i in described.tolist()]
    with threadpool_limits(1, "blas"):
        vectors = _vlad(descriptors, _vocabulary(descriptors), progress)
        chosen = _nearest(vectors, min(neighbours, len(described) - 1))
    return described[chosen]


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


# --- Files ---------------------------------------------------------------------------


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


# --- Similar images ------------------------------------------------------------------


def _root_sift(descriptors: NDArray[np.uint8]) -> FloatArray:
    """Square roots of descriptors (n, 128) whose entries are made to add up to 1.

    A descriptor of zeros describes nothing, and is left out.
    """
    total = descriptors.sum(axis=1, dtype=np.float32)
    kept = total > 0
    return np.sqrt(descriptors[kept] / total[kept, None])


def _sample(descriptors: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Descriptors (n, 128), spread evenly over those of all images."""
    ends = np.cumsum([len(d) for d in descriptors])
    places = np.linspace(0, ends[-1], min(ends[-1], _SAMPLES), endpoint=False).astype(np.int64)
    shares = np.split(places, np.searchsorted(places, ends[:-1]))
    return np.concatenate(
        [d[at - end] for d, at, end in zip(descriptors, shares, ends, strict=True)]
    )


def _vocabulary(descriptors: Sequence[NDArray[np.uint8]]) -> FloatArray:
    """Words (n, 128), by k-means from different descriptors."""
    samples = _root_sift(np.unique(_sample(descriptors), axis=0))
    count = int(np.clip(len(samples) // _PER_WORD, 1, WORDS))
    start = samples[np.linspace(0, len(samples), count, endpoint=False).astype(np.int64)]
    with warnings.catch_warnings():
        # A word that is nearest to nothing stays where it is, and does no harm.
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        words, _ = kmeans2(samples, start, iter=_ITERATIONS, minit="matrix")
    return words


def _vlad(
    descriptors: Sequence[NDArray[np.uint8]], words: FloatArray, progress: bool
) -> FloatArray:
    """Vectors of all images: (images, words · 128), see `_LENGTH`."""
    vectors = np.empty((len(descriptors), words.size), np.float32)
    with bar(len(descriptors), "Describing", "image", progress) as shown:

        def work(images: slice) -> None:
            for i in range(images.start, images.stop):
                vectors[i] = _vlad_of_image(_root_sift(descriptors[i]), words)
            with shown.get_lock():
                shown.update(images.stop - images.start)

        map_blocks(work, len(descriptors), 8)
    return vectors


def _vlad_of_image(descriptors: FloatArray, words: FloatArray) -> FloatArray:
    n = len(descriptors)
    scores = descriptors @ words.T - (words**2).sum(axis=1) / 2
    word = scores.argmax(axis=1)  # the nearest
    member = sparse.csr_array((np.ones(n, np.float32), word, np.arange(n + 1)), (n, len(words))).T
    sums = member @ (descriptors - words[word])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    np.divide(sums, lengths, out=sums, where=lengths > 0)
    length = max(1.0, float(np.linalg.norm(sums)))  # of the whole: 0, or 1 and more
    return np.rint(sums.ravel() * np.float32(_LENGTH / length))


def _nearest(vectors: FloatArray, neighbours: int) -> IntArray:
    """Pairs i < j of which one is among the nearest of the other, in lexicographic order."""
    k = len(vectors)

    def work(rows: slice) -> IntArray:
        # Of equal similarities that to the first image is to be the largest.
        ranks = (vectors[rows] @ vectors.T).astype(np.int64) * k - np.arange(k)
        i = np.arange(rows.start, rows.stop)
        ranks[i - rows.start, i] = np.iinfo(np.int64).min
        nearest = np.argpartition(ranks, -neighbours, axis=1)[:, -neighbours:]
        return np.column_stack([np.repeat(i, neighbours), nearest.ravel()])

    pairs = np.concatenate(map_blocks(work, k, _ROWS))
    return np.unique(np.sort(pairs, axis=1), axis=0)
