"""The matrix of image pairs, its table and the pair viewer, as a reader uses them."""

from typing import Any

import numpy as np
import pytest

from browser.viewer_page import INPUT, data, images, write_page

HOSTILE = '<img src=x onerror="alert(1)">&"' + "long" * 30

# Three images; b – c has no match. Of a – b: one match kept (right), one removed (wrong), one
# added (not judged). Of a – c the page has one of five matches.
ARRAYS: dict[str, Any] = {
    "feature_image": [0, 0, 0, 1, 1, 1, 2, 2],
    "feature_number": [4, 5, 6, 0, 1, 2, 0, 1],
    "feature_x": [10, 30, 60, 12, 50, 60, 20, 40],
    "feature_y": [10, 30, 50, 12, 14, 50, 20, 40],
    "feature_scale": [5] * 8,
    "feature_orientation": [0] * 8,
    "pair_i": [0, 0],
    "pair_j": [1, 2],
    "pair_matches": [2, 4, 2, 3],
    "pair_kept": [2, 4, 1, 2],
    "pair_judged": [4, 2, 2, 2],
    "pair_right": [2, 2, 2, 1],
    "pair_estimated": [0.55, 0.8, 0.9, 0.75],
    "pair_total": [3, 5],
    "pair_first": [0, 3, 4],
    "match_a": [0, 1, 2, 0],
    "match_b": [3, 4, 5, 6],
    "match_methods": [0b11, 0b01, 0b10, 0b11],
    "match_verdict": [1, 2, 0, 1],
    "match_error": [0.5, 25, np.nan, 1],
    "match_epipolar": [0.25, 8, 1.5, np.nan],
    "match_probability": [225, 50, 255, 200],
    "match_ratio": [0.5, 0.9, np.nan, 0.6],
    "track_first": [0, 3, 5],
    "track_members": [0, 3, 6, 2, 5],
    "track_right": [2, 0],
    "track_judged": [2, 0],
    "track_error": [1, np.nan],
    "track_probability": [0.9, np.nan],
    "track_component": [0xFFFFFFFF] * 2,
    "member_right": [0] * 5,
    "member_judged": [0] * 5,
    "member_probability": [0.9] * 5,
    "track_pair_first": [0, 3, 4],
    "track_pairs": [5, 5, 0, 0],
    "track_pair_probability": [225, 200, 255, 255],
    "contradiction_first": [0, 0, 0],
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("pages") / "tiny.html", data(ARRAYS, cameras=True))


@pytest.fixture(scope="module")
def window(tiny, open_once):
    return open_once(tiny)


@pytest.fixture
def page(tiny, window):
    window.goto(tiny.as_uri())
    return _opened(window)


def _opened(page: Any) -> Any:
    """Wait until a pair is open."""
    page.wait_for_function("document.getElementById('v-pair-title').textContent")
    return page


def _click_cell(page: Any, i: int, j: int, k: int = 3) -> None:
    box = page.locator("#v-matrix").bounding_box()
    cell = 72  # of few images
    margin = box["width"] - 2 - k * cell
    page.mouse.click(box["x"] + margin + (j + 0.5) * cell, box["y"] + margin + (i + 0.5) * cell)


def _title(page: Any) -> str:
    return page.inner_text("#v-pair-title")


def _count(page: Any) -> str:
    return page.inner_text("#v-pair-count")


def _lines(page: Any) -> list[str]:
    groups = page.locator("#v-picture .v-lines .v-match")
    return [
        text.split()[1]
        for text in groups.evaluate_all("all => all.map(g => g.getAttribute('class'))")
    ]


def _at(page: Any, i: int, j: int) -> Any:
    page.evaluate(f"viewer.emit('pair', {{ i: {i}, j: {j} }})")
    return page


def test_the_pair_that_changes_most_is_open_at_first(page):
    assert _title(page) == "a – c"
    assert "keeps 2, removes 2 and adds 1" in page.inner_text("#v-pair-summary")
    assert "#pair" not in page.url  # the reader has not chosen it


def test_clicks_and_arrow_keys_open_pairs(page):
    _click_cell(page, 1, 0)
    assert _title(page) == "a – b"
    assert page.url.endswith("#pair=0-1")
    for key, title in (("ArrowDown", "a – c"), ("ArrowRight", "b – c"), ("ArrowUp", "a – b")):
        page.keyboard.press(key)
        assert _title(page) == title, key
    page.keyboard.press("End")
    assert _title(page) == "a – c"
    page.keyboard.press("Home")
    assert _title(page) == "a – b"
    assert page.inner_text("#v-matrix-says").startswith(
        "a – b: 2 matches of the input; Good keeps 1"
    )
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "v-pair-title"


def test_pointing_at_a_cell_tells_its_figures(page):
    _click_cell(page, 0, 2)
    page.mouse.move(0, 0)
    figures = page.inner_text("#v-pair-figures")
    for text in ("a – c", "removed\t2", "added\t1", "75.0 %", "1 of 2 (50.0 %)"):
        assert text in figures


def test_colours_of_the_matrix(page):
    wanted = {"matches": "3", "share": "100 %", "estimated": "100 %", "kept": "2", "removed": "2"}
    seen = set()
    for colour, most in wanted.items():
        page.select_option("#v-matrix-colour", colour)
        assert page.locator("#v-scale-numbers span").last.inner_text() == most
        seen.add(page.evaluate("document.getElementById('v-matrix').toDataURL()"))
    assert len(seen) == len(wanted)
    assert "No pair has any" not in page.inner_text("#v-scale-words")
    page.select_option("#v-matrix-method", "0")  # the input removes nothing of itself
    assert "No pair has any" in page.inner_text("#v-scale-words")
    assert page.input_value("#v-pair-method") == "0"  # both choices stay the same


def test_filters_count_what_they_leave(page):
    _at(page, 0, 1)
    assert _count(page) == "Shown 3 of 3 matches."
    assert _lines(page) == ["v-right", "v-wrong", "v-unknown"]
    for name, left in (("kept", 2), ("removed", 1), ("added", 0)):
        page.uncheck(f"#v-show-{name}")
        assert _count(page) == f"Shown {left} of 3 matches."
        assert len(_lines(page)) == left
    for name in ("kept", "removed", "added"):
        page.check(f"#v-show-{name}")
    for name, left in (("right", 2), ("wrong", 1), ("unknown", 0)):
        page.uncheck(f"#v-show-{name}")
        assert _count(page) == f"Shown {left} of 3 matches."
    for name in ("right", "wrong", "unknown"):
        page.check(f"#v-show-{name}")
    page.fill("#v-pair-low", "50")
    assert _lines(page) == ["v-right"]
    page.fill("#v-pair-low", "0")
    page.fill("#v-pair-high", "50")
    assert _lines(page) == ["v-wrong"]
    page.fill("#v-pair-high", "100")
    page.select_option("#v-pair-method", "0")
    assert _count(page) == "Shown 2 of 2 matches."
    assert page.inner_text("#v-number-kept") == "(2)"


def test_a_sample_says_so(page):
    assert _count(page) == "Shown 1 of 1 match; 5 in all, of which a sample is on this page."
    _at(page, 1, 2)
    assert _count(page) == ""
    assert page.inner_text("#v-pair-summary") == "No match of the input or Good."


COLOURS = {
    "verdict": (["right", "wrong", "unknown"], "not judged"),
    "change": (["kept", "removed", "added"], "removed"),
    "probability": (["bin4", "bin1", "unknown"], "20 to 40 %"),
    "epipolar": (["bin4", "bin1", "bin3"], "5 to 10 px"),
}


def test_lines_are_coloured_as_the_legend_says(page):
    _at(page, 0, 1)
    for colour, (names, legend) in COLOURS.items():
        classes = [f"v-{name}" for name in names]
        page.select_option("#v-pair-colour", colour)
        assert _lines(page) == classes
        assert legend in page.inner_text("#v-pair-legend")
        assert page.locator(".v-lines .v-gone").count() == 1  # the removed one has hollow ends
        entries = page.locator("#v-pair-legend .v-match")
        shown = entries.evaluate_all("all => all.map(g => g.classList[1])")
        assert set(shown) >= set(classes)


def test_one_match_is_shown_with_all_that_is_known(page):
    _at(page, 0, 1).focus("#v-picture")
    page.keyboard.press("n")
    card = page.inner_text("#v-card")
    for text in (
        "feature 4",
        "feature 0",
        "right",
        "0.5 px",
        "kept",
        "0.50",
        "90.0 %",
        "input, Good",
    ):
        assert text in card
    assert page.locator("#v-card canvas").count() == 2
    assert page.locator("#v-card button").inner_text() == "Follow its track (3 images)"
    page.keyboard.press("p")
    assert "not judged by the truth" in page.inner_text("#v-card")
    page.select_option("#v-pair-method", "0")
    page.select_option("#v-pair-method", "1")
    assert "added" in page.inner_text("#v-card")
    page.evaluate("viewer.on('track', (detail) => { window.opened = detail.track; })")
    page.keyboard.press("t")
    assert page.evaluate("window.opened") == 1
    page.focus("#v-picture")
    page.keyboard.press("Escape")
    assert "No match is chosen" in page.inner_text("#v-card")


# Where the window shows the first end of the second line, nearly.
END_OF_SECOND = """(() => {
  const dot = document.querySelectorAll('.v-lines .v-match')[1].querySelector('.v-ends');
  const [x, y] = dot.getAttribute('d').match(/[\\d.]+/g).map(Number);
  const matrix = document.getElementById('v-picture').getScreenCTM();
  const point = new DOMPoint(x, y).matrixTransform(matrix);
  return [point.x + 3, point.y + 2];
})()"""


def test_the_mouse_points_at_the_nearest_match(page):
    _at(page, 0, 1)
    page.locator("#v-picture").scroll_into_view_if_needed()
    place = page.evaluate(END_OF_SECOND)
    page.mouse.move(*place)
    assert "25.0 px" in page.inner_text("#v-card")
    assert page.locator(".v-top .v-wrong").count() == 1
    page.mouse.click(*place)
    page.mouse.move(1, 1)
    assert "25.0 px" in page.inner_text("#v-card")  # a click holds it


def _seen(page: Any, side: int) -> list[float]:
    """Return which part of a photograph is seen: left, top, width, height."""
    box = page.get_attribute(f"#v-picture [data-side='{side}']", "viewBox")
    return [float(number) for number in box.split()]


def test_keys_and_buttons_zoom_both_photographs(page):
    _at(page, 0, 1).focus("#v-picture")
    page.keyboard.press("+")
    for side in (0, 1):
        assert _seen(page, side) == pytest.approx([80 / 6, 10, 160 / 3, 40])
    page.keyboard.press("ArrowLeft")
    assert _seen(page, 0)[0] == pytest.approx(80 / 6 - 160 / 3 / 8)
    page.keyboard.press("0")
    assert _seen(page, 0) == [0, 0, 80, 60]
    page.keyboard.press("n")
    page.keyboard.press("n")
    for _ in range(3):
        page.click("#v-zoom-in")
    # The match that is held is in the middle of both; the others are not seen.
    assert [side[0] + side[2] / 2 for side in (_seen(page, 0), _seen(page, 1))] == [30.5, 50.5]
    assert page.locator(".v-lines .v-out").count() == 2
    assert page.locator(".v-lines .v-cut").count() == 0
    page.keyboard.press("Escape")
    page.click("#v-zoom-out")
    page.click("#v-zoom-reset")
    assert _seen(page, 1) == [0, 0, 80, 60]


def test_wheel_and_drag_move_one_photograph(page):
    _at(page, 0, 1)
    page.locator("#v-picture").scroll_into_view_if_needed()
    area = page.locator("#v-picture").bounding_box()
    page.mouse.move(area["x"] + 200, area["y"] + 100)
    page.mouse.wheel(0, -100)  # without Ctrl, the page scrolls
    assert _seen(page, 0)[2] == 80
    page.locator("#v-picture").scroll_into_view_if_needed()
    area = page.locator("#v-picture").bounding_box()
    page.mouse.move(area["x"] + 200, area["y"] + 100)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("document.querySelector('.v-zoomed')")
    before = _seen(page, 0)
    assert before[2] == pytest.approx(80 / np.e)
    assert page.locator(".v-lines .v-cut").count() == 2  # one end of these is not seen
    page.mouse.down()
    page.mouse.move(area["x"] + 160, area["y"] + 100, steps=3)
    page.mouse.up()
    assert _seen(page, 0)[0] > before[0]
    assert _seen(page, 1) == [0, 0, 80, 60]
    assert "No match" in page.inner_text("#v-card")  # a drag is no click


def test_buttons_and_lists_choose_pairs(page):
    page.click("#v-pair-next")
    assert _title(page) == "a – b"  # after the last pair comes the first
    page.click("#v-pair-previous")
    assert _title(page) == "a – c"
    page.select_option("#v-pair-i", "1")
    assert _title(page) == "b – c"
    page.select_option("#v-pair-j", "1")  # the same image twice: they change places
    assert _title(page) == "b – c"


def test_the_table_has_the_figures_and_opens_pairs(page):
    page.click("#v-pairs-list summary")
    page.locator("#v-pairs-table thead button").first.wait_for()  # it is filled when it is opened
    rows = page.locator("#v-pairs-table tbody tr")
    cells = rows.evaluate_all("all => all.map(row => [...row.cells].map(cell => cell.textContent))")
    assert cells == [
        ["a – c", "3", "2", "2", "1", "75.0 %", "1 of 2 (50.0 %)"],
        ["a – b", "2", "1", "1", "1", "90.0 %", "2 of 2 (100.0 %)"],
    ]
    assert rows.first.get_attribute("aria-current") == "true"
    page.click("#v-pairs-table thead >> text=Removed")
    assert rows.first.inner_text().startswith("a – b")
    assert page.locator("th[aria-sort='ascending']").count() == 1
    rows.first.locator("button").press("Enter")
    assert _title(page) == "a – b"
    assert "2 of 2 pairs" in page.inner_text("#v-pairs-count")


def test_the_address_opens_a_pair_and_a_match_from_elsewhere_is_held(tiny, page):
    page.goto(f"{tiny.as_uri()}#pair=0-1")
    page.reload()
    _opened(page)
    assert _title(page) == "a – b"
    page.evaluate("location.hash = 'pair=2-1'")
    page.wait_for_function("document.getElementById('v-pair-title').textContent === 'b – c'")
    page.evaluate("viewer.emit('pair', { i: 1, j: 0, match: 1 })")
    assert "25.0 px" in page.inner_text("#v-card")


def test_thousands_of_matches_are_drawn_evenly_and_the_table_grows(tmp_path, open_page):
    k, n = 13, 2000  # 78 pairs
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    rest = len(pairs) - 1
    arrays = {
        "feature_image": [0] * n + [1] * n,
        "feature_number": [*range(n)] * 2,
        **{name: np.linspace(0, 50, 2 * n) for name in ("feature_x", "feature_y")},
        **{name: [5] * 2 * n for name in ("feature_scale", "feature_orientation")},
        "pair_i": [i for i, _ in pairs],
        "pair_j": [j for _, j in pairs],
        **{name: [n, *[0] * rest] for name in ("pair_matches", "pair_kept", "pair_total")},
        **{name: [0] * len(pairs) for name in ("pair_judged", "pair_right")},
        "pair_estimated": [np.nan] * len(pairs),
        "pair_first": [0, *[n] * len(pairs)],
        "match_a": range(n),
        "match_b": range(n, 2 * n),
        **{name: [1] * n for name in ("match_methods", "match_verdict")},
        **{name: [np.nan] * n for name in ("match_error", "match_epipolar", "match_ratio")},
        "match_probability": [255] * n,
    }
    named = images(*(f"{i}.png" for i in range(k)))
    page = open_page(
        write_page(tmp_path / "many.html", data(arrays, images=named, methods=[INPUT], tracks=""))
    )
    _opened(page)
    assert _count(page).startswith("Shown 1,500, evenly chosen, of 2,000 that pass the filters")
    drawn = page.locator(".v-lines .v-match")
    assert drawn.count() == 1500
    assert int(drawn.last.get_attribute("data-row")) > 1990
    # No probability, no estimate and no method but the input: no controls and columns of them.
    assert page.is_hidden("#v-pair-range")
    assert page.is_hidden("#v-pair-changes")
    assert page.locator("#v-matrix-colour option").all_inner_texts() == ["Matches", "Share right"]
    page.click("#v-pairs-list summary")
    page.locator("#v-pairs-table thead button").first.wait_for()  # it is filled when it is opened
    headings = page.locator("#v-pairs-table thead button").all_inner_texts()
    assert headings == ["Images", "Matches ▼", "Right of judged*"]
    assert page.locator("#v-pairs-table tbody tr").count() == 50
    page.click("#v-pairs-more")
    assert page.locator("#v-pairs-table tbody tr").count() == 78
    assert page.is_hidden("#v-pairs-more")


NO_POSITIONS = ("feature_x", "feature_y", "feature_scale", "feature_orientation")
# Arrays, head, and whether the pair viewer is there.
ODD = {
    "no match": ({}, {"tracks": ""}, True),
    "two images": ({}, {"images": images("a", "b")}, True),
    "one image": ({}, {"images": images("alone")}, False),
    "no image": ({}, {"images": []}, False),
    "no positions": ({**ARRAYS, **dict.fromkeys(NO_POSITIONS, ())}, {}, False),
    "no photographs": (
        ARRAYS,
        {"images": [{**i, "source": ""} for i in images("a", "b", "c")]},
        True,
    ),
}


def test_odd_scenes(tmp_path, tiny, open_page):
    page = open_page(tiny, width=390)
    for name, (arrays, head, viewer) in ODD.items():
        page.goto(write_page(tmp_path / "odd.html", data(arrays, **head)).as_uri())
        page.wait_for_selector("#pairs :is(.v-filled, .v-failed):not([hidden])")
        assert page.is_visible("#v-pair") == viewer, name
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    assert page.locator("#v-picture .v-frame").count() == 2  # of the last: frames of their size


def test_hostile_names_without_truth(tmp_path, open_page):
    named = images(HOSTILE, "b" * 200, "c")
    file = write_page(tmp_path / "hostile.html", data(ARRAYS, images=named, truth="none"))
    page = _at(_opened(open_page(file, width=390)), 0, 1)
    assert HOSTILE in _title(page)
    assert page.locator("#pairs img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.is_hidden("#v-pair-verdicts")
    assert "Right of judged" not in page.inner_text("#v-pair-figures")
    options = page.locator("#v-pair-colour option").all_text_contents()
    assert options == ["Kept, removed, added", "Probability"]


SMALL = """(() => {
  const controls = ':is(button, select, summary, input[type=number], fieldset label)';
  return [...document.querySelectorAll('#pairs ' + controls)]
    .filter((e) => e.offsetParent && e.getBoundingClientRect().height < 44).map((e) => e.outerHTML);
})()"""


def test_controls_are_large_enough_for_fingers(tiny, open_page):
    page = _opened(open_page(tiny, width=390, has_touch=True, is_mobile=True))
    page.tap("#v-filters summary")
    page.tap("#v-pairs-list summary")
    small = page.evaluate(SMALL)
    assert small == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
