"""The look of a page: words explained, dark scheme, phone, print, keyboard."""

import pytest

from three_images import three_images, write_report

PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("look")
    scene, features = three_images(folder / "images")
    write_report(folder / "out", scene, features, ["nmfsync: a <warning>; do something"])
    return folder / "out" / "report.html"


def is_inside(box, width, height):
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    return box["x"] >= 0 and box["y"] >= 0 and right <= width and bottom <= height


def test_a_word_is_explained_on_hover_on_focus_and_on_tap(open_page, report):
    page = open_page(report, **PHONE, has_touch=True)
    box = page.locator("#explanation")
    for word in page.locator("th a.term").all():
        word.focus()
        assert is_inside(box.bounding_box(), **PHONE)
        described = page.locator(f"#{word.get_attribute('aria-describedby')}")
        assert described.inner_text() in box.inner_text()
    page.keyboard.press("Escape")
    assert box.is_hidden()
    page.locator("a.term", has_text="Coverage").hover()
    assert "share of the features that are in a track" in box.inner_text()
    page.locator("h1").hover()
    assert box.is_hidden()
    page.locator("a.term", has_text="universe size").tap()
    assert box.is_visible()
    page.locator("h1").tap()
    assert box.is_hidden()
    assert "#" not in page.url


def test_on_a_phone_the_page_does_not_scroll_sideways_but_its_tables_do(open_page, report):
    page = open_page(report, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    table = page.locator("#verdict .scroll")
    assert page.locator("#verdict .hint").is_visible()
    table.focus()
    table.evaluate("box => box.scrollTo({left: 10000, behavior: 'instant'})")
    assert table.evaluate("box => box.scrollLeft") > 0
    assert page.locator("#verdict tbody th").first.bounding_box()["x"] >= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_scheme_colours_page_and_plots_but_no_photograph(open_page, report, scheme):
    page = open_page(report, color_scheme=scheme)
    colours = page.evaluate(
        "[document.body, document.body].map((b, i) => getComputedStyle(b)"
        "[i ? 'color' : 'backgroundColor'].match(/\\d+/g).map(Number))"
    )
    paper, ink = map(sum, colours)
    assert (paper < ink) == (scheme == "dark")
    filters = "[...document.querySelectorAll('{}')].map(i => getComputedStyle(i).filter)"
    plots = page.evaluate(filters.format("img.plot"))
    assert {"none" not in f for f in plots} == {scheme == "dark"}
    photographs = page.evaluate(filters.format("#v-picture image"))
    assert photographs
    assert not any("invert" in f for f in photographs)


def test_a_print_is_ink_on_white_with_everything_unfolded(open_page, report):
    page = open_page(report, color_scheme="dark")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.wait_for_function("[...document.querySelectorAll('details')].every(d => d.open)")
    assert page.locator("nav").is_hidden()
    page.emulate_media(media="screen")
    page.wait_for_function("[...document.querySelectorAll('details')].every(d => !d.open)")


def test_a_figure_is_enlarged_and_closed_by_keyboard(open_page, report):
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"
    figure = page.locator("#matrix a")
    figure.focus()
    page.keyboard.press("Enter")
    assert page.locator("#zoom img").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#zoom").is_hidden()
    assert figure.evaluate("link => link === document.activeElement")


def test_every_heading_has_a_scope_and_every_picture_a_text(open_page, report):
    page = open_page(report)
    assert page.evaluate("[...document.querySelectorAll('th')].filter(h => !h.scope).length") == 0
    texts = page.evaluate("[...document.querySelectorAll('img')].map(i => i.alt)")
    assert len(texts) > 3
    assert all(len(text) > 20 for text in texts)
    links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    inside = {link for link in links if not link.startswith("#pair=")}
    assert {link for link in inside if page.locator(link).count() != 1} == set()
