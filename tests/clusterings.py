"""Clusterings of features, and the matches between them, for the tests of ClusterSync."""

import numpy as np
from hypothesis import strategies as st

from nmfsync import PairwiseMatches
from nmfsync.synchronisation.clustersync.graph import MatchGraph, build_graph

SEEDS = st.integers(0, 2**32 - 1)


def cliques(*tracks):
    """Return the matches between all features of a track."""
    return [(p, q) for track in tracks for p in track for q in track if p < q]


def without_pairs(matches, left_out) -> PairwiseMatches:
    """Leave out all matches between some pairs of images."""
    W, image = matches.W.toarray(), matches.image_of
    for i, j in left_out:
        W[np.ix_(image == i, image == j)] = W[np.ix_(image == j, image == i)] = 0
    return PairwiseMatches(W, matches.sizes)


def read(matches) -> MatchGraph:
    return build_graph(matches.W, matches.sizes)


def compared(graph) -> np.ndarray:
    """(k, k): which images have matches."""
    return by_images(graph, graph.pairs.matches) > 0


def by_images(graph, values) -> np.ndarray:
    """(k, k) values from those of the pairs of images with matches; 0 for others."""
    k = len(graph.offset) - 1
    table = np.zeros((k, k))
    table[graph.pairs.image, graph.pairs.other] = values
    return table


def of_pairs(graph, table) -> np.ndarray:
    """Take the values of the pairs of images with matches from a table (k, k)."""
    return table[graph.pairs.image, graph.pairs.other].astype(np.float32)


def dense(matches) -> np.ndarray:
    """(m, m) weights without the diagonal."""
    A = matches.W.toarray()
    np.fill_diagonal(A, 0)
    return A


def partition(label) -> list[int]:
    """Number the clusters by their first feature."""
    return np.unique(label, return_index=True)[1][np.unique(label, return_inverse=True)[1]].tolist()


def random_labels(rng, matches) -> np.ndarray:
    """Make a random clustering with numbers below m."""
    m, widest = len(matches.image_of), max(matches.sizes)
    used = rng.choice(m, min(m, widest + rng.integers(4)), replace=False)
    return np.concatenate([rng.choice(used, size, replace=False) for size in matches.sizes]).astype(
        np.int64
    )


def partners(A, image, p, q) -> int:
    """Count which of p and q have a match in the image of the other."""
    return int(A[p, image == image[q]].any()) + int(A[q, image == image[p]].any())
