"""A clustering that changes: the members of every cluster in a doubly linked list."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.types.arrays import IntArray

# A gain below this is a rounding error: scores are sums of numbers around 1 in double precision.
EPSILON = 1e-9


class Clusters(NamedTuple):
    """The cluster of every feature, and the members of every cluster.

    A cluster is a number below m; at most m of them have members. In a kernel,

        p = clusters.head[c]
        while p >= 0:
            ...
            p = clusters.next[p]

    visits the members of cluster c.

    Attributes
    ----------
    label : (m,) int64 array
        The cluster of every feature; of one that is taken out, its last cluster.
    head : (m,) int32 array
        The first member of every cluster, -1 if it is empty.
    next, previous : (m,) int32 arrays
        The neighbours of every feature in the list of its cluster, -1 at the ends.
    size : (m,) int32 array
        The number of members of every cluster.
    """

    label: IntArray
    head: NDArray[np.int32]
    next: NDArray[np.int32]
    previous: NDArray[np.int32]
    size: NDArray[np.int32]


@compiled
def list_members(label):
    """Make the `Clusters` of these labels, which will be changed along with them."""
    m = len(label)
    clusters = Clusters(
        label,
        np.full(m, -1, np.int32),
        np.full(m, -1, np.int32),
        np.full(m, -1, np.int32),
        np.zeros(m, np.int32),
    )
    for p in range(m - 1, -1, -1):
        add_member(clusters, p, label[p])
    return clusters


@inlined
def add_member(clusters, p, cluster):
    """Put a feature that is in no cluster at the head of this one."""
    second = clusters.head[cluster]
    clusters.label[p] = cluster
    clusters.size[cluster] += 1
    clusters.previous[p], clusters.next[p] = -1, second
    if second >= 0:
        clusters.previous[second] = p
    clusters.head[cluster] = p


@inlined
def remove_member(clusters, p):
    """Take a feature out of its cluster; its label stays."""
    cluster, before, after = clusters.label[p], clusters.previous[p], clusters.next[p]
    clusters.size[cluster] -= 1
    if after >= 0:
        clusters.previous[after] = before
    if before >= 0:
        clusters.next[before] = after
    else:
        clusters.head[cluster] = after
