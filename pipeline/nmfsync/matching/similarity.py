"""The most similar images of every image, by VLAD vectors of their descriptors.

VLAD describes an image by one vector (Jégou, Douze, Schmid, Pérez, CVPR 2010):
every descriptor is assigned to the nearest word of a vocabulary, the differences
between the descriptors of a word and the word are added up, and every word's sum
is normalised to length 1, so that repeated structure does not outweigh the rest
(Arandjelović, Zisserman, CVPR 2013). Descriptors are RootSIFT (the same authors,
CVPR 2012), and the vocabulary is learnt from the images themselves.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.vq import kmeans2
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.engine import stream
from nmfsync.runtime.progress import bar
from nmfsync.runtime.threads import map_blocks
from nmfsync.types.arrays import BoolArray, Float32Array, IntArray
from nmfsync.types.features import Features

WORDS = 64  # number of words of the vocabulary, at most

SAMPLES = 50_000  # largest number of descriptors that the vocabulary is learnt from

# Least number of these descriptors for each word, so that few features make few words. A word
# with a single descriptor equals it, and the difference is 0.
_PER_WORD = 40

_ITERATIONS = 20  # of k-means

# Length of the vectors, whose entries are rounded to whole numbers. Products and their partial
# sums are then whole numbers below 2²⁴ and exact in single precision, whatever the order of
# summation, so that equal similarities compare as equal.
_LENGTH = 4000

ROWS = 256  # images whose similarities to all others a thread holds in memory at a time

BATCH = 16  # images that a task reads


def nearest_pairs(features: Sequence[Features], neighbours: int, progress: bool = True) -> IntArray:
    """Pair every image with the images most similar to it.

    Similarity is the scalar product of the images' VLAD vectors. Among equally
    similar images the first ones are taken. The same features give the same
    pairs, whatever the number of threads. The vectors take 32 kB of memory for
    every image.

    Parameters
    ----------
    features : sequence of Features
        One item for every image.
    neighbours : int
        Number of similar images for every image, or all if there are fewer.
    progress : bool
        Show a progress bar if stderr is a terminal.

    Returns
    -------
    (n, 2) int64 array
        Rows (i, j) with i < j in lexicographic order: one image is among the
        most similar ones of the other. Images without features are in no pair.

    Raises
    ------
    NmfsyncError
        If the number of neighbours is smaller than 1.
    """
    if neighbours < 1:
        raise NmfsyncError(f"the number of neighbours must be at least 1, got {neighbours}")
    batches = [range(n, min(n + BATCH, len(features))) for n in range(0, len(features), BATCH)]
    tasks = (([features[i] for i in batch],) for batch in batches)
    described = np.flatnonzero(np.concatenate([[], *stream(say_described, tasks)]))
    if len(described) < 2:
        return np.empty((0, 2), np.int64)
    chosen = [features[i] for i in described.tolist()]
    vectors = _vlad(chosen, _vocabulary(chosen), progress)
    with threadpool_limits(1, "blas"):
        pairs = _nearest(vectors, min(neighbours, len(described) - 1))
    return described[pairs]


def say_described(features: Sequence[Features]) -> BoolArray:
    """Say which images have a descriptor that is not all zeros."""
    return np.array([bool(f.loaded().descriptors.any()) for f in features], dtype=bool)


def _vocabulary(features: Sequence[Features]) -> Float32Array:
    """Learn words (n, 128) by k-means, which starts from n different descriptors."""
    samples = _root_sift(np.unique(_sample(features), axis=0))
    count = int(np.clip(len(samples) // _PER_WORD, 1, WORDS))
    start = samples[np.linspace(0, len(samples), count, endpoint=False).astype(np.int64)]
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        # A word without descriptors keeps its place and is harmless.
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        words, _ = kmeans2(samples, start, iter=_ITERATIONS, minit="matrix")
    return np.asarray(words)


def _sample(features: Sequence[Features]) -> NDArray[np.uint8]:
    """Take descriptors (n, 128) evenly from those of all images."""
    ends = np.cumsum([len(f) for f in features])
    places = np.linspace(0, ends[-1], min(ends[-1], SAMPLES), endpoint=False).astype(np.int64)
    parts = np.split(places, np.searchsorted(places, ends[:-1]))
    # A place minus the end of its image is a negative index, counted from that end.
    own = [part - end for part, end in zip(parts, ends.tolist(), strict=True)]
    batches = [slice(n, n + BATCH) for n in range(0, len(features), BATCH)]
    tasks = (((features[batch], own[batch]),) for batch in batches)
    return np.concatenate(list(stream(take_descriptors, tasks)))


def take_descriptors(task: tuple[Sequence[Features], Sequence[IntArray]]) -> NDArray[np.uint8]:
    """Return the descriptors of images at these places, one image after the other."""
    wanted = [(f.loaded(), places) for f, places in zip(*task, strict=True) if len(places)]
    return np.concatenate([np.empty((0, 128), np.uint8), *(f.descriptors[p] for f, p in wanted)])


def _root_sift(descriptors: NDArray[np.uint8]) -> Float32Array:
    """Normalise descriptors (n, 128) to a sum of 1 and take square roots.

    A descriptor of zeros describes nothing and is left out.
    """
    total = descriptors.sum(axis=1, dtype=np.float32)
    kept = total > 0
    return np.asarray(np.sqrt(descriptors[kept] / total[kept, None]))


def _vlad(features: Sequence[Features], words: Float32Array, progress: bool) -> Float32Array:
    """Return the vectors of all images: (images, words · 128) whole numbers, see `_LENGTH`."""
    vectors = np.empty((len(features), words.size), np.float32)
    batches = [slice(n, n + BATCH) for n in range(0, len(features), BATCH)]
    tasks = (((features[batch], words),) for batch in batches)
    with bar(len(features), "Describing", "image", progress) as progress_bar:
        for batch, found in zip(batches, stream(describe_images, tasks), strict=True):
            vectors[batch] = found
            progress_bar.update(len(found))
    return vectors


def describe_images(task: tuple[Sequence[Features], Float32Array]) -> Float32Array:
    """Return the vectors of some images, one a row."""
    features, words = task
    with threadpool_limits(1, "blas"):  # more threads add in another order
        return np.stack(
            [_vlad_of_image(_root_sift(f.loaded().descriptors), words) for f in features]
        )


def _vlad_of_image(descriptors: Float32Array, words: Float32Array) -> Float32Array:
    """Return the vector (words · 128,) of an image with descriptors (n, 128)."""
    n = len(descriptors)
    # The nearest word minimises |d − w|² = |d|² − 2 (d·w − |w|²/2).
    scores = descriptors @ words.T - (words**2).sum(axis=1) / 2
    word = scores.argmax(axis=1)
    member = sparse.csr_array((np.ones(n, np.float32), word, np.arange(n + 1)), (n, len(words))).T
    sums = member @ (descriptors - words[word])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    np.divide(sums, lengths, out=sums, where=lengths > 0)
    length = max(1.0, float(np.linalg.norm(sums)))  # 0 if all sums are 0, else at least 1
    return np.asarray(np.rint(sums.ravel() * np.float32(_LENGTH / length)))


def _nearest(vectors: Float32Array, neighbours: int) -> IntArray:
    """Return the pairs of which one image is among the nearest of the other (`nearest_pairs`)."""
    k = len(vectors)

    def nearest_of(rows: slice) -> IntArray:
        # Ranks order images by similarity, and equally similar ones by their number.
        ranks = (vectors[rows] @ vectors.T).astype(np.int64) * k - np.arange(k)
        i = np.arange(rows.start, rows.stop)
        ranks[i - rows.start, i] = np.iinfo(np.int64).min
        nearest = np.argpartition(ranks, -neighbours, axis=1)[:, -neighbours:]
        return np.column_stack([np.repeat(i, neighbours), nearest.ravel()])

    pairs = np.concatenate(map_blocks(nearest_of, k, ROWS))
    return np.unique(np.sort(pairs, axis=1), axis=0)
