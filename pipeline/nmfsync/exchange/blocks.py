"""What all formats share: where matches come from, checks, and the way to W and back."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from nmfsync.errors import NmfsyncError, shown
from nmfsync.types.arrays import AnyArray, BoolArray, Float32Array, FloatArray, IntArray
from nmfsync.types.matches import (
    ImagePair,
    Matches,
    MultiMatching,
    PairwiseMatches,
    StoredKeypoints,
    first_compatible,
)

ADDED = ("none", "matched", "all")

_LONGEST = 10**6  # pixels of the side of an image


def check_positions(name: str, xy: AnyArray) -> None:
    """Raise NmfsyncError if a position (n, 2) of the features of an image is not finite."""
    bad = ~np.isfinite(xy).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise NmfsyncError(
            f"keypoint {row} of {shown(name)} is at ({xy[row, 0]}, {xy[row, 1]}), which is not "
            "finite; extract its features and match it again"
        )


def to_keypoints(
    xy: Float32Array, sigma: AnyArray, degrees: AnyArray, size: tuple[Any, Any] | None
) -> StoredKeypoints:
    """Gather what a file says of the features of an image, which need not make sense.

    Parameters
    ----------
    xy : (n, 2) float32 array
    sigma : (n,) array
        SIFT's σ in pixels; not finite, or not above 0, if it is not known.
    degrees : (n,) array
        Orientations, clockwise as the image is seen; not finite if they are not known.
    size : tuple or None
        Width and height of the image, if they are stored.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scale = (2 * sigma).astype(np.float32)
        scale[~(np.isfinite(scale) & (scale > 0))] = 0
        orientation = np.mod(degrees, 360).astype(np.float32)
        orientation[~np.isfinite(orientation)] = np.nan
    known = size is not None and all(isinstance(n, int) and 0 < n < _LONGEST for n in size)
    return StoredKeypoints(xy, scale, orientation, size if known else None)


def check_rows(pair: ImagePair, names: Sequence[str], sizes: Sequence[int]) -> None:
    """Raise NmfsyncError if a match names a feature that its image does not have."""
    i, j, rows, _ = pair
    if i == j:
        raise NmfsyncError(f"{shown(names[i])} has matches with itself")
    for column, image in enumerate((i, j)):
        bad = (rows[:, column] < 0) | (rows[:, column] >= sizes[image])
        if bad.any():
            a, b = rows[np.argmax(bad)]
            raise NmfsyncError(
                f"match ({a}, {b}) of {shown(names[i])} and {shown(names[j])} is impossible: "
                f"{shown(names[image])} has {sizes[image]} features, counted from 0"
            )


def to_matches(pairs: Iterable[ImagePair], sizes: Sequence[int]) -> tuple[PairwiseMatches, str]:
    """Gather blocks in W, dropping rows until every block is a partial permutation.

    Of the rows that compete for a feature the one with the largest weight
    stays, then the one that comes first.

    Parameters
    ----------
    pairs : iterable of ImagePair
        Any order; several of one pair of images count together.
    sizes : sequence of int, length k

    Returns
    -------
    matches : PairwiseMatches
    dropped : str
        How many rows were dropped and why; empty for none.
    """
    counts = np.asarray(sizes, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    m, k = int(offsets[-1]), len(counts)
    parts = [(b.rows + offsets[[b.i, b.j]], b.weights) for b in pairs if len(b.rows)]
    ends = np.concatenate([np.empty((0, 2), np.int64), *(rows for rows, _ in parts)])
    p, q = np.sort(ends, axis=1).T
    weights = np.concatenate([np.empty(0), *(w for _, w in parts)])

    order = np.argsort(-weights, kind="stable")
    _, first = np.unique(p[order] * m + q[order], return_index=True)
    single = order[np.sort(first)]
    image_of = np.repeat(np.arange(k), counts)
    in_image = p[single] * k + image_of[q[single]], q[single] * k + image_of[p[single]]
    keep = single[first_compatible(*in_image)]
    matches = PairwiseMatches.from_entries(p[keep], q[keep], counts, weights[keep])
    return matches, _dropped(len(ends), len(single), len(keep))


def with_duplicates_marked(matches: PairwiseMatches, xy: Sequence[Float32Array]) -> PairwiseMatches:
    """Return what `mark_duplicates` does."""
    # Imported here, so that importing the package, which knows the formats, loads no kernel.
    from nmfsync.synchronisation.duplicates import mark_duplicates

    return mark_duplicates(matches, xy)


def _dropped(rows: int, single: int, kept: int) -> str:
    if rows == kept:
        return ""
    return (
        f"{rows - kept:,} of {rows:,} rows of matches dropped: {rows - single:,} repeated, "
        f"{single - kept:,} of features that have another match in the same image; "
        "to choose which are kept, write one match of a feature and an image"
    )


def choose(matches: Matches, added: str) -> Matches:
    """Leave out matches that synchronising added.

    Near-duplicates have the matches of the input that the features have which stand for them.

    What links two features through others need not be within a pixel of right,
    and mappers follow such links by themselves; so added matches make cameras
    worse (see docs/mapping.md).

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
        Without `input_matches`, which says what they were made from, they stay as they are.
    added : str
        "none" keeps those that the input had, "matched" also others between images that
        had matches, "all" everything. The last two need W of the result.

    Raises
    ------
    NmfsyncError
        If `added` is none of these, or W of the result does not fit into memory.
    """
    check_added(added)
    whole = added == "all" and matches.duplicate_of is None
    if whole or matches.input_matches is None:
        return matches
    if added == "none" and isinstance(matches, MultiMatching):
        return matches.kept_of(matches.input_matches).with_origin_of(matches)
    p, q, values = _entries_with_duplicates(matches, matches.input_matches)
    k, image_of, m = len(matches.sizes), matches.image_of, len(matches.image_of)
    was = matches.input_matches.W.tocoo()
    if added == "none":
        keep = np.isin(p * m + q, was.row.astype(np.int64) * m + was.col)
    elif added == "matched":
        keep = np.isin(image_of[p] * k + image_of[q], image_of[was.row] * k + image_of[was.col])
    else:
        keep = np.ones(len(p), bool)
    kept = sparse.csr_array((values[keep], (p[keep], q[keep])), shape=(m, m))
    return PairwiseMatches(kept, matches.sizes).with_origin_of(matches)


def _entries_with_duplicates(
    matches: Matches, known: PairwiseMatches
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the entries p, q of W and their values, with the matches of near-duplicates.

    Two features that match have the known matches between all that they stand for, or if there
    is none, their own. What has been chosen already stays the same.
    """
    W, was = matches.W.tocoo(), known.W.tocoo()
    p, q, m = W.row.astype(np.int64), W.col.astype(np.int64), W.shape[0]
    stands = matches.duplicate_of
    if stands is None:
        return p, q, W.data
    code, own = stands[p] * m + stands[q], stands[was.row] * m + stands[was.col]
    order = np.argsort(code, kind="stable")
    at = order[np.minimum(np.searchsorted(code[order], own), len(code) - 1)]
    inside = (code[at] == own) & (stands[was.row] != stands[was.col])
    others = ~np.isin(code, own[inside])
    return (
        np.concatenate([p[others], was.row[inside]]),
        np.concatenate([q[others], was.col[inside]]),
        np.concatenate([W.data[others], W.data[at[inside]]]),
    )


def missing_rows(
    matches: PairwiseMatches, part: PairwiseMatches
) -> dict[tuple[int, int], IntArray | None]:
    """Say what is not in a part of matches: rows by pair of images i < j; None for all of them."""
    kept = {(pair.i, pair.j): pair.rows for pair in part.by_image_pair()}
    missing: dict[tuple[int, int], IntArray | None] = {}
    for i, j, rows, _ in matches.by_image_pair():
        if (i, j) not in kept:
            missing[i, j] = None
        elif len(kept[i, j]) < len(rows):
            missing[i, j] = rows[~rows_in(rows, kept[i, j])]
    return missing


def rows_in(rows: IntArray, others: IntArray) -> BoolArray:
    """Which rows (n, 2) are among others (m, 2), all of numbers from 0 below 2³²."""
    first, second = (r[:, 0] << 32 | r[:, 1] for r in (rows, others))
    return np.isin(first, second)


def check_added(added: str) -> None:
    """Raise NmfsyncError if `choose` does not know such a choice."""
    if added not in ADDED:
        raise NmfsyncError(f"added matches: must be {', '.join(ADDED)}, not {added!r}")
