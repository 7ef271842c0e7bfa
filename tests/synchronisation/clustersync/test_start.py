"""Support and growing, against plain NumPy."""

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from builders import matches_of
from clusterings import SEEDS, cliques, dense, partition, read
from nmfsync.synchronisation.clustersync import start
from nmfsync.synchronisation.clustersync.start import LEAST_PIECE, grow, support


@settings(max_examples=60)
@given(matches=strategies.pairwise_matches(weighted=True))
def test_support_is_the_share_of_matches_that_agree(matches):
    A = dense(matches)
    degree = (A > 0).sum(axis=1)
    p, q = np.nonzero(A)
    expected = [
        (A[a, b] + np.minimum(A[a], A[b]).sum()) / min(degree[a], degree[b]) if a < b else 0
        for a, b in zip(p, q, strict=True)
    ]
    np.testing.assert_allclose(support(read(matches)), expected, atol=1e-12)


def test_support_by_hand():
    """A triangle 0-1-2 with a tail 2-3-4: of the two or three matches of 2 and 3, one agrees."""
    matches = read(matches_of([*cliques([0, 1, 2]), (2, 3), (3, 4)], [1] * 5))
    #                                   0-1  0-2       1-2            2-3       3-4
    assert support(matches).tolist() == [1, 1, 0, 1, 0, 0, 0.5, 0, 1, 0]


def plainly_grown(A, priority, image):
    """Join clusters along the matches, best first, where no image is in both."""
    p, q = np.nonzero(A)
    order = np.argsort(-priority, kind="stable")
    clusters = [{a} for a in range(len(A))]
    for a, b in zip(p[order], q[order], strict=True):
        if a < b and clusters[a] is not clusters[b]:
            both = clusters[a] | clusters[b]
            if len({image[c] for c in both}) == len(both):
                for c in both:
                    clusters[c] = both
    return [min(cluster) for cluster in clusters]


@settings(max_examples=60)
@given(
    matches=strategies.pairwise_matches(), seed=SEEDS, least=st.sampled_from([1, 8, LEAST_PIECE])
)
def test_clusters_grow_along_the_best_matches(matches, seed, least):
    """Also in pieces, of which small problems have one otherwise."""
    A = dense(matches)
    rng = np.random.default_rng(seed)
    priority = np.round(rng.random(A.shape), 1)  # with ties
    priority = (priority + priority.T)[np.nonzero(A)]
    with patch.object(start, "LEAST_PIECE", least):
        label = grow(read(matches), priority)
    assert partition(label) == plainly_grown(A, priority, matches.image_of)
