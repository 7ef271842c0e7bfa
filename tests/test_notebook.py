"""What notebooks show: short texts, escaped tables, data frames."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import make_features, matches_of
from nmfsync import MultiMatching, NmfsyncError
from nmfsync.evaluation import estimate_confidence, match_errors, precision_by_track, track_counts
from nmfsync.evaluation.summary import COLUMNS
from nmfsync.exchange.tracks import HEADER, write_tracks
from nmfsync.report.dataset_page import write_dataset_report
from nmfsync.scenes.scene import Scene
from rendered import scene as rendered_scene
from three_images import Page, evaluation_of, results_for, three_images


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A scene whose names are hostile, and everything about it."""
    scene, features = three_images(tmp_path_factory.mktemp("a"), ("<b>.png", "&.png", "c.png"))
    results = results_for(features)
    return scene, features, results, evaluation_of(scene, features, results)


def test_texts_are_one_short_line(example):
    scene, features, results, evaluation = example
    errors = match_errors(results["input"], features, scene.truth)
    many = Scene("set/dino", tuple(Path(f"{i}.png") for i in range(363)))
    things = [
        scene, many, make_features(np.zeros((500, 2))), evaluation, evaluation.methods["input"],
        errors, estimate_confidence(results["input"], results["input"]), scene.truth,
        track_counts(results["nmfsync"]), rendered_scene().cameras[0],
        next(results["input"].by_image_pair()), *results.values(),
    ]  # fmt: skip
    for thing in things:
        assert len(repr(thing)) < 160
        assert "\n" not in repr(thing)
        assert "array" not in repr(thing)
    assert repr(many) == "Scene('set/dino', 363 images, truth none)"
    assert repr(results["input"]) == "PairwiseMatches(3 images, 9 features, 5 matches)"


def test_tables_are_escaped_and_whole(example):
    scene, features, results, evaluation = example
    errors = match_errors(results["input"], features, scene.truth)
    sure = estimate_confidence(results["input"], results["input"])
    for thing in (scene, features[0], evaluation, errors, sure, *results.values()):
        page = Page(thing._repr_html_())
        assert page.tags[:2] == ["table", "caption"]
    assert "<b>.png" not in scene._repr_html_()
    assert "<b>.png, &.png" in Page(scene._repr_html_()).text
    text = Page(results["nmfsync"]._repr_html_()).text
    assert text == ("MultiMatchingimages3features9tracks3features in tracks9longest track3matches9")


def test_nothing_has_a_text_and_a_table_too():
    nothing = MultiMatching([], [0, 0])
    assert "longest track</th><td>0" in nothing._repr_html_()
    assert "0 of 1" in matches_of([], [0, 0])._repr_html_()
    assert "Features" in make_features(np.zeros((0, 2)))._repr_html_()
    errors = match_errors(nothing, [], None)
    assert repr(errors) == "MatchErrors(0 matches in both directions, 0 judged)"
    assert "judged</th><td>0" in errors._repr_html_()


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.reader(file))


def test_a_data_frame_of_methods_is_that_of_the_csv_file(example, tmp_path):
    pandas = pytest.importorskip("pandas")
    methods = {n: replace(m, reliability={}) for n, m in example[3].methods.items()}
    evaluation = replace(example[3], truth="none", methods=methods)  # whose page has no pictures
    frame = evaluation.to_dataframe()
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["method"]) == ["input", "nmfsync", "matcheig"]
    assert frame["epipolar_fcm_0.01"].isna().all()
    assert frame["fcm_0.01"][1] == evaluation.methods["nmfsync"].fcm["0.01"]
    write_dataset_report(tmp_path, "set", [evaluation])
    head, *rows = read(tmp_path / "evaluation.csv")
    assert tuple(head) == COLUMNS
    assert [row[6] for row in rows] == ["false", "true", "false"]
    again = pandas.read_csv(tmp_path / "evaluation.csv")
    pandas.testing.assert_frame_equal(again, frame, check_dtype=False, rtol=1e-12)


def test_a_data_frame_of_image_pairs(example):
    pytest.importorskip("pandas")
    scene, _, _, evaluation = example
    frame = evaluation.image_pairs_to_dataframe(scene.names)
    assert list(frame["image_a"]) == ["<b>.png", "<b>.png", "&.png"]
    assert list(frame["matchings"]) == [3, 3, 3]
    assert list(evaluation.image_pairs_to_dataframe()["image_b"]) == [1, 2, 2]


def test_a_data_frame_of_tracks_is_that_of_the_csv_file(example, tmp_path):
    pytest.importorskip("pandas")
    scene, features, results, _ = example
    result, xy = results["nmfsync"], [f.xy for f in features]
    precision = precision_by_track(estimate_confidence(result, results["input"]), result)
    write_tracks(tmp_path / "tracks.csv", result, scene.names, xy, precision)
    head, *rows = read(tmp_path / "tracks.csv")
    frame = result.to_dataframe(scene.names, xy, precision)
    assert tuple(head) == tuple(frame.columns) == HEADER
    assert [
        [str(t), image, str(f), f"{x:.3f}", f"{y:.3f}", f"{p:.3f}"]
        for t, image, f, x, y, p in frame.itertuples(index=False)
    ] == rows
    unknown = result.to_dataframe()
    assert list(unknown["image"][:3]) == ["0", "1", "2"]
    assert unknown["x"].isna().all()
    assert len(MultiMatching([0, 1], [1, 1]).to_dataframe()) == 0
    with pytest.raises(NmfsyncError, match="names and xy must have"):
        result.to_dataframe(scene.names[:2])


def test_without_pandas_a_line_says_how_to_get_it(example, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    for call in (example[3].to_dataframe, example[2]["nmfsync"].to_dataframe):
        with pytest.raises(NmfsyncError, match=r"pip install 'nmfsync\[pandas\]'"):
            call()
