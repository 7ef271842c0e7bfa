"""How right matches are likely to be, estimated without ground truth."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.runtime.ascending import FAR_LONGER, first_from, next_common
from nmfsync.runtime.compiled import compiled, csr_arrays
from nmfsync.runtime.threads import block_length, map_blocks
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray, IntArray
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches
from nmfsync.types.notebook import html_facts, shown_share

# No match of the input counts as surer: its probability is an estimate, too.
SUREST = 0.98

RIGHT = 0.01  # largest error of a right match, as a share of the larger dimension of the image

CLASSES = 10

# Of features in one track: every match is estimated over all features of its track. More take
# minutes.
MOST_TRIPLES = 2e9

BLOCK = 2**10  # features a thread takes at a time

BLOCKS = 16  # at most, where each needs an array for all features


class Confidence(NamedTuple):
    """The matches of a result, each once, and how likely each is right.

    Attributes
    ----------
    p, q : (n,) int64 arrays
        The matched features, numbered through all images, p < q; in order of p, then q.
    probability : (n,) float64 array
    """

    p: IntArray
    q: IntArray
    probability: FloatArray

    def __repr__(self) -> str:
        share = shown_share(self.precision)
        return f"Confidence({len(self.p):,} matches, estimated precision {share})"

    def _repr_html_(self) -> str:
        share = shown_share(self.precision)
        return html_facts("Confidence", {"matches": len(self.p), "estimated precision": share})

    @property
    def precision(self) -> float | None:
        """The estimated precision: the mean of the probabilities; None without matches."""
        return float(self.probability.mean()) if len(self.probability) else None


NO_MATCHES = Confidence(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def estimate_confidence(result: Matches, known: PairwiseMatches) -> Confidence:
    """Estimate how likely the matches of a result are right.

    A match p–q of the result is right if the input's own match is, or if those in
    a row over a third feature r are. As if these were independent, ::

        P(p–q) = 1 − (1 − w_pq) Π_r (1 − w_pr w_rq)

    over the features r that the result matches with both; w is 0 where the input
    has no match. Where this is 0, it is the largest P(p–r) P(r–q).

    A track of n features has n² / 2 matches. Where all of them are too many (see
    `is_listed`), only those that the input had are estimated.

    Parameters
    ----------
    result : PairwiseMatches or MultiMatching
    known : PairwiseMatches
        The input of the method. Its weights are the probabilities that matches
        are right (`match` with `weighted`, or `calibrate_by_cycles`).

    Returns
    -------
    Confidence

    Notes
    -----
    This is an estimate, and too large where wrong matches confirm each other, as
    where repeated structures are matched in the same wrong way in many images.
    """
    if isinstance(result, MultiMatching):
        # Near-duplicates are not in tracks: what is known of their matches speaks for these.
        known = known.contracted()
        result = result if is_listed(result) else result.kept_of(known)
    R = result.between_images()
    value = _directly_and_over_one(R, known)
    _extend_chains(R, value)
    p = np.repeat(np.arange(R.shape[0], dtype=np.int32), np.diff(R.indptr))
    once = p < R.indices
    return Confidence(p[once].astype(np.int64), R.indices[once].astype(np.int64), value[once])


def _directly_and_over_one(R: sparse.csr_array, known: PairwiseMatches) -> FloatArray:
    """Return the probabilities of the entries of R by known matches, direct and over a third."""
    inside = known.between_images()
    inside.data[~_contained(inside, R)] = 0  # in place: W can be large
    inside.eliminate_zeros()
    np.minimum(inside.data, SUREST, out=inside.data)
    value = np.zeros(R.nnz)
    arrays = (*csr_arrays(R), *csr_arrays(inside), inside.data, value)
    block = block_length(R.shape[0], BLOCKS, BLOCK)
    map_blocks(lambda rows: _combine(rows.start, rows.stop, *arrays), R.shape[0], block)
    return value


def _contained(A: sparse.csr_array, B: sparse.csr_array) -> BoolArray:
    """Return which entries (n,) of A are entries of B too; both are (m, m), indices sorted."""
    result = np.zeros(A.nnz, np.bool_)
    arrays = (*csr_arrays(A), *csr_arrays(B), result)
    map_blocks(lambda rows: _find(rows.start, rows.stop, *arrays), A.shape[0], BLOCK)
    return result


def is_listed(result: MultiMatching) -> bool:
    """Whether the tracks of a result are short enough to estimate every match of it."""
    lengths = np.bincount(result.universe).astype(np.float64)
    return float((lengths**3).sum()) <= MOST_TRIPLES


def precision_by_image_pair(
    confidence: Confidence, image_of: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the estimated precision of every pair of images with matches.

    Parameters
    ----------
    confidence : Confidence
    image_of : (m,) ints
        The image of every feature.

    Returns
    -------
    pairs : (n, 2) int64 array
        Images i < j, in order.
    matches : (n,) int64 array
        The number of matches.
    precision : (n,) float64 array
    """
    k = int(image_of.max(initial=0)) + 1
    numbers = image_of[confidence.p] * k + image_of[confidence.q]
    numbers, place = np.unique(numbers, return_inverse=True)
    count = np.bincount(place, minlength=len(numbers))
    total = np.bincount(place, confidence.probability, len(numbers))
    return np.column_stack(divmod(numbers, k)), count, total / np.maximum(count, 1)


def precision_by_track(confidence: Confidence, result: MultiMatching) -> FloatArray:
    """Return the estimated precision of every universe feature (d,): NaN without matches."""
    track = result.universe[confidence.p]
    d = result.universe_size
    count = np.bincount(track, minlength=d)
    total = np.bincount(track, confidence.probability, d)
    return np.asarray(np.divide(total, count, out=np.full(d, np.nan), where=count > 0))


def reliability(confidence: Confidence, errors: MatchErrors) -> dict[str, list[float]]:
    """Compare probabilities with the truth, in ten classes of equal width.

    Parameters
    ----------
    confidence : Confidence
    errors : MatchErrors
        Of the same matches. A match is right if its error is at most 1 % of the image; as for the
        precision, each direction that can be judged counts.

    Returns
    -------
    dict of str to list
        For every class with judged matches, in order: `probability`, their mean,
        `right`, their share of right ones, and `judged`, their number.
    """
    judged = np.isfinite(errors.error)
    probability = errors.both_ways(confidence.probability)[judged]
    right = (errors.error[judged] <= RIGHT).astype(np.float64)
    return in_classes(probability, right, np.ones(len(right)))


def in_classes(
    probability: FloatArray, right: FloatArray, judged: FloatArray
) -> dict[str, list[float]]:
    """Sum up matches, or groups of them, in the classes of `reliability`.

    Parameters
    ----------
    probability, right, judged : (n,) float64 arrays
        Of every group: its mean probability, the share of its right matches, and
        the number of its matches.

    Returns
    -------
    dict of str to list
        As `reliability`.
    """
    level = np.minimum((probability * CLASSES).astype(np.int64), CLASSES - 1)
    count = np.bincount(level, judged, CLASSES)
    kept = count > 0
    means = (np.bincount(level, judged * of, CLASSES)[kept] for of in (probability, right))
    probabilities, shares = ((sums / count[kept]).tolist() for sums in means)
    return {
        "probability": probabilities,
        "right": shares,
        "judged": count[kept].astype(np.int64).tolist(),
    }


def _extend_chains(R: sparse.csr_array, value: FloatArray) -> None:
    """Fill in the probability of entries that are 0, over longer and longer chains."""
    missing, before = int(np.count_nonzero(value == 0)), -1
    rows = csr_arrays(R)
    while missing not in (0, before):
        arrays = (*rows, value.copy(), value)
        map_blocks(partial(_extend_block, arrays), R.shape[0], BLOCK)
        missing, before = int(np.count_nonzero(value == 0)), missing


def _extend_block(arrays: tuple[AnyArray, ...], rows: slice) -> None:
    _extend(rows.start, rows.stop, *arrays)


@compiled
def _find(start, stop, first, other, within_first, within, result):
    """Say of the entries of the first array which the second has."""
    for p in range(start, stop):
        f = within_first[p]
        for entry in range(first[p], first[p + 1]):
            f = first_from(within, f, within_first[p + 1], other[entry])
            result[entry] = f < within_first[p + 1] and within[f] == other[entry]


@compiled
def _combine(start, stop, first, other, known_first, known_other, known, value):
    """Fill in the probability by direct matches and those over a third feature."""
    of_p = np.zeros(len(first) - 1)  # probability of the matches of p
    for p in range(start, stop):
        e_first, e_stop = known_first[p], known_first[p + 1]
        for e in range(e_first, e_stop):
            of_p[known_other[e]] = known[e]
        for entry in range(first_from(other, first[p], first[p + 1], p), first[p + 1]):
            q = other[entry]
            f, f_stop = known_first[q], known_first[q + 1]
            wrong = 1.0 - of_p[q]
            if f_stop - f > FAR_LONGER * (e_stop - e_first):
                e, f = next_common(known_other, e_first, e_stop, f, f_stop)
                while e < e_stop and f < f_stop:
                    wrong *= 1.0 - known[e] * known[f]
                    e, f = next_common(known_other, e + 1, e_stop, f + 1, f_stop)
            else:  # where p has no match, multiply by 1: the processor could not predict a branch
                for g in range(f, f_stop):
                    wrong *= 1.0 - of_p[known_other[g]] * known[g]
            value[entry] = 1.0 - wrong
            value[first_from(other, first[q], first[q + 1], p)] = 1.0 - wrong
        for e in range(e_first, e_stop):
            of_p[known_other[e]] = 0.0


@compiled
def _extend(start, stop, first, other, before, value):
    """Fill in the largest product over a third feature where the probability is 0."""
    for p in range(start, stop):
        for entry in range(first[p], first[p + 1]):
            if before[entry] > 0:
                continue
            q = other[entry]
            e, f = first[p], first[q]
            while True:
                e, f = next_common(other, e, first[p + 1], f, first[q + 1])
                if e == first[p + 1] or f == first[q + 1]:
                    break
                value[entry] = max(value[entry], before[e] * before[f])
                e, f = e + 1, f + 1
