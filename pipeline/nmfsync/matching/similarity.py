"""The images most similar to each image, by VLAD vectors of their descriptors."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.vq import kmeans2
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.progress import bar
from nmfsync.runtime.threads import map_blocks
from nmfsync.types.arrays import Float32Array, IntArray
from nmfsync.types.features import Features

WORDS = 64  # of the vocabulary

SAMPLES = 50_000  # descriptors to learn it from, at most

_PER_WORD = 40  # and at least so many for a word: one alone has no differences from it

_ITERATIONS = 20  # of k-means

# Vectors have this length and whole entries. Products, partial sums included, are then whole
# numbers below 2²⁴ and exact in single precision: equal similarities are equal.
_LENGTH = 4000

ROWS = 256  # images whose similarities to all others every thread has in memory at a time


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


def _root_sift(descriptors: NDArray[np.uint8]) -> Float32Array:
    """Square roots of descriptors (n, 128) whose entries are made to add up to 1.

    A descriptor of zeros describes nothing, and is left out.
    """
    total = descriptors.sum(axis=1, dtype=np.float32)
    kept = total > 0
    return np.asarray(np.sqrt(descriptors[kept] / total[kept, None]))


def _sample(descriptors: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Descriptors (n, 128), spread evenly over those of all images."""
    ends = np.cumsum([len(d) for d in descriptors])
    places = np.linspace(0, ends[-1], min(ends[-1], SAMPLES), endpoint=False).astype(np.int64)
    shares = np.split(places, np.searchsorted(places, ends[:-1]))
    return np.concatenate(
        [d[at - end] for d, at, end in zip(descriptors, shares, ends, strict=True)]
    )


def _vocabulary(descriptors: Sequence[NDArray[np.uint8]]) -> Float32Array:
    """Words (n, 128), by k-means from different descriptors."""
    samples = _root_sift(np.unique(_sample(descriptors), axis=0))
    count = int(np.clip(len(samples) // _PER_WORD, 1, WORDS))
    start = samples[np.linspace(0, len(samples), count, endpoint=False).astype(np.int64)]
    with warnings.catch_warnings():
        # A word that is nearest to nothing stays where it is, and does no harm.
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        words, _ = kmeans2(samples, start, iter=_ITERATIONS, minit="matrix")
    return np.asarray(words)


def _vlad(
    descriptors: Sequence[NDArray[np.uint8]], words: Float32Array, progress: bool
) -> Float32Array:
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


def _vlad_of_image(descriptors: Float32Array, words: Float32Array) -> Float32Array:
    n = len(descriptors)
    scores = descriptors @ words.T - (words**2).sum(axis=1) / 2
    word = scores.argmax(axis=1)  # the nearest
    member = sparse.csr_array((np.ones(n, np.float32), word, np.arange(n + 1)), (n, len(words))).T
    sums = member @ (descriptors - words[word])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    np.divide(sums, lengths, out=sums, where=lengths > 0)
    length = max(1.0, float(np.linalg.norm(sums)))  # of the whole: 0, or 1 and more
    return np.asarray(np.rint(sums.ravel() * np.float32(_LENGTH / length)))


def _nearest(vectors: Float32Array, neighbours: int) -> IntArray:
    """Pairs i < j of which one is among the nearest of the other, in lexicographic order."""
    k = len(vectors)

    def work(rows: slice) -> IntArray:
        # Of equal similarities that to the first image is to be the largest.
        ranks = (vectors[rows] @ vectors.T).astype(np.int64) * k - np.arange(k)
        i = np.arange(rows.start, rows.stop)
        ranks[i - rows.start, i] = np.iinfo(np.int64).min
        nearest = np.argpartition(ranks, -neighbours, axis=1)[:, -neighbours:]
        return np.column_stack([np.repeat(i, neighbours), nearest.ravel()])

    pairs = np.concatenate(map_blocks(work, k, ROWS))
    return np.unique(np.sort(pairs, axis=1), axis=0)
