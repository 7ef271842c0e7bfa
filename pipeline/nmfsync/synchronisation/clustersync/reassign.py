"""The first move: all features of one image choose their clusters anew."""

import numpy as np

from nmfsync.runtime.compiled import compiled
from nmfsync.synchronisation.clustersync.assignment import assign
from nmfsync.synchronisation.clustersync.members import (
    EPSILON,
    add_member,
    member_lists,
    remove_member,
)

SWEEPS = 3


@compiled
def reassign_images(matches, prices, label, changed):
    """Let the features of one image after another choose their clusters anew.

    Begins with the images that the clusters marked in `changed` have matches in.
    Returns the marks of those that lost or won a feature.
    """
    first, other, weight, image, offset = matches
    missing, image_pair, opening = prices
    m, k = len(image), len(offset) - 1
    lists = member_lists(label)
    head, after, _, size = lists
    widest, most = 0, 0
    for i in range(k):
        widest = max(widest, first[offset[i + 1]] - first[offset[i]])
        most = max(most, offset[i + 1] - offset[i])
    widest += most  # the cluster a feature is in may share no match with it
    row_first = np.zeros(most + 1, dtype=np.int64)
    column, gain = np.empty(widest, dtype=np.int64), np.empty(widest)
    cluster_of, column_of = np.empty(widest, dtype=np.int64), np.full(m, -1)
    touched = np.empty(widest, dtype=np.int64)
    reward, degree = np.zeros(m), np.zeros(m, dtype=np.int64)
    # A bound that spares most clusters the walk through their members.
    cheapest = np.zeros(k)
    for i in range(k if k > 1 else 0):
        factor = image_pair[i].copy()
        factor[i] = np.inf
        cheapest[i] = missing.min() * factor.min()
    # Marks hold the number of the visit that set them, so that none is ever cleared.
    matched, seen_by = np.full(m, -1), np.full(m, -1)
    sees = np.full(k, -1)
    waiting, now = np.zeros(k, dtype=np.bool_), np.zeros(m, dtype=np.bool_)
    for p in range(m):
        if changed[label[p]]:
            waiting[image[p]] = True
            for entry in range(first[p], first[p + 1]):
                waiting[image[other[entry]]] = True
    empty, empties = np.empty(m, dtype=np.int64), 0
    for cluster in range(m):
        if head[cluster] < 0:
            empty[empties] = cluster
            empties += 1
    visit = 0
    for _ in range(SWEEPS):
        moved = 0
        for i in range(k):
            if not waiting[i]:
                continue
            waiting[i] = False
            visit += m + 1
            start, stop = offset[i], offset[i + 1]
            for p in range(start, stop):
                remove_member(p, label, lists)
                for entry in range(first[p], first[p + 1]):
                    seen_by[other[entry]] = visit
            edges, columns = 0, 0
            for p in range(start, stop):
                stamp = visit + p
                n = 0
                for entry in range(first[p], first[p + 1]):
                    q = other[entry]
                    matched[q], sees[image[q]] = stamp, stamp
                    if reward[label[q]] == 0.0:
                        touched[n] = label[q]
                        n += 1
                    reward[label[q]] += weight[entry]
                    degree[label[q]] += 1
                if reward[label[p]] == 0.0 and head[label[p]] >= 0:
                    touched[n] = label[p]
                    n += 1
                for t in range(n):
                    cluster = touched[t]
                    value = reward[cluster] + opening
                    reward[cluster] = 0.0
                    if cluster == label[p]:
                        value += EPSILON  # ties: stay
                    if value <= (size[cluster] - degree[cluster]) * cheapest[i]:
                        degree[cluster] = 0
                        continue
                    degree[cluster] = 0
                    q = head[cluster]
                    while q >= 0 and value > 0:
                        if matched[q] != stamp:
                            others = (sees[image[q]] == stamp) + (seen_by[q] == visit)
                            value -= image_pair[i, image[q]] * missing[others]
                        q = after[q]
                    if value > 0:
                        if column_of[cluster] < 0:
                            column_of[cluster], cluster_of[columns] = columns, cluster
                            columns += 1
                        column[edges], gain[edges] = column_of[cluster], value
                        edges += 1
                row_first[p - start + 1] = edges
            chosen = assign(row_first[: stop - start + 1], column, gain, columns)
            for c in range(columns):
                column_of[cluster_of[c]] = -1
            n, empties = _move(
                matches,
                chosen,
                cluster_of,
                i,
                label,
                lists,
                now,
                waiting,
                empty,
                empties,
            )
            moved += n
        if moved == 0:
            break
    return now


@compiled
def _move(matches, chosen, cluster_of, i, label, lists, changed, waiting, empty, empties):
    """Carry out an image's choice; a feature without a cluster gets an empty one.

    Returns how many features have moved, and the new number of empty clusters.
    """
    first, other, image = matches.first, matches.other, matches.image
    head = lists[0]
    start, stop = matches.offset[i], matches.offset[i + 1]
    moved = 0
    old = label[start:stop].copy()
    for p in range(start, stop):
        if chosen[p - start] >= 0:
            add_member(p, cluster_of[chosen[p - start]], label, lists)
    for p in range(start, stop):
        cluster = old[p - start]
        if chosen[p - start] < 0 and head[cluster] < 0:
            add_member(p, cluster, label, lists)
        elif chosen[p - start] < 0:
            empties -= 1
            add_member(p, empty[empties], label, lists)
    for p in range(start, stop):
        if head[old[p - start]] < 0:
            empty[empties] = old[p - start]
            empties += 1
        if label[p] != old[p - start]:
            moved += 1
            changed[label[p]] = changed[old[p - start]] = True
            for entry in range(first[p], first[p + 1]):
                waiting[image[other[entry]]] = True
    return moved, empties
