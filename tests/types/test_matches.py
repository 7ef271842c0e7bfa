"""The types refuse what they do not promise, and keep what they hold."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import strategies
from builders import matches_of
from nmfsync import MultiMatching, NmfsyncError, PairwiseMatches
from nmfsync.types import matches as matches_module
from nmfsync.types.matches import matches_from_arrays


def matrix(m, *ones):
    """Symmetric, with unit diagonal and ones at the given places."""
    W = np.eye(m)
    for p, q in ones:
        W[p, q] = W[q, p] = 1
    return W


def test_diagonal_is_filled_in_and_zeros_are_dropped():
    W = sparse.csr_array(([1.0, 1.0, 0.0], ([0, 2, 1], [2, 0, 2])), shape=(4, 4))
    matches = PairwiseMatches(W, [2, 2])
    assert matches.W.toarray().tolist() == matrix(4, (0, 2)).tolist()
    assert matches.W.nnz == 6
    assert matches.image_of.tolist() == [0, 0, 1, 1]
    assert matches.offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("W", "sizes", "message"),
    [
        (np.ones((2, 3)), [1, 1], "must be square, not 2 × 3"),
        (np.eye(4), [1, 2], "W is 4 × 4, but the sizes add up to 3"),
        (np.eye(2), [], "sizes must be a list"),
        (np.eye(2), [3, -1], "must not be negative: image 1 has -1"),
        (np.eye(2), [0.5, 1.5], "sizes must be whole numbers"),
        (np.diag([1, np.nan]), [1, 1], "NaN or infinite"),
        (matrix(2, (0, 1)) * 2, [1, 1], "between 0 and 1"),
        (-matrix(2, (0, 1)), [1, 1], "between 0 and 1"),
        (matrix(3, (0, 1)), [2, 1], "features 0 and 1 match, but both are in image 0"),
        (np.triu(matrix(3, (0, 2))), [2, 1], "not symmetric at features 0 and 2"),
        (matrix(3, (0, 1), (0, 2)), [1, 2], "feature 0 has two matches in image 1"),
    ],
)
def test_a_faulty_w_is_named(W, sizes, message):
    with pytest.raises(NmfsyncError, match=message):
        PairwiseMatches(W, sizes)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 2), (4, 5)], "features 4 and 5 match, but both are in image 2"),
        ([(0, 2), (4, 6), (4, 7)], "feature 4 has two matches in image 3"),
    ],
)
def test_faults_of_every_block_are_named(edges, message, monkeypatch):
    monkeypatch.setattr(matches_module, "FEATURES_AT_A_TIME", 3)
    with pytest.raises(NmfsyncError, match=message):
        PairwiseMatches(matrix(8, *edges), [2, 2, 2, 2])


def test_a_large_w_is_made_in_little_memory():
    """At most 70 bytes for an entry of W, which takes 12, whatever the checks look at."""
    k, features = 1000, 100
    p = np.concatenate([np.arange((k - step) * features) for step in (1, 2, 3)])
    q = np.concatenate([np.arange(step * features, k * features) for step in (1, 2, 3)])
    tracemalloc.start()
    try:
        matches = PairwiseMatches.from_entries(p, q, np.full(k, features))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert matches.W.indices.dtype == np.int32
    assert peak < 70 * matches.W.nnz


def test_the_callers_matrix_is_not_changed():
    W = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    PairwiseMatches(W, [1, 1])
    assert W.toarray().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("edges", "weighted"),
    [
        ([], False),
        ([(0, 1)], False),
        ([(0, 1, 0.3)], False),
        ([(0, 1, 0.3), (1, 2, 0.3)], False),
        ([(0, 1, 0.3), (1, 2, 0.4)], True),
        ([(0, 1, 0.3), (1, 2)], True),
    ],
)
def test_weights_that_all_agree_tell_nothing(edges, weighted):
    assert matches_of(edges, [1, 1, 1]).weighted == weighted


@given(strategies.pairwise_matches(weighted=True))
def test_unweighted_matches_are_the_same_with_weight_one(matches):
    before = matches.W.copy()
    plain = matches.unweighted()
    assert plain.W.data.tolist() == [1.0] * matches.W.nnz
    assert plain.W.indices.tolist() == before.indices.tolist()
    assert plain.W.indptr.tolist() == before.indptr.tolist()
    assert plain.sizes.tolist() == matches.sizes.tolist()
    assert plain.descriptors is matches.descriptors
    assert (before != matches.W).nnz == 0  # its own weights stay


def test_universe_features_are_numbered_by_first_appearance():
    matching = MultiMatching([7, 3, 3, 9], [2, 2])
    assert matching.universe.tolist() == [0, 1, 1, 2]
    assert matching.universe_size == 3
    assert matching.W.toarray().tolist() == matrix(4, (1, 2)).tolist()


def test_tracks_are_what_two_or_more_images_see():
    """Images with 2, 1 and 2 features; universe feature 1 in all three, 2 in one only."""
    matching = MultiMatching([0, 1, 1, 2, 1], [2, 1, 2])
    assert [track.tolist() for track in matching.tracks()] == [[[0, 1], [1, 0], [2, 1]]]
    assert MultiMatching([], [0, 0]).tracks() == []


def test_two_features_of_an_image_cannot_share_a_universe_feature():
    with pytest.raises(NmfsyncError, match="features 2 and 3 of image 1 share"):
        MultiMatching([0, 1, 5, 5], [2, 2])
    with pytest.raises(NmfsyncError, match=r"shape \(3,\), but the sizes add up to 4"):
        MultiMatching([0, 1, 2], [2, 2])


@given(strategies.pairwise_matches(weighted=True))
def test_pairwise_matches_survive_their_arrays(matches):
    again = matches_from_arrays(matches.arrays())
    assert (again.W != matches.W).nnz == 0
    assert again.sizes.tolist() == matches.sizes.tolist()


@given(strategies.multi_matchings())
def test_multi_matchings_survive_their_arrays(matching):
    again = matches_from_arrays(matching.arrays())
    assert again.universe.tolist() == matching.universe.tolist()
    as_pairs = PairwiseMatches.from_arrays(matching.arrays())
    assert (as_pairs.W != matching.W).nnz == 0


def test_files_come_back_and_bad_ones_are_named(tmp_path):
    matches = PairwiseMatches(matrix(3, (0, 2)), [2, 1])
    matches.save(tmp_path / "matches.npz")
    again = PairwiseMatches.load(tmp_path / "matches.npz")
    assert (again.W != matches.W).nnz == 0
    (tmp_path / "text.npz").write_text("not a matches file")
    np.savez(tmp_path / "other.npz", data=[1.0])
    np.savez(tmp_path / "torn.npz", data=[1.0], indices=[5], indptr=[0, 1], sizes=[1])
    whole = (tmp_path / "matches.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    for name, message in {
        "absent.npz": "no such file",
        "text.npz": "not a matches file",
        "cut.npz": "not a matches file",
        "other.npz": "array 'indices.*' is missing",
        "torn.npz": "not a CSR matrix",
    }.items():
        with pytest.raises(NmfsyncError, match=f"{name}: .*{message}"):
            PairwiseMatches.load(tmp_path / name)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "matches.npz"
    PairwiseMatches(np.eye(2), [1, 1]).save(path)
    before = path.read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="No space left"):
        PairwiseMatches(np.eye(3), [1, 2]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@given(strategies.pairwise_matches(weighted=True))
def test_matches_by_pair_of_images_give_the_same_matrix(matches):
    pairs = list(matches.by_image_pair())
    sizes = matches.sizes.tolist()
    rows = {(p.i, p.j): p.rows for p in pairs}
    weights = {(p.i, p.j): p.weights for p in pairs}
    other_way = {(j, i): r[:, ::-1] for (i, j), r in rows.items()}
    one_sided, scores = {}, {}
    for p in pairs:
        one_sided[p.i, p.j] = np.full(sizes[p.i], -1)
        scores[p.i, p.j] = np.zeros(sizes[p.i])
        one_sided[p.i, p.j][p.rows[:, 0]] = p.rows[:, 1]
        scores[p.i, p.j][p.rows[:, 0]] = p.weights
    for given_rows, given_weights in (
        (rows, weights),
        (other_way, {(j, i): w for (i, j), w in weights.items()}),
        (one_sided, scores),
    ):
        same = PairwiseMatches.from_pairs(given_rows, sizes, given_weights)
        assert (same.W != matches.W).nnz == 0
    unweighted = PairwiseMatches.from_pairs(rows, sizes)
    assert (unweighted.W != matches.unweighted().W).nnz == 0


@pytest.mark.parametrize(
    ("pairs", "weights", "message"),
    [
        ({0: []}, None, r"a pair must be two images \(i, j\), got 0"),
        ({(0, 2): []}, None, r"two different images from 0 to 1, got \(0, 2\)"),
        ({(1, 1): []}, None, "two different images"),
        ({(0, 0.5): []}, None, "two different images"),
        ({(0, 1): [[0, 0]], (1, 0): [[0, 0]]}, None, "images 1 and 0: given twice"),
        ({(0, 1): [[0, 0], [0, 1]]}, None, "images 0 and 1: feature 0 of the first image matches"),
        ({(0, 1): [1, 1]}, None, "images 0 and 1: feature 1 of the second image matches twice"),
        ({(0, 1): [[2, 0]]}, None, "first image has the features 0 to 1, got 2"),
        ({(0, 1): [-1, -2]}, None, "second image has the features 0 to 2, got -2"),
        ({(0, 1): [1, 2, 0]}, None, r"\(n, 2\), or \(2,\) with -1 for none, not \(3,\)"),
        ({(0, 1): [[0.5, 1]]}, None, "images 0 and 1: matches must be whole numbers"),
        ({(0, 1): [[0], [1, 2]]}, None, "images 0 and 1: the rows .* different lengths"),
        ({(0, 1): "ab"}, None, "images 0 and 1: matches must be an array"),
        ({(0, 1): [[0, 0]]}, {}, "images 0 and 1: weights are missing"),
        ({(0, 1): [[0, 0]]}, {(0, 1): [0.5, 1]}, "images 0 and 1: there must be 1 weights, got 2"),
        ({(0, 1): [[0, 0]]}, {(0, 1): [0]}, "images 0 and 1: weights must be larger than 0"),
        ({(0, 1): [[0, 0]]}, {(0, 1): [1], (1, 0): [1]}, "weights of a pair without matches"),
    ],
)
def test_pairs_that_cannot_be_used_are_named(pairs, weights, message):
    with pytest.raises(NmfsyncError, match=message):
        PairwiseMatches.from_pairs(pairs, [2, 3], weights)


def test_no_pairs_are_no_matches():
    assert PairwiseMatches.from_pairs({}, [2, 3]).match_count == 0
    assert PairwiseMatches.from_pairs({(0, 1): []}, [2, 3]).match_count == 0


def test_without_image_pairs():
    matches = PairwiseMatches.from_entries(
        [0, 1, 0], [2, 2, 1], sizes=[1, 1, 1], weights=[0.5, 1, 1]
    )
    rest = matches.without_image_pairs({(0, 2)})
    assert [(pair.i, pair.j) for pair in rest.by_image_pair()] == [(0, 1), (1, 2)]
    assert rest.match_count == 2
    assert matches.without_image_pairs([]).match_count == 3
