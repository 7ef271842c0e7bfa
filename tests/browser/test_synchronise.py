"""The page about a COLMAP database, with photographs: what a reader clicks and reads."""

import csv

import numpy as np
import pytest
from PIL import Image

from colmap_scenes import write_database
from nmfsync import synchronise_file

pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")

VIEWS = ("left/a.jpg", "left/<b>.jpg", "c.jpg", "lost.jpg")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Four views of a database, three of them with a photograph."""
    folder = tmp_path_factory.mktemp("page")
    write_database(folder / "in.db", VIEWS, columns=4)
    noise = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    (folder / "photographs" / "left").mkdir(parents=True)
    for name in VIEWS[:3]:
        Image.fromarray(noise).resize((640, 480)).save(folder / "photographs" / name)
    with pytest.warns(match="lost.jpg"):
        return synchronise_file(folder / "in.db", folder / "out.db", images=folder / "photographs")


def test_the_page_says_what_happened(made, open_page):
    page = open_page(made.report)
    lead = page.locator(".lead").inner_text()
    assert f"{made.change.kept:,} were kept and {made.change.removed:,} removed" in lead
    assert "no photograph of 1 of 4 images: lost.jpg" in page.locator(".warnings").inner_text()
    row = page.locator("tr", has_text="estimated precision").first
    assert f"{100 * made.precision[1]:.1f} %" in row.inner_text()


def test_removed_matches_are_drawn_on_the_photographs(made, open_page):
    known, result = made.result.input_matches, made.result
    first = next(pair for pair in known.by_image_pair() if (pair.i, pair.j) == (0, 1))
    p, q = (first.rows + known.offsets[:2]).T
    removed = np.count_nonzero(result.universe[p] != result.universe[q])
    page = open_page(made.report)
    page.evaluate("location.hash = '#pair=0-1'")
    assert "<b>" in page.locator("#v-pair-title").inner_text()
    summary = page.locator("#v-pair-summary").inner_text()
    assert f"{len(p):,} matches of the input" in summary
    for name in ("kept", "added"):
        page.locator("#v-pair-changes label", has_text=name).locator("input").uncheck()
    assert page.locator("#v-pair-count").inner_text().startswith(f"Shown {removed:,} of ")
    assert page.locator("#v-picture image").count() == 2


def test_a_track_is_followed_through_its_images(made, open_page):
    page = open_page(made.report)
    with made.tracks.open(newline="") as file:
        tracks = {row["track"] for row in csv.DictReader(file)}
    assert f"{len(tracks):,} tracks" in page.locator("#tracks").inner_text()


def test_the_worst_components_are_there_without_javascript(made, open_page):
    page = open_page(made.report, java_script_enabled=False)
    assert page.locator("#components tbody tr").count() == min(10, made.change.inconsistent[0])
    assert page.locator("#change-by-pair tbody tr").count() == 6
