"""Members of the clusters, in linked lists."""

import numpy as np

from nmfsync.runtime.compiled import compiled

EPSILON = 1e-9  # a gain below is a rounding error


@compiled
def member_lists(label):
    """Head, next and previous members, and size of every cluster."""
    m = len(label)
    lists = (np.full(m, -1), np.full(m, -1), np.full(m, -1), np.zeros(m, dtype=np.int64))
    for p in range(m - 1, -1, -1):
        add_member(p, label[p], label, lists)
    return lists


@compiled
def add_member(p, cluster, label, lists):
    """Put a feature into a cluster."""
    head, after, before, size = lists
    label[p] = cluster
    size[cluster] += 1
    before[p], after[p] = -1, head[cluster]
    if head[cluster] >= 0:
        before[head[cluster]] = p
    head[cluster] = p


@compiled
def remove_member(p, label, lists):
    """Take a feature out of its cluster."""
    head, after, before, size = lists
    size[label[p]] -= 1
    if before[p] >= 0:
        after[before[p]] = after[p]
    else:
        head[label[p]] = after[p]
    if after[p] >= 0:
        before[after[p]] = before[p]
