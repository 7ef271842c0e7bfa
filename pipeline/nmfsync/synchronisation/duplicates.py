"""Near-duplicates: features of an image that show one point count as one in synchronisation."""

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.compiled import compiled
from nmfsync.synchronisation.clustersync.graph import MatchGraph, build_graph
from nmfsync.synchronisation.clustersync.start import support
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray, IntArray
from nmfsync.types.matches import PairwiseMatches

RADIUS = 3.0  # pixels: scales and orientations of one point are rarely farther apart

COMMON = 2  # images at least, in which what no match connects has to be near

# Features under the radius, for each feature of an image. More say that positions are of another
# unit than pixels, or of no meaning: then only matches say what is a near-duplicate.
MOST_NEAR = 100


def mark_duplicates(matches: PairwiseMatches, xy: Sequence[AnyArray]) -> PairwiseMatches:
    """Mark the features of an image that are near each other and match the same.

    Detectors find several features at one point: at other scales, or with other orientations.
    Their matches go crosswise from image to image, which looks like a contradiction and is none.
    `synchronise` counts such features as one, and `MultiMatching.kept_of` keeps the matches of
    all of them.

    Parameters
    ----------
    matches : PairwiseMatches
    xy : sequence of (n, 2) arrays
        Positions of the features of every image in pixels.

    Returns
    -------
    PairwiseMatches
        The same matches with the attribute `duplicate_of`.

    Raises
    ------
    NmfsyncError
        If positions and matches do not belong together.

    Notes
    -----
    Features are put into groups along their matches, those first that most others agree with, as
    long as no two of an image are more than 3 pixels apart. Then groups are joined that are as
    near to each other in all images that show both, and these are two at least. So neighbours
    have to agree: two points that are near each other in one image and apart in another
    one stay two. Of the features of an image in a group, the one with the most matches stands
    for the others, then the first.

    Examples
    --------
    Three images; the first has two features at one point, and the matches go crosswise.

    >>> matches = PairwiseMatches.from_entries([0, 1, 2], [2, 3, 3], [2, 1, 1])
    >>> xy = [np.array([[5, 5], [6, 5]]), np.array([[9, 9]]), np.array([[4, 7]])]
    >>> mark_duplicates(matches, xy).duplicate_of.tolist()
    [0, 0, 2, 3]
    """
    _check_sizes(matches, xy)
    graph = build_graph(matches.W, matches.sizes)
    position = np.concatenate([np.empty((0, 2)), *xy]).astype(np.float64)
    group = np.arange(len(position))
    group = _join(*_by_support(graph), graph, position, group, RADIUS)
    near = _near_groups(*_near_pairs(graph, position), graph.image, group)
    group = _join(*near, graph, position, group, RADIUS)
    marked = matches.with_matrix(matches.W)
    marked.duplicate_of = _stand_ins(graph, group)
    return marked


def _check_sizes(matches: PairwiseMatches, xy: Sequence[AnyArray]) -> None:
    if len(xy) != len(matches.sizes):
        raise NmfsyncError(f"positions of {len(xy)} images, but matches of {len(matches.sizes)}")
    for i, (positions, n) in enumerate(zip(xy, matches.sizes, strict=True)):
        if len(positions) != n:
            raise NmfsyncError(
                f"positions of {len(positions)} features in image {i}, but matches of {n}"
            )


def _by_support(graph: MatchGraph) -> tuple[IntArray, IntArray]:
    """Return both ends of all matches, those first that most others agree with."""
    once = np.flatnonzero(graph.feature < graph.other)
    once = once[np.argsort(-support(graph)[once], kind="stable")]
    return graph.feature[once].astype(np.int64), graph.other[once].astype(np.int64)


def _near_pairs(graph: MatchGraph, position: FloatArray) -> tuple[IntArray, IntArray]:
    """Find the features with matches that are near each other in an image."""
    usable = (np.diff(graph.first) > 0) & np.isfinite(position).all(axis=1)
    pairs = [np.empty((0, 2), np.int64)]
    for start, stop in zip(graph.offset[:-1], graph.offset[1:], strict=True):
        pairs.append(start + near_in_image(position[start:stop], usable[start:stop]))
    p, q = np.concatenate(pairs).T
    return p, q


def near_in_image(position: FloatArray, usable: BoolArray) -> IntArray:
    """Find the usable features of an image that are near each other: (n, 2) places."""
    at = np.flatnonzero(usable)
    tree = cKDTree(position[at])
    if not len(at) or tree.count_neighbors(tree, RADIUS) > MOST_NEAR * len(at):
        return np.empty((0, 2), np.int64)
    return np.asarray(at[tree.query_pairs(RADIUS, output_type="ndarray")])


def _near_groups(
    p: IntArray, q: IntArray, image: AnyArray, group: IntArray
) -> tuple[IntArray, IntArray]:
    """Return a near pair p, q of every two groups with such pairs in several images, most first."""
    m = len(group)
    a, b = np.sort([group[p], group[q]], axis=0)
    order = np.lexsort((q, p, image[p], b, a))
    order = order[(a != b)[order]]
    _, first = np.unique((a * m + b)[order] * m + image[p[order]], return_index=True)
    order = order[first]  # several pairs in an image count once
    _, first, count = np.unique((a * m + b)[order], return_index=True, return_counts=True)
    most = np.argsort(-count, kind="stable")[: np.count_nonzero(count >= COMMON)]
    at = order[first[most]]
    return p[at], q[at]


@compiled
def _join(P, Q, graph, position, group, radius):
    """Join the groups of P[n] and Q[n], for n = 0, 1, …, if they are near in common images."""
    image, offset = graph.image, graph.offset
    m = len(image)
    label, size = group.copy(), np.zeros(m, np.int64)
    # The members of every group in a linked list: lists are only ever joined.
    head, tail, after = np.full(m, -1), np.full(m, -1), np.full(m, -1)
    for p in range(m):
        c = label[p]
        if head[c] < 0:
            head[c] = p
        else:
            after[tail[c]] = p
        tail[c] = p
        size[c] += 1
    # Of the smaller group of pair n, the features by image.
    last_in, before, seen_for = np.full(len(offset), -1), np.full(m, -1), np.full(len(offset), -1)
    for n in range(len(P)):
        a, b = label[P[n]], label[Q[n]]
        if a == b:
            continue
        if size[a] < size[b]:
            a, b = b, a
        p, beside = head[b], 0  # the features of all images in the smaller group
        while p >= 0:
            i = image[p]
            before[p] = last_in[i] if seen_for[i] == n else -1
            seen_for[i], last_in[i] = n, p
            beside += offset[i + 1] - offset[i]
            p = after[p]
        near = True
        if beside < size[a]:
            p = head[b]
            while p >= 0 and near:
                for q in range(offset[image[p]], offset[image[p] + 1]):
                    near &= label[q] != a or _is_near(position[p], position[q], radius)
                p = after[p]
        else:
            p = head[a]
            while p >= 0 and near:
                q = last_in[image[p]] if seen_for[image[p]] == n else -1
                while q >= 0 and near:
                    near = _is_near(position[p], position[q], radius)
                    q = before[q]
                p = after[p]
        if not near:
            continue
        p = head[b]
        while p >= 0:
            label[p] = a
            p = after[p]
        after[tail[a]], tail[a] = head[b], tail[b]
        size[a] += size[b]
    return label


@compiled
def _is_near(p, q, radius):
    """Whether two positions are; not if one is not a number."""
    x, y = p[0] - q[0], p[1] - q[1]
    return x * x + y * y <= radius * radius


def _stand_ins(graph: MatchGraph, group: IntArray) -> IntArray:
    """Return the feature with most matches of the group in the image, for every feature."""
    order = np.lexsort((np.arange(len(group)), -np.diff(graph.first), graph.image, group))
    place = np.stack([group, graph.image])[:, order]
    new = np.diff(place, axis=1, prepend=-1).any(axis=0)
    stands = np.empty(len(group), np.int64)
    stands[order] = order[new][np.cumsum(new) - 1]
    return stands
