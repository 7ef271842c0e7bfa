"""MatchALS: parts of the problem, what is too large, and the ADMM as it is written down."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import strategies
from builders import same
from nmfsync import PairwiseMatches, synchronise, synthetic
from nmfsync.runtime.threads import BLOCK
from nmfsync.synchronisation.baselines.matchals import _independent_parts, _solve

module = import_module("nmfsync.synchronisation.baselines.matchals")


def test_matchals_keeps_noise_free_matches():
    W, _, sizes = synthetic.generate(k=8, d=10, rho=0.6, sigma=0.0, seed=1)
    assert same(synchronise(PairwiseMatches(W, sizes), "matchals", 10).W, W)


def chains(count: int, k: int) -> PairwiseMatches:
    """Make so many tracks through k images, each matched with the next image only."""
    features = np.arange(count * k).reshape(k, count)
    return PairwiseMatches.from_entries(features[:-1].ravel(), features[1:].ravel(), [count] * k)


@given(matches=strategies.pairwise_matches())
def test_matchals_parts_hold_together(matches):
    """Every matched feature is in exactly one part, and no match leads from part to part.

    The function is private, because results do not show which features were solved together.
    """
    parts = [part.rows for equal in _independent_parts(matches) for part in equal]
    matched = np.flatnonzero(np.diff(matches.W.indptr) > 1)
    assert sorted(np.concatenate([[], *parts])) == matched.tolist()
    part_of = np.full(matches.W.shape[0], -1)
    for number, rows in enumerate(parts):
        part_of[rows] = number
    p, q = matches.W.tocoo().coords
    assert (part_of[p] == part_of[q]).all()


def test_matchals_solves_independent_problems_as_if_alone():
    """Two problems of 300 features side by side in the same images."""
    W, _, sizes = synthetic.generate(k=25, d=20, rho=0.6, sigma=0.5, seed=4)
    alone = synchronise(PairwiseMatches(W, sizes), "matchals")
    order = np.argsort(np.tile(np.repeat(np.arange(25), sizes), 2), kind="stable")
    both = sparse.block_diag([W, W]).tocsr()[order][:, order]
    result = synchronise(PairwiseMatches(both, 2 * sizes), "matchals")
    expected = sparse.block_diag([alone.W, alone.W]).tocsr()[order][:, order]
    assert same(result.W, expected)


def test_matchals_solves_equal_problems_once(monkeypatch):
    """Chains through 100 images: as many as there are take as long as one of them."""
    solved = []

    def recorded(part, *arguments):
        solved.append(part)
        return _solve(part, *arguments)

    monkeypatch.setattr(module, "_solve", recorded)
    result = synchronise(chains(30, 100), "matchals", max_iterations=5)
    alone = synchronise(chains(2, 100), "matchals", max_iterations=5)
    assert [part.W.shape[0] for part in solved] == [200, 200]
    assert result.W.nnz == 15 * alone.W.nnz


def plain_matchals(W, sizes, rank, iterations):
    """The ADMM as it is written down, every array dense and in double precision."""
    m = len(W)
    image = np.repeat(np.arange(len(sizes)), sizes)
    inside = image[:, None] == image
    reward = W - np.eye(m)
    X, Z, Y, mu = reward, reward, np.zeros((m, m)), 64.0
    A = np.random.default_rng(0).random((m, rank), dtype=np.float32).astype(float)
    for _ in range(iterations):
        target = Z - (Y - reward + 0.1) / mu
        ridge = 50 / mu * np.eye(rank)
        B = target.T @ A @ np.linalg.inv(A.T @ A + ridge)
        A = target @ B @ np.linalg.inv(B.T @ B + ridge)
        before, X = X, A @ B.T
        Z = np.where(inside, np.eye(m), np.clip(X + Y / mu, 0, 1))
        Y = Y + mu * (X - Z)
        primal, dual = np.linalg.norm(X - Z), mu * np.linalg.norm(X - before)
        mu *= 2 if primal > 10 * dual else 0.5 if dual > 10 * primal else 1
    return (X + X.T) / 2


@pytest.mark.parametrize("iterations", [1, 2, 10])
def test_matchals_computes_what_is_written_down(iterations):
    """With more features than a thread takes at once, and images of different sizes.

    The solver is private: the method itself returns its numbers only after rounding.
    """
    W, _, sizes = synthetic.generate(k=15, d=60, rho=0.7, sigma=0.5, seed=0)
    assert BLOCK < W.shape[0] < 2 * BLOCK
    X = _solve(PairwiseMatches(W, sizes), 100, 0, iterations, 0.0)
    np.testing.assert_allclose(X, plain_matchals(W.toarray(), sizes, 100, iterations), atol=1e-3)
