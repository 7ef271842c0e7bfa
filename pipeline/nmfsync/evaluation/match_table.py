"""Every match of any method once: who has it, between which images, and whether it is right."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nmfsync.evaluation.confidence import RIGHT, Confidence
from nmfsync.evaluation.errors import MatchErrors
from nmfsync.types.arrays import AnyArray, BoolArray, Float32Array, FloatArray, IntArray

MOST_METHODS = 16  # a bit each

UNKNOWN, IS_RIGHT, IS_WRONG = 0, 1, 2  # verdicts

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class MatchTable:
    """The matches that at least one method has, in order of p, then q.

    Attributes
    ----------
    names : tuple of str
        The methods, "input" first; method n has bit n.
    image_of : (m,) int64 array
        The image of every feature.
    p, q : (n,) int64 arrays
        The matched features, numbered through all images, p < q.
    methods : (n,) uint16 array
        The bits of the methods that have the match.
    pair : (n,) int64 array
        The row of `pairs` with its images.
    pairs : (P, 2) int64 array
        Images i < j with a match of any method, in order.
    by_pair : (n,) int64 array
        The rows in order of their pair of images, then p, then q.
    """

    names: tuple[str, ...]
    image_of: IntArray
    p: IntArray
    q: IntArray
    methods: NDArray[np.uint16]
    pair: IntArray
    pairs: IntArray
    by_pair: IntArray

    def __len__(self) -> int:
        return len(self.p)

    def has(self, name: str) -> BoolArray:
        """Say which matches a method has: (n,) bools; none for a method that is not here."""
        if name not in self.names:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(self.methods & (1 << self.names.index(name)) != 0)

    def rows(self, name: str) -> IntArray:
        """Return the rows that a method has, in the order of its own matches."""
        return np.flatnonzero(self.has(name))


class Judgement(NamedTuple):
    """What the truth says about the matches of a table; each direction of a match counts.

    Attributes
    ----------
    judged, right : (n,) uint8 arrays
        How many directions can be judged, and how many of them are right: 0 to 2.
    pixels : (n,) float32 array
        The larger error of both directions; NaN where neither can be judged.
    """

    judged: Bytes
    right: Bytes
    pixels: Float32Array

    @property
    def verdict(self) -> Bytes:
        """(n,) uint8: 0 unknown, 1 right, 2 wrong in a direction that can be judged."""
        wrong = np.where(self.right < self.judged, IS_WRONG, IS_RIGHT)
        return np.where(self.judged > 0, wrong, UNKNOWN).astype(np.uint8)


class PairCounts(NamedTuple):
    """The matches of M methods between P pairs of images: (M, P) arrays.

    Attributes
    ----------
    matches, kept : int64
        Matches of the method, and those among them that the input has too.
    judged, right : int64
        As in `Judgement`.
    estimated : float64
        The mean probability of being right; NaN without matches.
    """

    matches: IntArray
    kept: IntArray
    judged: IntArray
    right: IntArray
    estimated: FloatArray


def match_table(confidences: Mapping[str, Confidence], sizes: ArrayLike) -> MatchTable:
    """Put the matches of all methods into one table.

    Parameters
    ----------
    confidences : dict of str to Confidence
        The matches of the methods, "input" first; more than 16 are left out.
    sizes : (k,) ints
        Number of features of every image.

    Returns
    -------
    MatchTable
    """
    sizes = np.asarray(sizes)
    m, names = int(sizes.sum()), tuple(confidences)[:MOST_METHODS]
    bits = sparse.csr_array((m, m), dtype=np.uint16)
    for n, name in enumerate(names):
        bits = bits + _bits(confidences[name], n, m)
    p = np.repeat(np.arange(m), np.diff(bits.indptr))
    q = bits.indices.astype(np.int64)
    image_of = np.repeat(np.arange(len(sizes)), sizes)
    return MatchTable(names, image_of, p, q, bits.data, *_by_pair(image_of[p], image_of[q]))


def judge_matches(
    table: MatchTable, errors: Mapping[str, MatchErrors], larger: ArrayLike
) -> Judgement:
    """Judge the matches of a table.

    Parameters
    ----------
    table : MatchTable
    errors : dict of str to MatchErrors
        Of methods in the table; nothing is known of matches that only others have.
    larger : (k,) numbers
        The larger dimension of every image, in pixels.

    Returns
    -------
    Judgement
    """
    shares = np.full((2, len(table)), np.nan)
    for name in table.names:
        if name in errors:
            rows = table.rows(name)
            shares[:, rows] = _both_directions(errors[name], table.p[rows], table.q[rows])
    of_feature = np.asarray(larger, dtype=np.float64)[table.image_of]
    pixels = np.fmax(shares[0] * of_feature[table.q], shares[1] * of_feature[table.p])
    judged, right = np.isfinite(shares).sum(axis=0), (shares <= RIGHT).sum(axis=0)
    return Judgement(judged.astype(np.uint8), right.astype(np.uint8), pixels.astype(np.float32))


def count_by_pair(
    table: MatchTable, judgement: Judgement, confidences: Mapping[str, Confidence]
) -> PairCounts:
    """Count the matches of every method between every two images."""
    in_input = table.has(table.names[0])

    def sums(name: str) -> list[AnyArray]:
        rows = table.rows(name)
        values = (in_input, judgement.judged, judgement.right)
        weights = [None, *(of[rows] for of in values), confidences[name].probability]
        return [np.bincount(table.pair[rows], w, len(table.pairs)) for w in weights]

    matches, kept, judged, right, probability = (
        np.stack(columns) for columns in zip(*map(sums, table.names), strict=True)
    )
    unknown = np.full(matches.shape, np.nan)
    estimated = np.divide(probability, matches, out=unknown, where=matches > 0)
    kept, judged, right = (values.astype(np.int64) for values in (kept, judged, right))
    return PairCounts(matches, kept, judged, right, estimated)


def best_probability(
    table: MatchTable, confidences: Mapping[str, Confidence], tracks: str
) -> FloatArray:
    """Return the probability of every match of a table: (n,) floats.

    It is that of the method `tracks`, else of the input, else of the first method that has it.
    """
    probability = np.full(len(table), np.nan)
    order = dict.fromkeys([tracks, *table.names])
    for name in reversed([name for name in order if name in table.names]):
        probability[table.has(name)] = confidences[name].probability
    return probability


def _bits(confidence: Confidence, n: int, m: int) -> sparse.csr_array:
    """Bit n at the matches of a method: (m, m)."""
    first = np.concatenate([[0], np.cumsum(np.bincount(confidence.p, minlength=m))])
    bit = np.full(len(confidence.p), 1 << n, dtype=np.uint16)
    return sparse.csr_array((bit, confidence.q.astype(np.int32), first), shape=(m, m))


def _by_pair(i: IntArray, j: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return `pair`, `pairs` and `by_pair` of a table, from the images of its matches."""
    k = int(j.max(initial=0)) + 1
    number = i * k + j
    order = np.argsort(number, kind="stable")
    new = np.diff(number[order], prepend=-1) != 0
    pair = np.empty(len(number), dtype=np.int64)
    pair[order] = np.cumsum(new) - 1
    return pair, np.column_stack(divmod(number[order][new], k)), order


def _both_directions(errors: MatchErrors, p: IntArray, q: IntArray) -> FloatArray:
    """Errors from p to q and from q to p: (2, n), in the order of the matches p < q asked for."""
    once = errors.p < errors.q
    shares = np.stack([errors.error[once], _transposed(errors, ~once)])
    if shares.shape[1] == len(p):
        return shares
    # Of very long tracks, only some matches are in a table (`confidence.is_listed`).
    m = int(errors.q.max(initial=0)) + 1
    known = errors.p[once] * m + errors.q[once]
    return np.asarray(shares[:, np.searchsorted(known, p * m + q)])


def _transposed(errors: MatchErrors, rows: BoolArray) -> FloatArray:
    """Errors of some rows, which are in order of p, then q, in order of q, then p."""
    p, q = errors.p[rows], errors.q[rows]
    m = int(errors.p.max(initial=0)) + 1
    first = np.concatenate([[0], np.cumsum(np.bincount(p, minlength=m))])
    # The conversion sorts by counting, which takes a tenth of the time of a sort.
    return np.asarray(sparse.csr_array((errors.error[rows], q, first), shape=(m, m)).tocsc().data)
