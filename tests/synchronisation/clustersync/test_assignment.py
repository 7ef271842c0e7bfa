"""The assignment, against SciPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from clusterings import SEEDS
from nmfsync.synchronisation.clustersync.assignment import assign


@settings(max_examples=150)
@given(rows=st.integers(0, 7), columns=st.integers(0, 7), seed=SEEDS, ties=st.booleans())
def test_assignment_is_as_good_as_the_exact_one(rows, columns, seed, ties):
    """A row that stays alone has a column of its own, at gain 0."""
    rng = np.random.default_rng(seed)
    allowed = rng.random((rows, columns)) < rng.choice([0.2, 0.5, 1.0])
    gain = rng.integers(1, 4, allowed.shape) * 1.0 if ties else rng.uniform(0, 1, allowed.shape)
    r, c = np.nonzero(allowed)
    first = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))]).astype(np.int64)
    chosen = assign(first, c, gain[r, c], columns)

    assigned = np.flatnonzero(chosen >= 0)
    assert allowed[assigned, chosen[assigned]].all()
    assert len(set(chosen[assigned])) == len(assigned)
    alone = np.where(np.eye(rows, dtype=bool), 0, -np.inf)
    padded = np.hstack([np.where(allowed, gain, -np.inf), alone])
    best = padded[linear_sum_assignment(padded, maximize=True)].sum()
    assert gain[assigned, chosen[assigned]].sum() == pytest.approx(best, abs=1e-12)
