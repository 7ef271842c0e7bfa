import csv
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image
from scipy import ndimage, sparse

from nmfsync.evaluation.errors import match_errors
from nmfsync.evaluation.summary import MethodEvaluation, SceneEvaluation, evaluate
from nmfsync.evaluation.tracks import TrackCounts, track_counts
from nmfsync.report.dataset_page import write_dataset_report
from nmfsync.report.figures.curves import dataset_figure, fcm_figure
from nmfsync.report.figures.matrix import matrix_figure
from nmfsync.report.figures.overlays import PANEL_TITLE, overlay_pairs, pair_figure
from nmfsync.report.figures.style import to_png
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.figures.track_sheet import choose_tracks, choose_views
from nmfsync.report.figures.track_sheet import tracks_figure as draw_tracks
from nmfsync.report.page import count, decimal, percent
from nmfsync.report.scene_page import verdict, write_scene_report
from nmfsync.scenes.scene import Scene
from nmfsync.types.features import Features
from nmfsync.types.matches import MultiMatching, PairwiseMatches
from nmfsync.types.truth import Homographies

# Width and height of three images; the scene moves by the shift from the first.
SIZES = [(100, 80), (140, 100), (60, 90)]
SHIFTS = [(0, 0), (20, 10), (-10, 5)]
POINTS = [(20, 30), (50, 20), (40, 60)]
RIGHT, WRONG, UNKNOWN = "#009E73", "#D55E00", "#444444"


def features_at(points, size):
    n = len(points)
    return Features(
        xy=np.array(points, dtype=np.float32).reshape(n, 2),
        descriptors=np.zeros((n, 128), np.uint8),
        scale=np.full(n, 4, np.float32),
        orientation=np.zeros(n, np.float32),
        image_size=size,
        keypoints=n + 2,
        positions=n,
    )


def three_images(folder, names=("a.png", "b.png", "c.png"), k=3, truth=True):
    """Black images of different sizes with a white square around every feature."""
    folder.mkdir(parents=True, exist_ok=True)
    features = []
    for size, shift, name in list(zip(SIZES, SHIFTS, names, strict=True))[:k]:
        points = [(x + shift[0], y + shift[1]) for x, y in POINTS]
        pixels = np.zeros((size[1], size[0]), np.uint8)
        for x, y in points:
            pixels[y - 1 : y + 2, x - 1 : x + 2] = 255
        Image.fromarray(pixels).save(folder / name)
        features.append(features_at(points, size))
    maps = np.array([[[1, 0, x], [0, 1, y], [0, 0, 1]] for x, y in SHIFTS[:k]], dtype=float)
    paths = tuple(folder / name for name in names[:k])
    known = Homographies(maps, np.array(SIZES[:k])) if truth else None
    return Scene("set/scene", paths, known), features


def pairwise(sizes, *matches):
    W = np.zeros((sum(sizes), sum(sizes)))
    for p, q in matches:
        W[p, q] = W[q, p] = 1
    return PairwiseMatches(sparse.csr_array(W), sizes)


def evaluation_of(scene, features, results, warnings=()):
    methods = {
        name: evaluate(matches, features, scene.truth, seconds=0.5, peak_memory_mb=12.0)
        for name, matches in results.items()
    }
    sizes = [len(f) for f in features]
    truth = scene.truth.kind if scene.truth else "none"
    settings = {"features": 200, "versions": {"numpy": "2.0"}}
    return SceneEvaluation(
        scene.name, len(sizes), sum(sizes), sizes, 3, truth, settings, methods, list(warnings)
    )


def results_for(features):
    """The right matches of images 1 and 2, one wrong one, and two methods."""
    sizes = [len(f) for f in features]
    if sizes != [3] * len(sizes):
        return {"input": pairwise(sizes)}
    edges = [(0, 3), (1, 4), (2, 5)]
    edges += [(0, 7), (3, 6)] if len(sizes) == 3 else []
    return {
        "input": pairwise(sizes, *edges),
        "nmfsync": MultiMatching([0, 1, 2] * len(sizes), sizes),
        "matcheig": pairwise(sizes, *edges),
    }


def write(folder, scene, features, warnings=(), depth_quality=None):
    results = results_for(features)
    evaluation = replace(
        evaluation_of(scene, features, results, warnings), depth_quality=depth_quality or {}
    )
    errors = {name: match_errors(m, features, scene.truth) for name, m in results.items()}
    write_scene_report(folder, scene, features, results, errors, evaluation)
    return (folder / "report.html").read_text()


class Page(HTMLParser):
    """Collects tags, addresses and text, and checks that tags are closed in order."""

    VOID = ("meta", "img", "br")

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.sources, self.links, self.text = [], [], [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for key, value in attrs if key == "src"]
        self.links += [value for key, value in attrs if key == "href"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A scene of three images, its report, and where it is."""
    folder = tmp_path_factory.mktemp("report")
    scene, features = three_images(folder / "images")
    html = write(folder / "out", scene, features, ["image <c> was reduced"])
    return scene, features, folder / "out", html


def pixels_of(figure):
    return np.asarray(Image.open(BytesIO(to_png(figure))).convert("RGB")).astype(int)


def rgb(colour):
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text)]


# Overlays


@pytest.mark.parametrize(("left", "right"), [(0, 1), (1, 2), (2, 0)])
def test_match_ends_lie_on_the_features_of_images_of_different_sizes(tmp_path, left, right):
    scene, features = three_images(tmp_path)
    only = {
        i: features_at([features[i].xy[0]] if i in (left, right) else [], SIZES[i])
        for i in range(3)
    }
    sizes = [len(only[i]) for i in range(3)]
    for i in range(3):  # one white square an image, found again in the picture below
        pixels = np.zeros((SIZES[i][1], SIZES[i][0]), np.uint8)
        x, y = features[i].xy[0].astype(int)
        pixels[y - 1 : y + 2, x - 1 : x + 2] = 255
        Image.fromarray(pixels).save(scene.paths[i])
    chosen = [only[i] for i in range(3)]
    pictures = []
    for matches in (pairwise(sizes), pairwise(sizes, (0, 1))):
        errors = {"input": match_errors(matches, chosen, scene.truth)}
        pictures.append(pixels_of(pair_figure(scene, chosen, errors, (left, right))))
    before, after = (picture[PANEL_TITLE:-60] for picture in pictures)
    bright = (before[..., 0] > 230) & (before[..., 0] < 252)  # pale white is no paper white
    drawn = np.abs(after - before).max(axis=2) > 40
    squares, found = ndimage.label(bright)
    centres = sorted((x, y) for y, x in ndimage.center_of_mass(bright, squares, [1, 2]))
    assert found == 2
    columns = np.nonzero(drawn.any(axis=0))[0]
    # A match ends in dots of 2 pixels radius.
    ends = (columns.min() + 2, columns.max() - 2)
    for (x, y), end in zip(centres, ends, strict=True):
        assert abs(end - x) < 1
        assert np.abs(after[round(y), round(x)] - rgb(RIGHT)).max() < 60


def test_titles_count_right_wrong_and_unknown_matches(tmp_path):
    scene, features = three_images(tmp_path)
    features[0] = features_at([(20, 30), (50, 20), (99, 79)], SIZES[0])
    maps = scene.truth.maps.copy()
    maps[1, :2, 2] = (50, 10)  # takes (99, 79) outside image 2
    features[1] = features_at([(70, 40), (10, 10), (5, 5)], SIZES[1])
    scene = Scene(scene.name, scene.paths, Homographies(maps, np.array(SIZES)))
    matches = pairwise([3, 3, 3], (0, 3), (1, 4), (2, 5))
    errors = {"nmfsync": match_errors(matches, features, scene.truth)}
    figure = pair_figure(scene, features, errors, (0, 1))
    assert "NmfSync: 1 right, 1 wrong, 1 unknown" in texts(figure)
    picture = pixels_of(figure)[PANEL_TITLE:-60]
    for colour in (RIGHT, WRONG, UNKNOWN):
        assert (np.abs(picture - rgb(colour)).max(axis=2) < 25).sum() > 50


def test_without_truth_lines_have_one_colour_and_titles_say_so(tmp_path):
    scene, features = three_images(tmp_path, truth=False)
    errors = {"input": match_errors(results_for(features)["input"], features, None)}
    figure = pair_figure(scene, features, errors, (0, 1))
    assert "input: 3 matches, truth unknown" in texts(figure)
    picture = pixels_of(figure)
    for colour in (RIGHT, WRONG):
        assert not (np.abs(picture - rgb(colour)).max(axis=2) < 25).any()


def test_overlays_are_at_most_2400_pixels_wide(example):
    widths = [Image.open(path).width for path in example[2].glob("overlay-*.png")]
    assert len(widths) == 3
    assert max(widths) <= 2400


def test_pairs_are_the_first_image_with_the_second_a_middle_and_the_last():
    assert overlay_pairs(1) == []
    assert overlay_pairs(2) == [(0, 1)]
    assert overlay_pairs(3) == [(0, 1), (0, 2)]
    assert overlay_pairs(30) == [(0, 1), (0, 15), (0, 29)]


def test_patch_frames_tell_right_from_wrong_tracks(tmp_path):
    scene, features = three_images(tmp_path)
    right = MultiMatching([0, 1, 2] * 3, [3, 3, 3])
    swapped = MultiMatching([0, 1, 2, 1, 0, 3, 0, 1, 4], [3, 3, 3])
    styles = []
    for matching in (right, swapped):
        errors = match_errors(matching, features, scene.truth)
        figure = draw_tracks(scene, features, matching, errors)
        styles.append([patch.get_linestyle() for patch in figure.axes[0].patches])
    # Three tracks in three images: the first view and two right ones each.
    assert styles[0] == ["-"] * 9
    # Track 1 is wrong in image 2, as is track 2; feature 3 is in no track.
    assert [style == "-" for style in styles[1]] == [True, False, True] * 2


def test_no_track_no_picture_of_tracks(tmp_path):
    scene, features = three_images(tmp_path)
    alone = MultiMatching(np.arange(9), [3, 3, 3])
    errors = match_errors(alone, features, scene.truth)
    assert draw_tracks(scene, features, alone, errors) is None


def test_chosen_tracks_are_long_and_those_of_equal_length_lie_apart():
    # Thirty short tracks in one corner, ten long ones along the diagonal.
    diagonal = [(10 * i, 10 * i) for i in range(10)]
    first = [(1, 2)] * 30 + diagonal
    views = [features_at(first, (100, 100)) for _ in range(3)]
    views[2] = features_at(diagonal, (100, 100))
    labels = np.concatenate([np.arange(40), np.arange(40), np.arange(30, 40)])
    matching = MultiMatching(labels, [40, 40, 10])
    tracks = choose_tracks(matching, views, np.arange(3))
    assert len(tracks) == 9
    starts = {views[0].xy[track[0]][0] for track in tracks}
    assert {0.0, 90.0} <= starts
    assert sum(len(track) == 3 for track in tracks) >= 8


def test_at_most_twelve_views_are_shown(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(path)
    scene = Scene("set/scene", (path,) * 30)
    features = [features_at([(10, 10)], (20, 20))] * 30
    matching = MultiMatching([0] * 30, [1] * 30)
    figure = draw_tracks(scene, features, matching, match_errors(matching, features, None))
    assert len(figure.axes[0].patches) == 12


def test_views_of_a_long_sequence_follow_its_longest_track():
    # Every image shows its own group of ten; image 7 to 10 share ten more points.
    labels = np.concatenate(
        [[*range(10)] if 7 <= i <= 10 else [*range(100 + 10 * i, 110 + 10 * i)] for i in range(30)]
    )
    assert choose_views(MultiMatching(labels, [10] * 30)).tolist() == [7, 8, 9, 10]
    everywhere = MultiMatching(np.tile(np.arange(10), 30), [10] * 30)
    views = choose_views(everywhere)
    assert len(views) == 12
    assert (views[0], views[-1]) == (0, 29)
    assert choose_views(MultiMatching([0, 1], [1, 1])).tolist() == [0, 1]


# Plots


def methods_of(consistent):
    curve = {"0": 0.0, "0.01": 0.5, "0.05": 0.6}
    return {
        name: MethodEvaluation(curve, {**curve, "0": None}, 10, 20, 0.0, value, 1.0, 1.0)
        for name, value in consistent.items()
    }


def test_lines_are_solid_where_cycle_consistent_and_dashed_where_not():
    methods = methods_of({"input": False, "nmfsync": True, "matcheig": False, "other": True})
    evaluation = SceneEvaluation("a/b", 2, 9, [4, 5], 4, "homographies", {}, methods)
    figure = fcm_figure(evaluation)
    for axes in figure.axes:
        lines = {line.get_label(): line.is_dashed() for line in axes.lines}
        del lines["_child0"]  # the mark at 1 %
        assert lines == {"input": True, "NmfSync": False, "MatchEig": True, "other": False}
    legend = {
        text.get_text(): handle.is_dashed()
        for text, handle in zip(
            figure.legends[0].get_texts(), figure.legends[0].legend_handles, strict=True
        )
    }
    assert legend["solid: cycle-consistent"] is False
    assert legend["dashed: not"] is True


def test_a_method_looks_the_same_whatever_stands_beside_it():
    colours = []
    for names in (["input", "spectral"], ["nmfsync", "other", "spectral"]):
        methods = methods_of(dict.fromkeys(names, True))
        evaluation = SceneEvaluation("a/b", 2, 9, [4, 5], 4, "homographies", {}, methods)
        lines = {line.get_label(): line for line in fcm_figure(evaluation).axes[0].lines}
        colours.append((lines["Spectral"].get_color(), lines["Spectral"].get_marker()))
    assert colours[0] == colours[1]


def test_data_set_plots_are_titled_by_scene_and_size():
    evaluations = [
        SceneEvaluation(f"set/{n}", 2, 1234, [4, 5], 4, "homographies", {}, methods_of({"m": True}))
        for n in ("one", "two$x$")
    ]
    titles = [axes.get_title(loc="left") for axes in dataset_figure(evaluations).axes]
    assert titles == ["set/one, m = 1,234", r"set/two\$x\$, m = 1,234"]


def test_union_find_throws_away_components_with_two_features_of_an_image():
    # Two points seen in three images; one wrong match (0 with 5) joins them.
    edges = [(0, 2), (2, 4), (1, 3), (3, 5)]
    counts = track_counts(pairwise([2, 2, 2], *edges))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([3, 3], 0, 0)
    counts = track_counts(pairwise([2, 2, 2], *edges, (0, 5)))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([], 6, 0)
    counts = track_counts(pairwise([2, 2, 2], (0, 2)))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([2], 0, 4)


def test_synchronised_tracks_lose_nothing():
    counts = track_counts(MultiMatching([0, 1, 0, 2, 0, 1], [2, 2, 2]))
    assert (counts.lengths.tolist(), counts.lost, counts.alone) == ([2, 3], 0, 1)


def test_bars_of_the_features_add_up_to_all_of_them():
    counts = {
        "input": TrackCounts(np.array([2, 2, 3]), lost=5, alone=1),
        "nmfsync": TrackCounts(np.array([2, 4, 4]), lost=0, alone=3),
    }
    fates, lengths = lengths_figure(counts).axes
    by_row = [sum(bars[row].get_width() for bars in fates.containers) for row in range(2)]
    assert by_row == [13, 13]
    heights = [[bar.get_height() for bar in bars] for bars in lengths.containers]
    assert heights == [[2, 1, 0], [1, 0, 2]]


def test_lengths_of_long_tracks_are_drawn_in_bins_that_miss_none():
    counts = {"input": TrackCounts(np.array([2, 5, 363]), lost=0, alone=0)}
    bars = lengths_figure(counts).axes[1].containers[0]
    assert sum(bar.get_height() for bar in bars) == 3
    assert len(bars) < 13


def test_consistent_matches_line_up_in_the_matrix():
    # Image 2 lists the same four features backwards.
    result = MultiMatching([0, 1, 2, 3, 3, 2, 1, 0], [4, 4])
    figure = matrix_figure(pairwise([4, 4], (0, 7), (1, 4)), result, "nmfsync", ["a", "b"])
    before, after = (axes.images[0].get_array() for axes in figure.axes)
    inked = after.min(axis=2) < 1
    expected = np.zeros((8, 8), bool)
    expected[np.arange(4), np.arange(4, 8)] = expected[np.arange(4, 8), np.arange(4)] = True
    np.testing.assert_array_equal(inked, expected)
    # Of the input, one match stays (gray) and one, off the line, goes (orange).
    assert np.ptp(before[0, 4]) == 0
    assert before[1, 7, 0] - before[1, 7, 2] > 0.5
    assert (before.min(axis=2) < 1).sum() == 4


def test_the_matrix_of_many_features_is_counted_not_made():
    m = 100_000
    result = MultiMatching(np.tile(np.arange(m // 2), 2), [m // 2, m // 2])
    image = matrix_figure(result, result, "nmfsync", ["a", "b"]).axes[0].images[0]
    assert image.get_array().shape[0] <= 600


def test_plots_need_no_pyplot():
    code = "import sys, nmfsync.report; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Words


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


def test_numbers_are_written_for_people():
    assert (count(12238), percent(0.5419), percent(None)) == ("12,238", "54.2 %", "–")
    assert [decimal(v) for v in (0.0, 1.234, 12.34, 1234.5)] == ["0", "1.23", "12.3", "1,234"]


# Reports


def test_scene_report_is_whole_and_needs_nothing_else(example):
    _, _, folder, html = example
    page = Page(html)
    assert len(page.sources) == 6
    assert all(source.startswith("data:image/") for source in page.sources)
    assert all(link.startswith("#") for link in page.links)
    assert "script" not in page.tags
    assert "http:" not in html
    assert "https:" not in html
    assert "url(" not in html
    assert {path.name for path in folder.iterdir()} == {
        "report.html",
        "fcm.png",
        "lengths.png",
        "matrix.png",
        "overlay-1-2.png",
        "overlay-1-3.png",
        "overlay-tracks.png",
    }


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


def test_the_best_value_of_a_column_is_marked(example):
    _, _, _, html = example
    row = html[html.index("<th>NmfSync</th>") :].split("</tr>")[0]
    assert '<span class="best">100.0 %</span>' in row
    assert "best" not in html[html.index("<th>input</th>") :].split("</tr>")[0]


def test_same_input_gives_the_same_bytes(example, tmp_path):
    scene, features, folder, _ = example
    write(tmp_path, scene, features, ["image <c> was reduced"])
    for path in sorted(folder.iterdir()):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_a_file_name_with_html_is_shown_as_it_is(tmp_path):
    names = ("<b>.png", "$x$ & y.png", "c.png")
    scene, features = three_images(tmp_path / "images", names)
    html = write(tmp_path / "out", scene, features)
    assert "<b>.png" not in html
    assert "<b>.png" in Page(html).text
    assert "$x$ & y.png" in Page(html).text


def test_without_truth_there_is_no_fcm(tmp_path):
    scene, features = three_images(tmp_path / "images", truth=False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "fcm.png").write_bytes(b"of an earlier run")
    (tmp_path / "out" / "overlay-1-9.png").write_bytes(b"of an earlier run")
    html = write(tmp_path / "out", scene, features)
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert "fcm.png" not in files
    assert "overlay-1-9.png" not in files
    assert {"lengths.png", "overlay-1-2.png", "overlay-tracks.png"} <= files
    assert "truth of this scene is not known" in Page(html).text


def test_an_image_without_features_and_no_matches(tmp_path):
    scene, features = three_images(tmp_path / "images")
    features[1] = features_at([], SIZES[1])
    page = Page(write(tmp_path / "out", scene, features))
    assert len(page.sources) == 5
    assert "keeps 0 features in 0 consistent tracks" in page.text


def test_a_scene_without_any_feature(tmp_path):
    scene, _ = three_images(tmp_path / "images")
    features = [features_at([], size) for size in SIZES]
    assert "keeps 0 features" in Page(write(tmp_path / "out", scene, features)).text


def test_two_images(tmp_path):
    scene, features = three_images(tmp_path / "images", k=2)
    Page(write(tmp_path / "out", scene, features))
    overlays = {path.name for path in (tmp_path / "out").glob("overlay-*")}
    assert overlays == {"overlay-1-2.png", "overlay-tracks.png"}


def test_one_image(tmp_path):
    scene, features = three_images(tmp_path / "images", k=1)
    features = [features_at([], SIZES[0])]
    page = Page(write(tmp_path / "out", scene, features))
    assert "There is nothing to draw" in page.text


DEPTH_QUALITY = {
    "against": "depths (laser)", "features": 1500, "judged": 1200, "reconstructed": 0.4,
    "within": 0.964, "within_in_all": 0.925, "median": 0.321,
}  # fmt: skip


def test_quality_of_reconstructed_depths_is_printed(tmp_path):
    scene, features = three_images(tmp_path / "images")
    text = Page(write(tmp_path / "out", scene, features, depth_quality=DEPTH_QUALITY)).text
    for figure in ("1,200", "480 (40.0 %)", "96.4 %", "92.5 %", "0.32", "1,500 features"):
        assert figure in text
    assert "plane sweep" in text
    assert "plane sweep" not in Page(write(tmp_path / "out", scene, features)).text


def two_scenes(scene, features):
    results = results_for(features)
    evaluation = evaluation_of(scene, features, results)
    other = Scene("set/<other>", scene.paths)
    del results["matcheig"]
    return [evaluation, evaluation_of(other, features, results)]


def test_data_set_report(example, tmp_path):
    scene, features, _, _ = example
    write_dataset_report(tmp_path, "set & more", two_scenes(scene, features))
    html = (tmp_path / "report.html").read_text()
    page = Page(html)
    assert "set & more" in page.text
    assert "set/<other>" in page.text
    assert [link for link in page.links if not link.startswith("#")] == [
        "scene/report.html",
        "%3Cother%3E/report.html",
    ]
    assert len(page.sources) == 1
    assert (tmp_path / "fcm.png").exists()
    # The mean is over the one scene with truth, so it repeats that scene's figures.
    mean = html[html.index("<th>Mean</th>") :].split("</tr>")[0]
    row = html[html.index(">set/scene</a>") :].split("</tr>")[0]
    assert ">1 scene</td>" in mean
    assert mean.split("<td>")[1:] == row.split("<td>")[3:]


def test_data_set_links_follow_reports_to_where_they_are(example, tmp_path):
    scene, features, _, _ = example
    (tmp_path / "set" / "scene").mkdir(parents=True)
    (tmp_path / "set" / "scene" / "report.html").touch()
    write_dataset_report(tmp_path / "paper", "paper", two_scenes(scene, features)[:1])
    page = Page((tmp_path / "paper" / "report.html").read_text())
    assert "../set/scene/report.html" in page.links


def test_data_set_csv_has_one_row_a_scene_and_method(example, tmp_path):
    scene, features, _, _ = example
    evaluations = two_scenes(scene, features)
    write_dataset_report(tmp_path, "set", evaluations)
    with (tmp_path / "evaluation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["scene"], row["method"]) for row in rows] == [
        ("set/scene", "input"),
        ("set/scene", "nmfsync"),
        ("set/scene", "matcheig"),
        ("set/<other>", "input"),
        ("set/<other>", "nmfsync"),
    ]
    assert float(rows[1]["fcm_0.01"]) == evaluations[0].methods["nmfsync"].fcm["0.01"]
    assert float(rows[1]["precision_0.01"]) == 1
    assert rows[1]["cycle_consistent"] == "true"
    assert rows[3]["fcm_0.01"] == ""
    assert rows[0]["matchings"] == "5"


def test_data_set_without_truth(tmp_path, example):
    scene, features, _, _ = example
    write_dataset_report(tmp_path, "set", two_scenes(scene, features)[1:])
    assert not (tmp_path / "fcm.png").exists()
    assert Page((tmp_path / "report.html").read_text()).sources == []
