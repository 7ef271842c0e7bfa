"""What tells a right match from a wrong one: its distance ratio, and whether its neighbours agree.

Every SIFT match is a similarity transform: the position, size and orientation of
its two features say how the surroundings of one are moved, turned and scaled to
those of the other. Matches nearby that are right are moved in this way too.
"""

import math

import numpy as np

from nmfsync.matching.nearest import DISTANCE, LEFT, NO_SECOND, RIGHT, SECOND_DISTANCE
from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.types.arrays import Float32Array
from nmfsync.types.features import Features

# Columns of what `describe` returns, after the four of `mutual_nearest`.
RATIO = 4  # distance by that to the second nearest
SUPPORT = 5  # log of the share of the neighbours that agree
DECOY = 6  # 1 for a decoy, 0 for a match

COLUMNS = 7

# Columns of a frame; pixels and radians.
X, Y, SIZE, ANGLE = 0, 1, 2, 3

NEIGHBOURS = 16  # more matches than this are asked, if there are so many

PER_CELL = 2  # matches in a cell of the grid that they are found by, on average

# A neighbour agrees if its place in the second image is predicted with an error of much less than
# this share of its distance, and some pixels. Frames are rough: scales are often 10 % wrong, and
# perspective bends.
TOLERANCE, PIXELS = 0.4, 4.0

# Added to the weight of the neighbours that agree, and of all. One in ten of a single neighbour
# agrees if there is none.
PRIOR_AGREEING, PRIOR_ALL = 0.1, 1.0

SMALLEST = 0.1  # diameter of a feature in pixels, so that scales have a ratio

# Of the larger diameter: a second choice at least this near to the first one shows the same point.
SAME_PLACE = 0.5


def frames_of(features: Features) -> Float32Array:
    """Frames (n, 4) of the features of an image: x, y and diameter in pixels, angle in radians."""
    size = np.maximum(features.scale, SMALLEST)
    angle = np.deg2rad(features.orientation)
    return np.column_stack([features.xy, size, angle]).astype(np.float32)


@compiled
def describe(found, decoys, left, right):
    """Describe the matches of two images, and the decoys, by what tells right from wrong.

    *Distance ratio.* A match without a second nearest has the ratio 1, which is
    no evidence. A decoy p–q' is a second choice: what matches where the matches
    p–q and p'–q' are not allowed. If these were wrong, its ratio is that of the
    second nearest to the third nearest of unrelated descriptors, which is nearer
    to 1 than that of the nearest to the second nearest. If the number of
    descriptors within the distance r is proportional to rᵈ, the first is
    distributed like the root of the second, so that it is squared; between, with
    w the weights of the two matches, the exponent is 1 + (1 − w_pq)/2 + (1 − w_p'q')/2.

    *Support.* log (Σ w g + 0.1) / (Σ w + 1) over the neighbours of a match, with
    g = exp(−(e / (0.4 s δ + 4 max(1, s)))²): e is the error in pixels by which the
    similarity transform of the match misses a neighbour in the second image, δ
    its distance in the first one, and s the ratio of scales. The weight of a neighbour is
    w = (1 − r⁴) A / (A + 1), where r is its own ratio, and A its own Σ w g with w = 1 − r⁴. The
    neighbours are the matches in the smallest square of cells of a grid, around
    the feature in the first image, that has more than 16.

    Parameters
    ----------
    found, decoys : (n, 4) and (d, 4) int32 arrays
        From `mutual_nearest`, without and with the argument `without`.
    left, right : (m, 4) float32 arrays
        Frames of the features of both images, see `frames_of`.

    Returns
    -------
    (n + at most d, 7) float32 array
        Matches, then decoys: the columns of `found`, which are whole numbers below 2²⁴ and
        exact, then RATIO, SUPPORT and DECOY. Decoys at the place of a match, or
        without a second nearest, are left out.
    """
    result = np.empty((len(found) + len(decoys), COLUMNS), np.float32)
    weight = np.empty(len(found))
    for n in range(len(found)):
        _fill(result[n], found[n], 0.0)
        weight[n] = 1.0 - result[n, RATIO] ** 4
    grid = _make_grid(found, left)
    agreeing = np.empty(len(found))
    for n in range(len(found)):
        # As below, so that `_ask` is compiled once.
        p, q = np.int64(found[n, LEFT]), np.int64(found[n, RIGHT])
        agreeing[n], _ = _ask(p, q, found, weight, left, right, grid)
    for n in range(len(found)):
        weight[n] *= agreeing[n] / (agreeing[n] + 1.0)
    rows = len(found)
    match_of_left, match_of_right = _matches_of(found, len(left), len(right))
    for n in range(len(decoys)):
        decoy = decoys[n]
        at_left, at_right = match_of_left[decoy[LEFT]], match_of_right[decoy[RIGHT]]
        if decoy[SECOND_DISTANCE] == NO_SECOND or _same_place(
            decoy, at_left, at_right, found, left, right
        ):
            continue
        _fill(result[rows], decoy, 1.0)
        exponent = 1.0
        if at_left >= 0:
            exponent += (1.0 - weight[at_left]) / 2
        if at_right >= 0:
            exponent += (1.0 - weight[at_right]) / 2
        result[rows, RATIO] **= exponent
        rows += 1
    for row in result[:rows]:
        p, q = np.int64(row[LEFT]), np.int64(row[RIGHT])
        agree, every = _ask(p, q, found, weight, left, right, grid)
        row[SUPPORT] = math.log((agree + PRIOR_AGREEING) / (every + PRIOR_ALL))
    return result[:rows].copy()


@inlined
def _fill(row, found, decoy):
    """Fill in what `mutual_nearest` found of a match; support is missing yet."""
    for column in range(len(found)):  # not as a whole, whose check takes long to compile
        row[column] = found[column]
    row[DECOY] = decoy
    row[RATIO] = (
        math.sqrt(found[DISTANCE] / found[SECOND_DISTANCE]) if found[SECOND_DISTANCE] > 0 else 1.0
    )


@inlined
def _matches_of(found, left, right):
    """Return the match of every feature of both images, -1 for none."""
    of_left, of_right = np.full(left, -1), np.full(right, -1)
    for n in range(len(found)):
        of_left[found[n, LEFT]] = of_right[found[n, RIGHT]] = n
    return of_left, of_right


@inlined
def _same_place(decoy, at_left, at_right, found, left, right):
    """Whether one end of a decoy lies where the match of the other end does."""
    p, q = decoy[LEFT], decoy[RIGHT]
    near = False
    if at_left >= 0:
        near |= _close(right[q], right[found[at_left, RIGHT]])
    if at_right >= 0:
        near |= _close(left[p], left[found[at_right, LEFT]])
    return near


@inlined
def _close(a, b):
    return math.hypot(a[X] - b[X], a[Y] - b[Y]) < SAME_PLACE * max(a[SIZE], b[SIZE])


@compiled
def _make_grid(found, left):
    """Sort the matches into the cells of a grid over the first image.

    Returns the place of the corner, the side of a cell, the number of columns,
    where every cell begins in the list of matches, and the list.
    """
    low_x = low_y = np.inf
    high_x = high_y = -np.inf
    for match in found:
        x, y = left[match[LEFT], X], left[match[LEFT], Y]
        low_x, high_x = min(low_x, x), max(high_x, x)
        low_y, high_y = min(low_y, y), max(high_y, y)
    n = len(found)
    if n == 0:
        return 0.0, 0.0, 1.0, 1, np.zeros(2, np.int64), np.empty(0, np.int64)
    width, height = high_x - low_x, high_y - low_y
    # Long strips have n cells at most as well.
    side = max(math.sqrt(width * height * PER_CELL / n), max(width, height) * PER_CELL / n, 1.0)
    columns, rows = int(width / side) + 1, int(height / side) + 1
    begin = np.zeros(columns * rows + 1, np.int64)
    cells = np.empty(n, np.int64)
    for m in range(n):
        x, y = left[found[m, LEFT], X], left[found[m, LEFT], Y]
        cells[m] = int((y - low_y) / side) * columns + int((x - low_x) / side)
        begin[cells[m] + 1] += 1
    for cell in range(columns * rows):
        begin[cell + 1] += begin[cell]
    free, items = begin.copy(), np.empty(n, np.int64)
    for m in range(n):
        items[free[cells[m]]] = m
        free[cells[m]] += 1
    return low_x, low_y, side, columns, begin, items


@compiled
def _ask(p, q, found, weight, left, right, grid):
    """Return Σ w g and Σ w over the neighbours of the match of p and q, see `describe`."""
    low_x, low_y, side, columns, begin, items = grid
    rows = (len(begin) - 1) // columns
    a, b = left[p], right[q]
    column, row = math.floor((a[X] - low_x) / side), math.floor((a[Y] - low_y) / side)
    reach = 0
    while True:
        reach += 1
        first_row, last_row = max(row - reach, 0), min(row + reach, rows - 1)
        first, last = max(column - reach, 0), min(column + reach, columns - 1)
        count = 0
        if first <= last:
            for r in range(first_row, last_row + 1):
                count += begin[r * columns + last + 1] - begin[r * columns + first]
        whole = first_row == 0 and last_row == rows - 1 and first == 0 and last == columns - 1
        if count > NEIGHBOURS or whole:
            break
    scale = b[SIZE] / a[SIZE]
    turn = b[ANGLE] - a[ANGLE]
    cosine, sine = scale * math.cos(turn), scale * math.sin(turn)
    agree = every = 0.0
    for r in range(first_row, last_row + 1):
        for item in range(begin[r * columns + first], begin[r * columns + last + 1]):
            n = items[item]
            s, t = found[n, LEFT], found[n, RIGHT]
            if s == p or t == q:
                continue
            dx, dy = left[s, X] - a[X], left[s, Y] - a[Y]
            error_x = cosine * dx - sine * dy - (right[t, X] - b[X])
            error_y = sine * dx + cosine * dy - (right[t, Y] - b[Y])
            allowed = TOLERANCE * scale * math.hypot(dx, dy) + PIXELS * max(1.0, scale)
            agree += weight[n] * math.exp(-(error_x**2 + error_y**2) / allowed**2)
            every += weight[n]
    return agree, every
