"""The page of a comparison in a browser."""

import pytest

from compared import run
from nmfsync.evaluation.comparison import compare_evaluations
from nmfsync.report.compare_page import write_compare_page


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    runs = [run(f"{'long' * 20}/{label}", clustersync=[0.2, 0.3, 0.2 + gain], input=[0.3, 0.3, 0.3])
            for label, gain in (("a", 0), ("b", 0.2))]  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "compare.html"
    write_compare_page(path, compare_evaluations(runs))
    return path


def test_page_fits_a_phone_and_its_bars_their_plots(page_file, open_page):
    page = open_page(page_file, width=390, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for bar in page.locator("svg.forest").all():
        assert 0 <= float(bar.locator("circle").get_attribute("cx")) <= 160
    row = page.locator(".changes tr", has_text="ClusterSync").first
    assert row.locator("td").first.inner_text() == "+6.7"
