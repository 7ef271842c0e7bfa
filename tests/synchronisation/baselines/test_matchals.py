"""MatchALS: parts of the problem, what is too large, and the ADMM as it is written down."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import strategies
from builders import same
from nmfsync import MultiMatching, PairwiseMatches, synchronise, synthetic
from nmfsync.errors import TooLargeError
from nmfsync.runtime.threads import BLOCK
from nmfsync.synchronisation.baselines.matchals import _independent_parts, _solve


def test_matchals_keeps_noise_free_matches():
    W, _, sizes = synthetic.generate(k=8, d=10, rho=0.6, sigma=0.0, seed=1)
    assert same(synchronise(PairwiseMatches(W, sizes), "matchals", 10).W, W)


@given(matches=strategies.pairwise_matches())
def test_matchals_parts_hold_together(matches):
    """Every matched feature is in exactly one part, and no match leads from part to part.

    The function is private, because results do not show which features were solved together.
    """
    parts = _independent_parts(matches.W)
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


def test_matchals_refuses_components_that_take_too_long():
    """Two tracks through 201 images: what is not connected does not count."""
    tracks = MultiMatching([0, 1] * 201, [2] * 201)
    matches = PairwiseMatches(tracks.W, tracks.sizes)
    assert same(synchronise(matches, "matchals", max_features=201).W, tracks.W)
    with pytest.raises(TooLargeError, match="201 features are connected, more than 200: it would"):
        synchronise(matches, "matchals", max_features=200)


def test_matchals_refuses_more_than_it_can_do_in_minutes():
    """A chain of 5,001 features, in as many images."""
    m = 5001
    chain = sparse.diags_array([np.ones(m - 1), np.ones(m - 1)], offsets=[1, -1], shape=(m, m))
    with pytest.raises(TooLargeError, match=r"^matchals is dense, and 5,001 features .* 5,000: "):
        synchronise(PairwiseMatches(chain.tocsr(), [1] * m), "matchals")


def test_matchals_refuses_what_does_not_fit(monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000))
    tracks = MultiMatching([0] * 201, [1] * 201)
    with pytest.raises(TooLargeError, match=r"^matchals needs about .* GB for 201 connected"):
        synchronise(PairwiseMatches(tracks.W, tracks.sizes), "matchals")


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
