"""How the images of a scene hang together: parts, weak ties, and images that look unrelated."""

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from nmfsync.evaluation.confidence import Confidence, precision_by_image_pair
from nmfsync.evaluation.summary import ImageGraph
from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import Matches

# Photographs of different things match, too: of mutual nearest neighbours, an estimated 1 % to
# 15 % are right all the same. So much of a pair's matches counts as chance; within these limits
# it is what the scene's own poorest pairs have, a tenth of all.
CHANCE, POOREST = (0.02, 0.15), 0.1

# Right matches beyond chance that link two images, and their share of the typical image's best
# tie, which counts where there are many features. Chosen on Graffiti with 200 and 1,000 features
# and a foreign photograph added, and on the sparse rings of Middlebury in one folder, where 2
# would cut off a view.
LEAST, SHARE = 1.5, 0.01

# If the typical image's best tie is weaker, there are too few matches to call images unrelated.
ENOUGH = 10.0

WEAK = 0.1  # of the typical image's best tie: a weaker one is called weak

STRONGEST = 4  # ties of an image that are kept besides those that hold a part together


def graph_of_images(result: Matches, confidence: Confidence) -> ImageGraph:
    """Link the images of a result by its matches.

    Parameters
    ----------
    result : PairwiseMatches or MultiMatching
    confidence : Confidence
        Of its matches.

    Returns
    -------
    ImageGraph
        See `image_graph`. An image without features does not count as unrelated.
    """
    columns = precision_by_image_pair(confidence, result.image_of)
    graph = image_graph(*columns, len(result.sizes))
    return replace(graph, unrelated=[i for i in graph.unrelated if result.sizes[i]])


def image_graph(
    pairs: IntArray, matches: IntArray, precision: FloatArray, images: int
) -> ImageGraph:
    """Link the images of a result, in time proportional to the number of pairs.

    Parameters
    ----------
    pairs : (n, 2) ints
        Images i < j, each pair once, see `precision_by_image_pair`.
    matches : (n,) ints
        The number of matches.
    precision : (n,) floats
        The estimated share of right ones.
    images : int
        The number of images.

    Returns
    -------
    ImageGraph
    """
    strength = matches * (precision - _chance(precision))
    typical = _typical(_best_ties(pairs, strength, images))
    linked = strength >= max(LEAST, SHARE * typical)
    pairs, strength = pairs[linked], strength[linked]
    best, limit = _best_ties(pairs, strength, images), WEAK * typical
    tree = _spanning_tree(pairs, strength, images)
    return ImageGraph(
        parts=_parts(pairs, images),
        unrelated=np.flatnonzero(best == 0).tolist() if typical >= ENOUGH else [],
        clear=typical >= ENOUGH,
        weak=np.flatnonzero((best > 0) & (best < limit)).tolist(),
        bridges=_bridges(pairs, strength, tree, limit, images),
        ties=_ties(pairs, strength, tree, images),
    )


def linked_images(pairs: IntArray, strength: FloatArray, images: int) -> ImageGraph:
    """Link images by all of these pairs (n, 2), i < j: parts and the ties that hold them."""
    tree = _spanning_tree(pairs, strength, images)
    ties = _ties(pairs, strength, tree, images)
    return ImageGraph(parts=_parts(pairs, images), ties=ties)


def _chance(precision: FloatArray) -> float:
    """Return the share of right matches that says nothing."""
    return float(np.clip(np.quantile(precision, POOREST), *CHANCE)) if len(precision) else 0.0


def _best_ties(pairs: IntArray, strength: FloatArray, images: int) -> FloatArray:
    """Return the strength of every image's best tie (images,), at least 0."""
    best = np.zeros(images)
    for end in pairs.T:
        np.maximum.at(best, end, strength)
    return best


def _typical(best: FloatArray) -> float:
    """Return the strength of the typical image's best tie, among images that have any."""
    tied = best[best >= LEAST]
    return float(np.median(tied)) if len(tied) else 0.0


def _graph(pairs: IntArray, values: FloatArray, images: int) -> sparse.csr_array:
    i, j = pairs.T.astype(np.int32)  # SciPy's graphs take no other indices before 1.16
    return sparse.csr_array((values, (i, j)), shape=(images, images))


def _labels(pairs: IntArray, images: int) -> IntArray:
    """Return the number of every image's connected component (images,)."""
    graph = _graph(pairs, np.ones(len(pairs)), images)
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _parts(pairs: IntArray, images: int) -> list[list[int]]:
    label = _labels(pairs, images)
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    several = [group.tolist() for group in groups if len(group) > 1]
    return sorted(several, key=lambda group: (-len(group), group))


def _spanning_tree(pairs: IntArray, strength: FloatArray, images: int) -> IntArray:
    """Return which pairs are in a maximum spanning tree of their part; equal ones in order."""
    order = np.argsort(-strength, kind="stable")
    rank = np.empty(len(pairs))
    rank[order] = np.arange(1, len(pairs) + 1)
    chosen = minimum_spanning_tree(_graph(pairs, rank, images)).data
    return np.sort(order[chosen.astype(np.int64) - 1])


def _bridges(
    pairs: IntArray, strength: FloatArray, tree: IntArray, limit: float, images: int
) -> list[tuple[int, int]]:
    """Return the weak pairs of the tree that link two groups of images, not single ones."""
    group = _labels(pairs[strength >= limit], images)
    several = np.bincount(group, minlength=images)[group] > 1
    weak = pairs[tree[strength[tree] < limit]]
    return [(i, j) for i, j in weak[several[weak].all(axis=1)].tolist()]


def _ties(
    pairs: IntArray, strength: FloatArray, tree: IntArray, images: int
) -> list[tuple[int, int, float]]:
    """Return the pairs of the tree and the strongest of every image, in order."""
    ends, row = pairs.T.ravel(), np.tile(np.arange(len(pairs)), 2)
    order = np.lexsort((row, -strength[row], ends))
    first = np.searchsorted(ends[order], np.arange(images))
    place = np.arange(len(order)) - first[ends[order]]
    kept = np.union1d(row[order[place < STRONGEST]], tree)
    return [
        (i, j, round(value, 1))
        for (i, j), value in zip(pairs[kept].tolist(), strength[kept].tolist(), strict=True)
    ]
