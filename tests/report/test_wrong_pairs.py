"""Verdicts on pairs of images in words, tables and pictures."""

from dataclasses import dataclass
from itertools import pairwise

from nmfsync.report import pairs_page
from nmfsync.report.pairs_page import write_pairs_report
from nmfsync.report.wrong_pairs import remedy, verdict_sentences, wrong_pairs
from nmfsync.types.verdicts import PairVerdict
from three_images import Page

NAMES = [f"view{n}.jpg" for n in range(6)]


def verdict(i, j, right=True, matches=50):
    return PairVerdict(i, j, matches, 20, right, "" if right else "few shared tracks")


def ring(*wrong):
    """Neighbours match; then come wrong pairs."""
    return [verdict(i, j) for i, j in pairwise(range(6))] + [verdict(*w, False, 9) for w in wrong]


def test_that_no_pair_is_wrong_is_said_without_pictures():
    shown = wrong_pairs(ring(), NAMES)
    assert shown.sentences == ["Of 5 pairs of images with matches, none looks wrong: all stay."]
    assert (shown.pictures, shown.rows) == ([], [])


def test_images_that_still_hang_together():
    assert verdict_sentences(ring((0, 5)), NAMES) == [
        "1 of 6 pairs of images with matches shows different places that look alike; its 9 of 259 "
        "matches are left out.",
        "The other pairs hold the same images together.",
    ]
    assert remedy(ring((0, 5)), 6).startswith("Compare the photographs")


def test_parts_and_images_that_are_left_alone_are_named():
    verdicts = [verdict(0, 1), verdict(1, 2), verdict(3, 4), *ring((2, 3), (4, 5))[5:]]
    assert verdict_sentences(verdicts, NAMES)[1:] == [
        "Without them, the images hang together in 2 parts (3 and 2 images; before: 1).",
        "Left without a match: view5.jpg.",
    ]
    assert "map them one by one" in remedy(verdicts, 6)


def test_wrong_pairs_with_most_matches_come_first():
    shown = wrong_pairs([*ring((0, 5)), verdict(0, 3, False, 30)], NAMES).drawn()
    assert shown.rows[0] == ["1: view0.jpg", "4: view3.jpg", "30", "20", "few shared tracks"]
    assert [picture.title for picture in shown.pictures] == ["Before", "After"]
    assert shown.pictures[0].png != shown.pictures[1].png
    again = wrong_pairs([*ring((0, 5)), verdict(0, 3, False, 30)], NAMES).drawn()
    assert again == shown


@dataclass(frozen=True)
class Judged(PairVerdict):
    """A verdict with evidence of every kind."""

    angle: float | None = None
    loop: bool = False


def page_of(path, verdicts):
    files = ("in.db", "out.db", "out.db.pairs.csv")
    write_pairs_report(path / "page.html", files, verdicts, NAMES, 0, {}, [], {})
    return " ".join(Page((path / "page.html").read_text()).text.split())


def test_the_page_lists_whatever_evidence_there_is(tmp_path, monkeypatch):
    evidence = {"angle": ("Rotation,\n°", "By how much <rotations> disagree."),
                "loop": ("Loop", "Whether it closes one.")}  # fmt: skip
    monkeypatch.setattr("nmfsync.report.wrong_pairs.EVIDENCE", evidence)
    monkeypatch.setattr("nmfsync.exchange.pairs_table.EVIDENCE", evidence)
    verdicts = [
        Judged(0, 1, 50, 20, False, "<why>", angle=12.3456, loop=True),
        Judged(1, 2, 1200, 20, True, ""),
    ]
    text = page_of(tmp_path, verdicts)
    assert "1: view0.jpg2: view1.jpgwrong502012.3yes<why>" in text
    assert "2: view1.jpg3: view2.jpgright1,20020–no" in text
    assert "Rotation, ° By how much <rotations> disagree." in text


def test_a_long_table_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs_page, "MOST_ROWS", 2)
    text = page_of(tmp_path, ring((0, 5)))
    assert "these are 2 of 6, and out.db.pairs.csv has all" in text
    assert "4: view3.jpg" not in text


def test_the_page_of_a_file_without_matches(tmp_path):
    assert "No two images have matches." in page_of(tmp_path, [])
