"""Clustering in parts: the same bits for components that fit, and little lost where one is cut."""

from itertools import starmap

import numpy as np
import pytest
from scipy import sparse

from in_parts import problem_of
from nmfsync import PairwiseMatches, synchronise, synthetic
from nmfsync.synchronisation.clustersync.exchange import exchange_in_order
from nmfsync.synchronisation.clustersync.parts import cluster_in_parts, parts_of

THETA = 0.4


def ring(sigma, k=60, d=900, views=6):
    """Matches whose weights are probabilities, higher for right ones, and the right ones."""
    W, W_gt, sizes = synthetic.ring(k, d, views, 0.7, sigma)
    above, rng = sparse.triu(W, 1, format="coo"), np.random.default_rng(0)
    right = np.asarray(W_gt.tocsr()[above.row, above.col]).ravel() > 0
    weight = np.where(right, rng.beta(5, 2, len(right)), rng.beta(2, 5, len(right)))
    weight = np.clip(weight, 0.01, 0.99)
    return PairwiseMatches.from_entries(above.row, above.col, sizes, weight), W_gt


def clustered(matches, most):
    return cluster_in_parts(problem_of(matches), THETA, 3, most, starmap)[0]


def undivided(matches):
    universe = synchronise(matches, theta=THETA).universe
    return np.unique(universe, return_index=True)[1][universe]


@pytest.mark.parametrize("most", [10**6, 700, 100])
def test_components_that_fit_get_the_same_bits(most):
    matches, _ = ring(0.01)
    problem = problem_of(matches)
    assert np.bincount(problem.component).max() < 700
    parts = list(parts_of(problem, most))
    assert len(parts) == 1 if most == 10**6 else len(parts) > 3
    if most > 100:
        assert np.array_equal(clustered(matches, most), undivided(matches))


def test_a_component_that_is_cut_loses_little():
    """Against as many parts that never exchange anything, which is the control."""
    matches, W_gt = ring(0.3, k=120, d=1800)
    most = 2500
    problem = problem_of(matches)
    assert np.bincount(problem.component).max() > 2 * most
    whole = undivided(matches)
    cut, inside = cluster_in_parts(problem, THETA, 3, most, starmap)
    assert 0.9 < inside / matches.match_count < 0.98
    separate = np.arange(len(cut))
    for features in parts_of(problem, most):
        part = matches.W[features][:, features]
        sizes = np.bincount(matches.image_of[features], minlength=len(matches.sizes))
        found = synchronise(PairwiseMatches(part, sizes), theta=THETA).universe
        separate[features] = features[np.unique(found, return_index=True)[1][found]]
    f_score = {}
    for name, label in (("whole", whole), ("cut", cut), ("separate", separate)):
        U = sparse.csr_array((np.ones(len(label)), (np.arange(len(label)), label)))
        found = (U @ U.T).tocsr()
        m, right = len(label), found.multiply(W_gt).sum()
        f_score[name] = 2 * (right - m) / (found.nnz + W_gt.nnz - 2 * m)
    assert f_score["cut"] > f_score["whole"] - 0.004
    assert f_score["separate"] < f_score["whole"] - 0.02


def test_no_cluster_is_in_two_parts():
    matches, _ = ring(0.3)
    problem, label = problem_of(matches), clustered(matches, 300)
    parts = list(parts_of(problem, 300, label))
    assert len(parts) > 3
    features = np.concatenate(parts)
    assert len(np.unique(features)) == len(features)
    part = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    assert len(np.unique(np.stack([label[features], part]), axis=1).T) == len(
        np.unique(label[features])
    )
    assert all(len(p) < 600 for p in parts)


def test_order_and_number_of_workers_change_nothing():
    """What solves the parts may begin all before it hands out any."""
    matches, _ = ring(0.3)

    def all_at_once(function, tasks):
        return iter([function(*task) for task in reversed(list(tasks))][::-1])

    found, _ = cluster_in_parts(problem_of(matches), THETA, 3, 300, all_at_once)
    assert np.array_equal(found, clustered(matches, 300))


def test_read_only_arrays_need_no_other_kernels():
    """As they come from other processes."""
    matches, _ = ring(0.3)

    def locked(x):
        if isinstance(x, np.ndarray):
            x = x.copy()
            x.flags.writeable = False
        elif isinstance(x, tuple):
            kind = type(x)
            parts = map(locked, x)
            x = kind(*parts) if hasattr(x, "_fields") else kind(parts)
        return x

    expected = clustered(matches, 300)
    before = len(exchange_in_order.signatures)
    found, _ = cluster_in_parts(
        problem_of(matches), THETA, 3, 300, lambda f, tasks: starmap(f, map(locked, tasks))
    )
    assert np.array_equal(found, expected)
    assert len(exchange_in_order.signatures) == before


def test_nothing_to_cluster():
    matches = PairwiseMatches.from_entries([], [], [2, 0, 1])
    assert clustered(matches, 5).tolist() == [0, 1, 2]
