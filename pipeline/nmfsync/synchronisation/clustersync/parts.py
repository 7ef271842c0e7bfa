"""Clustering of matches in parts, each of which fits into one process.

Components that fit into a part give the same bits as without parts: no cluster
spans two of them, and what is learnt is learnt from the counts of all parts
together. A component that does not fit is cut between images. The cuts of the
odd searches lie in the middle between those of the even ones, and a cluster
always is in one part as a whole: so features on both sides of a cut exchange
clusters in the next search, and in the last one.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from nmfsync.runtime.compiled import csr_arrays
from nmfsync.synchronisation.clustersync.graph import ImagePairs, MatchGraph
from nmfsync.synchronisation.clustersync.probabilities import (
    Counts,
    Learnt,
    count,
    first_clusters,
    first_learnt,
    improve,
    learn_from,
    with_evidence,
)
from nmfsync.synchronisation.clustersync.search import ROUNDS, ROUNDS_TO_LEARN
from nmfsync.types.arrays import AnyArray, FloatArray, IntArray

Int32Array = NDArray[np.int32]  # numbers of features and images, half as much to send

# Reads the matches among n features, in any process:
# first : (n + 1,) int64 array
#     The feature s has the entries first[s] to first[s + 1] - 1.
# other : (e,) int32 array
#     Their places among the n features, ascending for each s.
# probability : (e,) float64 array
Reader = Callable[[], tuple[IntArray, Int32Array, FloatArray]]


class Source(Protocol):
    """Where the matches are."""

    def part(self, features: Int32Array) -> Reader:
        """Return what reads the matches among some features, (n,) int32, ascending."""
        ...


class Problem(NamedTuple):
    """Matches to be clustered in parts.

    Attributes
    ----------
    source : Source
    component : (m,) int array
        The connected component of every feature, a number from 0.
    offset : (k + 1,) int64 array
        Image i has the features offset[i] to offset[i + 1] - 1.
    pairs : ImagePairs
        The pairs of images with matches.
    """

    source: Source
    component: AnyArray
    offset: IntArray
    pairs: ImagePairs


# Calls a function of a module for every task, anywhere, and hands out the results in order.
Solve = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]


def cluster_in_parts(
    problem: Problem,
    theta: float,
    updates: int,
    most: int,
    solve: Solve,
    done: Callable[[], Any] = lambda: None,
) -> tuple[Int32Array, int]:
    """Cluster matches that are right with known probabilities, part by part.

    The objective is that of `clustersync`.

    Parameters
    ----------
    problem : Problem
    theta : float
    updates : int
        How often the prices are estimated anew.
    most : int
        Number of features of a part, about: components that are larger are cut.
    solve : callable
        As `itertools.starmap`: what solves several parts at a time.
    done : callable
        Called after every part.

    Returns
    -------
    label : (m,) int32 array
        The cluster of every feature: the number of its first feature.
    inside : int
        Matches inside the parts of the last search of all; the others lie across cuts.
    """
    cuts = _Cuts(problem, most)
    label, learnt, inside = None, first_learnt(len(problem.pairs.other)), 0
    for n in range(updates):
        label, counts, _ = _search_parts(
            problem, theta, learnt, label, ROUNDS_TO_LEARN, cuts.parts(n, label), solve, done
        )
        learnt = learn_from(counts)
    for n, everything in ((updates, True), (updates + 1, False)):
        parts = cuts.parts(n, label, everything)
        label, _, found = _search_parts(problem, theta, learnt, label, ROUNDS, parts, solve, done)
        inside = found if everything else inside
    assert label is not None
    return label, inside


def parts_of(problem: Problem, most: int, label: AnyArray | None = None) -> Iterator[Int32Array]:
    """Hand out the features of all parts, ascending; no cluster of a result is in two."""
    return _Cuts(problem, most).parts(0, label)


class _Cuts:
    """Which features are solved together.

    Images are put in an order in which those that have matches are near each other.
    Components that are not cut are put together by their first image in it, so that
    a part concerns few images.
    """

    def __init__(self, problem: Problem, most: int) -> None:
        self._most, self._component = most, problem.component
        k = len(problem.offset) - 1
        image_of = np.repeat(np.arange(k, dtype=np.int32), np.diff(problem.offset))
        position = _positions(problem.pairs, k)[image_of]
        size = np.bincount(problem.component)
        first = np.full(len(size), k, np.int32)
        np.minimum.at(first, problem.component, position)
        whole = np.flatnonzero((size > 1) & (size <= most))  # features alone are no problem
        whole = whole[np.argsort(first[whole], kind="stable")]
        part = np.full(len(size), -1, np.int32)
        part[whole] = (np.cumsum(size[whole]) - 1) // most
        self._whole = _groups(part[problem.component])
        self._giant = np.flatnonzero(size > most)
        # Where a feature lies in its component: the number of features in images before its own.
        self._place = np.zeros(len(image_of) if len(self._giant) else 0, np.int64)
        for c in self._giant.tolist():
            features = np.flatnonzero(problem.component == c)
            features = features[np.argsort(position[features], kind="stable")]
            begins = np.flatnonzero(np.diff(position[features], prepend=-1))
            counts = np.diff(np.append(begins, len(features)))
            self._place[features] = np.repeat(begins, counts)

    def parts(
        self, n: int, label: AnyArray | None, everything: bool = True
    ) -> Iterator[Int32Array]:
        """Yield the features of every part, ascending; without `everything`, of what is cut."""
        if everything:
            yield from self._whole
        for c in self._giant.tolist():
            features = np.flatnonzero(self._component == c).astype(np.int32)
            place: AnyArray = self._place[features]
            if label is not None:  # clusters are where their features are, on average
                _, cluster = np.unique(label[features], return_inverse=True)
                place = (np.bincount(cluster, place) / np.bincount(cluster))[cluster]
            part = ((place + (n % 2) * self._most / 2) // self._most).astype(np.int64)
            for places in _groups(part):
                yield features[places]


def _positions(pairs: ImagePairs, k: int) -> Int32Array:
    """Return the place (k,) of every image in an order that keeps matched ones near each other."""
    content = (np.ones(len(pairs.other), np.int8), pairs.other, pairs.first)
    linked = sparse.csr_matrix(content, shape=(k, k))
    position = np.empty(k, np.int32)
    position[reverse_cuthill_mckee(linked, symmetric_mode=True)] = np.arange(k)
    return position


def _groups(number: AnyArray) -> list[Int32Array]:
    """Return the places of every number that is not negative, ascending, by number."""
    order = np.argsort(number, kind="stable").astype(np.int32)
    order = order[np.searchsorted(number[order], 0) :]
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []


def _search_parts(
    problem: Problem,
    theta: float,
    learnt: Learnt,
    label: Int32Array | None,
    rounds: int,
    parts: Iterable[Int32Array],
    solve: Solve,
    done: Callable[[], Any],
) -> tuple[Int32Array, Counts, int]:
    """Search in every part; return the labels, and counts and matches of all parts together."""
    m = len(problem.component)
    result = np.arange(m, dtype=np.int32) if label is None else label.copy()
    c = len(problem.pairs.other)
    pairs, matched, possible, confirmed = np.zeros(c), np.zeros(c), 0.0, np.zeros((2, 2))
    inside = 0
    begun: list[tuple[Int32Array, IntArray]] = []  # features and pairs of images of a part

    def tasks() -> Iterator[tuple[Any, ...]]:
        for features in parts:
            images, sizes = images_of(features, problem.offset)
            within, numbers = _pairs_among(images, problem)
            begun.append((features, numbers))
            own = learnt._replace(image_pair=learnt.image_pair[numbers])
            start = None if label is None else numbered(label[features])
            reader = problem.source.part(features)
            yield ((reader, sizes, within, theta, own, start, rounds),)

    for found, counts, matches in solve(solve_part, tasks()):
        features, numbers = begun.pop(0)
        inside += matches
        _, first = np.unique(found, return_index=True)
        result[features] = features[first[found]]
        pairs[numbers] += counts.pairs
        matched[numbers] += counts.matched
        possible += counts.possible
        confirmed += counts.confirmed
        done()
    return result, Counts(pairs, matched, possible, confirmed), inside


def images_of(features: Int32Array, offset: IntArray) -> tuple[IntArray, IntArray]:
    """Return the images of features, which ascend, and the number of features of each."""
    image = np.searchsorted(offset, features, "right") - 1
    images, sizes = np.unique(image, return_counts=True)
    return images, sizes


def numbered(label: AnyArray) -> Int32Array:
    """Give the labels (n,) numbers from 0."""
    return np.asarray(np.unique(label, return_inverse=True)[1], np.int32)


def _pairs_among(images: IntArray, problem: Problem) -> tuple[ImagePairs, IntArray]:
    """Return the pairs of some images, numbered from 0, and their places among all pairs."""
    every, k = problem.pairs, len(problem.offset) - 1
    content = (np.arange(1, len(every.other) + 1), every.other, every.first)
    chosen = sparse.csr_array(content, shape=(k, k))[images][:, images]
    chosen.sort_indices()
    numbers = chosen.data - 1
    return ImagePairs(*csr_arrays(chosen), every.matches[numbers]), numbers


def solve_part(task: tuple[Any, ...]) -> tuple[Int32Array, Counts, int]:
    """Search in one part; return its labels, what is learnt from them, and count its matches."""
    reader, sizes, pairs, theta, learnt, label, rounds = task
    # What comes from another process may be read-only, for which kernels would be compiled anew.
    pairs, (missing, image_pair, independence) = ImagePairs(*map(np.array, pairs)), learnt
    learnt = Learnt(np.array(missing), np.array(image_pair), independence)
    image = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    first, other, probability = reader()
    offset = np.concatenate([[0], np.cumsum(sizes)])
    graph = with_evidence(MatchGraph(first, other, probability, image, offset, pairs), theta)
    label = first_clusters(graph) if label is None else label.astype(np.int64)
    label = improve(graph, learnt, label, rounds)
    return label.astype(np.int32), count(graph, label), len(graph.other) // 2
