"""Evaluations read from files: what `to_dict` wrote comes back, all else is one line."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from builders import NO_FILES, no_file, result_or_line
from compared import evaluation, figures
from nmfsync import NmfsyncError
from nmfsync.evaluation.records import record_from
from nmfsync.evaluation.summary import ImagePairEvaluation, SceneEvaluation
from nmfsync.types.verdicts import PairVerdict
from three_images import evaluation_of, results_for, three_images

WHOLE = replace(
    evaluation(),
    warnings=["w"],
    ratio_curve={"ratio": [0.5, 1.0], "fcm": [0.1, 0.2], "precision": [None, 0.5]},
    image_pairs=[ImagePairEvaluation((0, 2), 12, 0.9, None)],
    depth_quality={"features": 3, "within": None},
    left_out={"a.txt": "no image"},
    verdicts=[PairVerdict(0, 2, 12, 5, False, "few shared tracks")],
)


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def with_figures(**changed):
    content = WHOLE.to_dict()
    content["methods"]["input"].update(changed)
    return content


def test_what_was_written_is_read(tmp_path):
    scene, features = three_images(tmp_path / "images")
    measured = evaluation_of(scene, features, results_for(features))
    for one in (WHOLE, measured):
        path = write(tmp_path / "evaluation.json", one.to_dict())
        assert SceneEvaluation.read(path) == one


def test_other_versions_are_read():
    content = WHOLE.to_dict()
    for name in ("warnings", "left_out", "depth_quality", "image_pairs", "tracks"):
        del content[name]
    del content["methods"]["input"]["estimated_precision"]
    content["methods"]["input"]["hue"] = float("nan")
    content["provenance of the future"] = {"deep": [1, {}]}
    read = SceneEvaluation.from_dict(content)
    assert read.image_pairs == []
    assert read.methods["input"] == replace(WHOLE.methods["input"], estimated_precision=None)
    assert read.methods["clustersync"] == WHOLE.methods["clustersync"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "the content must be a group of named values, got []"),
        ({}, "scene is missing"),
        ({**WHOLE.to_dict(), "images": "3"}, "images must be a whole number, got '3'"),
        ({**WHOLE.to_dict(), "images": True}, "images must be a whole number, got True"),
        ({**WHOLE.to_dict(), "images": 10**400}, "images must be a finite number, got a huge"),
        ({**WHOLE.to_dict(), "sizes": [1, None]}, "sizes: 2 must be a whole number, got None"),
        ({**WHOLE.to_dict(), "methods": []}, "methods must be a group of named values, got []"),
        ({**WHOLE.to_dict(), "methods": {"a\x1b": 3}}, r"methods: a\x1b must be a group"),
        (with_figures(seconds=float("nan")), "input: seconds must be a finite number, got nan"),
        (with_figures(seconds=-1), "methods: input: seconds must be 0 or more, got -1"),
        (with_figures(cycle_consistent=1), "cycle_consistent must be true or false, got 1"),
        (with_figures(fcm={"0.01": 1.5}), "fcm must be between 0 and 1, got 1.5"),
        (with_figures(fcm={"x": 0.5}), "fcm must be between 0 and 1, got nan"),
        (with_figures(fcm={"0.01": None}), "fcm: 0.01 must be a number, got None"),
        (
            {**WHOLE.to_dict(), "image_pairs": [{"images": [1]}]},
            "image_pairs: 1: images must be a list of 2, got 1",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, message):
    path = write(tmp_path / "e.json", content)
    with pytest.raises(NmfsyncError) as error:
        SceneEvaluation.read(path)
    assert str(error.value).startswith(f"{path}: is no evaluation of a scene (")
    assert message in str(error.value)
    with pytest.raises(NmfsyncError):
        SceneEvaluation.from_dict(content)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON, or cut off"),
        (json.dumps(WHOLE.to_dict())[:-30], "is no JSON, or cut off"),
        ("[" * 100_000, "is no evaluation of a scene (RecursionError"),
        ('{"images": ' + "9" * 5000 + "}", "is no evaluation of a scene ("),
    ],
)
def test_text_that_is_no_json(tmp_path, text, message):
    path = write(tmp_path / "e.json", text)
    with pytest.raises(NmfsyncError) as error:
        SceneEvaluation.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_file_at_all(tmp_path, kind):
    path = no_file(tmp_path / "e.json", kind)
    assert f"{path}: " in result_or_line(SceneEvaluation.read, path)


def test_damaged_anywhere(tmp_path):
    path = tmp_path / "e.json"
    sound = json.dumps(WHOLE.to_dict()).encode()

    @settings(max_examples=150, derandomize=True, database=None)
    @given(strategies.damaged(sound) | st.binary(max_size=40))
    def check(content):
        path.write_bytes(content)
        read = result_or_line(SceneEvaluation.read, path)
        assert isinstance(read, SceneEvaluation) or f"{path}: " in read

    check()


ODD = st.sampled_from([None, True, -1, 0.5, 10**400, float("nan"), float("inf"), "", "x", [], {}])


def test_any_value_in_any_place():
    @settings(max_examples=200, derandomize=True, database=None)
    @given(st.data(), ODD)
    def check(data, odd):
        content = json.loads(json.dumps(WHOLE.to_dict()))
        place = content
        while True:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict)
                                            else range(len(place))))  # fmt: skip
            if (
                not place[key]
                or not isinstance(place[key], (dict, list))
                or data.draw(st.booleans())
            ):
                break
            place = place[key]
        place[key] = odd
        read = result_or_line(SceneEvaluation.from_dict, content)
        assert isinstance(read, (SceneEvaluation, str))

    check()


def test_kinds_that_no_field_has_yet():
    assert record_from(int | str, "auto") == "auto"
    assert record_from(tuple[float, ...], [1, 2]) == (1.0, 2.0)
    assert record_from(float | None, 3) == 3.0
    assert figures() == record_from(type(figures()), WHOLE.to_dict()["methods"]["input"])
