"""Mutual nearest neighbours among the SIFT descriptors of two images, exactly.

With a' = a − 128, the squared distance of two descriptors of bytes is

    |a − b|² = |a|² + (|b|² − 256 Σ b) − 2 a'·b,

and every number in it, partial sums included, is whole and less than 2²⁴: 32-bit
integers and single precision give the same, exact, result, so that equal
distances are equal. Products are made in tiles of a few rows and columns; a tile
serves both directions before the next one is made, so that the memory grows
with the number of features and not with that of their pairs.

Processors have instructions that multiply small whole numbers, 16 to 64 at once
(see `kernels`); where there is none, BLAS multiplies in single precision, with
the same bits. The two inner steps, `multiply` and `absorb`, are written in the
compiler's own language, because it finds neither those instructions nor the
right vectors in loops.

The plain definition that tests compare with is in tests/neighbours.py
(`mutual_by_definition`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.matching.kernels import (
    BLAS,
    BLOCKS,
    FIRST,
    KERNEL,
    LANE,
    LANES,
    LENGTH,
    NEIGHBOUR,
    PLACE,
    ROWS,
    SECOND,
    WIDTH,
    absorb,
    multiply,
)
from nmfsync.runtime.compiled import compiled, inlined
from nmfsync.types.arrays import AnyArray

CENTRE = 128  # of a byte

BLAS_PRODUCTS = 2**18  # made by BLAS at a time: few enough for the cache

# Columns of what `mutual_nearest` returns: features, and squared distances.
LEFT, RIGHT, DISTANCE, SECOND_DISTANCE = 0, 1, 2, 3

NO_SECOND = -1  # squared distance to the second nearest where there is only one descriptor

FARTHEST = LENGTH * 255**2  # squared distance of descriptors: none is larger

# Product in place of that of a pair that is not allowed: any distance is smaller than its own.
NOT_ALLOWED = -(2**23)


class Prepared(NamedTuple):
    """Descriptors of images, as rows and as columns of products.

    Every image is padded to whole tiles. Norms of padding, and of descriptors of
    zeros, which describe nothing, are infinite: they are nobody's nearest or
    second nearest.
    """

    lengths: NDArray[np.int64]  # features of every image
    starts: NDArray[np.int64]  # image i has the padded rows and columns from starts[i] · WIDTH on
    rows: AnyArray  # (n, 128): a − 128
    row_norms: NDArray[np.float32]  # (n,): |a|², and − 256 Σ a' if columns are b − 128
    columns: AnyArray  # of a tile, the numbers of one lane after the other; for BLAS (n, 128)
    column_norms: NDArray[np.float32]  # (n / lanes, lanes): |b|² − 256 Σ b


def prepare(descriptors: Sequence[NDArray[np.uint8]]) -> Prepared:
    """Make the descriptors of images, each (n, 128) bytes, ready for `mutual_nearest`."""
    lengths = np.array([len(d) for d in descriptors], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(-(-lengths // WIDTH))])  # in tiles, rounded up
    padded = np.zeros((starts[-1] * WIDTH, LENGTH), np.uint8)
    for start, image in zip(starts[:-1] * WIDTH, descriptors, strict=True):
        padded[start : start + len(image)] = image
    exact = padded.astype(np.float32)
    norms = np.einsum("ij,ij->i", exact, exact)
    norms[norms == 0] = np.inf
    column_norms = (norms - 2 * CENTRE * exact.sum(axis=1)).reshape(-1, LANES)
    centred = exact - CENTRE
    rows, columns = centred.astype(KERNEL.row), padded.astype(KERNEL.column)
    if KERNEL.centred:
        columns = centred.astype(KERNEL.column)
        norms = norms - 2 * CENTRE * centred.sum(axis=1)  # −2 a'·b = −2 a'·b' − 256 Σ a'
    if KERNEL is not BLAS:
        steps = columns.view(np.uint8).reshape(-1, WIDTH, columns.itemsize * LENGTH // LANE, LANE)
        columns = np.ascontiguousarray(steps.swapaxes(1, 2))
    return Prepared(lengths, starts, rows, norms, columns, column_norms)


def mutual_nearest(
    left: Prepared,
    right: Prepared,
    pairs: NDArray[np.int64],
    without: Sequence[NDArray[np.int32]] | None = None,
) -> list[NDArray[np.int32]]:
    """Features of two images that are nearest to each other, for pairs of images.

    Distances are exact; among equal ones the first feature is nearest.

    Parameters
    ----------
    left, right : Prepared
    pairs : (n, 2) int64 array
        An image of `left` and one of `right`.
    without : sequence of (n, 4) int32 arrays, optional
        What this function returned for the same pairs. These matches are then
        not allowed, as if their features were infinitely far from each other:
        the second choices of all features.

    Returns
    -------
    list of (n, 4) int32 arrays
        For every pair, in order of the left feature: left feature, right
        feature, their squared distance, and the smaller one of the two squared
        distances to the second nearest, seen from either side; `NO_SECOND`
        where there is none.
    """
    barred, starts = _barred(left, pairs, without)
    if KERNEL is BLAS:
        return [
            _match_by_blas(left, right, i, j, barred[starts[n] : starts[n + 1]])
            for n, (i, j) in enumerate(pairs.tolist())
        ]
    found, counts = _match_all(left, right, pairs, barred, starts)
    return np.split(found, np.cumsum(counts))[:-1]


def _barred(
    left: Prepared, pairs: NDArray[np.int64], without: Sequence[NDArray[np.int32]] | None
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Column that every row of a pair may not have, -1 for none, and where every pair begins.

    Without such columns, all pairs are empty.
    """
    lengths = np.diff(left.starts)[pairs[:, 0]] * (WIDTH if without else 0)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    barred = np.full(starts[-1], -1, np.int32)
    for start, found in zip(starts[:-1], without or (), strict=False):
        barred[start + found[:, LEFT]] = found[:, RIGHT]
    return barred, starts


def _match_by_blas(
    left: Prepared, right: Prepared, i: int, j: int, barred: NDArray[np.int32]
) -> NDArray[np.int32]:
    first, last = left.starts[i : i + 2] * WIDTH
    columns = right.columns[slice(*(right.starts[j : j + 2] * WIDTH))]
    column_norms = right.column_norms[slice(*(right.starts[j : j + 2] * BLOCKS))]
    by_row, by_column = _nothing(last - first), _nothing(len(column_norms))
    step = max(ROWS, BLAS_PRODUCTS // max(1, len(columns)))
    for start in range(0, last - first, step):
        rows = slice(first + start, min(first + start + step, last))
        products = (left.rows[rows] @ columns.T).astype(np.int32)
        _bar(products, barred[start : start + step], 0)
        _absorb_products(products, start, left.row_norms[rows], column_norms, by_row, by_column)
    return np.asarray(_mutual(left.lengths[i], by_row, by_column))


@inlined
def _nothing(count):
    """Nearest neighbours of rows, or of blocks of columns, before anything is known.

    Array (count, 3, lanes): squared distances to the nearest and to the second
    nearest, and where the nearest is, which single precision holds up to 2²⁴. A
    block has a column in every lane. In a row, every lane has the nearest of
    its own columns: lanes that do not wait for each other make this fast.
    """
    return np.full((count, NEIGHBOUR, LANES), np.inf, np.float32)


@compiled
def _match_all(left, right, pairs, barred, starts):
    """Return the matches of all pairs of images, one after the other, and the number of each."""
    most = 0
    for i, j in pairs:
        most += min(left.lengths[i], right.lengths[j])
    found, counts = np.empty((most, 4), np.int32), np.zeros(len(pairs), np.int64)
    tile = np.empty((ROWS, WIDTH), np.int32)
    total = 0
    for n in range(len(pairs)):
        i, j = pairs[n]
        matched = _match_pair(left, right, i, j, tile, barred[starts[n] : starts[n + 1]])
        counts[n] = len(matched)
        for match in matched:  # not as a block, whose check of shapes takes long to compile
            for column in range(4):
                found[total, column] = match[column]
            total += 1
    return found[:total].copy(), counts


@compiled
def _match_pair(left, right, i, j, tile, barred):
    rows, row_norms = left.rows[left.starts[i] * WIDTH :], left.row_norms[left.starts[i] * WIDTH :]
    columns = right.columns[right.starts[j] : right.starts[j + 1]]
    column_norms = right.column_norms[right.starts[j] * BLOCKS :]
    height = -(-left.lengths[i] // ROWS) * ROWS  # in tiles, rounded up
    by_row, by_column = _nothing(height), _nothing(len(columns) * BLOCKS)
    for group in range(len(columns)):
        for start in range(0, height, ROWS):
            multiply(rows[start].ctypes.data, columns[group].ctypes.data, tile.ctypes.data)
            if len(barred) > 0:
                _bar(tile, barred[start : start + ROWS], group)
            for row in range(start, start + ROWS):
                _absorb_row(
                    tile[row - start], row, group, row_norms[row], column_norms, by_row, by_column
                )
    return _mutual(left.lengths[i], by_row, by_column)


@inlined
def _bar(products, barred, group):
    """Let the pairs that are not allowed have a product that makes them farthest.

    The columns of the products are those of the image from `group` tiles on.
    """
    for row in range(len(barred)):
        column = barred[row] - group * WIDTH
        if 0 <= column < products.shape[1]:
            products[row, column] = NOT_ALLOWED


@compiled
def _absorb_products(products, start, row_norms, column_norms, by_row, by_column):
    """Take the products of rows, from `start` on, into the nearest neighbours."""
    for group in range(products.shape[1] // WIDTH):
        for i in range(len(products)):
            tile = products[i, group * WIDTH : (group + 1) * WIDTH]
            _absorb_row(tile, start + i, group, row_norms[i], column_norms, by_row, by_column)


@inlined
def _absorb_row(products, row, group, norm, column_norms, by_row, by_column):
    """Take the products of a row and a group of columns, of a tile's width, into the neighbours."""
    block = group * BLOCKS
    absorb(
        products.ctypes.data,
        norm,
        column_norms[block].ctypes.data,
        by_row[row].ctypes.data,
        by_column[block].ctypes.data,
        np.float32(row),
        np.float32(block),
    )


@compiled
def _mutual(length, by_row, by_column):
    """Rows and columns that are nearest to each other, as `mutual_nearest` returns them."""
    found = np.empty((length, 4), np.int32)
    count = 0
    for p in range(length):
        lane, second = _merge_lanes(by_row[p])
        first, block = by_row[p, FIRST, lane], by_row[p, PLACE, lane]
        if first > FARTHEST:
            continue
        column = by_column[int(block)]
        if column[PLACE, lane] == p:
            second = min(second, column[SECOND, lane])
            found[count, LEFT], found[count, RIGHT] = p, int(block) * LANES + lane
            found[count, DISTANCE], found[count, SECOND_DISTANCE] = first, NO_SECOND
            if second <= FARTHEST:
                found[count, SECOND_DISTANCE] = second
            count += 1
    return found[:count].copy()


@inlined
def _merge_lanes(row):
    """Lane of the nearest column of a row, and the distance to the second nearest."""
    first, second, block = row
    best = 0
    for lane in range(1, LANES):
        tie = first[lane] == first[best] and block[lane] < block[best]
        if first[lane] < first[best] or tie:
            best = lane
    runner_up = second[best]
    for lane in range(LANES):
        if lane != best:
            runner_up = min(runner_up, first[lane])
    return best, runner_up
