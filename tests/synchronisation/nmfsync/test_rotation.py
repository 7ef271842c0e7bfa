"""Successive block rotation."""

import numpy as np
import pytest

from nmfsync.synchronisation.nmfsync.factorisation import factorise
from nmfsync.synchronisation.nmfsync.rotation import flip_signs, successive_block_rotation
from nmfsync.synchronisation.numerics.components import independent_blocks
from nmfsync.synchronisation.numerics.rounding import assign_to_universe

pytestmark = pytest.mark.filterwarnings("ignore:universe size")


def test_the_rotation_finds_an_indicator_matrix():
    """X = UQᵀ for a random orthogonal Q: columns of U come back, in some order."""
    rng = np.random.default_rng(0)
    U = np.concatenate([np.eye(6), np.eye(6)[[5, 0, 2]], np.eye(6)[[1, 2, 3, 4]]])
    Q = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    R = successive_block_rotation(U @ Q.T, np.array([6, 3, 4]), np.zeros(13, dtype=int))
    np.testing.assert_allclose(R @ R.T, U @ U.T, atol=1e-12)
    np.testing.assert_allclose(np.sort(R, axis=1)[:, -1], 1)


def test_components_are_rotated_apart(many_components):
    """As if each were alone, with the threshold of all and the same rows opening columns."""
    _, sizes, component_of, X = many_components
    R = successive_block_rotation(X, sizes, component_of)
    for rows, columns in independent_blocks(component_of, X):
        inside = R[rows].any(axis=0)
        assert not np.delete(R, rows, axis=0)[:, inside].any()
        # A rotation of the component's own columns, where no direction is opened twice.
        if inside.sum() == len(columns):
            ours, given = R[np.ix_(rows, np.flatnonzero(inside))], X[np.ix_(rows, columns)]
            np.testing.assert_allclose(ours @ ours.T, given @ given.T, atol=1e-8)


@pytest.mark.parametrize("fitted", [False, True])
def test_the_rotation_does_not_hang_on_the_last_digits(many_components, fitted):
    W, sizes, component_of, X = many_components
    if fitted:
        X, _ = factorise(W, np.maximum(successive_block_rotation(X, sizes, component_of), 0))
    rng = np.random.default_rng(0)
    outcomes = []
    for error in (0.0, 1e-9, 1e-9, 1e-9):
        changed = X + error * rng.standard_normal(X.shape) * (X != 0)
        R = successive_block_rotation(changed, sizes, component_of)
        outcomes.append(R)
    for R in outcomes[1:]:
        np.testing.assert_allclose(R, outcomes[0], atol=1e-5)
        universe = [assign_to_universe(each, sizes, 0.4) for each in (R, outcomes[0])]
        np.testing.assert_array_equal(*universe)


def rotated(images, d, seed=0):
    """Let SBRA rotate rows given image by image, after turning them at random."""
    rows = np.concatenate(images)[:, :d]
    X = np.pad(rows, [(0, 0), (0, d - rows.shape[1])])
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    sizes = np.array([len(rows) for rows in images])
    return successive_block_rotation(X @ turn, sizes, np.zeros(len(X), dtype=int))


E = np.eye(6)
BETWEEN = E[2:3] + E[3:4]  # a column in this direction would join two universe features


@pytest.mark.parametrize(
    "images",
    [
        pytest.param([np.concatenate([E[:2], 1e-8 * BETWEEN]), E[2:3], E[3:4]], id="first image"),
        pytest.param([E[:2], 1e-8 * BETWEEN, E[2:3], E[3:4]], id="later image"),
        pytest.param([E[2:4], 1e-8 * (BETWEEN + E[:3]), E[:2]], id="most of an image"),
    ],
)
def test_rows_of_errors_open_no_column(images):
    """All others keep columns of their own."""
    R = rotated(images, 4)
    others = R[np.linalg.norm(R, axis=1) > 0.5]
    np.testing.assert_allclose(others @ others.T, np.eye(4), atol=1e-8)
    np.testing.assert_allclose(others.max(axis=1), 1, atol=1e-6)


def test_no_row_opens_a_second_column():
    """A row between three others is not explained, not even by a column of its own."""
    between = 0.45 * E[:3].sum(axis=0, keepdims=True)
    R = rotated([E[:3], between, E[:3], E[3:4], E[4:5]], 6)
    np.testing.assert_allclose(R[[-2, -1]].max(axis=1), 1, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_a_direction_opened_twice_leaves_the_others_alone(seed):
    R = rotated([np.concatenate([E[:1], 0.9 * E[:1]]), E[1:2], E[2:3]], 4, seed)
    assert R.argmax(axis=1).tolist() == [0, 0, 1, 2]


def test_directions_that_no_row_opens_are_kept_longest_first():
    small = np.diag([0.1, 0.4, 0.2])
    X = np.block([[np.eye(2), np.zeros((2, 3))], [np.ones((3, 1)), np.zeros((3, 1)), small]])
    R = rotated([X[:2], X[2:3], X[3:4], X[4:]], 5)
    np.testing.assert_allclose(R @ R.T, X @ X.T, atol=1e-8)
    assert (np.diff(np.linalg.norm(R[:, 2:], axis=0)) < 0).all()


def test_a_component_that_nothing_explains_keeps_its_directions():
    """Its only column is given up when its row turns out to be below the threshold."""
    X = np.diag([1.0, 1.0, 0.1, 1.0])
    R = successive_block_rotation(X, np.array([3, 1]), np.arange(4))
    np.testing.assert_allclose(R @ R.T, X @ X.T, atol=1e-12)


def test_column_sums_are_not_negative():
    R = rotated([E[:2, :2], *[-0.4 * E[:1, :2]] * 5], 2)
    assert (R.sum(axis=0) >= 0).all()


def test_balanced_columns_have_a_defined_sign():
    column = np.array([[0.0], [-1.0], [0.5], [0.5]])
    for error in (-1e-12, 0.0, 1e-12):
        assert flip_signs(column + error)[1, 0] == pytest.approx(1)
    assert flip_signs(np.array([[-1.0], [2.0]]))[0, 0] == -1
