"""Whole reports of real runs, clicked through: homographies, cameras with depths, no truth."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nmfsync.run.scene import run_scene
from nmfsync.run.settings import Settings
from real_data import real_data

METHODS = ("clustersync", "spectral", "matcheig")

# Photographs of a scene, and those of them that a run takes; None: the whole scene.
SCENES = {
    "epfl/fountain-P11": 4,
    "sfm/reichstag/images": 5,
    "sample/astronaut": None,
}

PAGE_FUNCTIONS = """
const seen = (element) => element.offsetParent !== null && !element.disabled;
const all = (what) => [...document.querySelectorAll(`main ${what}`)].filter(seen);
"""

# Every option of every list, every box, and numbers; each is put back as it was.
OPERATE = (
    """async () => {"""
    + PAGE_FUNCTIONS
    + """
  await viewer.ready;
  const told = [];
  const change = (element, kind) => element.dispatchEvent(new Event(kind, { bubbles: true }));
  document.querySelectorAll("main details").forEach((details) => { details.open = true; });
  await new Promise(requestAnimationFrame);
  for (const select of all("select")) {
    const before = select.value;
    for (const option of [...select.options]) {
      select.value = option.value;
      change(select, "input");
      change(select, "change");
      // The lists of the two images keep them apart and in order.
      const free = select.isConnected && !select.id.startsWith("v-pair-");
      if (free && select.value !== option.value) told.push(`${select.id}: ${option.value}`);
    }
    select.value = before;
    change(select, "change");
  }
  for (const box of all("input[type=checkbox]")) for (const _ of [0, 1]) box.click();
  for (const field of all("input[type=number]")) {
    const before = field.value;
    for (const value of [field.min || "0", "3", before]) {
      field.value = value;
      change(field, "input");
      change(field, "change");
    }
  }
  return told;
}"""
)

CLICK_BUTTONS = (
    """async () => {"""
    + PAGE_FUNCTIONS
    + """
  const names = [];
  for (const button of all("button")) {
    if (!button.isConnected || !seen(button)) continue;
    button.click();
    names.push(button.textContent);
    await new Promise(requestAnimationFrame);
    document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  }
  return names;
}"""
)

FIGURES = """async () => {
  await viewer.ready;
  const { arrays, data } = viewer, m = viewer.methodIndex(data.tracks);
  return Array.from(arrays.pair_i, (i, n) => {
    const { matches, judged, right, estimated } = viewer.figures(n, m);
    return { images: [i, arrays.pair_j[n]], matches, judged, right, estimated };
  }).filter((pair) => pair.matches);
}"""


@dataclass(frozen=True)
class Report:
    page: Any
    folder: Path
    evaluation: dict[str, Any]


@pytest.fixture(scope="module", params=list(SCENES))
def report(request, tmp_path_factory, open_once):
    """Run a scene, and open its page."""
    folder, name, images = tmp_path_factory.mktemp("out"), request.param, SCENES[request.param]
    if not name.startswith("sample"):
        source = real_data(name)
    if images:
        chosen = tmp_path_factory.mktemp("photographs")
        files = sorted(source.iterdir())
        stems = sorted({path.name.split(".")[0] for path in files if ".camera" not in path.name})
        for path in files:  # an image, and its camera and depths
            if path.name.split(".")[0] in stems[:images]:
                (chosen / path.name).symlink_to(path)
        name = str(chosen)
    evaluation = run_scene(name, Settings(methods=METHODS, features=100), folder)
    own = folder / evaluation.scene
    page = open_once(own / "report.html")
    return Report(page, own, json.loads((own / "evaluation.json").read_text()))


def test_every_control_answers(report):
    assert report.page.evaluate(OPERATE) == []
    pressed = report.page.evaluate(CLICK_BUTTONS)
    assert len(pressed) > 20


def test_figures_of_the_page_are_those_of_the_evaluation(report):
    found = {tuple(pair["images"]): pair for pair in report.page.evaluate(FIGURES)}
    expected = report.evaluation["image_pairs"]
    assert len(found) == len(expected) > 0
    for pair in expected:
        own = found[tuple(pair["images"])]
        assert own["matches"] == pair["matchings"]
        assert own["estimated"] == pytest.approx(pair["estimated_precision"], rel=1e-5)
        measured = own["right"] / own["judged"] if own["judged"] else None
        assert measured == pair["precision"]


def test_the_first_table_has_the_figures_of_the_methods(report):
    heads = [
        re.sub(r"\s+", " ", head)
        for head in report.page.locator("#verdict thead th").all_inner_texts()
    ]
    rows = report.page.locator("#verdict tbody tr")
    methods = report.evaluation["methods"]
    assert rows.count() == len(methods)
    known = report.evaluation["truth"] != "none"
    assert ("FCM 1 %" in heads) == ("Precision 1 %" in heads) == known
    for row, method in zip(rows.all(), methods.values(), strict=True):
        cells = dict(zip(heads, row.locator("th, td").all_inner_texts(), strict=True))
        assert cells["Matches"] == f"{method['matchings']:,}"
        assert cells["Tracks"] == f"{method['tracks']:,}"
        assert cells["Coverage"] == f"{100 * method['coverage']:.1f} %"
        assert cells["Estimated precision"] == f"{100 * method['estimated_precision']:.1f} %"
        if known:
            assert cells["FCM 1 %"].rstrip("★") == f"{100 * method['fcm']['0.01']:.1f} %"
            assert (
                cells["Precision 1 %"].rstrip("★") == f"{100 * method['precision']['0.01']:.1f} %"
            )


def test_page_is_small_quick_and_whole(report):
    file = report.folder / "report.html"
    assert file.stat().st_size < 4e6
    page = report.page
    assert page.evaluate("all = [...document.querySelectorAll('[id]')].map(e => e.id), "
                         "all.filter((id, n) => all.indexOf(id) !== n)") == []  # fmt: skip
    missing = (
        "[...document.querySelectorAll('main a[href^=\"#\"]')].map(a => a.hash.slice(1))"
        ".filter(id => !/^(pair|track)=/.test(id) && !document.getElementById(id))"
    )
    assert page.evaluate(missing) == []
    assert page.locator("th:not([scope])").count() == 0
    assert page.locator("main img:not([alt]), main img[alt='']").count() == 0


def test_a_doubtful_pair_opens_in_the_viewer(report):
    links = report.page.locator("#doubtful a[href^='#pair=']")
    if not links.count():
        pytest.skip("no pair of images is doubtful here")
    links.last.click()
    i, j = map(int, report.page.url.split("#pair=")[1].split("&")[0].split("-"))
    labels = report.page.evaluate("viewer.data.images.map(image => image.label)")
    title = report.page.inner_text("#v-pair-title")
    assert labels[i] in title
    assert labels[j] in title
