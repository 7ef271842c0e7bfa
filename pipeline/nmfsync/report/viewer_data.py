"""What a page's viewer shows: the images, their matches by all methods, and the tracks.

JavaScript reads this as JSON; arrays are packed (`templates/viewer/core.js`). Where there is
too much for a page, it is a choice that is the same every time.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import printable
from nmfsync.evaluation.confidence import NO_MATCHES, RIGHT, Confidence
from nmfsync.evaluation.contradictions import (
    Contradictions,
    TrackJudgement,
    contradictions,
    features_taken,
    in_tracks,
    inconsistent_components,
    judge_tracks,
)
from nmfsync.evaluation.errors import MatchErrors, epipolar_pixels
from nmfsync.evaluation.match_table import (
    MOST_METHODS,
    Judgement,
    MatchTable,
    best_probability,
    count_by_pair,
    judge_matches,
    match_table,
)
from nmfsync.report.figures.style import styles_of
from nmfsync.report.photographs import ViewerImage, photographs
from nmfsync.report.sampling import (
    choose_by_turns,
    evenly_first,
    pick_evenly,
    place_in_group,
    water_fill,
)
from nmfsync.scenes.images import read_stored
from nmfsync.scenes.scene import Scene
from nmfsync.types.arrays import AnyArray, FloatArray, IntArray
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches

# Of a page. A match needs about 15 bytes in it.
MOST_MATCHES = 400_000
MOST_IMAGE_PAIRS = 100_000
MOST_FEATURES_IN_TRACKS = 200_000
MOST_PAIRS_IN_TRACKS = 2_500_000  # two members of a track
MOST_CONTRADICTIONS = 200_000
MOST_COMPONENTS = 1000

NONE = 0xFFFFFFFF  # no feature, or no component

_PROBABILITY_STEPS, _UNKNOWN_PROBABILITY = 250, 255

# Fractions of a pixel or degree, and of a ratio, that are kept: the rest would not compress.
_FINE, _FINER = 32, 1024

_NAMES = {"u1": "u8", "u2": "u16", "u4": "u32", "f4": "f32"}  # of types, in NumPy and on the page


class Keypoints(NamedTuple):
    """The features of an image, as the viewer draws them.

    Attributes
    ----------
    xy : (n, 2) array
        Pixels, x to the right and y down; the centre of the top-left pixel is (0, 0).
    scale : (n,) array or None
        Diameter in pixels.
    orientation : (n,) array or None
        Degrees, clockwise as the image is seen.
    """

    xy: AnyArray
    scale: AnyArray | None = None
    orientation: AnyArray | None = None


class _Shown(NamedTuple):
    """The tracks of a page.

    Attributes
    ----------
    universe : (T,) ints
        Their universe features, ascending.
    members : (n,) ints
        Their features, by track, then image.
    first : (T + 1,) ints
        Where the members of a track begin.
    place : (d,) ints
        The track of every universe feature; −1 if it is not shown.
    number : (T,) ints
        Their numbers among all tracks, as in `tracks.csv`.
    left_out : int
        How many tracks are not shown.
    """

    universe: IntArray
    members: IntArray
    first: IntArray
    place: IntArray
    number: IntArray
    left_out: int

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.first)


def viewer_data(
    images: Sequence[ViewerImage],
    keypoints: Sequence[Keypoints],
    results: Mapping[str, Matches],
    tracks: str,
    confidences: Mapping[str, Confidence],
    errors: Mapping[str, MatchErrors] | None = None,
    cameras: Sequence[Camera] | None = None,
    truth: str = "none",
) -> dict[str, Any]:
    """Collect what the viewer of a page shows.

    Parameters
    ----------
    images : sequence of ViewerImage, length k
        At most 65,536.
    keypoints : sequence of Keypoints, length k
    results : dict of str to PairwiseMatches or MultiMatching
        "input" first, then the methods.
    tracks : str
        The method whose tracks are shown, if its result is a MultiMatching; else none are.
    confidences : dict of str to Confidence
        From `estimate_confidence`, for every result.
    errors : dict of str to MatchErrors, optional
        From `match_errors`, where there is a truth.
    cameras : sequence of Camera, optional
        For the distances to epipolar lines.
    truth : str
        The kind of truth.

    Returns
    -------
    dict
        Ready for `viewer_json`.
    """
    known, result = results["input"], results.get(tracks)
    if not isinstance(result, MultiMatching):  # every feature alone
        tracks, result = "", MultiMatching(np.arange(known.sizes.sum()), known.sizes)
    confidences = {name: confidences[name] for name in _methods(confidences, tracks)}
    table = match_table(confidences, known.sizes)
    judgement = judge_matches(table, errors or {}, [max(image.size) for image in images])
    probability = best_probability(table, confidences, tracks)
    judged = judge_tracks(table, judgement, confidences.get(tracks, NO_MATCHES), tracks, result)
    removed = contradictions(table, result)
    pairs = _choose_image_pairs(table)
    shown = _choose_tracks(result, judged, removed)
    drawn = _choose_matches(table, result, tracks, pairs)
    arrays = {
        **_pair_arrays(table, judgement, confidences, pairs, drawn),
        **_match_arrays(table, judgement, probability, drawn),
        "match_epipolar": _epipolar(table, keypoints, cameras, drawn),
        "match_ratio": _ratios(table, known, drawn),
        **_track_arrays(judged, shown),
        **_track_pairs(table, judgement, probability, tracks, result, shown),
        **_contradiction_arrays(table, judgement, probability, result, removed, shown),
        **_component_arrays(table, known, tracks, result, shown),
    }
    arrays = {**_feature_arrays(table, keypoints, arrays), **arrays}
    return {
        "images": _describe_images(images),
        "methods": _describe_methods({name: results[name] for name in confidences}),
        "tracks": tracks,
        "truth": truth,
        "cameras": cameras is not None,
        "threshold": RIGHT,
        "tracks_left_out": shown.left_out,
        "pairs_left_out": len(table.pairs) - len(pairs),
        "arrays": {name: _pack(array) for name, array in arrays.items()},
    }


def scene_viewer_data(
    scene: Scene,
    features: Sequence[Features],
    results: Mapping[str, Matches],
    tracks: str,
    confidences: Mapping[str, Confidence],
    errors: Mapping[str, MatchErrors],
    truth: str,
) -> dict[str, Any]:
    """Collect what the viewer of a scene's page shows (see `viewer_data`)."""
    digests = scene.digests or [None] * len(scene.paths)
    files = zip(scene.names, scene.labels, scene.paths, digests, features, strict=True)
    images = [
        ViewerImage(name, label, f.image_size, partial(read_stored, path, digest))
        for name, label, path, digest, f in files
    ]
    keypoints = [Keypoints(f.xy, f.scale, f.orientation) for f in features]
    known = errors if scene.truth else None
    return viewer_data(images, keypoints, results, tracks, confidences, known, scene.cameras, truth)


def viewer_json(data: Mapping[str, Any]) -> str:
    r"""Write the data of a viewer as JSON that can stand in a page: ASCII, and < as \u003c."""
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c")


def _describe_images(images: Sequence[ViewerImage]) -> list[dict[str, Any]]:
    return [
        {
            "name": printable(image.name),
            "label": printable(image.label),
            "width": int(image.size[0]),
            "height": int(image.size[1]),
            "source": source,
        }
        for image, source in zip(images, photographs(images), strict=True)
    ]


def _describe_methods(results: Mapping[str, Matches]) -> list[dict[str, Any]]:
    styles = styles_of(list(results))
    return [
        {
            "key": name,
            "name": printable(styles[name].name),
            "colour": styles[name].colour,
            "consistent": isinstance(result, MultiMatching),
        }
        for name, result in results.items()
    ]


def _methods(names: Mapping[str, Any], tracks: str) -> list[str]:
    """Return the methods to show, in their order; of too many, never without that of the tracks."""
    kept = {"input", tracks, *list(names)[: MOST_METHODS - 2]}
    return [name for name in names if len(names) <= MOST_METHODS or name in kept]


def _choose_image_pairs(table: MatchTable) -> IntArray:
    """Return the rows of `table.pairs` to show, those with the most matches."""
    counts = np.bincount(table.pair, minlength=len(table.pairs))
    return np.sort(np.argsort(-counts, kind="stable")[:MOST_IMAGE_PAIRS])


def _choose_tracks(
    result: MultiMatching, judged: TrackJudgement, removed: Contradictions
) -> _Shown:
    """Choose tracks: long, doubtful, contradicted and wrong ones, and others between them."""
    length = np.bincount(result.universe, minlength=1)
    candidates = np.flatnonzero(length > 1)
    contradicted = np.bincount(result.universe[removed.a], minlength=len(length))[candidates]
    wrong = (judged.judged - judged.right)[candidates]
    lengths = length[candidates]
    wanted = (-lengths, judged.probability[candidates], -contradicted, -wrong)
    orders = [np.argsort(values, kind="stable") for values in wanted]
    chosen = choose_by_turns(
        np.stack([lengths, lengths * (lengths - 1) // 2]),
        [*orders, evenly_first(len(candidates))],
        [MOST_FEATURES_IN_TRACKS, MOST_PAIRS_IN_TRACKS],
    )
    universe = candidates[chosen]
    place = np.full(len(length), -1)
    place[universe] = np.arange(len(universe))
    members = np.flatnonzero(place[result.universe] >= 0)
    members = members[np.argsort(place[result.universe[members]], kind="stable")]
    return _Shown(
        universe,
        members,
        _first(length[universe]),
        place,
        np.flatnonzero(chosen),
        int(np.count_nonzero(~chosen)),
    )


def _choose_matches(
    table: MatchTable, result: MultiMatching, tracks: str, pairs: IntArray
) -> IntArray:
    """Choose the rows to draw, in order of their images.

    Half of the budget is for matches of the tracks, a quarter for removed ones that contradict
    a track, a quarter for others; what one class leaves, the next one may use.
    """
    if len(table) <= MOST_MATCHES and len(pairs) == len(table.pairs):
        return table.by_pair
    in_track = table.has(tracks)
    tracked = in_tracks(result)
    contradicts = table.has("input") & ~in_track & (tracked[table.p] | tracked[table.q])
    shown = np.isin(np.arange(len(table.pairs)), pairs)[table.pair]
    chosen = np.zeros(len(table), dtype=bool)
    for share, of_class in (
        (0.5, in_track),
        (0.75, contradicts),
        (1.0, ~in_track & ~contradicts),
    ):
        rows = table.by_pair[(of_class & shown)[table.by_pair]]
        counts = np.bincount(table.pair[rows], minlength=len(table.pairs))
        budget = int(share * MOST_MATCHES) - int(np.count_nonzero(chosen))
        chosen[rows[pick_evenly(table.pair[rows], water_fill(counts, budget))]] = True
    return table.by_pair[chosen[table.by_pair]]


def _pair_arrays(
    table: MatchTable,
    judgement: Judgement,
    confidences: Mapping[str, Confidence],
    pairs: IntArray,
    drawn: IntArray,
) -> dict[str, AnyArray]:
    counts = count_by_pair(table, judgement, confidences)
    total = np.bincount(table.pair, minlength=len(table.pairs))
    number_drawn = np.bincount(table.pair[drawn], minlength=len(table.pairs))
    i, j = table.pairs[pairs].T
    return {
        "pair_i": i.astype(np.uint16),
        "pair_j": j.astype(np.uint16),
        **{
            f"pair_{name}": values[:, pairs].astype(np.uint32).ravel()
            for name, values in counts._asdict().items()
            if name != "estimated"
        },
        "pair_estimated": counts.estimated[:, pairs].astype(np.float32).ravel(),
        "pair_total": total[pairs].astype(np.uint32),
        "pair_first": _first(number_drawn[pairs]).astype(np.uint32),
    }


def _match_arrays(
    table: MatchTable, judgement: Judgement, probability: FloatArray, drawn: IntArray
) -> dict[str, AnyArray]:
    return {
        "match_a": table.p[drawn],
        "match_b": table.q[drawn],
        "match_methods": table.methods[drawn],
        "match_verdict": judgement.verdict[drawn],
        "match_error": _rounded(judgement.pixels[drawn]),
        "match_probability": _steps(probability[drawn]),
    }


def _epipolar(
    table: MatchTable,
    keypoints: Sequence[Keypoints],
    cameras: Sequence[Camera] | None,
    drawn: IntArray,
) -> AnyArray:
    if cameras is None:
        return np.full(len(drawn), np.nan, dtype=np.float32)
    xy = [points.xy for points in keypoints]
    return _rounded(epipolar_pixels(table.p[drawn], table.q[drawn], xy, cameras))


def _ratios(table: MatchTable, known: Matches, drawn: IntArray) -> AnyArray:
    ratios = np.full(len(table), np.nan)
    if isinstance(known, PairwiseMatches) and known.ratios is not None:
        ratios[table.rows("input")] = known.ratios
    return _rounded(ratios[drawn], _FINER)


def _track_arrays(judged: TrackJudgement, shown: _Shown) -> dict[str, AnyArray]:
    of, members = shown.universe, shown.members
    most = np.iinfo(np.uint16).max
    return {
        "track_first": shown.first.astype(np.uint32),
        "track_members": members,
        "track_number": shown.number.astype(np.uint32),
        "track_right": judged.right[of].astype(np.uint32),
        "track_judged": judged.judged[of].astype(np.uint32),
        "track_error": _rounded(judged.pixels[of]),
        "track_probability": judged.probability[of].astype(np.float32),
        "member_right": np.minimum(judged.member_right[members], most).astype(np.uint16),
        "member_judged": np.minimum(judged.member_judged[members], most).astype(np.uint16),
        "member_probability": _rounded(judged.member_probability[members], _FINER),
    }


def _track_pairs(
    table: MatchTable,
    judgement: Judgement,
    probability: FloatArray,
    tracks: str,
    result: MultiMatching,
    shown: _Shown,
) -> dict[str, AnyArray]:
    """Give verdict and probability of every pair of members of a track."""
    rows = table.rows(tracks)
    track = shown.place[result.universe[table.p[rows]]]
    rows, track = rows[track >= 0], track[track >= 0]
    n = shown.lengths
    first = _first(n * (n - 1) // 2)
    local = np.empty(len(result.universe), dtype=np.int64)
    local[shown.members] = place_in_group(np.repeat(np.arange(len(n)), n))
    x, y = local[table.p[rows]], local[table.q[rows]]
    at = first[track] + x * (2 * n[track] - x - 1) // 2 + (y - x - 1)
    pairs = np.zeros(first[-1], dtype=np.uint8)
    pairs[at] = judgement.verdict[rows] + 4 * table.has("input")[rows]
    probabilities = np.full(first[-1], _UNKNOWN_PROBABILITY, dtype=np.uint8)
    probabilities[at] = _steps(probability[rows])
    return {
        "track_pair_first": first.astype(np.uint32),
        "track_pairs": pairs,
        "track_pair_probability": probabilities,
    }


def _contradiction_arrays(
    table: MatchTable,
    judgement: Judgement,
    probability: FloatArray,
    result: MultiMatching,
    removed: Contradictions,
    shown: _Shown,
) -> dict[str, AnyArray]:
    """List the contradictions of every track, the most probable first."""
    track = shown.place[result.universe[removed.a]]
    on_page = np.flatnonzero(track >= 0)
    track, steps = track[on_page], _steps(probability[removed.row[on_page]])
    order = np.argsort(track * (_UNKNOWN_PROBABILITY + 1) - steps, kind="stable")
    track, steps, on_page = track[order], steps[order], on_page[order]
    total = np.bincount(track, minlength=len(shown.universe))
    shares = water_fill(total, MOST_CONTRADICTIONS)
    kept = place_in_group(track) < shares[track]
    a, b, row = (of[on_page[kept]] for of in removed)
    return {
        "track_contradictions": total.astype(np.uint32),
        "contradiction_first": _first(shares).astype(np.uint32),
        "contradiction_a": a,
        "contradiction_b": b,
        "contradiction_taken": features_taken(result, result.universe[a], table.image_of[b]),
        "contradiction_probability": steps[kept],
        "contradiction_verdict": judgement.verdict[row],
    }


def _component_arrays(
    table: MatchTable,
    known: Matches,
    tracks: str,
    result: MultiMatching,
    shown: _Shown,
) -> dict[str, AnyArray]:
    components = inconsistent_components(table, known, result)
    listed = slice(0, MOST_COMPONENTS if tracks else 0)
    of_member = components.of_feature[shown.members]
    of_member = np.where((of_member < 0) | (of_member >= MOST_COMPONENTS), NONE, of_member)
    if len(shown.universe):
        of_member = np.minimum.reduceat(of_member, shown.first[:-1])
    return {
        "track_component": of_member.astype(np.uint32),
        **{
            f"component_{name}": values[listed].astype(np.uint32)
            for name, values in components._asdict().items()
            if name != "of_feature"
        },
    }


# The arrays that name features.
_FEATURES = (
    "match_a", "match_b", "track_members",
    "contradiction_a", "contradiction_b", "contradiction_taken",
)  # fmt: skip


def _feature_arrays(
    table: MatchTable, keypoints: Sequence[Keypoints], arrays: dict[str, AnyArray]
) -> dict[str, AnyArray]:
    """Describe the features that are drawn, and number them anew in the other arrays."""
    m = len(table.image_of)
    drawn = np.zeros(m + 1, dtype=bool)
    for name in _FEATURES:
        drawn[arrays[name]] = True  # -1 is none
    drawn = drawn[:m]
    numbers = np.append(np.cumsum(drawn) - 1, NONE)
    for name in _FEATURES:
        arrays[name] = numbers[arrays[name]].astype(np.uint32)
    image = table.image_of[drawn]
    counts = np.bincount(table.image_of, minlength=len(keypoints))
    x, y = np.concatenate([points.xy for points in keypoints]).T[:, drawn]
    return {
        "feature_image": image.astype(np.uint16),
        "feature_number": (np.flatnonzero(drawn) - _first(counts)[image]).astype(np.uint32),
        "feature_x": _rounded(x),
        "feature_y": _rounded(y),
        "feature_scale": _rounded(_column([k.scale for k in keypoints], counts, 0.0)[drawn]),
        "feature_orientation": _rounded(
            _column([k.orientation for k in keypoints], counts, np.nan)[drawn]
        ),
    }


def _column(parts: Sequence[AnyArray | None], counts: IntArray, unknown: float) -> AnyArray:
    """Put the values of all images behind one another."""
    pairs = zip(parts, counts.tolist(), strict=True)
    return np.concatenate([np.full(n, unknown) if part is None else part for part, n in pairs])


def _first(counts: IntArray) -> IntArray:
    """Where groups of these sizes begin, and the end of the last one: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(counts)])


def _steps(probability: FloatArray) -> NDArray[np.uint8]:
    known = np.nan_to_num(probability, nan=_UNKNOWN_PROBABILITY / _PROBABILITY_STEPS)
    return np.rint(_PROBABILITY_STEPS * known).astype(np.uint8)


def _rounded(values: AnyArray, parts: int = _FINE) -> AnyArray:
    """Round numbers to fractions that compress well."""
    return (np.rint(np.asarray(values, np.float64) * parts) / parts).astype(np.float32)


def _pack(array: AnyArray) -> dict[str, str]:
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "type": _NAMES[array.dtype.str[1:]],
        "data": base64.b64encode(zlib.compress(array.tobytes())).decode(),
    }
