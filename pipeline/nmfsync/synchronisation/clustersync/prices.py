"""Rewards of matches and prices of missing ones, learnt from a clustering."""

import numpy as np

from nmfsync.runtime.compiled import compiled
from nmfsync.synchronisation.clustersync.graph import MatchGraph, Prices
from nmfsync.types.arrays import FloatArray, IntArray

PRIOR = 30  # pairs that a pair of images needs to count more than all images together


def learn(matches: MatchGraph, label: IntArray, strength: float) -> tuple[FloatArray, Prices]:
    """Learn the rewards of the matches and the prices of missing ones from a clustering.

    All are log-likelihood ratios, divided by that of an average match.
    """
    k = len(matches.offset) - 1
    inside, between = _confirmed(matches, label)
    average = np.log(inside / between)
    size = np.diff(matches.offset)
    row = np.repeat(np.arange(len(label)), np.diff(matches.first))
    found = count_matches(matches)
    within, found_within, missing_within = _pairs_within(matches, label)
    pair_inside = (found_within + PRIOR * inside) / (within + PRIOR)
    pair_inside = np.clip(pair_inside, 1.05 * between, 0.98)

    # Pairs of images that were matched, pairs of features in them by kind.
    either = found * (size[:, None] - found) + (size - found.T) * found.T
    kinds = [(size[:, None] - found) * (size - found.T), either, found * found.T - found]
    everywhere = np.array([kind[found > 0].sum() / 2 for kind in kinds])
    same = missing_within + 1.0
    different = np.maximum(everywhere - missing_within, 0) + 1.0
    same *= (1 - inside) / same.sum()
    different *= (1 - between) / different.sum()
    missing = strength * np.maximum(np.log(different / same), 0) / average

    expected = np.log((1 - between) / (1 - inside))
    factor = np.where(found > 0, np.log((1 - between) / (1 - pair_inside)) / expected, 0)
    reward = np.log(pair_inside / between) / average
    images = matches.image[row], matches.image[matches.other]
    return reward[images], Prices(missing, factor.astype(np.float32), _opening(label, k) / average)


def _confirmed(matches: MatchGraph, label: IntArray) -> tuple[float, float]:
    """How often a match is confirmed by another one, inside clusters and between them.

    Of two clusters with a match between them (or of one cluster), the share of
    the other pairs that are matched as well, averaged over all matches. Between
    clusters this is what wrong matches have in common: next to nothing where
    they are independent, much where things look alike.
    """
    counts = _confirmations(matches, label)
    inside = counts[0] / max(counts[1], 1)
    between = counts[2] / max(counts[3], 1)
    inside = min(max(inside, 0.05), 0.98)
    return inside, min(max(between, 1e-4), 0.9 * inside)


def _opening(label: IntArray, k: int) -> float:
    """Log-odds that a feature belongs to a track that an image can see, not to a new one."""
    size = np.bincount(label)
    single = (size == 1).sum() / k
    visible = min(size[size > 1].mean() / k, 0.95) if (size > 1).any() else 0.5
    return float(max(np.log(visible / (1 - visible) / (single + 0.02)), 0.0))


def count_matches(matches: MatchGraph) -> IntArray:
    """(k, k) number of matches between every two images."""
    k = len(matches.offset) - 1
    row = np.repeat(matches.image.astype(np.int64), np.diff(matches.first))
    return np.bincount(row * k + matches.image[matches.other], minlength=k * k).reshape(k, k)


@compiled
def _confirmations(matches, label):
    """Return the confirmed and the possible confirmations inside clusters, and between them."""
    m = len(label)
    size = np.zeros(m, dtype=np.int64)
    for p in range(m):
        size[label[p]] += 1
    order = np.argsort(label, kind="mergesort")
    count, touched = np.zeros(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    counts = np.zeros(4)
    start = 0
    while start < m:
        a, stop, n = label[order[start]], start, 0
        while stop < m and label[order[stop]] == a:
            p = order[stop]
            for entry in range(matches.first[p], matches.first[p + 1]):
                b = label[matches.other[entry]]
                if count[b] == 0:
                    touched[n] = b
                    n += 1
                count[b] += 1
            stop += 1
        for t in range(n):
            b = touched[t]
            # Inside, every match was seen from both ends.
            found = count[b] / 2 if a == b else float(count[b])
            pairs = size[a] * (size[a] - 1) / 2 if a == b else float(size[a] * size[b])
            at = 0 if a == b else 2
            counts[at] += found * (found - 1)
            counts[at + 1] += found * (pairs - 1)
            count[b] = 0
        start = stop
    return counts


@compiled
def _pairs_within(matches, label):
    """Count the pairs inside clusters.

    Returns the (k, k) numbers of all and of matched ones by images, and the (3,)
    numbers of unmatched ones by how many of the two have another match in the
    image of the other, in images with any match.
    """
    first, other, image = matches.first, matches.other, matches.image
    m, k = len(label), len(matches.offset) - 1
    pairs, found = np.zeros((k, k)), np.zeros((k, k))
    order = np.argsort(label, kind="mergesort")
    missing = np.zeros(3)
    matched, sees = np.full(m, -1), np.full(k, -1)
    compared = np.zeros((k, k), dtype=np.bool_)
    for p in range(m):
        for entry in range(first[p], first[p + 1]):
            compared[image[p], image[other[entry]]] = True
    start = 0
    while start < m:
        stop = start
        while stop < m and label[order[stop]] == label[order[start]]:
            stop += 1
        n = stop - start
        state = np.zeros((n, n), dtype=np.int8)  # 1: has another match there; 2: matched
        for s in range(n if n > 1 else 0):
            p = order[start + s]
            for entry in range(first[p], first[p + 1]):
                matched[other[entry]], sees[image[other[entry]]] = p, p
            for t in range(n):
                q = order[start + t]
                if matched[q] == p:
                    state[s, t] = 2
                elif sees[image[q]] == p:
                    state[s, t] = 1
        for s in range(n if n > 1 else 0):
            for t in range(n):
                if s != t:
                    i, j = image[order[start + s]], image[order[start + t]]
                    pairs[i, j] += 1
                    if state[s, t] == 2:
                        found[i, j] += 1
                    elif s < t and compared[i, j]:
                        missing[state[s, t] + state[t, s]] += 1
        start = stop
    return pairs, found, missing
