"""The data of a page's viewer, unpacked as JavaScript does it and compared with plain loops."""

import base64
import json
import zlib
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from builders import matches_of
from matched_images import SIZES, Matched, matched_images
from nmfsync import MultiMatching
from nmfsync.errors import NmfsyncError
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.errors import epipolar_errors
from nmfsync.report import viewer_data as module
from nmfsync.report.photographs import ViewerImage
from nmfsync.report.viewer_data import NONE, Keypoints, viewer_data, viewer_json
from nmfsync.types.camera import Camera

TYPES = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}

FIELDS = {
    "feature_image", "feature_number", "feature_x", "feature_y", "feature_scale",
    "feature_orientation", "pair_i", "pair_j", "pair_matches", "pair_kept", "pair_judged",
    "pair_right", "pair_estimated", "pair_total", "pair_first", "match_a", "match_b",
    "match_methods", "match_verdict", "match_error", "match_epipolar", "match_probability",
    "match_ratio", "track_first", "track_members", "track_number", "track_right",
    "track_judged", "track_error",
    "track_probability", "track_component", "track_contradictions", "member_right",
    "member_judged", "member_probability", "track_pair_first", "track_pairs",
    "track_pair_probability", "contradiction_first", "contradiction_a", "contradiction_b",
    "contradiction_taken", "contradiction_probability", "contradiction_verdict",
    "component_features", "component_images", "component_matches", "component_removed",
    "component_tracks",
}  # fmt: skip


def data_of(example: Matched, tracks="clustersync", names=None, errors=True, **more) -> dict:
    names = names or [f"{i}.png" for i in range(len(example.features))]
    images = [
        ViewerImage(name, name, f.image_size)
        for name, f in zip(names, example.features, strict=True)
    ]
    keypoints = [Keypoints(f.xy, f.scale, f.orientation) for f in example.features]
    return viewer_data(
        images, keypoints, example.results, tracks, example.confidences,
        example.errors if errors else None, truth="homographies" if errors else "none", **more,
    )  # fmt: skip


def unpacked(data: dict) -> dict[str, np.ndarray]:
    packed = json.loads(viewer_json(data))["arrays"]
    assert set(packed) == FIELDS
    return {
        name: np.frombuffer(zlib.decompress(base64.b64decode(a["data"])), TYPES[a["type"]])
        for name, a in packed.items()
    }


@pytest.fixture(scope="module")
def example() -> Matched:
    return matched_images(5)


@pytest.fixture(scope="module")
def arrays(example) -> dict[str, np.ndarray]:
    return unpacked(data_of(example))


def groups(first: np.ndarray) -> list[range]:
    return [range(a, b) for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)]


def features_of(arrays) -> list[int]:
    """The number through all images of every feature of the page."""
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    return (offsets[arrays["feature_image"]] + arrays["feature_number"]).tolist()


def verdict_of(shares: list[float]) -> int:
    return 0 if not shares else 2 if max(shares) > 0.01 else 1


def test_features_are_numbered_in_their_image(example, arrays):
    number = features_of(arrays)
    assert number == sorted(number)
    used = {
        feature for name in example.results for match in example.matches(name) for feature in match
    }
    assert set(number) == used
    xy = np.concatenate([f.xy for f in example.features])[number]
    assert np.array_equal(np.column_stack([arrays["feature_x"], arrays["feature_y"]]), xy)
    assert (arrays["feature_scale"] == 1).all()
    assert (arrays["feature_orientation"] == 0).all()


def test_every_match_is_drawn_with_methods_verdict_and_probability(example, arrays):
    number, image = features_of(arrays), example.image_of
    given = {name: example.matches(name) for name in example.results}
    a, b = (np.array(number)[arrays[f"match_{side}"]].tolist() for side in "ab")
    found = list(zip(a, b, strict=True))
    assert set(found) == set().union(*given.values())
    for pair, rows in enumerate(groups(arrays["pair_first"])):
        images = (arrays["pair_i"][pair], arrays["pair_j"][pair])
        assert len(rows) == arrays["pair_total"][pair]
        for row in rows:
            match = found[row]
            assert (image[match[0]], image[match[1]]) == images
            bits = sum(2**n for n, of in enumerate(given.values()) if match in of)
            assert arrays["match_methods"][row] == bits
            shares = example.shares(*match)
            assert arrays["match_verdict"][row] == verdict_of(shares)
            error = 101 * max(shares, default=np.nan)
            assert arrays["match_error"][row] == pytest.approx(error, abs=1 / 64, nan_ok=True)
            order = ("clustersync", "input", "matcheig")
            probability = next(given[name][match] for name in order if match in given[name])
            assert arrays["match_probability"][row] == pytest.approx(250 * probability, abs=0.5)
    assert np.isnan(arrays["match_epipolar"]).all()


def test_tracks_are_those_of_the_result(example, arrays):
    result, number = example.results["clustersync"], features_of(arrays)
    members = [
        [number[arrays["track_members"][n]] for n in rows] for rows in groups(arrays["track_first"])
    ]
    assert members == [
        [int(result.offsets[i] + f) for i, f in track.tolist()] for track in result.tracks()
    ]
    assert arrays["track_number"].tolist() == list(range(len(members)))
    given, known = example.matches("input"), example.matches("clustersync")
    for t, (track, rows) in enumerate(
        zip(members, groups(arrays["track_pair_first"]), strict=True)
    ):
        pairs = list(combinations(track, 2))
        shares = [share for pair in pairs for share in example.shares(*pair)]
        assert arrays["track_judged"][t] == len(shares)
        assert arrays["track_right"][t] == sum(share <= 0.01 for share in shares)
        assert arrays["track_pairs"][list(rows)].tolist() == [
            verdict_of(example.shares(*pair)) + 4 * (pair in given) for pair in pairs
        ]
        assert arrays["track_pair_probability"][list(rows)] == pytest.approx(
            [250 * known[pair] for pair in pairs], abs=0.5
        )


def test_contradictions_name_the_removed_match_and_the_feature_in_its_place(example, arrays):
    number = features_of(arrays)
    given, image = example.matches("input"), example.image_of
    removed = 0
    for t, rows in enumerate(groups(arrays["contradiction_first"])):
        track = [
            number[n]
            for n in arrays["track_members"][
                arrays["track_first"][t] : arrays["track_first"][t + 1]
            ]
        ]
        expected = {
            (a, b) for p, q in given for a, b in ((p, q), (q, p)) if a in track and b not in track
        }
        found = [
            (number[arrays["contradiction_a"][n]], number[arrays["contradiction_b"][n]])
            for n in rows
        ]
        assert set(found) == expected
        assert arrays["track_contradictions"][t] == len(found) == len(expected)
        probabilities = [given[min(pair), max(pair)] for pair in found]
        assert arrays["contradiction_probability"][list(rows)] == pytest.approx(
            250 * np.array(probabilities), abs=0.5
        )
        assert (
            np.diff(arrays["contradiction_probability"][list(rows)].astype(int)).max(initial=0) <= 0
        )
        for n, (_, b) in zip(rows, found, strict=True):
            taken = [member for member in track if image[member] == image[b]]
            at = arrays["contradiction_taken"][n]
            assert ([] if at == NONE else [number[at]]) == taken
        removed += len(found)
    assert removed > 0


def components_of(matches) -> list[set[int]]:
    found: list[set[int]] = []
    for match in matches:
        touched = [part for part in found if part & set(match)]
        found = [part for part in found if part not in touched]
        found.append(set(match).union(*touched))
    return found


def test_a_track_names_the_component_that_it_was_part_of(example, arrays):
    given, kept, image = example.matches("input"), example.matches("clustersync"), example.image_of
    parts = [part for part in components_of(given) if len({image[f] for f in part}) < len(part)]
    assert len(parts) == 1
    assert arrays["component_features"].tolist() == [len(parts[0])]
    assert arrays["component_images"].tolist() == [len({image[f] for f in parts[0]})]
    inside = [match for match in given if match[0] in parts[0]]
    assert arrays["component_matches"].tolist() == [len(inside)]
    assert arrays["component_removed"].tolist() == [sum(match not in kept for match in inside)]
    first, number = arrays["track_first"], features_of(arrays)
    tracks = [{number[n] for n in arrays["track_members"][list(rows)]} for rows in groups(first)]
    assert arrays["track_component"].tolist() == [0 if t & parts[0] else NONE for t in tracks]
    assert arrays["component_tracks"].tolist() == [sum(bool(t & parts[0]) for t in tracks)]


def test_distances_to_epipolar_lines_are_those_of_the_evaluation(example):
    K = np.array([[100.0, 0, 50], [0, 100, 25], [0, 0, 1]])
    cameras = [Camera(K, np.eye(3), np.array([-i, 0.1 * i * i, 0]), (101, 51)) for i in range(5)]
    arrays = unpacked(data_of(example, cameras=cameras))
    number, known = np.array(features_of(arrays)), {}
    for result in example.results.values():
        found = epipolar_errors(result, example.features, cameras)
        ends = zip(found.p.tolist(), found.q.tolist(), strict=True)
        known |= dict(zip(ends, (101 * found.error).tolist(), strict=True))
    ends = zip(number[arrays["match_a"]].tolist(), number[arrays["match_b"]].tolist(), strict=True)
    expected = [known[match] for match in ends]
    assert arrays["match_epipolar"] == pytest.approx(expected, abs=1 / 64, nan_ok=True)


def test_ratios_of_the_input(example):
    known = example.results["input"]
    ratios = np.linspace(0.5, 0.9, known.match_count).astype(np.float32)
    with_ratios = known.unweighted().with_matrix(known.W)
    with_ratios.ratios = ratios
    arrays = unpacked(data_of(replace(example, results={**example.results, "input": with_ratios})))
    number = np.array(features_of(arrays))
    in_input = arrays["match_methods"] & 1 > 0
    assert np.array_equal(np.isnan(arrays["match_ratio"]), ~in_input)
    order = np.lexsort((number[arrays["match_b"]], number[arrays["match_a"]]))
    found = arrays["match_ratio"][order][in_input[order]]
    assert found == pytest.approx(ratios, abs=1 / 2048)


def test_without_truth_every_verdict_is_unknown(example):
    data = data_of(example, errors=False)
    arrays = unpacked(data)
    assert data["truth"] == "none"
    assert not arrays["match_verdict"].any()
    assert not (arrays["track_pairs"] & 3).any()
    assert not arrays["pair_judged"].any()


def test_without_a_consistent_result_there_are_no_tracks(example):
    data = data_of(example, tracks="matcheig")
    arrays = unpacked(data)
    assert data["tracks"] == ""
    assert arrays["track_first"].tolist() == arrays["contradiction_first"].tolist() == [0]
    assert arrays["track_component"].size == arrays["component_features"].size == 0
    assert len(arrays["match_a"]) == arrays["pair_total"].sum() > 0


def only(known, result=None) -> Matched:
    results = {"input": known} | ({"clustersync": result} if result else {})
    sure = {name: estimate_confidence(matches, known) for name, matches in results.items()}
    features = matched_images(0).features[: len(known.sizes)]
    return Matched(features, None, results, sure, {})


def test_no_matches():
    example = only(matches_of([], SIZES), MultiMatching(np.arange(sum(SIZES)), SIZES))
    arrays = unpacked(data_of(example, errors=False))
    empty = {"pair_first", "track_first", "track_pair_first", "contradiction_first"}
    assert {name: a.tolist() for name, a in arrays.items()} == {
        name: [0] if name in empty else [] for name in FIELDS
    }


def test_no_features():
    example = only(matches_of([], [0, 0]))
    features = [
        replace(
            f,
            xy=f.xy[:0],
            descriptors=f.descriptors[:0],
            scale=f.scale[:0],
            orientation=f.orientation[:0],
        )
        for f in example.features
    ]
    assert (
        unpacked(data_of(replace(example, features=features), errors=False))["feature_x"].size == 0
    )


def test_one_pair_of_images_and_unknown_scales():
    known = matches_of([(0, 7, 0.5), (1, 8, 0.25)], [7, 5])
    example = only(known)
    images = [ViewerImage("a", "a", (101, 51)), ViewerImage("b", "b", (101, 51))]
    keypoints = [Keypoints(f.xy) for f in example.features]
    arrays = unpacked(viewer_data(images, keypoints, example.results, "", example.confidences))
    assert arrays["pair_matches"].tolist() == [2]
    assert arrays["match_probability"].tolist() == [125, 62]
    assert (arrays["feature_scale"] == 0).all()
    assert np.isnan(arrays["feature_orientation"]).all()


def test_a_photograph_that_cannot_be_read_is_left_out():
    def fail():
        raise NmfsyncError("a.png: no such file")

    images = [
        ViewerImage("a", "a", (101, 51), fail),
        ViewerImage("b", "b", (101, 51), lambda: np.zeros((51, 101), np.uint8)),
    ]
    example = only(matches_of([], [7, 5]))
    keypoints = [Keypoints(f.xy) for f in example.features]
    data = viewer_data(images, keypoints, example.results, "", example.confidences)
    assert data["images"][0]["source"] == ""
    assert data["images"][1]["source"].startswith("data:image/jpeg;base64,")


def test_hostile_names_cannot_leave_the_script(example):
    names = ["</script><b>.png", "<!--", "a\u2028b", "\u202egnp.exe", "é\udcff.png"]
    text = viewer_json(data_of(example, names=names))
    assert "<" not in text
    assert text.isascii()
    found = [image["name"] for image in json.loads(text)["images"]]
    assert found[:2] == names[:2]
    assert all(name.isprintable() for name in found)


def test_too_much_is_sampled_the_same_way_every_time_and_says_what_is_left_out(
    example, monkeypatch
):
    monkeypatch.setattr(module, "MOST_MATCHES", 40)
    monkeypatch.setattr(module, "MOST_IMAGE_PAIRS", 5)
    monkeypatch.setattr(module, "MOST_FEATURES_IN_TRACKS", 15)
    monkeypatch.setattr(module, "MOST_CONTRADICTIONS", 3)
    data = data_of(example)
    assert viewer_json(data) == viewer_json(data_of(example))
    arrays = unpacked(data)
    all_pairs = unpacked_pairs(example)
    assert data["pairs_left_out"] == len(all_pairs) - 5
    kept = zip(
        arrays["pair_i"].tolist(),
        arrays["pair_j"].tolist(),
        arrays["pair_total"].tolist(),
        strict=True,
    )
    assert all(total == all_pairs[i, j] for i, j, total in kept)
    assert arrays["pair_total"].tolist() == pytest.approx(sorted(all_pairs.values())[-5:], abs=99)
    drawn = np.diff(arrays["pair_first"])
    assert (drawn <= arrays["pair_total"]).all()
    assert 36 <= drawn.sum() <= 40
    tracks = example.results["clustersync"].tracks()
    assert data["tracks_left_out"] == len(tracks) - len(arrays["track_right"]) > 0
    assert len(arrays["track_members"]) <= 15
    lengths = [len(tracks[number]) for number in arrays["track_number"]]
    assert np.diff(arrays["track_first"]).tolist() == lengths
    assert len(arrays["contradiction_a"]) == 3 < arrays["track_contradictions"].sum()


def unpacked_pairs(example: Matched) -> dict[tuple[int, int], int]:
    """Count the different matches of all methods by pair of images."""
    image = example.image_of
    counts: dict = {}
    for p, q in set().union(*(example.matches(name) for name in example.results)):
        counts[image[p], image[q]] = counts.get((image[p], image[q]), 0) + 1
    return counts


def test_matches_of_the_tracks_are_drawn_first(example, monkeypatch):
    monkeypatch.setattr(module, "MOST_MATCHES", 30)
    arrays = unpacked(data_of(example))
    in_track = arrays["match_methods"] & 2 > 0
    assert len(in_track) == 30 < len(set().union(*map(example.matches, example.results)))
    assert np.count_nonzero(in_track) == 15 < len(example.matches("clustersync"))
