"""The track viewer, as a reader uses it."""

from typing import Any

import numpy as np
import pytest

from browser.viewer_page import data, images, write_page

NONE = 0xFFFFFFFF
HOSTILE = "<img src=x onerror=alert(1)>&\"'" + "long" * 30

# Four images a, b, c, d with features 0 1 2 | 3 4 5 | 6 7 | 8, and three tracks.
# Track 0: one of its three pairs (a – c) is wrong. Track 1 cannot be judged. Track 2 is right.
# The input also matched 0 – 7 and 6 – 8, from track 0 to track 2.
ARRAYS: dict[str, Any] = {
    "feature_image": [0, 0, 0, 1, 1, 1, 2, 2, 3],
    "feature_number": [10, 11, 12, 20, 21, 22, 30, 31, 40],
    "feature_x": [10, 20, 30, 10, 20, 30, 10, 20, 10],
    "feature_y": [10, 20, 30, 10, 20, 30, 10, 20, 10],
    "feature_scale": [6] * 9,
    "feature_orientation": [90, 0, 0, np.nan, 0, 0, 0, 0, 0],
    "pair_i": [0, 0, 0, 1, 1, 2],
    "pair_j": [1, 2, 3, 2, 3, 3],
    "pair_matches": [2, 2, 1, 2, 0, 2, 3, 2, 1, 2, 1, 1],
    "pair_kept": [2, 2, 1, 2, 0, 2, 2, 1, 1, 2, 0, 1],
    "pair_judged": [4] * 12,
    "pair_right": [2] * 12,
    "pair_estimated": [0.5] * 12,
    "pair_total": [3, 3, 1, 2, 1, 2],
    "pair_first": [0, 3, 6, 7, 9, 10, 12],
    "match_a": [0, 1, 2, 0, 0, 2, 2, 3, 5, 5, 6, 7],
    "match_b": [3, 4, 5, 6, 7, 7, 8, 6, 7, 8, 8, 8],
    "match_methods": [3, 2, 3, 2, 1, 3, 3, 3, 3, 2, 1, 3],
    "match_verdict": [1, 0, 1, 2, 2, 1, 1, 1, 1, 1, 0, 1],
    "match_error": [1, np.nan, 1, 12.25, 30, 1.5, 1, 1, 1, 1, np.nan, 1],
    "match_epipolar": [np.nan] * 12,
    "match_probability": [225, 255, 225, 125, 50, 225, 225, 150, 225, 225, 100, 225],
    "match_ratio": [np.nan] * 12,
    "track_first": [0, 3, 5, 9],
    "track_members": [0, 3, 6, 1, 4, 2, 5, 7, 8],
    "track_right": [4, 0, 10],
    "track_judged": [6, 0, 10],
    "track_error": [12.25, np.nan, 1.5],
    "track_probability": [0.667, 0.5, 0.9],
    "track_component": [0, NONE, 0],
    "member_right": [2, 4, 2, 0, 0, 5, 5, 5, 5],
    "member_judged": [4, 4, 4, 0, 0, 5, 5, 5, 5],
    "member_probability": [0.7, 0.75, 0.55, 0.5, 0.5, 0.9, 0.9, 0.9, 0.9],
    "track_pair_first": [0, 3, 4, 10],
    "track_pairs": [5, 2, 5, 0, 5, 5, 5, 5, 1, 5],
    "track_pair_probability": [225, 125, 150, 255, 225, 225, 225, 225, 225, 225],
    "track_contradictions": [5, 0, 1],  # not all are on the page
    "contradiction_first": [0, 2, 2, 3],
    "contradiction_a": [0, 6, 7],
    "contradiction_b": [7, 8, 0],
    "contradiction_taken": [6, NONE, 2],
    "contradiction_probability": [50, 100, 50],
    "contradiction_verdict": [2, 0, 2],
    "component_features": [7],
    "component_images": [4],
    "component_matches": [8],
    "component_removed": [2],
    "component_tracks": [2],
}
FIGURES = ("features", "images", "matches", "removed", "tracks")  # of a component
FOUR = images("a.png", "b.png", "c.png", "d.png")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("pages") / "tiny.html", data(ARRAYS, images=FOUR))


@pytest.fixture
def page(tiny, open_page):
    return _opened(open_page(tiny))


def _opened(page: Any) -> Any:
    page.wait_for_function("document.querySelector('#v-track-rows tr')")
    page.evaluate("window.pairs = []; viewer.on('pair', (pair) => pairs.push(pair))")
    return page


def _listed(page: Any) -> list[str]:
    return page.locator("#v-track-rows button").all_inner_texts()


def _title(page: Any) -> str:
    return page.inner_text("#v-track-title")


def _click_cell(page: Any, x: int, y: int, n: int = 3) -> None:
    drawing = page.locator("#v-track-matrix svg")
    end = drawing.bounding_box()["width"] - 1  # a cell is 44 px wide
    drawing.click(position={"x": end - (n - x - 0.5) * 44, "y": end - (n - y - 0.5) * 44})


def _last_pair(page: Any) -> list[int]:
    return page.evaluate("(({ i, j, match }) => [i, j, match])(pairs.at(-1))")


def test_tracks_are_listed_in_every_order(page):
    assert page.inner_text("#v-track-about") == "The page has all 3 tracks of Good."
    for order, expected in (
        ("length", "201"),
        ("doubt", "102"),
        ("contradiction", "021"),
        ("error", "021"),
        ("wrong", "021"),
    ):
        page.select_option("#v-track-order", order)
        assert "".join(_listed(page)) == expected, order
        assert _title(page) == f"Track {expected[0]}"
    row = page.locator('[data-track="0"] > *').all_inner_texts()
    assert row == ["0", "3", "4/6", "12.3 px", "66.7 %", "5"]
    heads = page.locator("#v-track-columns th")
    assert heads.evaluate_all("all => all.map(h => h.scope)") == ["col"] * 6
    assert page.locator("#v-track-columns [aria-sort]").inner_text() == "Right / judged"


def test_filters_buttons_and_keys_choose_a_track(page):
    page.fill("#v-track-length", "3")
    assert _listed(page) == ["2", "0"]
    page.select_option("#v-track-image", label="d")
    assert _listed(page) == ["2"]
    page.select_option("#v-track-image", label="any image")
    page.fill("#v-track-length", "5")
    assert page.inner_text("#v-track-status") == "No track passes these filters."
    assert page.is_disabled("#v-track-next")
    page.fill("#v-track-length", "2")
    assert _title(page) == "Track 2"
    page.click("#v-track-next")
    assert _title(page) == "Track 0"
    page.click("#v-track-previous")
    assert page.is_disabled("#v-track-previous")
    page.focus("#v-track-rows .v-chosen button")
    for key, track in (("ArrowDown", 0), ("End", 1), ("Home", 2), ("PageDown", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        assert _title(page) == f"Track {track}"
        assert page.evaluate("document.activeElement.textContent") == str(track)
    assert page.url.endswith("#track=0")
    page.fill("#v-track-number", "1")
    page.keyboard.press("Enter")
    assert _title(page) == "Track 1"
    page.fill("#v-track-number", "7")
    page.keyboard.press("Enter")
    assert page.inner_text("#v-track-status") == (
        "There is no track 7: the page has 3 tracks, numbered from 0 to 2."
    )
    assert _title(page) == "Track 1"


def test_the_address_and_other_parts_of_the_page_open_a_track(tiny, open_page):
    page = open_page(tiny)
    page.goto(tiny.as_uri() + "#track=1")
    page.reload()
    assert _title(_opened(page)) == "Track 1"
    page.evaluate("viewer.emit('track', { track: 0 })")
    assert _title(page) == "Track 0"
    assert page.evaluate("document.activeElement.id") == "v-track-title"
    page.evaluate("location.hash = '#track=2'")
    page.wait_for_function("document.getElementById('v-track-title').textContent === 'Track 2'")


def test_a_track_is_judged_by_all_its_pairs(page):
    page.click('[data-track="0"]')
    assert page.inner_text("#v-track-verdict") == (
        "3 views, 3 pairs of views, of which the input matched 2. 4 of 6 judged directions are "
        "right; the largest error is 12.3 px between a and c; estimated precision 66.7 %."
    )
    page.click("#v-track-verdict button")
    assert _last_pair(page) == [0, 2, 3]
    kinds = page.locator("#v-track-matrix path").evaluate_all(
        "all => all.map(p => [p.getAttribute('class'), p.getAttribute('d').match(/M/g).length])"
    )
    ticks = {"v-right": 4, "v-wrong": 2, "v-corner": 4, "v-tick": 4}
    assert {kind: n for kind, n in kinds if kind != "v-cross"} == ticks
    page.focus("#v-track-matrix svg")
    page.keyboard.press("ArrowDown")  # from a – b in the first column
    assert page.inner_text("#v-track-cell") == (
        "a, feature 10 – c, feature 30: wrong, error 12.3 px, est. 50.0 %, "
        "added by synchronisation."
    )
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#v-track-cell").endswith("est. 60.0 %, the input has the match.")
    page.keyboard.press("Enter")
    assert _last_pair(page) == [1, 2, 7]
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#v-track-cell") == (
        "c, feature 30, 2 of 4 right, est. 55.0 % (all its pairs)."
    )
    assert page.is_disabled("#v-track-pair")
    _click_cell(page, 1, 0)
    assert _last_pair(page) == [0, 1, 0]
    page.select_option("#v-track-shade", "probability")
    digits = page.locator("#v-track-matrix .v-digits").all_text_contents()
    assert sorted(digits) == ["50", "50", "60", "60", "90", "90"]
    page.select_option("#v-track-shade", "input")
    assert page.locator("#v-track-matrix .v-added").get_attribute("d").count("M") == 2
    page.click('[data-track="1"]')
    assert "No pair of it can be judged; estimated precision 50.0 %." in page.inner_text(
        "#v-track-verdict"
    )


def test_a_track_is_followed_through_its_views(page):
    page.click('[data-track="0"]')
    buttons = page.locator("#v-track-views button")
    assert buttons.evaluate_all("all => all.map(b => b.className)") == (
        ["v-wrong", "v-right", "v-wrong"]
    )
    assert buttons.evaluate_all("all => all.map(b => b.getAttribute('aria-label'))") == [
        "a, feature 10, 2 of 4 right, est. 70.0 %",
        "b, feature 20, 4 of 4 right, est. 75.0 %",
        "c, feature 30, 2 of 4 right, est. 55.0 %",
    ]
    buttons.nth(1).click()
    assert page.inner_text("#v-track-book-title") == "b"
    ring = page.locator("#v-track-book-photo .v-ring")
    assert ring.get_attribute("transform") == "translate(10 10) rotate(0)"  # not known
    page.keyboard.press("ArrowLeft")
    assert ring.get_attribute("transform") == "translate(10 10) rotate(90)"
    facts = "View 1 of 3 of track 0 · feature 10 · 2 of 4 right · est. 70.0 %"
    assert page.inner_text("#v-track-book-facts") == facts
    assert page.is_disabled("#v-track-book-previous")
    page.click("#v-track-book-next")
    page.click("#v-track-book-next")
    assert page.inner_text("#v-track-book-title") == "c"
    page.uncheck("#v-track-book .v-track-turned")
    assert not page.is_checked("article .v-track-turned")
    page.keyboard.press("Escape")
    focused = "name => document.activeElement.getAttribute('aria-label')?.startsWith(name)"
    page.wait_for_function(focused, arg="c,")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(focused, arg="b,")


def test_patches_are_drawn_turned_or_upright(tmp_path, open_page):
    # Only a corner of the photograph is in the patch, which shows how it lies.
    lone = {**ARRAYS, "feature_x": [0] * 9, "feature_y": [0] * 9}
    page = _opened(open_page(write_page(tmp_path / "p.html", data(lone, images=FOUR))))
    page.click('[data-track="0"]')
    corner = """() => {
      const canvas = document.querySelector("#v-track-views canvas"), last = canvas.width - 9;
      const copy = viewer.node("canvas", { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      const drawn = ([x, y]) => context.getImageData(x, y, 1, 1).data[3] > 0;
      return canvas.width > 150 && [[8, 8], [last, 8], [8, last], [last, last]].map(drawn).join();
    }"""
    page.locator("#v-track-views").scroll_into_view_if_needed()
    page.wait_for_function(f"({corner})() === 'false,true,false,false'")
    page.uncheck("article .v-track-turned")
    page.wait_for_function(f"({corner})() === 'false,false,false,true'")


def test_removed_input_matches_are_shown_beside_the_tracks_own_features(page):
    page.click('[data-track="0"]')
    assert page.inner_text("#v-track-against") == (
        "The input has 5 matches from features of this track to features outside it; "
        "synchronisation removed them. This page has the 2 most probable ones. "
        "1 of 1 judged one is wrong."
    )
    items = page.locator("#v-track-removed > li")
    texts = [" ".join(text.split()) for text in items.all_inner_texts()]
    assert texts == [
        "In the track c feature 30 Removed partner d feature 40 not judged est. 40.0 % "
        "The track is not seen in d. Open c – d Partner’s track 2",
        "In the track a feature 10 Removed partner c feature 31 wrong est. 20.0 % "
        "The track has instead c feature 30 wrong est. 50.0 % Open a – c Partner’s track 2",
    ]
    items.nth(1).get_by_role("button", name="Open a – c").click()
    assert _last_pair(page) == [0, 2, 4]
    items.nth(1).get_by_role("button", name="Partner’s track 2").click()
    assert _title(page) == "Track 2"
    page.click('[data-track="1"]')
    assert page.inner_text("#v-track-against").startswith("No input match leads from this track")
    assert items.count() == 0


def test_a_component_lists_its_tracks(page):
    cells = page.locator("#v-track-component-rows tr > *").all_inner_texts()
    assert cells == ["1", "7", "4", "8", "2", "2"]
    page.get_by_role("button", name="Component 1: show its tracks").click()
    assert _listed(page) == ["2", "0"]
    page.click("#v-track-component button")
    assert len(_listed(page)) == 3
    assert page.is_hidden("#v-track-component")


def test_nothing_is_said_of_what_is_not_known(tmp_path, open_page):
    unknown = {
        "track_judged": [0] * 3,
        "track_number": [2, 5, 6],
        "track_right": [0] * 3,
        "track_error": [np.nan] * 3,
        "track_probability": [np.nan] * 3,
        "member_probability": [np.nan] * 9,
        "member_judged": [0] * 9,
        "track_pairs": [4, 0, 4, 0, 4, 4, 4, 4, 0, 4],
        "track_pair_probability": [255] * 10,
        "contradiction_probability": [255] * 3,
        "contradiction_verdict": [0] * 3,
        "match_verdict": [0] * 12,
        "match_error": [np.nan] * 12,
        "match_probability": [255] * 12,
        **{f"component_{name}": [] for name in FIGURES},
    }
    hostile = [{**FOUR[0], "name": HOSTILE, "label": HOSTILE, "source": ""}, *FOUR[1:]]
    content = data({**ARRAYS, **unknown}, images=hostile, truth="none", tracks_left_out=4)
    page = _opened(open_page(write_page(tmp_path / "p.html", content), width=390))
    page.click('[data-track="0"]')
    assert page.evaluate("document.querySelector('#tracks').scrollWidth") <= 390
    text = page.inner_text("#tracks")
    for word in ("right", "wrong", "judged", "NaN", "undefined", "est.", "–\n", "recision"):
        assert word not in text.replace("Judged by all its pairs", "").replace(
            "most contradicted and most wrong ones", ""
        ), word
    assert "Good returns 7 tracks; this page has 3 of them" in text
    assert _title(page) == "Track 2"  # the number of tracks.csv
    assert page.url.endswith("#track=2")
    assert "No component of the input was inconsistent" in text
    assert page.locator("#v-track-columns th").all_inner_texts() == ["Track", "Views", "Removed"]
    orders = page.locator("#v-track-order option")
    assert orders.evaluate_all("all => all.map(o => o.value)") == ["length", "contradiction"]
    assert HOSTILE in page.inner_text("#v-track-views")
    assert page.locator("#tracks img").count() == 0
    page.locator("#v-track-views button").first.click()  # a page without this photograph
    assert page.locator("#v-track-book-photo .v-empty").count() == 1
    book = page.locator("#v-track-book")
    assert book.evaluate("book => book.scrollWidth <= book.clientWidth")


@pytest.mark.parametrize(
    ("tracks", "sentence"),
    [
        ("good", "The matches of this page form no track."),
        ("", "No method of this page returns tracks."),
    ],
)
def test_a_page_without_tracks_says_so(tmp_path, open_page, tracks, sentence):
    page = open_page(write_page(tmp_path / "p.html", data({}, tracks=tracks)))
    page.wait_for_function("!document.getElementById('v-track-none').hidden")
    assert page.inner_text("#tracks") == f"Tracks\n\n{sentence}"


def test_many_tracks_and_views_stay_usable_on_a_phone(tmp_path, open_page):
    page = open_page(write_page(tmp_path / "p.html", _many_tracks()), width=390, has_touch=True)
    _opened(page)
    assert len(_listed(page)) == 50
    page.click("#v-track-after")
    assert len(_listed(page)) == 61
    page.evaluate("viewer.emit('track', { track: 60 })")  # the long one, the first of its order
    assert page.locator("#v-track-views li").count() == 45
    drawn = page.locator("#v-track-views canvas[data-drawn]")
    page.locator("#v-track-views").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('#v-track-views canvas[data-drawn]')")
    assert drawn.count() < 45
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = """all => all
      .filter(e => e.offsetParent && Math.min(e.offsetWidth, e.offsetHeight) < 44)
      .map(e => e.id || e.textContent)"""
    targets = page.locator("#tracks button:not(td button, th button, p button), #tracks select")
    assert targets.evaluate_all(small) == []
    # A finger chooses a cell; the button opens it.
    page.locator("#v-track-matrix svg").tap(position={"x": 100, "y": 200})
    assert page.evaluate("pairs.length") == 0
    page.click("#v-track-pair")
    assert page.evaluate("pairs.length") == 1


def _many_tracks() -> dict[str, Any]:
    """Return sixty tracks of two views and one of 45."""
    k, long = 45, 45
    lengths = [2] * 60 + [long]
    first = np.concatenate([[0], np.cumsum(lengths)])
    every = [n * (n - 1) // 2 for n in lengths]
    count = int(first[-1])
    return data(
        {
            "feature_image": [0, 1] * 60 + list(range(k)),
            **{f"feature_{name}": [20] * count for name in ("number", "x", "y", "scale")},
            "feature_orientation": [0] * count,
            "track_first": first,
            "track_members": range(count),
            **{f"track_{name}": every for name in ("right", "judged")},
            "track_error": [1] * 61,
            "track_probability": [0.5] * 61,
            "track_component": [NONE] * 61,
            **{f"member_{name}": [1] * count for name in ("right", "judged", "probability")},
            "track_pair_first": np.concatenate([[0], np.cumsum(every)]),
            "track_pairs": [1] * sum(every),
            "track_pair_probability": [125] * sum(every),
            "contradiction_first": [0] * 62,
        },
        images=images(*[f"view{i}.png" for i in range(k)]),
    )
