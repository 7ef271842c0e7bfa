"""The graph of the images: what is linked, weakly tied, apart, or unrelated."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from skimage import data

from nmfsync import extract_all, load_scene, match, synchronise
from nmfsync.evaluation.confidence import Confidence, estimate_confidence
from nmfsync.evaluation.image_graph import graph_of_images, image_graph
from nmfsync.evaluation.summary import ImageGraph
from nmfsync.types.matches import MultiMatching


def graph_from(strengths, images):
    """Make a graph of pairs with so many matches, all right, and ten poor pairs for chance."""
    pairs = np.array(sorted(strengths), np.int64).reshape(-1, 2)
    matches = np.array([strengths[pair] for pair in sorted(strengths)])
    return image_graph(pairs, matches, np.ones(len(pairs)), images)


def everybody(images, strength):
    return dict.fromkeys(combinations(images, 2), strength)


def test_all_images_that_overlap_are_one_part():
    graph = graph_from(everybody(range(5), 80), 5)
    assert graph.parts == [[0, 1, 2, 3, 4]]
    assert (graph.unrelated, graph.weak, graph.bridges, graph.clear) == ([], [], [], True)
    assert len(graph.ties) == 10


def test_an_image_with_matches_by_chance_only_is_unrelated():
    """It has as many matches as the others, but few are likely to be right."""
    pairs = np.array(list(combinations(range(6), 2)))
    foreign = (pairs == 3).any(axis=1)
    precision = np.where(foreign, np.linspace(0.05, 0.09, 15), 0.9)
    graph = image_graph(pairs, np.full(15, 70), precision, 6)
    assert graph.unrelated == [3]
    assert graph.parts == [[0, 1, 2, 4, 5]]
    assert all(3 not in tie for tie in graph.ties)


def test_an_image_without_any_match_is_unrelated():
    assert graph_from(everybody(range(4), 30), 5).unrelated == [4]


def test_two_scenes_in_one_folder_are_two_parts_the_larger_one_first():
    graph = graph_from(everybody([0, 2], 50) | everybody([1, 3, 4], 50), 5)
    assert graph.parts == [[1, 3, 4], [0, 2]]
    assert graph.unrelated == []


def test_weak_images_and_bridges_between_groups():
    """Image 6 hangs on image 0, and two groups on one pair, by few matches."""
    ties = everybody([0, 1, 2], 90) | everybody([3, 4, 5], 90)
    graph = graph_from(ties | {(2, 3): 7, (1, 4): 5, (0, 6): 6}, 7)
    assert graph.parts == [list(range(7))]
    assert graph.weak == [6]
    assert graph.bridges == [(2, 3)]


@pytest.mark.parametrize("strength", [0, 1, 5])
def test_with_few_matches_nothing_is_called_unrelated(strength):
    graph = graph_from({(0, 1): strength, (1, 2): strength}, 4)
    assert graph.unrelated == []
    assert not graph.clear


def test_many_matches_elsewhere_ask_for_more_than_a_few():
    """Five right matches link an image of a sparse scene, not one of 2,000 features an image."""
    assert 4 not in graph_from(everybody(range(4), 60) | {(0, 4): 5}, 5).unrelated
    assert 4 in graph_from(everybody(range(4), 1500) | {(0, 4): 5}, 5).unrelated


def test_ties_are_the_strongest_ones_and_hold_the_part_together():
    """All 363 images of a ring are matched with all; far ones by chance."""
    k = 363
    i, j = np.triu_indices(k, 1)
    apart = np.minimum(j - i, k - (j - i))
    graph = image_graph(np.column_stack([i, j]), np.full(len(i), 100), np.exp(-apart / 5), k)
    assert graph.parts == [list(range(k))]
    assert len(graph.ties) < 4 * k
    assert {(a, a + 1) for a in range(k - 1)} <= {tie[:2] for tie in graph.ties}


def test_no_pairs_of_images():
    nothing = image_graph(np.empty((0, 2), np.int64), np.empty(0, np.int64), np.empty(0), 3)
    assert nothing == ImageGraph()


def test_a_cat_among_views_of_an_astronaut():
    scene = load_scene("sample/astronaut")
    cat = Path(data.__file__).with_name("chelsea.png")
    features = extract_all([*scene.paths[:4], cat], 100)
    matches = match(features, weighted=True)
    result = synchronise(matches)
    graph = graph_of_images(result, estimate_confidence(result, matches))
    assert graph.unrelated == [4]
    assert graph.parts == [[0, 1, 2, 3]]


def test_without_estimates_nothing_is_said():
    none = np.empty(0, np.int64)
    matching = MultiMatching(np.zeros(3, np.int64), np.ones(3, np.int64))
    assert graph_of_images(matching, Confidence(none, none, np.empty(0))) == ImageGraph()
