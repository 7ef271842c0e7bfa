"""Matches as a detector-free matcher leaves them, and hloc's aggregation as a control.

Positions belong to pairs: on a grid in the first image, measured with an error in the second.
"""

from collections import defaultdict
from itertools import combinations

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

import rendered

STRIDE = 8


def smooth_field(rng, shape, scale):
    """Smooth noise of unit variance on a grid."""
    field = gaussian_filter(rng.standard_normal(shape), scale, mode="wrap")
    return field / field.std()


def simulated_pair(transfer, size, rng, noise, outliers, smooth, kept=0.7):
    """Return xy0, xy1 (n, 2) and scores (n,) of one pair.

    transfer: xy -> (xy, valid); noise: pixels, independent; smooth: pixels, an error that
    neighbours share; outliers: share of matches with a random place.
    """
    width, height = size
    x, y = np.meshgrid(np.arange(0, width, STRIDE), np.arange(0, height, STRIDE))
    shape, grid = x.shape, np.column_stack([x.ravel(), y.ravel()]).astype(float)
    moved, valid = transfer(grid)
    found = smooth_field(rng, shape, 3).ravel() + rng.standard_normal(len(grid))
    chosen = np.flatnonzero(valid & (found < np.quantile(found, kept)))
    own = noise * (0.5 + rng.random(len(chosen)))  # the matcher is surer of some than of others
    error = own[:, None] * rng.standard_normal((len(chosen), 2))
    error += smooth * np.column_stack([smooth_field(rng, shape, 4).ravel()[chosen] for _ in "xy"])
    xy1 = moved[chosen] + error
    wrong = rng.random(len(chosen)) < outliers
    xy1[wrong] = rng.random((wrong.sum(), 2)) * size
    scores = np.clip(np.exp(-own / (2 * noise)) + 0.1 * rng.standard_normal(len(chosen)), 0.2, 1)
    inside = ((xy1 >= 0) & (xy1 <= np.array(size) - 1)).all(axis=1)
    return tuple(a[inside].astype(np.float32) for a in (grid[chosen], xy1, scores))


def quantised(xy, step):
    """Round positions to the middles of cells of this size, as tuples."""
    if step > 0:
        xy = np.round(np.round((np.asarray(xy, float) + 0.5) / step) * step - 0.5, 2)
    return [tuple(p) for p in xy.tolist()]


def hloc_aggregation(pairs, max_error=1, cell_size=1, most=8192):
    """What hloc makes of positions by pair: the control, from its description.

    A keypoint is a cell of an image that matches fall into; it lies where, in finer bins, most
    of the scores are. The best `most` of an image stay, and every end of a match takes the
    nearest one that is at most `max_error` away; of several matches of a keypoint the one with
    the best score stays.

    pairs: dict (i, j) -> (xy0, xy1, scores). Returns dicts of keypoints (n, 2) by image, and of
    rows and scores by pair.
    """
    cells = defaultdict(lambda: defaultdict(lambda: defaultdict(float)))
    coarse = max(cell_size, max_error)
    for (i, j), (xy0, xy1, scores) in pairs.items():
        for image, xy in ((i, xy0), (j, xy1)):
            places = zip(quantised(xy, coarse), quantised(xy, int(max_error)), scores, strict=True)
            for cell, fine, score in places:
                cells[image][cell][fine] += float(score)
    keypoints = {}
    for image, of_image in cells.items():
        best = [max(bins.items(), key=lambda item: item[1]) for bins in of_image.values()]
        best.sort(key=lambda item: -item[1])
        keypoints[image] = np.array([place for place, _ in best[:most]], np.float32)
    trees = {image: cKDTree(xy) for image, xy in keypoints.items()}
    matches = {}
    for (i, j), (xy0, xy1, scores) in pairs.items():
        near = [trees[n].query(xy) for n, xy in ((i, xy0), (j, xy1))]
        good = np.flatnonzero((near[0][0] <= max_error) & (near[1][0] <= max_error))
        rows = np.column_stack([near[0][1][good], near[1][1][good]])
        order = np.argsort(-scores[good], kind="stable")
        for column in (0, 1):
            _, first = np.unique(rows[order, column], return_index=True)
            order = order[np.sort(first)]
        matches[i, j] = rows[order], scores[good][order]
    return keypoints, matches


def rendered_pairs(images=range(5), noise=0.7, outliers=0.05, smooth=0.2, seed=0):
    """Simulate pairs of the rendered scene, dict (i, j) -> (xy0, xy1, scores)."""
    scene, rng = rendered.scene(), np.random.default_rng(seed)
    return {
        (i, j): simulated_pair(
            lambda xy, i=i, j=j: scene.transfer(i, j, xy),
            rendered.SIZE, rng, noise, outliers, smooth, kept=0.9,
        )
        for i, j in combinations(images, 2)
    }  # fmt: skip
