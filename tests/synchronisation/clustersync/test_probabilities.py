"""ClusterSync of matches whose weights are probabilities."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from builders import bits, matches_of, noisy
from clusterings import cliques, dense, read
from nmfsync import PairwiseMatches, evaluation, synchronise, synthetic
from nmfsync.synchronisation.clustersync import probabilities
from nmfsync.synchronisation.clustersync.graph import matches_where


def universe(matches, **options):
    return synchronise(matches, "clustersync", **options).universe.tolist()


def with_probabilities(problem, seed=0) -> PairwiseMatches:
    """Give every match of a synthetic problem a probability at random, right ones a higher one."""
    W, W_gt, sizes = problem
    U = np.triu(np.random.default_rng(seed).random(W.shape), 1)
    return PairwiseMatches((0.3 * W_gt + 0.7 * (U + U.T)) * W.toarray(), sizes)


def log_odds(P):
    P = np.clip(P, 0.001, 0.999)
    return np.log(P / (1 - P))


def test_an_unlikely_bridge_is_not_used_and_a_likely_one_is():
    """It joins the tracks of two points that no image shows both of."""
    first, second = cliques([0, 1, 2]), cliques([3, 4, 5])
    for P, expected in ((0.1, [0, 0, 0, 1, 1, 1]), (0.95, [0] * 6)):
        edges = [*((*edge, 0.9) for edge in first + second), (2, 3, P)]
        assert universe(matches_of(edges, [1] * 6), theta=0.4) == expected


def test_a_match_gives_way_to_surer_ones_that_contradict_it():
    """Two points in three images; 0 also matches 3, though 3 is the other point."""
    right = [(0, 4, 0.8), (2, 4, 0.8), (1, 5, 0.8), (3, 5, 0.8)]
    assert universe(matches_of([*right, (0, 3, 0.6)], [2, 2, 2]), theta=0.4) == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(("P", "joined"), [(0.7, 1), (0.8, 0)])
def test_evidence_adds_up(P, joined):
    """Feature 4 has a match of 0.9 with feature 1, and two of P with the track of 0, 2 and 3.

    0 and 1 are in one image. The odds of 0.9 are 9, those of 0.7 and 0.8 are 7/3 and 4, and
    4² > 9 > (7/3)².
    """
    track = [(*edge, 0.95) for edge in cliques([0, 2, 3])]
    matches = matches_of([*track, (1, 4, 0.9), (2, 4, P), (3, 4, P)], [2, 1, 1, 1])
    assert universe(matches, theta=0.5) == [0, 1, 0, 0, joined]


@settings(max_examples=60)
@given(
    matches=strategies.pairwise_matches(max_images=7, weighted=True),
    theta=st.sampled_from([0.0, 0.1, 0.4, 0.7, 1.0]),
)
def test_no_feature_is_worth_more_alone(matches, theta):
    """The log-odds of its matches in its track, less those of θ, are not negative together.

    Where they are worth no more than that: wrong matches of these problems are independent.
    """
    if matches.weighted:
        with patch.object(probabilities, "_independence", return_value=0.0):
            label = np.array(universe(matches, theta=theta))
        A = dense(matches)
        surplus = (log_odds(A) - log_odds(theta)) * (A > 0) * (label[:, None] == label)
        assert surplus.sum(axis=1).min() > -1e-9


def test_larger_theta_gives_no_more_matches():
    """In sum: the search finds local optima, and one problem may have some more."""
    problems = [
        with_probabilities(synthetic.generate(k=10, d=10, rho=0.6, sigma=0.4, seed=seed), seed)
        for seed in range(10)
    ]
    counts = [
        sum(synchronise(matches, "clustersync", theta=theta).W.nnz for matches in problems)
        for theta in (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 2 * counts[-1]


@pytest.mark.parametrize("theta", [0.5, 0.9, 1.0])
def test_matches_less_likely_than_theta_leave_every_feature_alone(theta):
    matches = with_probabilities(synthetic.generate(k=6, d=8, rho=0.6, sigma=0.4, seed=0))
    low = PairwiseMatches(0.49 * matches.W, matches.sizes)
    assert universe(low, theta=theta) == list(range(len(low.image_of)))


@pytest.mark.parametrize("weight", [0.01, 0.1, 0.5, 0.999])
def test_equal_weights_are_as_good_as_none(weight):
    matches = noisy()
    scaled = PairwiseMatches(weight * matches.W, matches.sizes)
    expected = synchronise(matches, "clustersync")
    assert bits(synchronise(scaled, "clustersync")) == bits(expected)


def test_matches_are_left_out_with_both_of_their_entries():
    graph = read(matches_of([(0, 2, 0.2), (1, 3, 0.9), (2, 4, 0.8)], [2, 2, 2]))
    kept = matches_where(graph, graph.weight > 0.5)
    assert kept.feature.tolist() == [1, 2, 3, 4]
    assert kept.other.tolist() == [3, 4, 1, 2]
    assert kept.weight.tolist() == [0.9, 0.8, 0.9, 0.8]
    assert matches_where(graph, graph.weight > 1).first.tolist() == [0] * 7


@pytest.mark.parametrize(
    ("theta", "expected"), [(0.0, [0, 1, 0, 2]), (0.4, [0, 1, 0, 2]), (1.0, [0, 1, 2, 3])]
)
def test_next_to_nothing(theta, expected):
    """A certain and an impossible match; images without features; the largest and least θ."""
    matches = matches_of([(0, 2, 1.0), (1, 3, 1e-9)], [0, 2, 0, 2])
    assert universe(matches, theta=theta) == expected


def test_matches_that_agree_are_worth_more_where_wrong_ones_are_independent():
    """Matches that are right with their probabilities, and wrong ones at random; seeds 0 to 9."""
    errors = np.empty((10, 2))
    for seed in range(10):
        W, W_gt, sizes = synthetic.generate(k=20, d=20, rho=0.6, sigma=0.6, seed=seed)
        p, q = np.triu(W.toarray(), 1).nonzero()
        right = W_gt.toarray()[p, q] > 0
        score = np.random.default_rng(seed).normal(np.where(right, 1, -1), 1)
        odds = right.mean() / (1 - right.mean()) * np.exp(2 * score)
        P = np.clip(odds / (1 + odds), 0.001, 0.999)
        matches = PairwiseMatches.from_entries(p, q, sizes, P)
        more = synchronise(matches, "clustersync")
        with patch.object(probabilities, "_independence", return_value=0.0):
            no_more = synchronise(matches, "clustersync")
        errors[seed] = [evaluation.gt_error(result.W, W_gt) for result in (more, no_more)]
    assert errors[:, 0].mean() < 0.9 * errors[:, 1].mean()
