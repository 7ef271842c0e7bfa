"""What a consistent result decided: how right its tracks are, and what contradicts them.

A track is judged by all pairs of its members, which are matches of the result. A
contradiction is a match of the input between a member and a feature outside of
the track: no consistent result can have both, so this match was removed.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from nmfsync.evaluation.confidence import Confidence, precision_by_track
from nmfsync.evaluation.match_table import Judgement, MatchTable
from nmfsync.evaluation.tracks import count_different
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray, IntArray
from nmfsync.types.matches import Matches, MultiMatching


class TrackJudgement(NamedTuple):
    """The matches of a consistent result, summed up by universe feature and by feature.

    Attributes
    ----------
    right, judged : (d,) int64 arrays
        Of every universe feature: directions of matches that are right, and that can be judged.
    pixels : (d,) float32 array
        The largest error; NaN if no match can be judged.
    probability : (d,) float64 array
        The mean probability of the matches; NaN without matches.
    member_right, member_judged : (m,) int64 arrays
        The same of the matches of every feature.
    member_probability : (m,) float64 array
    """

    right: IntArray
    judged: IntArray
    pixels: AnyArray
    probability: FloatArray
    member_right: IntArray
    member_judged: IntArray
    member_probability: FloatArray


class Contradictions(NamedTuple):
    """Matches of the input that were removed, each seen from an end that is in a track.

    Attributes
    ----------
    a, b : (n,) int64 arrays
        A member of a track, and the feature outside of the track that the input matches with it.
    row : (n,) int64 array
        The match in the table.
    """

    a: IntArray
    b: IntArray
    row: IntArray


class Components(NamedTuple):
    """The inconsistent components of the input, those with the most removed matches first.

    These are connected features of which two or more are in one image.

    Attributes
    ----------
    features, images, matches : (C,) int64 arrays
        How many features, different images and matches of the input a component has.
    removed : (C,) int64 array
        How many of these matches the result does not have.
    tracks : (C,) int64 array
        How many tracks of the result have a feature of it.
    of_feature : (m,) int64 array
        The component of every feature; −1 if it is in none.
    """

    features: IntArray
    images: IntArray
    matches: IntArray
    removed: IntArray
    tracks: IntArray
    of_feature: IntArray


def in_tracks(result: MultiMatching) -> BoolArray:
    """Say which features are in a track, so that their universe feature is seen twice: (m,)."""
    return np.asarray(np.bincount(result.universe, minlength=1)[result.universe] > 1)


def judge_tracks(
    table: MatchTable,
    judgement: Judgement,
    confidence: Confidence,
    name: str,
    result: MultiMatching,
) -> TrackJudgement:
    """Judge every track, and every member of one, by all pairs of the track.

    Parameters
    ----------
    table : MatchTable
    judgement : Judgement
        Of the table.
    confidence : Confidence
        Of the result.
    name : str
        The method of the result.
    result : MultiMatching

    Returns
    -------
    TrackJudgement
    """
    rows = table.rows(name)
    p, q = table.p[rows], table.q[rows]
    track, d, m = result.universe[p], result.universe_size, len(result.universe)
    right, judged = judgement.right[rows], judgement.judged[rows]
    pixels = np.full(d, np.nan, dtype=np.float32)
    np.fmax.at(pixels, track, judgement.pixels[rows])

    def of_members(values: AnyArray) -> FloatArray:
        return np.asarray(np.bincount(p, values, m) + np.bincount(q, values, m), np.float64)

    return TrackJudgement(
        np.bincount(track, right, d).astype(np.int64),
        np.bincount(track, judged, d).astype(np.int64),
        pixels,
        precision_by_track(confidence, result),
        of_members(right).astype(np.int64),
        of_members(judged).astype(np.int64),
        _mean(of_members(confidence.probability), of_members(np.ones(len(p)))),
    )


def contradictions(table: MatchTable, result: MultiMatching) -> Contradictions:
    """List the contradictions of all tracks: first those at p of a match, then those at q."""
    rows = table.rows("input")
    rows = rows[result.universe[table.p[rows]] != result.universe[table.q[rows]]]
    tracked = in_tracks(result)
    at_p, at_q = rows[tracked[table.p[rows]]], rows[tracked[table.q[rows]]]
    return Contradictions(
        np.concatenate([table.p[at_p], table.q[at_q]]),
        np.concatenate([table.q[at_p], table.p[at_q]]),
        np.concatenate([at_p, at_q]),
    )


def features_taken(result: MultiMatching, track: IntArray, image: IntArray) -> IntArray:
    """Return the feature of a universe feature in an image, −1 where there is none.

    Parameters
    ----------
    result : MultiMatching
    track, image : (n,) ints

    Returns
    -------
    (n,) int64 array
    """
    k = len(result.sizes)
    places = result.universe * k + result.image_of
    order = np.argsort(places)
    wanted = track * k + image
    at = np.searchsorted(places[order], wanted)
    found = order[np.minimum(at, len(order) - 1)]
    return np.where(places[found] == wanted, found, -1)


def inconsistent_components(table: MatchTable, known: Matches, result: MultiMatching) -> Components:
    """Say into what the inconsistent components of the input were split.

    Parameters
    ----------
    table : MatchTable
    known : PairwiseMatches or MultiMatching
        The input of the table.
    result : MultiMatching

    Returns
    -------
    Components
    """
    count, component = connected_components(known.W, directed=False)
    rows = table.rows("input")
    p, q = table.p[rows], table.q[rows]
    removed = result.universe[p] != result.universe[q]
    tracked = in_tracks(result)
    features = np.bincount(component, minlength=count)
    images = count_different(component, known.image_of, count)
    matches = np.bincount(component[p], minlength=count)
    removals = np.bincount(component[p[removed]], minlength=count)
    tracks = count_different(component[tracked], result.universe[tracked], count)
    inconsistent = np.flatnonzero(features > images)
    worst = inconsistent[
        np.lexsort((inconsistent, -features[inconsistent], -removals[inconsistent]))
    ]
    place = np.full(count, -1)
    place[worst] = np.arange(len(worst))
    return Components(
        features[worst], images[worst], matches[worst], removals[worst], tracks[worst],
        place[component],
    )  # fmt: skip


def _mean(total: AnyArray, count: AnyArray) -> FloatArray:
    """Divide; NaN where the count is 0."""
    return np.asarray(np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0))
