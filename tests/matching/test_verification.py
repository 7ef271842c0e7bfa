"""Geometric verification: what is kept of two views of points, of planes, and of chance."""

from itertools import combinations, pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import bits, links, make_features, matches_of
from equal_houses import houses
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.matching import verification
from nmfsync.matching.match import match
from nmfsync.matching.options import GEOMETRIES
from nmfsync.matching.verification import verify, verify_pair
from nmfsync.runtime.engine import engine
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.matches import PairwiseMatches, Source

SIZE = np.array([768, 512])
K = np.array([[700.0, 0, 383.5], [0, 700, 255.5], [0, 0, 1]])


def positions(xy):
    return np.asarray(xy, np.float32).reshape(len(xy), 2)


def cross(t):
    return np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])


def two_views(rng, right, wrong, noise=0.3):
    """Positions (n, 2) in two views, the first `right` of them of one point in space; F."""
    R, t = cv2.Rodrigues(np.array([0.02, -0.25, 0.05]))[0], np.array([1.0, 0.1, 0.2])
    points = rng.uniform([-1.5, -1, 3], [1.5, 1, 6], (right, 3))
    views = []
    for local in (points, points @ R.T + t):
        seen = local @ K.T
        seen = seen[:, :2] / seen[:, 2:] + rng.normal(0, noise, (right, 2))
        views.append(np.concatenate([seen, rng.uniform(0, SIZE, (wrong, 2))]).astype(np.float32))
    F = np.linalg.inv(K).T @ cross(t) @ R @ np.linalg.inv(K)
    return *views, F


def homogeneous(xy):
    return np.column_stack([xy, np.ones(len(xy))])


def distance_to_true_line(F, xy1, xy2):
    """Pixels from the second position to the true epipolar line of the first."""
    lines = homogeneous(xy1) @ F.T
    return np.abs((lines * homogeneous(xy2)).sum(axis=1)) / np.hypot(lines[:, 0], lines[:, 1])


def plane(rng, right, wrong, noise=0.3):
    """Positions in two views of a plane, the first `right` of them of one point of it; H."""
    H = np.array([[0.9, 0.1, 30], [-0.15, 1.05, 60], [1e-4, -5e-5, 1]])
    xy1 = rng.uniform(0, SIZE, (right + wrong, 2))
    xy2 = moved(H, xy1) + rng.normal(0, noise, xy1.shape)
    xy2[right:] = rng.uniform(0, SIZE, (wrong, 2))
    return xy1.astype(np.float32), xy2.astype(np.float32), H


def moved(H, xy):
    points = homogeneous(xy) @ H.T
    return points[:, :2] / points[:, 2:]


def weighted(pairs, sizes, rng):
    """Make matches of random weights."""
    return matches_of([(p, q, rng.uniform(0.01, 1)) for p, q in pairs], sizes)


def problem(rng, k=4, right=40, wrong=30, pairs=None):
    """Matches of k images, in random order in each image, and which pair keeps how many.

    Every pair of images has positions of its own, so that what is right is known: pairs in
    `pairs` (None: all) show points in space, the others nothing in common.
    """
    xy, entries, truth = [[] for _ in range(k)], [], {}
    count = [0] * k
    for i, j in combinations(range(k), 2):
        there = pairs is None or (i, j) in pairs
        a, b, _ = two_views(rng, right if there else 0, wrong if there else right + wrong)
        for n in range(len(a)):
            entries.append((i, count[i] + n, j, count[j] + n))
            truth[entries[-1]] = there and n < right
        for image, seen in ((i, a), (j, b)):
            xy[image].append(seen)
            count[image] += len(seen)
    order = [rng.permutation(n) for n in count]
    place = [np.argsort(o) for o in order]
    collection = [positions(np.concatenate(p)[o]) for p, o in zip(xy, order, strict=True)]
    start = np.cumsum([0, *count])
    numbered = {
        (int(start[i] + place[i][p]), int(start[j] + place[j][q])): right
        for (i, p, j, q), right in truth.items()
    }
    return weighted(numbered, count, rng), collection, numbered


@pytest.mark.parametrize("seed", range(5))
def test_fundamental_keeps_what_follows_the_epipolar_lines(seed):
    xy1, xy2, F = two_views(np.random.default_rng(seed), right=80, wrong=60)
    kept = verify_pair(xy1, xy2)
    assert kept[:80].mean() > 0.88  # what errs by more than two standard deviations goes
    # What chance puts near its line nobody can tell; all else has to go.
    far = distance_to_true_line(F, xy1, xy2) > 8
    assert far.sum() > 50
    assert not kept[far].any()
    assert kept[80:].sum() <= 6


@pytest.mark.parametrize("seed", range(5))
def test_homography_keeps_what_moves_with_the_plane(seed):
    xy1, xy2, H = plane(np.random.default_rng(seed), right=40, wrong=100)
    kept = verify_pair(xy1, xy2, "homography")
    near = np.linalg.norm(moved(H, xy1) - xy2, axis=1) < 1.5
    assert near[:40].all()
    assert np.array_equal(kept, near)


@pytest.mark.parametrize(("right", "wrong"), [(80, 60), (60, 80)])
def test_look_alikes_behind_the_cameras_go(right, wrong):
    """Both kinds have one fundamental matrix; the more frequent one stays."""
    xy1, xy2 = houses(right, wrong)
    kept = verify_pair(xy1, xy2, cameras=(1.2 * K, 1.2 * K))  # a guess
    most = np.arange(right + wrong) < right
    most = most if right > wrong else ~most
    assert kept[most].mean() > 0.85
    assert not kept[~most].any()


@pytest.mark.parametrize("epipole", [(384, -3000), (700, 5000)])
def test_a_plane_leaves_open_what_is_behind_the_cameras(epipole):
    """Any epipole agrees with it, and may put a part of its points behind the cameras."""
    rng = np.random.default_rng(1)
    R = cv2.Rodrigues(np.array([0, 0.3, 0]))[0]
    H = K @ (R + np.outer([2, 0, 0], [0, 0, 1 / 8])) @ np.linalg.inv(K)
    xy1 = positions(rng.uniform([100, 50], [600, 450], (150, 2)))
    xy2 = positions(moved(H, xy1))
    F = cross([*epipole, 1]) @ H
    found = verification._in_front(xy1, xy2, F, np.ones(150, bool), (K, K))
    assert found.all()


def test_points_far_away_are_not_behind_the_cameras():
    """Their rays are parallel, and noise makes them meet on either side."""
    rng = np.random.default_rng(2)
    near, far = two_views(rng, 60, 0), rng.uniform(0, SIZE, (60, 2))
    R = cv2.Rodrigues(np.array([0.02, -0.25, 0.05]))[0]
    there = moved(K @ R @ np.linalg.inv(K), far) + rng.normal(0, 0.3, far.shape)
    inside = ((there > 0) & (there < SIZE)).all(axis=1)
    xy1 = np.concatenate([near[0], positions(far[inside])])
    xy2 = np.concatenate([near[1], positions(there[inside])])
    assert inside.sum() > 20
    assert verify_pair(xy1, xy2, cameras=(K, K))[60:].mean() > 0.85


def test_models_differ_by_what_is_not_in_the_plane():
    """Points at all depths have a fundamental matrix, but no homography."""
    xy1, xy2, _ = two_views(np.random.default_rng(0), right=100, wrong=0)
    assert verify_pair(xy1, xy2).mean() > 0.9
    assert verify_pair(xy1, xy2, "homography").mean() < 0.5


@pytest.mark.parametrize("model", GEOMETRIES)
@pytest.mark.parametrize("n", [60, 300])
def test_chance_is_not_kept(model, n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        xy1, xy2 = rng.uniform(0, SIZE, (2, n, 2)).astype(np.float32)
        assert not verify_pair(xy1, xy2, model).any()


@pytest.mark.parametrize(("noise", "gone"), [(0.05, True), (1.0, False)])
def test_matches_have_to_be_as_exact_as_most_of_their_pair(noise, gone):
    """An error of 1.2 pixels is too much where features are exact, and usual where they are not."""
    xy1, xy2, F = two_views(np.random.default_rng(3), right=200, wrong=0, noise=noise)
    lines = homogeneous(xy1) @ F.T
    normal = lines[:, :2] / np.linalg.norm(lines[:, :2], axis=1, keepdims=True)
    xy2[:20] += (1.2 * 2**0.5 * normal[:20]).astype(np.float32)
    kept = verify_pair(xy1, xy2)
    assert kept[20:].mean() > 0.85
    assert (kept[:20].mean() < 0.1) == gone


def few_and_many(rng, right, wrong):
    """Three images: 60 matches of the first two, and a few of either with the third.

    Those of the second with the third are chance."""
    a, b, _ = two_views(rng, right=60, wrong=0)
    c, d, _ = two_views(rng, right=right, wrong=wrong)
    e, f = rng.uniform(0, SIZE, (2, right + wrong, 2))
    few = right + wrong
    sizes = [60 + few, 60 + few, 2 * few]
    second, third = sizes[0], sizes[0] + sizes[1]
    pairs = [(n, second + n) for n in range(60)]
    pairs += [(60 + n, third + n) for n in range(few)]
    pairs += [(second + 60 + n, third + few + n) for n in range(few)]
    xy = [np.concatenate(parts) for parts in ((a, c), (b, e), (d, f))]
    return weighted(pairs, sizes, rng), [positions(p) for p in xy]


def pairs_kept(matches):
    image = matches.image_of
    return {(int(image[p]), int(image[q])) for p, q in links(matches)}


@pytest.mark.parametrize("seed", range(3))
def test_an_image_keeps_few_matches_if_it_has_no_others(seed):
    """Of the pairs that are too few for others, the one that chance does not explain."""
    matches, xy = few_and_many(np.random.default_rng(seed), right=13, wrong=2)
    assert pairs_kept(verify(matches, xy, progress=False)) == {(0, 1), (0, 2)}


def test_an_image_with_enough_matches_keeps_no_weak_pairs():
    """Its weak pair with an image that has few matches stays: that one needs it."""
    rng = np.random.default_rng(4)
    strong = [two_views(rng, right=400, wrong=0, noise=0.1)[:2] for _ in range(2)]
    weak = two_views(rng, right=16, wrong=0)[:2]
    needed = two_views(rng, right=16, wrong=0)[:2]
    views = {(0, 1): strong[0], (2, 3): strong[1], (0, 2): weak, (1, 4): needed}
    xy, pairs = [[] for _ in range(5)], []
    for (i, j), (a, b) in views.items():
        start = [sum(map(len, xy[n])) for n in (i, j)]
        pairs += [(i, start[0] + n, j, start[1] + n) for n in range(len(a))]
        xy[i].append(a)
        xy[j].append(b)
    collection = [positions(np.concatenate(parts)) for parts in xy]
    sizes = [len(p) for p in collection]
    offsets = np.cumsum([0, *sizes])
    numbered = [(int(offsets[i] + p), int(offsets[j] + q)) for i, p, j, q in pairs]
    kept = pairs_kept(verify(weighted(numbered, sizes, rng), collection, progress=False))
    assert kept == {(0, 1), (2, 3), (1, 4)}


@pytest.mark.parametrize("n", [10, 19, 60, 300])
def test_chance_makes_no_weak_pairs(n):
    rng = np.random.default_rng(n)
    for _ in range(10):
        xy1, xy2 = rng.uniform(0, SIZE, (2, n, 2)).astype(np.float32)
        matches = weighted([(p, n + p) for p in range(n)], [n, n], rng)
        with pytest.warns(NmfsyncWarning, match="no pair of images passed"):
            assert not links(verify(matches, [xy1, xy2], progress=False))


@pytest.mark.parametrize(("model", "views"), [("fundamental", two_views), ("homography", plane)])
def test_least_number_of_inliers(model, views):
    least = GEOMETRIES[model].least
    xy1, xy2, _ = views(np.random.default_rng(1), right=least, wrong=0, noise=0.05)
    assert verify_pair(xy1, xy2, model).all()
    assert not verify_pair(xy1[1:], xy2[1:], model).any()
    # A match and its position given twice are one.
    xy1[0], xy2[0] = xy1[1], xy2[1]
    assert not verify_pair(xy1, xy2, model).any()


def test_several_matches_at_one_position_are_one_inlier():
    xy1, xy2, _ = two_views(np.random.default_rng(1), right=20, wrong=0, noise=0.05)
    xy1[0], xy2[0] = xy1[1], xy2[1] + 0.1
    assert not verify_pair(xy1, xy2).any()


def test_least_share_of_the_matches():
    """40 right ones are enough among 100 matches, but not among 400."""
    xy1, xy2, _ = two_views(np.random.default_rng(2), right=40, wrong=360, noise=0.1)
    assert verify_pair(xy1[:100], xy2[:100])[:40].mean() > 0.9
    assert not verify_pair(xy1, xy2).any()


@pytest.mark.parametrize(("model", "views"), [("fundamental", two_views), ("homography", plane)])
def test_order_of_matches_does_not_matter(model, views):
    rng = np.random.default_rng(3)
    xy1, xy2, _ = views(rng, right=50, wrong=50)
    kept = verify_pair(xy1, xy2, model)
    order = rng.permutation(len(kept))
    assert 40 < kept.sum() < 60
    assert np.array_equal(verify_pair(xy1[order], xy2[order], model), kept[order])


def test_repeated_matches_share_their_fate():
    xy1, xy2, _ = two_views(np.random.default_rng(4), right=50, wrong=50)
    once = verify_pair(xy1, xy2)
    assert np.array_equal(verify_pair(np.tile(xy1, (3, 1)), np.tile(xy2, (3, 1))), np.tile(once, 3))


def test_a_camera_that_does_not_move_keeps_everything():
    xy = np.random.default_rng(5).uniform(0, SIZE, (50, 2)).astype(np.float32)
    for model in GEOMETRIES:
        assert verify_pair(xy, xy, model).all()


def degenerate():
    rng = np.random.default_rng(6)
    spread = rng.uniform(0, SIZE, (40, 2))
    ramp = np.arange(40.0)
    line = np.column_stack([ramp, 2 * ramp + 1])
    return {
        "nothing": (np.empty((0, 2)), np.empty((0, 2))),
        "one point": (np.full((40, 2), 7), np.full((40, 2), 9)),
        "one point to many": (np.full((40, 2), 7), spread),
        "line to line": (line, line[:, ::-1] * 3),
        "line to itself": (line, line),
        "horizontal line": (np.column_stack([ramp, 0 * ramp]), np.column_stack([ramp, 0 * ramp])),
        "line to many": (line, spread),
        "line with noise to many": (line + rng.normal(0, 0.3, line.shape), spread),
        "three points many times": (np.repeat(spread[:3], 12, 0), np.repeat(spread[:3], 12, 0)),
        # USAC raises an error for these, at least in OpenCV 5.0.
        "few points to many near": (np.repeat(spread[:5], 8, 0), np.repeat(spread[:5], 8, 0)
                                    + rng.normal(0, 0.5, (40, 2))),
        "far away": (spread * 1e30, spread * 1e30),
        "tiny": (spread * 1e-30, spread * 1e-30),
    }  # fmt: skip


@pytest.mark.parametrize("case", degenerate())
@pytest.mark.parametrize("model", GEOMETRIES)
def test_degenerate_positions_keep_nothing(case, model):
    for xy1, xy2 in (degenerate()[case], degenerate()[case][::-1]):
        kept = verify_pair(xy1.astype(np.float32), xy2.astype(np.float32), model)
        assert kept.dtype == bool
        assert kept.shape == (len(xy1),)
        assert not kept.any()


@pytest.mark.parametrize("model", GEOMETRIES)
@pytest.mark.parametrize("n", range(9))
def test_fewer_matches_than_a_sample_takes(model, n):
    xy1, xy2, _ = plane(np.random.default_rng(7), right=n, wrong=0)
    assert verify_pair(xy1, xy2, model).tolist() == [n >= GEOMETRIES[model].least] * n


@settings(max_examples=60)
@given(st.data())
def test_any_positions_give_an_answer(data):
    n = data.draw(st.integers(0, 60))
    values = data.draw(st.sampled_from([2, 3, 5, 700]))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    xy1 = rng.integers(0, values, (n, 2)).astype(np.float32)
    xy2 = data.draw(st.sampled_from([xy1, xy1[::-1], xy1 + rng.normal(0, 0.5, xy1.shape)]))
    for model in GEOMETRIES:
        kept = verify_pair(xy1, xy2.astype(np.float32), model)
        assert kept.dtype == bool
        assert kept.shape == (n,)


def test_verify_takes_every_pair_of_images_on_its_own():
    right = {(0, 1), (1, 3), (2, 3)}
    matches, collection, truth = problem(np.random.default_rng(8), pairs=right)
    kept = links(verify(matches, collection, progress=False))
    expected = {pair for pair, is_right in truth.items() if is_right}
    assert len(expected) == 120
    assert len(kept & expected) > 105
    assert len(kept - expected) <= 9
    image = matches.image_of
    assert {(int(image[p]), int(image[q])) for p, q in kept} == right


def test_verify_is_verify_pair_for_every_pair(monkeypatch):
    monkeypatch.setattr(verification, "BATCH", 2)  # more tasks than one, the last not full
    matches, collection, _ = problem(np.random.default_rng(9), k=5, pairs={(0, 2), (3, 4), (1, 2)})
    expected = set()
    W = matches.W.toarray()
    for i, (a, b) in enumerate(pairwise(matches.offsets)):
        for j, (c, d) in enumerate(pairwise(matches.offsets)):
            if i < j:
                p, q = np.nonzero(W[a:b, c:d])
                kept = verify_pair(collection[i][p], collection[j][q])
                expected |= {
                    (int(a + x), int(c + y)) for x, y in zip(p[kept], q[kept], strict=True)
                }
    assert len(expected) > 100
    assert links(verify(matches, collection, progress=False)) == expected


def test_probabilities_rise_scores_stay_and_w_is_symmetric():
    matches, collection, _ = problem(np.random.default_rng(10))
    W, given_W = verify(matches, collection, progress=False).W.toarray(), matches.W.toarray()
    assert np.array_equal(W, W.T)
    assert np.array_equal(np.diag(W), np.ones(len(W)))
    assert 0 < (W > 0).sum() < (given_W > 0).sum()
    P = given_W[W > 0]
    np.testing.assert_allclose(W[W > 0], P / (P + 0.2 * (1 - P)))
    matches.scored = True
    scores = verify(matches, collection, progress=False).W.toarray()
    assert np.array_equal(scores[W > 0], P)


def test_input_is_not_changed():
    matches, collection, _ = problem(np.random.default_rng(11), k=3)
    before = bits(matches), [f.copy() for f in collection]
    verify(matches, collection, progress=False)
    assert bits(matches) == before[0]
    assert all(np.array_equal(f, xy) for f, xy in zip(collection, before[1], strict=True))


def test_source_is_handed_on_as_verified():
    matches, collection, _ = problem(np.random.default_rng(17), k=3)
    assert verify(matches, collection, progress=False).source is None
    matches.source = Source(Path("somewhere"), ("a", "b", "c"))
    source = verify(matches, collection, progress=False).source
    assert (source.path, source.names) == (Path("somewhere"), ("a", "b", "c"))
    assert source.verified
    assert not matches.source.verified


def test_verified_results_remember_what_they_were_made_from():
    matches, collection, _ = problem(np.random.default_rng(18), k=3)
    result = synchronise(matches, "matcheig")
    assert verify(result, collection, progress=False).input_matches is matches
    assert verify(matches, collection, progress=False).input_matches is None


def test_images_without_features_or_matches():
    rng = np.random.default_rng(12)
    xy1, xy2, _ = two_views(rng, right=40, wrong=0)
    nothing = np.empty((0, 2))
    sizes = [0, 40, 0, 3, 40, 0]
    matches = weighted([(n, 43 + n) for n in range(40)], sizes, rng)
    collection = [positions(xy) for xy in (nothing, xy1, nothing, xy1[:3], xy2, nothing)]
    assert len(links(verify(matches, collection, progress=False))) > 38


@pytest.mark.parametrize("size", [0, 30])
def test_warns_if_nothing_is_left(size):
    rng = np.random.default_rng(13)
    collection = [positions(rng.uniform(0, SIZE, (size, 2))) for _ in range(3)]
    matches = weighted([(n, size + n) for n in range(size)], [size] * 3, rng)
    with pytest.warns(NmfsyncWarning, match="no pair of images passed"):
        verified = verify(matches, collection, progress=False)
    assert not links(verified)
    assert verified.W.shape == matches.W.shape


def test_errors():
    matches, collection, _ = problem(np.random.default_rng(14), k=3)
    with pytest.raises(
        NmfsyncError, match="geometry must be fundamental or homography, got 'affine'"
    ):
        verify(matches, collection, "affine")
    with pytest.raises(
        NmfsyncError, match="geometry must be fundamental or homography, got 'affine'"
    ):
        verify(PairwiseMatches(np.eye(1), [1]), [positions([(0, 0)])], "affine")
    with pytest.raises(
        NmfsyncError, match="geometry must be fundamental or homography, got 'affine'"
    ):
        verify_pair(collection[0], collection[0], "affine")
    with pytest.raises(NmfsyncError, match="features of 2 images, but matches of 3"):
        verify(matches, collection[:2])
    shorter = positions(collection[1][1:])
    with pytest.raises(NmfsyncError, match="image 1 has 139 features, but 140 in the matches"):
        verify(matches, [collection[0], shorter, collection[2]])


def test_same_bits_whatever_opencv_was_told_before():
    matches, collection, _ = problem(np.random.default_rng(15), k=3, right=30, wrong=40)
    threads = cv2.getNumThreads()
    found = []
    try:
        for seed, number in ((1, 1), (2, 2)):
            cv2.setRNGSeed(seed)
            cv2.setNumThreads(number)
            found.append(bits(verify(matches, collection, progress=False)))
    finally:
        cv2.setNumThreads(threads)
    assert found[0] == found[1]


def test_processes_give_the_same_bits():
    matches, collection, _ = problem(np.random.default_rng(16), k=4)
    expected = bits(verify(matches, collection, progress=False))
    with engine("processes"):
        assert bits(verify(matches, collection, progress=False)) == expected


@pytest.mark.parametrize("model", GEOMETRIES)
def test_same_bits_for_any_number_of_threads(model, monkeypatch, in_another_process):
    """In as many tasks as there are pairs of images here, and in one there."""
    matches, collection, _ = problem(np.random.default_rng(0), k=5, right=45, wrong=60)
    there = in_another_process(verify, matches, collection, model)
    monkeypatch.setattr(verification, "BATCH", 1)
    here = verify(matches, collection, model)
    assert len(links(here)) > 50
    assert bits(here) == bits(there)


@pytest.fixture
def moved_views():
    """Three views of the same positions, each shifted a little, with matches that are right."""
    rng = np.random.default_rng(1)
    xy = rng.uniform(0, 500, (60, 2)).astype(np.float32)
    descriptors = rng.integers(0, 256, (60, 128)).astype(np.uint8)
    return [make_features(xy + np.float32([7 * n, 3 * n]), descriptors) for n in range(3)]


def test_a_pair_is_verified_again_only_if_its_matches_are_others(
    moved_views, tmp_path, monkeypatch
):
    verified = []
    original = verification.judge
    monkeypatch.setattr(
        verification, "judge", lambda *a: verified.append(len(a[0])) or original(*a)
    )
    matches, xy = match(moved_views), [f.xy for f in moved_views]
    first = verification.verify(matches, xy, "homography", cache=tmp_path)
    assert verified == [60, 60, 60]
    assert first.W.nnz == 180 + 2 * 180  # all are right
    again = verification.verify(matches, xy, "homography", cache=tmp_path)
    assert bits(first) == bits(again)
    assert len(verified) == 3
    W = matches.W.tolil()
    W[0, 60] = W[60, 0] = 0
    fewer = PairwiseMatches(W.tocsr(), matches.sizes)
    again = verification.verify(fewer, xy, "homography", cache=tmp_path)
    assert verified[3:] == [59]
    assert again.W.nnz == first.W.nnz - 2
    verification.verify(matches, xy, "fundamental", cache=tmp_path)
    assert len(verified) == 7
    shifted = [*xy[:2], xy[2] + 1]
    verification.verify(fewer, shifted, "homography", cache=tmp_path)
    assert len(verified) == 9  # the two pairs of the image that moved
