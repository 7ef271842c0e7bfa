"""The graph of the images in words and as a figure."""

from itertools import combinations

import numpy as np
import pytest

from nmfsync.evaluation.image_graph import image_graph
from nmfsync.evaluation.summary import ImageGraph
from nmfsync.report.figures.image_graph import _places, image_graph_figure
from nmfsync.report.image_graph import graph_picture, graph_sentences, graph_warnings
from nmfsync.report.pictures import drawn

NAMES = [f"view{n}.jpg" for n in range(8)]


def linked(groups, images, strength=60):
    pairs = np.array([pair for group in groups for pair in combinations(group, 2)])
    ones = np.ones(len(pairs))
    return image_graph(pairs, np.full(len(pairs), strength), ones, images)


def test_an_image_that_looks_unrelated_is_named_with_the_remedy():
    (text,) = graph_warnings(linked([range(6)], 7), [*NAMES[:6], "cat.png"])
    assert text.startswith("cat.png looks unrelated to the other images: ")
    assert "leave it out, or, if it shows the same scene, take more --features" in text


def test_two_images_that_look_unrelated():
    (text,) = graph_warnings(linked([range(6)], 8), NAMES)
    assert text.startswith("view6.jpg and view7.jpg look unrelated")


def test_parts_are_named_by_their_smaller_ones():
    graph = linked([range(5), (5, 6, 7)], 8)
    (text,) = graph_warnings(graph, NAMES)
    assert "2 parts that no match links" in text
    assert "view5.jpg, view6.jpg and view7.jpg; run them on their own" in text
    assert graph_sentences(graph, NAMES) == [
        "All 8 images are linked, in 2 separate parts: of 5 and 3 images."
    ]


def test_if_most_images_are_not_linked_the_matches_are_too_few():
    (text,) = graph_warnings(linked([(0, 1)], 8), NAMES)
    assert text.startswith("only 2 of 8 images are linked")


def test_where_all_is_well_nothing_is_warned_of():
    graph = linked([range(8)], 8)
    assert graph_warnings(graph, NAMES) == []
    assert graph_sentences(graph, NAMES) == [
        "All 8 images are linked by matches that are likely right."
    ]


def test_weak_ties_are_named():
    graph = ImageGraph([[0, 1, 2, 3]], [], True, [3], [(0, 1)], [(0, 1, 3.0), (1, 2, 70.0)])
    _, weak, bridge = graph_sentences(graph, NAMES[:4])
    assert weak == "Only weakly tied to the others: view3.jpg."
    assert bridge.endswith("at best: view0.jpg and view1.jpg.")


def test_names_from_outside_cannot_act():
    (text,) = graph_warnings(linked([range(6)], 7), [*NAMES[:6], "\x1b[2J\u202ecat" + "x" * 200])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 300


@pytest.mark.parametrize("images", [2, 7, 40, 600])
def test_every_image_has_a_place_of_its_own(images):
    """The last one is linked to none; with 600 images, distances are measured from some."""
    i = np.arange(images - 2)
    pairs = np.column_stack([i, i + 1])
    graph = image_graph(pairs, np.full(len(pairs), 50), np.ones(len(pairs)), images)
    places = _places(graph, images)
    assert len(np.unique(places.round(6), axis=0)) == images
    if images > 2:
        assert places[-1, 0] > places[:-1, 0].max()


def test_strong_ties_are_short():
    ties = {(0, 1): 100, (2, 3): 100, (1, 2): 12, (0, 3): 11, (0, 2): 11, (1, 3): 11}
    pairs = np.array(sorted(ties))
    graph = image_graph(pairs, np.array([ties[tuple(p)] for p in pairs]), np.ones(6), 4)
    places = _places(graph, 4)
    assert np.linalg.norm(places[0] - places[1]) < np.linalg.norm(places[1] - places[2])


def test_the_picture_says_in_words_what_it_shows():
    graph = linked([range(5), (5, 6)], 8)
    (picture,) = graph_picture(graph, NAMES, [name[:-4] for name in NAMES])
    assert "7 of 8 images are linked, in 2 separate parts: of 5 and 2 images." in picture.alt
    assert "The strongest tie drawn: view0.jpg and view1.jpg, 51 matches." in picture.alt
    assert graph_picture(ImageGraph(), NAMES, NAMES) == []
    (first,), (again,) = (drawn(graph_picture(graph, NAMES, NAMES)) for _ in range(2))
    assert first.png == again.png != b""


def test_only_images_that_stand_out_are_named_among_many():
    graph = linked([range(70)], 71)
    labels = [f"image{n}" for n in range(71)]
    texts = [text.get_text() for text in image_graph_figure(graph, labels).axes[0].texts]
    assert texts == ["image70"]
