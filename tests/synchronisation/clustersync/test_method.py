"""ClusterSync: what the method promises."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import strategies
from builders import CASES, matches_of, noisy, problems
from clusterings import SEEDS, cliques, dense
from nmfsync import (
    MultiMatching,
    NmfsyncWarning,
    PairwiseMatches,
    evaluation,
    synchronise,
    synthetic,
)
from nmfsync.runtime.threads import BLOCK

# By its full name: `clustersync` of the package is the function.
method = import_module("nmfsync.synchronisation.clustersync.method")
learning = import_module("nmfsync.synchronisation.clustersync.unweighted")


def clustersync(matches, theta=0.4, **options):
    """With the default θ."""
    return method.clustersync(matches, theta, **options)


# Mean gt-errors of pylibmgm 1.1.3 over 20 instances of the cases: the best published.
PUBLISHED = [0.0, 1.7, 2.7, 6.8, 18.3]


@settings(max_examples=50)
@given(
    matches=strategies.pairwise_matches(max_images=7, weighted=True),
    theta=st.sampled_from([0.0, 0.1, 0.4, 0.7, 1.0]),
)
def test_results_are_consistent_and_connected(matches, theta):
    """The type refuses a track that sees an image twice."""
    result = synchronise(matches, "clustersync", theta=theta)
    assert isinstance(result, MultiMatching)
    A = dense(matches)
    for track in range(result.universe_size):
        members = np.flatnonzero(result.universe == track)
        reached = members[:1]
        for _ in members:
            reached = members[
                (A[np.ix_(reached, members)] > 0).any(axis=0) | (members == reached[0])
            ]
        assert len(reached) == len(members)


@settings(max_examples=60)
@given(truth=strategies.multi_matchings(), seed=SEEDS)
def test_noise_free_matches_come_back_whatever_the_order(truth, seed):
    """Of the features in the images, and of the images."""
    assume(truth.sizes.sum())
    rng = np.random.default_rng(seed)
    images = rng.permutation(len(truth.sizes))
    order = np.lexsort((rng.random(len(truth.universe)), np.argsort(images)[truth.image_of]))
    result = clustersync(PairwiseMatches(truth.W[order][:, order], truth.sizes[images]))
    assert (
        result.universe.tolist()
        == MultiMatching(truth.universe[order], result.sizes).universe.tolist()
    )


@pytest.mark.parametrize(("case", "published"), [*zip(CASES, PUBLISHED, strict=True)])
def test_gt_error_is_not_above_the_best_published(case, published):
    errors = [evaluation.gt_error(clustersync(M).W, W_gt) for M, W_gt in problems(case)]
    assert np.mean(errors) <= published


def test_large_ring_is_solved():
    W, W_gt, sizes = synthetic.ring(k=60, d=1500, views=20, rho=0.75, sigma=0.2)
    result = clustersync(PairwiseMatches(W, sizes))
    assert evaluation.precision(result.W, W_gt) >= 0.999
    assert evaluation.recall(result.W, W_gt) >= 0.999


@pytest.mark.parametrize("case", [(30, 20, 0.6, 0.7), (10, 20, 0.6, 0.4), (8, 15, 0.5, 0.7)])
def test_larger_theta_gives_no_more_matches(case):
    counts = [
        sum(clustersync(noisy(*case, seed), theta=theta).W.nnz for seed in range(3))
        for theta in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_theta_zero_charges_nothing_for_missing_matches():
    """Of a point, only images at most three apart of nine are matched; of ten others, all.

    Ten features of every image are alone.
    """
    k, n = 9, 21
    point = np.arange(k * n).reshape(k, n).T
    near = [(p, q) for p, q in cliques(point[0]) if q - p <= 3 * n]
    matches = matches_of([*near, *cliques(*point[1:11])], [n] * k)
    free = clustersync(matches, theta=0.0).universe[point]
    assert (free[:11] == free[:11, :1]).all()
    charged = clustersync(matches, theta=0.9).universe[point]
    assert (charged[1:11] == charged[1:11, :1]).all()
    assert len(set(charged[0])) > 1


@pytest.mark.parametrize("seed", range(5))
def test_theta_one_keeps_only_what_is_all_matched(seed):
    matches = noisy(k=8, d=8, sigma=0.4, seed=seed)
    result = clustersync(matches, theta=1.0)
    assert result.W.nnz > 2 * len(result.universe)
    assert (dense(matches)[dense(result) > 0] > 0).all()


@pytest.mark.parametrize("wrong", [(0, 1), (0, 2), (1, 2)])
def test_wrong_matches_of_low_weight_lose(wrong):
    """Three images of two points; one pair of images is matched crosswise."""
    edges = []
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        crossed = (i, j) == wrong
        for point in (0, 1):
            other = 1 - point if crossed else point
            edges.append((2 * i + point, 2 * j + other, 0.3 if crossed else 0.9))
    assert clustersync(matches_of(edges, [2, 2, 2])).universe.tolist() == [0, 1, 0, 1, 0, 1]


def test_weights_help_where_they_know():
    """Wrong matches .1 and right ones .9, against the same without weights."""
    weighted, plain = [], []
    for seed in range(5):
        W, W_gt, sizes = synthetic.generate(k=10, d=20, rho=0.6, sigma=0.7, seed=seed)
        matches = PairwiseMatches(0.1 * W + 0.8 * W.multiply(W_gt), sizes)
        weighted.append(evaluation.gt_error(clustersync(matches).W, W_gt))
        plain.append(evaluation.gt_error(clustersync(matches.unweighted()).W, W_gt))
    assert np.mean(weighted) < 0.5 * np.mean(plain)


@pytest.mark.parametrize("constant", [0.5, 0.03])
@pytest.mark.parametrize("case", [(10, 20, 0.6, 0.7), (8, 15, 0.5, 0.5)])
def test_a_factor_on_all_weights_changes_nothing(constant, case):
    matches = noisy(*case)
    scaled = PairwiseMatches(constant * matches.W, matches.sizes)
    assert clustersync(scaled).universe.tolist() == clustersync(matches).universe.tolist()


def mean_scores(seeds=range(3), **problem) -> tuple[float, float]:
    """Mean f-scores of the input and of the result on problems of `synthetic.hard`."""
    scores = []
    for seed in seeds:
        W, W_gt, sizes = synthetic.hard(k=20, **problem, seed=seed)
        result = clustersync(PairwiseMatches(W, sizes))
        scores.append([evaluation.f_score(matches, W_gt) for matches in (W, result.W)])
    given_score, score = np.mean(scores, axis=0)
    return float(given_score), float(score)


@pytest.mark.parametrize("outliers", [0.5, 1.0, 3.0])
def test_features_of_no_point_stay_alone(outliers):
    given_score, score = mean_scores(d=20, rho=0.6, sigma=0.3, outliers=outliers)
    assert given_score < 0.6
    assert score > 0.95


def test_tracks_that_are_short_stay_short():
    """Half of the points are seen at most twice."""
    given_score, score = mean_scores(d=60, rho=1.0, sigma=0.5, spurious=0.3, zipf=1.5)
    assert given_score < 0.55
    assert score > 0.88


def test_sparse_view_graphs():
    given_score, score = mean_scores(d=20, rho=0.6, sigma=0.3, matched=0.4)
    assert given_score < 0.5
    assert score > 0.88


@pytest.mark.parametrize(("k", "sigma", "reason"), [(4, 0.5, "4 images"), (12, 0.95, "random")])
def test_what_is_likely_no_better_than_the_input_is_said(k, sigma, reason):
    matches = noisy(k, 15, 0.6, sigma)
    with pytest.warns(NmfsyncWarning, match=f"no better than the input: .*{reason}"):
        clustersync(matches)


def two_halves(also_matched: bool, k: int = 9) -> tuple[PairwiseMatches, np.ndarray]:
    """Make six tracks through k images; the two halves match through the middle image only.

    With `also_matched`, six other tracks match between the halves; else no pair
    of their images matches at all. Six points of every image are alone. Also
    returns the (k, 18) features by point.
    """
    d = 6
    image, point = np.divmod(np.arange(k * 3 * d), 3 * d)
    half = np.sign(image - k // 2)
    kept = (point < 2 * d) & ((half[:, None] * half > -1) | ((point >= d) & also_matched))
    A = (point[:, None] == point) & (image[:, None] != image) & kept
    return PairwiseMatches(A, [3 * d] * k), np.arange(len(A)).reshape(k, 3 * d)


def test_pairs_of_images_never_matched_charge_nothing():
    """Two halves of a track stay together if one image sees both, unless others tell."""
    for also_matched in (False, True):
        matches, features = two_halves(also_matched)
        universe = clustersync(matches, theta=0.9).universe[features]
        assert (universe[:, 6:12] == universe[0, 6:12]).all()
        assert (universe[:4, :6] == universe[0, :6]).all()
        assert ((universe[5:, :6] == universe[0, :6]) != also_matched).all()


def test_nor_do_they_in_the_first_clustering():
    """In which 15² missing matches would cost more than 15 between the halves are worth."""
    for also_matched in (False, True):
        matches, features = two_halves(also_matched, k=31)
        universe = clustersync(matches, updates=0).universe[features]
        assert ((universe[16:, :6] == universe[0, :6]) != also_matched).all()


def test_reliability_of_image_pairs_is_learnt(monkeypatch):
    """Of 60 % of the pairs of images, nine of ten matches are wrong; of the others, none."""

    def mean_error(change) -> float:
        learn = learning.learn
        errors = []
        with monkeypatch.context() as patch:
            patch.setattr(learning, "learn", lambda *arguments: change(*learn(*arguments)))
            for seed in range(3):
                good, W_gt, sizes = synthetic.generate(k=10, d=100, rho=0.6, sigma=0, seed=seed)
                poor, _, _ = synthetic.generate(k=10, d=100, rho=0.6, sigma=0.9, seed=seed)
                bad = np.triu(np.random.default_rng(seed).random((10, 10)) < 0.6, 1)
                image = np.repeat(np.arange(10), sizes)
                A = np.where((bad | bad.T)[image][:, image], poor.toarray(), good.toarray())
                result = clustersync(PairwiseMatches(A, sizes))
                errors.append(evaluation.gt_error(result.W, W_gt))
        return float(np.mean(errors))

    learnt = mean_error(lambda rewards, prices: (rewards, prices))
    assert learnt < 0.95 * mean_error(lambda rewards, prices: (np.ones_like(rewards), prices))
    assert learnt < 0.95 * mean_error(
        lambda r, prices: (r, prices._replace(image_pair=np.ones_like(prices.image_pair)))
    )


def test_universe_size_and_seed_make_no_difference():
    matches = noisy(sigma=0.8)
    expected = synchronise(matches, "clustersync").universe.tolist()
    for options in ({"universe_size": 3}, {"universe_size": 500}, {"seed": 7}):
        assert synchronise(matches, "clustersync", **options).universe.tolist() == expected


def test_same_bits_for_any_number_of_threads_in_any_process(in_another_process):
    """With more features than a thread takes at once."""
    matches = noisy(k=30, d=37, rho=0.6, sigma=0.7, seed=3)
    assert len(matches.image_of) > BLOCK
    there = in_another_process(synchronise, matches, "clustersync")
    here = synchronise(matches, "clustersync")
    assert there.universe.tobytes() == here.universe.tobytes()


@pytest.mark.parametrize(
    ("edges", "sizes", "universe"),
    [
        ([], [3], [0, 1, 2]),
        ([], [0], []),
        ([], [2, 0, 3], [0, 1, 2, 3, 4]),
        ([(0, 2), (1, 3)], [0, 2, 0, 2], [0, 1, 0, 1]),
        ([(0, 1)], [1, 1], [0, 0]),
    ],
    ids=["one image", "no features", "no matches", "images without features", "one match"],
)
def test_next_to_nothing(edges, sizes, universe):
    result = synchronise(matches_of(edges, sizes), "clustersync")
    assert result.universe.tolist() == universe
