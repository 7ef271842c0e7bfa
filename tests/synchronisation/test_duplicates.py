"""Near-duplicates: which features count as one, and that no match of theirs is lost."""

import sqlite3
from contextlib import closing
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from builders import in_other_order, links, matches_of
from colmap_scenes import EXTRA, POINTS, write_database
from nmfsync import (
    MultiMatching,
    NmfsyncError,
    PairwiseMatches,
    calibrate_by_cycles,
    synchronise,
    synchronise_file,
    verify,
)
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.tracks import compare, track_counts
from nmfsync.exchange.blocks import choose
from nmfsync.synchronisation.duplicates import RADIUS, mark_duplicates
from strategies import pairwise_matches


def positions(matches, rng, spread=6.0):
    """Place all features of an image within a few pixels, some at one place."""
    return [rng.integers(0, 4, (n, 2)) * (spread / 3) for n in matches.sizes]


def groups(stands) -> set[frozenset]:
    return {frozenset(np.flatnonzero(stands == s).tolist()) for s in set(stands.tolist())}


def widest(of, image_of, xy) -> float:
    """The largest distance of two features that have one number and are in one image."""
    pairs = [
        np.linalg.norm(xy[a] - xy[b])
        for a, b in combinations(range(len(of)), 2)
        if of[a] == of[b] and image_of[a] == image_of[b]
    ]
    return max(pairs, default=0.0)


marked = st.tuples(pairwise_matches(weighted=False), st.integers(0, 99))


@settings(max_examples=40)
@given(marked)
def test_no_group_is_wider_than_the_radius(case):
    matches, seed = case
    xy = positions(matches, np.random.default_rng(seed))
    stands = mark_duplicates(matches, xy).duplicate_of
    assert (stands[stands] == stands).all()
    assert (matches.image_of[stands] == matches.image_of).all()
    assert widest(stands, matches.image_of, np.concatenate(xy)) <= RADIUS


@pytest.mark.filterwarnings("ignore:.*see an image twice:nmfsync.errors.NmfsyncWarning")
@settings(max_examples=60)
@given(marked, st.sampled_from(["clustersync", "unionfind", "matcheig", "quickmatch"]))
def test_synchronising_keeps_the_matches_of_all_that_a_feature_stands_for(case, method):
    matches, seed = case
    xy = positions(matches, np.random.default_rng(seed))
    matches = mark_duplicates(matches, xy)
    stands = matches.duplicate_of
    result = synchronise(matches, method)
    found = links(result)
    expected = {(p, q) for p, q in links(matches) if tuple(sorted(stands[[p, q]])) in found}
    if method != "quickmatch":
        assert all((stands[[p, q]] == (p, q)).all() for p, q in found)
    written = choose(result, "none")
    assert links(written) == expected == links(choose(written, "all"))
    # With all that was added, no two matches of one feature in an image: that would be an error.
    everything = links(choose(result, "all"))
    assert everything >= expected
    assert {tuple(sorted(stands[list(pair)])) for pair in everything} == found
    if isinstance(result, MultiMatching):
        _, track = connected_components(written.W, directed=False)
        assert widest(track, matches.image_of, np.concatenate(xy)) <= RADIUS
        change = compare(matches, result)
        assert change.kept == len(expected)
        assert change.added == len(found - {tuple(sorted(stands[list(p)])) for p in expected})
        assert track_counts(written).lost == 0


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["images", "features"]))
def test_the_groups_are_the_points_of_the_scene_in_any_order(seed, what):
    """Points have up to three features in an image, and matches go crosswise between them."""
    rng = np.random.default_rng(seed)
    k, points = 4, 3
    point = [np.repeat(np.arange(points), rng.integers(1, 4, points)) for _ in range(k)]
    sizes = [len(of) for of in point]
    xy = [np.stack([20.0 * of, 0 * of], 1) + rng.uniform(-1, 1, (len(of), 2)) for of in point]
    first = np.cumsum([0, *sizes])
    edges = []
    for i, j in combinations(range(k), 2):
        for c in range(points):
            a, b = (rng.permutation(np.flatnonzero(point[n] == c)) for n in (i, j))
            edges += [(first[i] + p, first[j] + q) for p, q in zip(a, b, strict=False)]
    matches = matches_of(edges, sizes)
    stands = mark_duplicates(matches, xy).duplicate_of
    matched = np.unique(edges)
    image_of, point = matches.image_of, np.concatenate(point)
    for p, q in combinations(matched.tolist(), 2):
        near = image_of[p] == image_of[q] and point[p] == point[q]
        assert (stands[p] == stands[q]) == near
    other, order = in_other_order(matches, rng, what)
    flat, ends = np.concatenate(xy)[order], np.cumsum(other.sizes)[:-1]
    again = mark_duplicates(other, np.split(flat, ends)).duplicate_of
    assert {frozenset(order[list(group)].tolist()) for group in groups(again)} == groups(stands)


HERE, BESIDE, APART = (5.0, 5.0), (7.0, 5.0), (50.0, 5.0)


@pytest.mark.parametrize(
    ("second", "images", "same"),
    [(BESIDE, 2, True), (APART, 2, False), (BESIDE, 3, True), (APART, 3, False)],
)
def test_neighbours_have_to_be_near_each_other_too(second, images, same):
    """Two features 2 pixels apart in the first image, with their own matches in the others."""
    edges = [(a, b) for c in (0, 1) for a, b in combinations(range(c, 2 * images, 2), 2)]
    xy = [np.array([HERE, BESIDE])] * (images - 1) + [np.array([HERE, second])]
    stands = mark_duplicates(matches_of(edges, [2] * images), xy).duplicate_of
    assert (stands[1] == 0) == same


def test_what_is_near_in_one_image_only_stays_two():
    """The images that see both are one; and features without matches are nobody's duplicate."""
    matches = matches_of([(0, 3), (1, 4)], [3, 1, 1])
    xy = [np.array([HERE, BESIDE, HERE]), np.array([HERE]), np.array([HERE])]
    assert mark_duplicates(matches, xy).duplicate_count == 0


def test_positions_of_other_features_are_refused():
    with pytest.raises(NmfsyncError, match="positions of 3 features in image 1, but matches of 2"):
        mark_duplicates(matches_of([(0, 2)], [2, 2]), [np.zeros((2, 2)), np.zeros((3, 2))])


def test_positions_that_say_nothing():
    n = 1000
    matches = matches_of([(p, n + p) for p in range(n)], [n, n])
    for place in (0.0, np.nan, np.inf):
        xy = [np.full((n, 2), place, np.float32)] * 2
        assert mark_duplicates(matches, xy).duplicate_count == 0


def test_a_group_matches_as_surely_as_one_of_its_features():
    """Feature 1 counts as 0; together they have two matches in the second image."""
    matches = PairwiseMatches.from_entries([0, 1, 1], [2, 3, 4], [2, 2, 1], [0.5, 0.7, 0.6])
    matches.duplicate_of = np.array([0, 0, 2, 3, 4])
    contracted = matches.contracted()
    assert links(contracted) == {(0, 3), (0, 4)}
    assert contracted.W[0, 3] == 0.7
    assert contracted.duplicate_of is None
    assert contracted.contracted() is contracted


def test_files_and_other_matches_of_the_same_features_keep_the_marks(tmp_path):
    xy = [np.zeros((n, 2), np.float32) for n in (2, 1, 1)]
    matches = mark_duplicates(matches_of([(0, 2), (1, 3), (2, 3)], [2, 1, 1]), xy)
    with pytest.warns(match="no pair of images passed"):
        verified = verify(matches, xy, progress=False)
    assert verified.verified
    result = synchronise(matches)
    result.save(tmp_path / "tracks.npz")
    for others in (matches.unweighted(), matches.at_least(0.5), matches.with_matrix(matches.W),
                   matches.without_image_pairs([(0, 1)]), verified, calibrate_by_cycles(matches),
                   result, PairwiseMatches.load(tmp_path / "tracks.npz")):  # fmt: skip
        assert others.duplicate_of.tolist() == [0, 0, 2, 3]
    matches.verified = True
    matches.save(tmp_path / "matches.npz")
    again = PairwiseMatches.load(tmp_path / "matches.npz")
    assert again.verified
    assert again.duplicate_of.tolist() == [0, 0, 2, 3]


@pytest.mark.parametrize(
    "stands", [[0, 0, 2], [1, 0, 2, 3], [0, 0, 2, 9], [0, 0, 2, -1], [0, 1, 1, 3]]
)
def test_marks_that_make_no_sense_are_refused(stands):
    arrays = matches_of([(0, 2)], [2, 2]).arrays() | {"duplicate_of": np.array(stands)}
    with pytest.raises(NmfsyncError, match="duplicate_of must be 4 features"):
        PairwiseMatches.from_arrays(arrays)


@settings(max_examples=40)
@given(pairwise_matches(weighted=False))
def test_verified_matches_stay_where_nothing_contradicts_them(matches):
    matches.verified = True
    kept = links(synchronise(matches).kept_of(matches))
    _, component = connected_components(matches.W, directed=False)
    place = component * len(matches.sizes) + matches.image_of
    contradicted = set(component[np.bincount(place)[place] > 1].tolist())
    assert {(p, q) for p, q in links(matches) if component[p] not in contradicted} <= kept


def test_matches_of_near_duplicates_are_evidence_for_their_stand_ins():
    """The second feature of the first image has the only match with the third image."""
    matches = matches_of([(0, 2), (1, 3), (2, 3)], [2, 1, 1])
    matches.duplicate_of = np.array([0, 0, 2, 3])
    matches = matches.with_matrix(0.8 * matches.W + 0.2 * sparse.eye_array(4))
    confidence = estimate_confidence(synchronise(matches), matches)
    assert list(zip(confidence.p, confidence.q, strict=True)) == [(0, 2), (0, 3), (2, 3)]
    assert (confidence.probability > 0.9).all()


@pytest.fixture
def database(tmp_path):
    """The first two features of every view are near-duplicates, matched crosswise."""
    pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    path = tmp_path / "photographs.db"
    write_database(path, names=("a.jpg", "b.jpg", "c.jpg"), wrong=0.2)
    with closing(sqlite3.connect(path)) as file, file:
        for image, blob in file.execute("SELECT image_id, data FROM keypoints").fetchall():
            keypoints = np.frombuffer(blob, "<f4").reshape(POINTS + EXTRA, -1).copy()
            keypoints[1, :2] = keypoints[0, :2] + np.float32([1, 0])
            file.execute(
                "UPDATE keypoints SET data = ? WHERE image_id = ?", (keypoints.tobytes(), image)
            )
        first = np.array([[0, 1], [1, 0]])
        for pair, blob in file.execute("SELECT pair_id, data FROM matches").fetchall():
            rows = np.frombuffer(blob, "<u4").reshape(-1, 2)
            rows = np.vstack([first, rows[(rows > 1).all(axis=1)]]).astype("<u4")
            file.execute(
                "UPDATE matches SET data = ?, rows = ? WHERE pair_id = ?",
                (rows.tobytes(), len(rows), pair),
            )
            first = first[::-1]
    return path


def test_one_answer_through_every_door(database, tmp_path):
    matches = PairwiseMatches.from_colmap(database)
    assert matches.duplicate_of[[0, 1]].tolist() == [0, 0]
    result = synchronise(matches)
    done = synchronise_file(database, tmp_path / "out.db")
    matches.save(tmp_path / "matches.npz")
    synchronise_file(tmp_path / "matches.npz", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as stored:
        for name, array in result.arrays().items():
            assert np.array_equal(stored[name], array)
            assert np.array_equal(done.result.arrays()[name], array)
    written = PairwiseMatches.from_colmap(tmp_path / "out.db", verified=False)
    assert {(0, POINTS + EXTRA + 1), (1, POINTS + EXTRA)} <= links(written)
    text = f"{result.duplicate_count} features are near-duplicates"
    assert text in " ".join(done.remarks)
    assert text in done.report.read_text()
    assert done.change.tracks[1].lost == 0
