"""Probabilities from cycles: by hand, and on problems with known truth."""

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import strategies
from nmfsync import PairwiseMatches, synchronise, synthetic
from nmfsync.synchronisation.calibration import (
    _count_triangles,
    calibrate_by_cycles,
    calibrate_scores,
)


def scored(matches, scores=None):
    """The same matches with scores as weights."""
    upper = sparse.triu(matches.W, 1).tocoo()
    result = PairwiseMatches.from_entries(upper.row, upper.col, matches.sizes, scores)
    result.scored = True
    return result


def problem(sigma=0.5, seed=0, k=20):
    W, W_gt, sizes = synthetic.generate(k=k, d=20, rho=0.6, sigma=sigma, seed=seed)
    matches = PairwiseMatches(W, sizes)
    upper = sparse.triu(matches.W, 1).tocoo()
    return matches, np.asarray(W_gt[upper.row, upper.col]).ravel() > 0


def weights(matches):
    return sparse.triu(matches.W, 1).tocoo().data


@given(strategies.pairwise_matches())
def test_triangles_are_counted_as_defined(matches):
    W = sparse.csr_array(matches.W, copy=True)
    W.setdiag(0)
    W.eliminate_zeros()
    A, image_of, k = W.toarray() > 0, matches.image_of, len(matches.sizes)
    closed, possible = _count_triangles(W, image_of, k)
    rows = np.repeat(np.arange(len(A)), np.diff(W.indptr))
    for entry, (p, q) in enumerate(zip(rows, W.indices, strict=True)):
        match_of_p = {image_of[r]: r for r in np.flatnonzero(A[p]) if r != q}
        match_of_q = {image_of[r]: r for r in np.flatnonzero(A[q]) if r != p}
        common = match_of_p.keys() & match_of_q.keys()
        assert possible[entry] == len(common)
        assert closed[entry] == sum(match_of_p[i] == match_of_q[i] for i in common)


@pytest.mark.parametrize("sigma", [0.3, 0.5, 0.6])
def test_the_mean_probability_is_near_the_share_of_right_matches(sigma):
    """Seeds 0 to 4; the share differs from problem to problem."""
    problems = [problem(sigma, seed) for seed in range(5)]
    found = [weights(calibrate_by_cycles(matches)).mean() for matches, _ in problems]
    true = [right.mean() for _, right in problems]
    assert abs(np.mean(found) - np.mean(true)) < 0.1


def test_right_matches_are_surer():
    matches, right = problem()
    found = weights(calibrate_by_cycles(matches))
    assert found[right].mean() > 0.8 > 0.5 > found[~right].mean()


def test_scores_become_probabilities_whatever_their_scale():
    """Any rising function of the scores gives the same."""
    matches, right = problem()
    rng = np.random.default_rng(0)
    score = np.clip(rng.normal(np.where(right, 0.7, 0.3), 0.15), 0.05, 1)
    found = calibrate_scores(scored(matches, score))
    squared = calibrate_scores(scored(matches, score**2))
    assert np.array_equal(found.W.data, squared.W.data)
    assert abs(weights(found).mean() - right.mean()) < 0.1
    sure = weights(found) > 0.8
    assert right[sure].mean() > 0.8 > right[~sure].mean()


def test_synchronising_takes_scores_for_what_they_are():
    """The same result for any rising function of the scores, and from saved matches."""
    matches, right = problem()
    rng = np.random.default_rng(1)
    score = np.clip(rng.normal(np.where(right, 0.7, 0.3), 0.15), 0.05, 1)
    results = [synchronise(scored(matches, s)).universe for s in (score, score**3)]
    assert np.array_equal(*results)


def test_a_file_keeps_that_weights_are_scores(tmp_path):
    matches, right = problem()
    with_scores = scored(matches, np.where(right, 0.9, 0.5))
    with_scores.save(tmp_path / "scored.npz")
    assert PairwiseMatches.load(tmp_path / "scored.npz").scored
    assert not calibrate_scores(with_scores).scored
    matches.save(tmp_path / "plain.npz")
    assert not PairwiseMatches.load(tmp_path / "plain.npz").scored


def test_equal_scores_say_nothing():
    matches, _ = problem()
    equal = scored(matches, np.full(len(weights(matches)), 0.4))
    assert calibrate_scores(equal) is equal
    assert np.array_equal(synchronise(equal).universe, synchronise(matches).universe)


@given(strategies.pairwise_matches(weighted=True))
def test_any_matches_get_probabilities(matches):
    for found in (calibrate_by_cycles(matches), calibrate_scores(matches)):
        assert (found.W.nnz, found.sizes.tolist()) == (matches.W.nnz, matches.sizes.tolist())
        assert ((found.W.data > 0) & (found.W.data <= 1)).all()
