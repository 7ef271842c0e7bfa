"""The page about a file of matches."""

import numpy as np

from builders import matches_of
from nmfsync import MultiMatching
from nmfsync.evaluation.confidence import Confidence
from nmfsync.evaluation.tracks import compare
from nmfsync.report.change_page import write_change_report
from three_images import Page


def write_page(path, probability):
    """Ten matches of two images, as likely right as given; return the text of their page."""
    matches = matches_of([(n, n + 10) for n in range(10)], [10, 10])
    result = MultiMatching([*range(10), *range(10)], [10, 10])
    sure = Confidence(np.arange(10), np.arange(10, 20), np.full(10, probability))
    change = compare(matches, result)
    settings = {"method": "clustersync"}
    names = ("in.npz", "out.npz")
    write_change_report(path, names, settings, change, result, sure, ["About <half>."])
    return Page(path.read_text()).text


def test_the_page_lists_doubtful_pairs_of_images(tmp_path):
    text = write_page(tmp_path / "page.html", 0.4)
    assert "About <half>." in text
    assert "below 80 %: 1 of 1." in text
    assert "40.0 %" in text
    assert "without any ground truth" in text  # what the estimated precision is


def test_the_page_says_that_no_pair_of_images_is_doubtful(tmp_path):
    text = write_page(tmp_path / "page.html", 0.9)
    assert "below 80 %: none of 1." in text
    assert "90.0 %" not in text
