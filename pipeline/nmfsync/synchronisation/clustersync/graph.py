"""The matches as a graph: features are its nodes, matches its edges."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nmfsync.runtime.compiled import compiled
from nmfsync.types.arrays import BoolArray, FloatArray, IntArray


class MatchGraph(NamedTuple):
    """W without its diagonal, as the kernels read it.

    Attributes
    ----------
    first : (m + 1,) int64 array
        Feature p has the entries first[p] to first[p + 1] - 1 (CSR).
    other : (n,) int32 array
        The matched feature of every entry, ascending for each feature.
    weight : (n,) float64 array
        What a match counts. One that is not above 0 holds no features together, but is no
        missing match either.
    image : (m,) int32 array
        The image of every feature.
    offset : (k + 1,) int64 array
        Image i has the features offset[i] to offset[i + 1] - 1.
    """

    first: NDArray[np.int64]
    other: NDArray[np.int32]
    weight: FloatArray
    image: NDArray[np.int32]
    offset: NDArray[np.int64]

    @property
    def feature(self) -> NDArray[np.int32]:
        """(n,) ints: the feature that every entry belongs to."""
        return np.repeat(np.arange(len(self.image), dtype=np.int32), np.diff(self.first))


def build_graph(W: sparse.csr_array, sizes: IntArray) -> MatchGraph:
    """Prepare a match matrix for the kernels.

    Parameters
    ----------
    W : sparse array, shape (m, m)
        Symmetric and non-negative.
    sizes : (k,) int array
        Number of features of every image.
    """
    m = W.shape[0]
    W = sparse.csr_array(W, copy=True)
    W.sort_indices()
    row = np.repeat(np.arange(m), np.diff(W.indptr))
    between = (W.indices != row) & (W.data != 0)
    first = np.concatenate([[0], np.cumsum(np.bincount(row[between], minlength=m))])
    return MatchGraph(
        first.astype(np.int64),
        W.indices[between].astype(np.int32),
        W.data[between].astype(np.float64),
        np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def matches_where(graph: MatchGraph, kept: BoolArray) -> MatchGraph:
    """Keep some entries (n,) of a graph; of a match, both or none."""
    counts = np.bincount(graph.feature[kept], minlength=len(graph.image))
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return graph._replace(first=first, other=graph.other[kept], weight=graph.weight[kept])


def count_matches(graph: MatchGraph) -> IntArray:
    """(k, k) number of matches between every two images."""
    k = len(graph.offset) - 1
    i = np.repeat(graph.image.astype(np.int64), np.diff(graph.first))
    j = graph.image[graph.other]
    return np.bincount(i * k + j, minlength=k * k).reshape(k, k)


def connected_parts(graph: MatchGraph, label: IntArray) -> IntArray:
    """Take clusters apart that no match holds together any more.

    Pairs of images that were never matched charge nothing, so that features
    which only came together over a third one would stay.
    """
    m = len(label)
    p, q = graph.feature, graph.other
    inside = (label[p] == label[q]) & (graph.weight > 0)
    matches = sparse.coo_array(
        (np.ones(inside.sum(), dtype=bool), (p[inside], q[inside])), shape=(m, m)
    )
    _, part = connected_components(matches, directed=False)
    return np.asarray(part, dtype=np.int64)


def keep_uncontradicted(graph: MatchGraph, label: IntArray) -> IntArray:
    """Put connected features together where nothing contradicts their matches.

    That is, no two of them are in one image, and all of them are matched with each
    other where their images are matched at all.
    """
    m = len(label)
    p, q = graph.feature, graph.other
    matches = sparse.coo_array((np.ones(len(p), dtype=bool), (p, q)), shape=(m, m))
    _, part = connected_components(matches, directed=False)
    order = np.argsort(part, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(part[order], prepend=-1)), m)
    found = np.bincount(part[p], minlength=len(ends) - 1) // 2
    label = label.copy()
    _keep_uncontradicted(order, ends, found, graph.image, count_matches(graph) > 0, label)
    return label


@compiled
def _keep_uncontradicted(order, ends, found, image, compared, label):
    """Label every component order[ends[c]] to order[ends[c + 1] - 1] that has found[c] matches."""
    k = len(compared)
    for c in range(len(found)):
        members = order[ends[c] : ends[c + 1]]
        if len(members) > k:  # an image is there twice
            continue
        possible = 0
        for s in range(len(members)):
            for t in range(s):
                i, j = image[members[s]], image[members[t]]
                possible += len(members) ** 2 if i == j else compared[i, j]
        if possible == found[c]:
            label[members] = label[members[0]]
