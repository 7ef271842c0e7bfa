"""Matches of collections that are too large for one process, kept image by image.

A row is an image with those later ones that it is matched with. One process works
on it: it reads the features that it needs, and writes what it finds to a folder that
all processes share; only counts come back. What is found is the same, to the bit,
as what `match` and `verify` find.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError
from nmfsync.matching.cues import COLUMNS, DECOY
from nmfsync.matching.evidence import probabilities
from nmfsync.matching.match import (
    Found,
    batch_of,
    batches_of,
    digest_of,
    entry_of,
    match_batch,
    pairs_with_decoys,
    store_of,
    within,
)
from nmfsync.matching.nearest import LEFT, RIGHT
from nmfsync.matching.verification import SURE, WEAK, guess_camera, judge, least_verdict, surer
from nmfsync.runtime.cache import digest, load, save
from nmfsync.types.arrays import BoolArray, Float32Array, FloatArray, IntArray
from nmfsync.types.features import Features

# Pairs of features, and images, of the rows that are worked on together, about.
WORK, ROWS = 2**27, 64


class Row(NamedTuple):
    """An image, and the later ones that it is matched with.

    Attributes
    ----------
    i : int
        The image.
    others : (n,) int64 array
        The later ones, ascending.
    features : tuple of Features, length n + 1
        Those of the image, then those of the others.
    decoys : (n,) bool array
        Whether a pair has decoys.
    """

    i: int
    others: IntArray
    features: tuple[Features, ...]
    decoys: BoolArray

    @property
    def pairs(self) -> IntArray:
        """(n, 2) ints: the pairs of images, as places in `features`."""
        places = np.arange(1, len(self.features))
        return np.column_stack([np.zeros_like(places), places])


class Limits(NamedTuple):
    """Which matches are kept.

    Attributes
    ----------
    ratio, distance
        As for `match`.
    evidence : float
        The least probability that a match is right.
    geometry : str or None
        As for `verify`; None: matches are not verified.
    """

    ratio: float | None
    distance: float | None
    evidence: float
    geometry: str | None


class Judged(NamedTuple):
    """Where the matches of a row lie after the verification.

    Attributes
    ----------
    i : int
    others : (n,) int64 array
        As of `Row`.
    place : tuple of Path and str
        The entry of the cache, and its key.
    verified : bool
    """

    i: int
    others: IntArray
    place: tuple[Path, str]
    verified: bool


def rows_of(features: Sequence[Features], pairs: IntArray) -> Iterator[Row]:
    """Hand out the rows of pairs of images (n, 2) that are in lexicographic order."""
    decoys = pairs_with_decoys(len(pairs))
    cuts = np.flatnonzero(np.diff(pairs[:, 0])) + 1
    for part, decoyed in zip(np.split(pairs, cuts), np.split(decoys, cuts), strict=True):
        if len(part):
            i, others = int(part[0, 0]), part[:, 1]
            own = (features[i], *(features[j] for j in others.tolist()))
            yield Row(i, others, own, decoyed)


def together(sizes: IntArray, pairs: IntArray) -> list[int]:
    """Say how many rows, one after the other, are worked on together: enough to be worth it."""
    first = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    work = np.add.reduceat(sizes[pairs].prod(axis=1), first) if len(first) else first
    group = np.maximum(np.cumsum(work) // WORK, np.arange(len(first)) // ROWS)
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    return [int(n) for n in np.diff(np.append(begins, len(group)))]


def match_rows(task: tuple[Sequence[Row], Path]) -> list[IntArray]:
    """Match the pairs of rows, but for those that the folder has, and write what is found.

    Returns
    -------
    list of (n, 2) int64 arrays
        The number of matches and of decoys of every pair, row by row.
    """
    rows, folder = task
    return [_counts(_matched(row, folder, compute=True)) for row in rows]


def _matched(row: Row, folder: Path, compute: bool = False) -> list[Found]:
    """Return what was found for every pair of a row; without `compute`, it has to be there."""
    store = store_of(folder, row.features, row.pairs, row.decoys, described=True)
    found: dict[int, Found] = {}
    for numbers, results in store.known():
        found.update(zip(numbers.tolist(), results, strict=True))
    missing = np.array([n for n in range(len(row.others)) if n not in found], np.int64)
    if len(missing) and not compute:
        raise NmfsyncError(
            f"{folder}: matches that were kept here are gone or damaged; run again: what is there "
            "stays"
        )
    sizes = np.array([len(f) for f in row.features])
    for batch in batches_of(row.pairs, missing, sizes):
        results = match_batch(batch_of(row.features, row.pairs[batch], row.decoys[batch], True))
        for n, result in zip(batch.tolist(), results, strict=True):
            found[n] = result
            store.add(n, result)
    store.flush()
    return [found[n] for n in range(len(row.others))]


def _counts(found: Sequence[Found]) -> IntArray:
    decoys = [int((rows[:, DECOY] == 1).sum()) for rows in found]
    return np.array([(len(f) - d, d) for f, d in zip(found, decoys, strict=True)], np.int64)


def sample_rows(
    task: tuple[Sequence[Row], Path, Sequence[tuple[IntArray, IntArray]]],
) -> tuple[Float32Array, Float32Array]:
    """Return those matches and decoys of rows that stand at the places wanted of each."""
    rows, folder, wanted = task
    chosen: tuple[list[Float32Array], list[Float32Array]] = ([], [])
    for row, of_row in zip(rows, wanted, strict=True):
        if any(map(len, of_row)):
            found = np.concatenate(_matched(row, folder))
            for kind, places, kept in zip((0, 1), of_row, chosen, strict=True):
                kept.append(found[found[:, DECOY] == kind][places])
    nothing = np.empty((0, COLUMNS), np.float32)
    matches, decoys = (np.concatenate([nothing, *kept]) for kept in chosen)
    return matches, decoys


def judge_rows(
    task: tuple[Sequence[Row], Path, Path, FloatArray | None, Limits],
) -> list[tuple[Judged, IntArray]]:
    """Weigh the matches of rows, verify them, and write those that agree with one geometry.

    Returns
    -------
    list of (Judged, (n, 2) int64 array)
        For every row, where its matches are, and the number of sure and of weak ones of every
        pair.
    """
    rows, folder, target, coefficients, limits = task
    return [_judge_row(row, folder, target, coefficients, limits) for row in rows]


def _judge_row(
    row: Row, folder: Path, target: Path, coefficients: FloatArray | None, limits: Limits
) -> tuple[Judged, IntArray]:
    left, *others = (digest_of(f, described=True) for f in row.features)
    entries = [entry_of(o, d) for o, d in zip(others, row.decoys.tolist(), strict=True)]
    learnt = np.empty(0) if coefficients is None else coefficients
    sizes = [f.image_size for f in row.features]
    key = digest(left, *entries, learnt, list(limits), sizes).hex()
    judged = Judged(row.i, row.others, (target / f"{key}.npz", key), limits.geometry is not None)
    if (stored := load(*judged.place, dict)) is None:
        stored = _judge_pairs(row, _matched(row, folder), coefficients, limits)
        save(*judged.place, stored)
    verdicts = np.split(stored["verdict"], np.cumsum(stored["counts"])[:-1])
    counts = [[(v == SURE).sum(), (v == WEAK).sum()] for v in verdicts]
    return judged, np.array(counts, np.int64).reshape(-1, 2)


def _judge_pairs(
    row: Row, found: Sequence[Found], coefficients: FloatArray | None, limits: Limits
) -> dict[str, NDArray[Any]]:
    """Return the matches of all pairs of a row that agree, one pair after the other."""
    left = row.features[0].loaded()
    camera = guess_camera(left.xy, left.image_size)
    ends, weights, verdicts, counts = [], [], [], []
    matches = [rows[rows[:, DECOY] == 0] for rows in found]
    all_probabilities = np.split(
        probabilities(np.concatenate(matches), coefficients), np.cumsum([len(m) for m in matches])
    )
    for other, own, probability in zip(row.features[1:], matches, all_probabilities, strict=False):
        kept = within(own, limits.ratio, limits.distance) & (probability >= limits.evidence)
        pairs, probability = own[kept][:, [LEFT, RIGHT]].astype(np.int32), probability[kept]
        verdict = np.full(len(pairs), SURE, np.int8)
        if limits.geometry is not None and len(pairs):
            right = other.loaded()
            cameras = (camera, guess_camera(right.xy, right.image_size))
            xy1, xy2 = left.xy[pairs[:, 0]], right.xy[pairs[:, 1]]
            verdict = judge(xy1, xy2, limits.geometry, cameras)
        agree = np.flatnonzero(verdict >= WEAK)
        agree = agree[np.argsort(pairs[agree, 0], kind="stable")]
        ends.append(pairs[agree])
        weights.append(probability[agree])
        verdicts.append(verdict[agree])
        counts.append(len(agree))
    return {
        "ends": np.concatenate(ends),
        "probability": np.concatenate(weights),
        "verdict": np.concatenate(verdicts),
        "counts": np.array(counts, np.int64),
    }


def pairs_kept(pairs: IntArray, counts: IntArray, k: int) -> NDArray[np.int8]:
    """Say from which verdict on the matches of every pair are kept, as `verify` does.

    Parameters
    ----------
    pairs : (n, 2) int64 array
        Pairs of images.
    counts : (n, 2) int64 array
        Sure and weak matches of each.
    k : int
        The number of images.

    Returns
    -------
    (n,) int8 array
    """
    sure = sum(np.bincount(side, counts[:, 0], k) for side in pairs.T)
    return np.array([least_verdict(*both) for both in np.asarray(sure)[pairs].tolist()], np.int8)


def kept_matches(
    judged: Judged, least: NDArray[np.int8]
) -> Iterator[tuple[int, NDArray[np.int32], FloatArray]]:
    """Hand out the matches of a row that are kept.

    Parameters
    ----------
    judged : Judged
    least : (n,) int8 array
        The verdict from which on those of each pair are, see `pairs_kept`.

    Yields
    ------
    j : int
        The other image of a pair.
    ends : (n, 2) int32 array
        A feature of image i and its match, counted from 0 in each image.
    probability : (n,) float64 array
    """
    stored = load(*judged.place, dict)
    if stored is None:
        raise NmfsyncError(
            f"{judged.place[0]}: the matches kept here are gone or damaged; run again: what is "
            "there stays"
        )
    cuts = np.cumsum(stored["counts"])[:-1]
    arrays = [np.split(stored[name], cuts) for name in ("ends", "probability", "verdict")]
    for j, lowest, ends, probability, verdict in zip(
        judged.others.tolist(), least.tolist(), *arrays, strict=True
    ):
        kept = verdict >= lowest
        if kept.any():
            weight = surer(probability[kept]) if judged.verified else probability[kept]
            yield j, ends[kept], weight
