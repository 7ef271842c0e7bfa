"""The report of a scene, on three small images."""

import json

import numpy as np
import pytest
from PIL import Image

from nmfsync import MultiMatching
from nmfsync.evaluation.summary import MethodEvaluation
from nmfsync.evaluation.tracks import TrackCounts
from nmfsync.report.scene_page import _columns, verdict
from nmfsync.types.verdicts import PairVerdict
from three_images import (
    SIZES,
    Page,
    evaluation_of,
    features_at,
    results_for,
    three_images,
    write_report,
)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A scene of three images, its report, and where it is."""
    folder = tmp_path_factory.mktemp("report")
    scene, features = three_images(folder / "images")
    html = write_report(folder / "out", scene, features, ["image <c> was reduced"])
    return scene, features, folder / "out", html


def test_overlays_are_at_most_2400_pixels_wide(example):
    widths = [Image.open(path).width for path in example[2].glob("overlay-*.png")]
    assert len(widths) == 3
    assert max(widths) <= 2400


def test_verdict_says_whether_a_share_rises_falls_or_stays():
    before = MethodEvaluation({"0.01": 0.25}, {"0.01": 0.542}, 5000, 9000, 3.0, False, 1.0, 1.0)
    after = MethodEvaluation({"0.01": 0.201}, {"0.01": 0.548}, 4312, 8000, 0.0, True, 1.0, 1.0)
    counts = {"nmfsync": TrackCounts(np.full(310, 4), 0, 0)}
    assert verdict("nmfsync", {"input": before, "nmfsync": after}, counts) == (
        "NmfSync returns 4,312 matches in 310 consistent tracks (input: 5,000); "
        "precision at 1 % rises from 54.2 % to 54.8 %; FCM at 1 % falls from 25.0 % to 20.1 %."
    )
    assert verdict("matcheig", {"input": before, "matcheig": before}, counts) == (
        "MatchEig returns 5,000 matches, not cycle-consistent (input: 5,000); "
        "precision at 1 % stays at 54.2 %; FCM at 1 % stays at 25.0 %."
    )


def test_verdict_without_truth_speaks_of_matches_only():
    one = MethodEvaluation({}, {}, 1, 0, 0.0, True, 1.0, 1.0)
    counts = {"nmfsync": TrackCounts(np.array([2]), 0, 0)}
    assert verdict("nmfsync", {"input": one, "nmfsync": one}, counts) == (
        "NmfSync returns 1 match in 1 consistent track (input: 1)."
    )


def test_scene_report_is_whole_and_needs_nothing_else(example):
    _, _, folder, html = example
    page = Page(html)
    assert len(page.sources) == 5
    assert all(source.startswith("data:image/") for source in page.sources)
    assert all(link.startswith("#") for link in page.links)
    assert "http:" not in html.replace("http://www.w3.org/", "")  # a name, not an address
    assert "https:" not in html
    assert "url(" not in html
    assert {path.name for path in folder.iterdir()} == {
        "report.html",
        "fcm.png",
        "trade-off.png",
        "reliability.png",
        "lengths.png",
        "matrix.png",
        "overlay-1-2.png",
        "overlay-1-3.png",
        "overlay-tracks.png",
    }


def viewer_data_of(page):
    """Return the data that the page's viewer reads."""
    return json.loads(page.data)


def test_photographs_are_embedded_once_and_pictures_with_them_are_files(example):
    scene, _, _, html = example
    page = Page(html)
    images = viewer_data_of(page)["images"]
    assert [image["name"] for image in images] == list(scene.names)
    for image in images:
        assert image["source"].startswith("data:image/jpeg;base64,")
        assert html.count(image["source"]) == 1
    assert html.count("data:image/jpeg") == len(images)
    assert "overlay-1-2.png, overlay-1-3.png, overlay-tracks.png" in page.text


def test_scene_report_shows_figures_settings_and_warnings(example):
    _, _, _, html = example
    text = Page(html).text
    for expected in (
        "NmfSync returns 9 matches in 3 consistent tracks (input: 5)",
        "precision at 1 % rises from",
        "Union-find on the input keeps 4 features in 2 consistent tracks",
        "image <c> was reduced",
        "versions: numpy",
        "100 × 80",
    ):
        assert expected in text


def test_scene_report_opens_with_what_to_take(example):
    _, _, _, html = example
    lead = Page(html[html.index('<p class="lead">') :].split("</p>")[0] + "</p>").text
    assert lead.startswith(
        "Take the tracks of NmfSync: 9 matches in 3 tracks, 100 % right where the truth can judge"
    )
    assert "the input has 5 matches, 80 % right" in lead


def test_the_best_value_is_marked_among_consistent_methods_that_cover_enough(example):
    scene, features, _, _ = example
    results = results_for(features)
    results["spectral"] = MultiMatching([0, 1, 2, 0, 1, 2, 3, 4, 5], [3, 3, 3])
    evaluation = evaluation_of(scene, features, results)
    columns = {heading.text: [c.best for c in cells] for heading, cells in _columns(evaluation)}
    assert list(evaluation.methods) == ["input", "nmfsync", "matcheig", "spectral"]
    assert columns["FCM\n1 %"] == [False, True, False, False]
    assert columns["Precision\n1 %"] == [False, True, False, True]
    for heading, marks in columns.items():
        assert ("1 %" in heading) == any(marks)


def test_same_input_gives_the_same_bytes(example, tmp_path):
    scene, features, folder, _ = example
    write_report(tmp_path, scene, features, ["image <c> was reduced"])
    for path in sorted(folder.iterdir()):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_a_file_name_with_html_is_shown_as_it_is(tmp_path):
    names = ("<b>.png", "$x$ & y.png", "c.png")
    scene, features = three_images(tmp_path / "images", names)
    wrong = PairVerdict(0, 2, 40, 9, False, "few shared <tracks>")
    html = write_report(tmp_path / "out", scene, features, verdicts=[wrong])
    assert "<b>.png" not in html
    assert "few shared <tracks>" not in html
    assert "1: <b>.png3: c.png409few shared <tracks>" in " ".join(Page(html).text.split())
    assert (tmp_path / "out/pairs-after.png").exists()
    assert viewer_data_of(Page(html))["images"][0]["name"] == "<b>.png"
    assert "<b>.png" in Page(html).text
    assert "$x$ & y.png" in Page(html).text


def test_without_truth_there_is_no_fcm(tmp_path):
    scene, features = three_images(tmp_path / "images", truth=False)
    html = write_report(tmp_path / "out", scene, features)
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert not files & {"fcm.png", "trade-off.png", "reliability.png"}
    assert {"lengths.png", "overlay-1-2.png", "overlay-tracks.png"} <= files
    assert "truth of this scene is not known" in Page(html).text
    heads = html[html.index("<thead>") :].split("</thead>")[0]
    assert "Estimated" in heads
    assert "FCM" not in heads
    table = html[html.index('<th scope="row">NmfSync</th>') :].split("</table>")[0]
    assert "–" not in table
    assert " right (estimated); the input has 5 matches, about " in Page(html).text
    assert "Judged" not in heads


def test_an_image_without_features_and_no_matches(tmp_path):
    scene, features = three_images(tmp_path / "images")
    features[1] = features_at([], SIZES[1])
    page = Page(write_report(tmp_path / "out", scene, features))
    assert len(page.sources) == 3
    assert "keeps 0 features in 0 consistent tracks" in page.text


def test_a_scene_without_any_feature(tmp_path):
    scene, _ = three_images(tmp_path / "images")
    features = [features_at([], size) for size in SIZES]
    assert "keeps 0 features" in Page(write_report(tmp_path / "out", scene, features)).text


def test_two_images(tmp_path):
    scene, features = three_images(tmp_path / "images", k=2)
    Page(write_report(tmp_path / "out", scene, features))
    overlays = {path.name for path in (tmp_path / "out").glob("overlay-*")}
    assert overlays == {"overlay-1-2.png", "overlay-tracks.png"}


def test_one_image(tmp_path):
    scene, features = three_images(tmp_path / "images", k=1)
    features = [features_at([], SIZES[0])]
    page = Page(write_report(tmp_path / "out", scene, features))
    assert len(viewer_data_of(page)["images"]) == 1
    assert "overlay" not in page.text


DEPTH_QUALITY = {
    "against": "depths (laser)", "features": 1500, "judged": 1200, "reconstructed": 0.4,
    "within": 0.964, "within_in_all": 0.925, "median": 0.321,
}  # fmt: skip


def test_quality_of_reconstructed_depths_is_printed(example, tmp_path):
    scene, features = three_images(tmp_path / "images")
    text = Page(write_report(tmp_path / "out", scene, features, depth_quality=DEPTH_QUALITY)).text
    for figure in ("1,200", "480 (40.0 %)", "96.4 %", "92.5 %", "0.32", "1,500 features"):
        assert figure in text
    assert "plane sweep" in text
    assert "plane sweep" not in Page(example[3]).text
