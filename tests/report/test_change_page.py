"""The page about a file of matches."""

import html
import re

import numpy as np
import pytest

from builders import matches_of
from nmfsync import MultiMatching
from nmfsync.evaluation.confidence import Confidence
from nmfsync.evaluation.tracks import compare
from nmfsync.report.change_page import change_rows, verdict, write_change_report
from three_images import Page


def sure(matches, probability):
    p, q = matches.W.tocoo().coords
    return Confidence(p[p < q], q[p < q], np.full(matches.match_count, probability))


def write_page(path, probability):
    """Ten matches of two images, as likely right as given; return the text of their page."""
    matches = matches_of([(n, n + 10) for n in range(10)], [10, 10])
    return write(path, matches, MultiMatching([*range(10), *range(10)], [10, 10]), probability)


def write(path, matches, result, probability, precision=(None, None)):
    result.settings = {"method": "clustersync"}
    confidences = {"input": sure(matches, probability), "clustersync": sure(result, probability)}
    write_change_report(
        path,
        ("<in>.npz", "out.npz"),
        compare(matches, result),
        {"input": matches, "clustersync": result},
        confidences,
        precision,
        ["About <half>."],
    )
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
    assert "the worst" not in text


def test_an_estimate_of_nothing_is_not_written(tmp_path):
    text = write_page(tmp_path / "page.html", np.nan)
    assert "Doubtful pairs" not in text
    assert "nan" not in text


def test_the_page_shows_what_was_split_and_which_pairs_changed(tmp_path):
    write(tmp_path / "page.html", *contradiction(), 0.5, (0.5, 0.75))
    text = words(tmp_path / "page.html")
    assert "Of the 4 matches of <in>.npz, 3 were kept and 1 removed; 1 were added" in text
    assert "Inconsistent tracks: 1 before, 0 now" in text
    assert "50.0 % of the matches were right before, 75.0 % are now" in text
    assert "<in>.npz before" in text
    assert "These are all such components" in text
    assert "4 3 3 1 1" in text
    assert "All pairs" in text
    # The pair that lost a match comes first, and has the added one in its place.
    assert text.index("0 2 1 0 1 1 50.0 % 50.0 %") < text.index("0 1 1 1 0 0 50.0 % 50.0 %")


def contradiction():
    """0 – 2 – 4 – 1 joins two features of the first image; 3 – 5 is a match beside."""
    matches = matches_of([(0, 2), (2, 4), (1, 4), (3, 5)], [2, 2, 2])
    return matches, MultiMatching([0, 1, 0, 2, 0, 2], [2, 2, 2])


def words(path):
    """What a page says, cells of tables apart."""
    text = re.sub("<[^>]*>", " ", path.read_text())
    return " ".join(html.unescape(text).split())


@pytest.mark.parametrize(
    ("precision", "sentence"),
    [
        ((None, None), "0 now."),
        ((0.5, None), "0 now."),
        ((0.5, 1.0), "100.0 % are now (estimated)."),
    ],
)
def test_the_verdict_says_what_is_known(precision, sentence):
    text = verdict("in.npz", compare(*contradiction()), precision)
    assert text.replace("\u00a0", " ").endswith(sentence)


def test_the_table_has_a_row_for_what_is_known():
    change = compare(*contradiction())
    assert len(change_rows(change)) + 1 == len(change_rows(change, (None, 0.5)))
