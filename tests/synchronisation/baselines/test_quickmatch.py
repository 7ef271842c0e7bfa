"""QuickMatch: small cases by hand, and its definition feature by feature."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from builders import make_features
from nmfsync import METHODS, NmfsyncError, PairwiseMatches, match, synchronise
from nmfsync.study.definitions import all_methods
from nmfsync.synchronisation.baselines import quickmatch as module


def described(*images) -> PairwiseMatches:
    """Make features with descriptors, which are padded with zeros, and without matches."""
    features = [make_features(descriptors=image) for image in images]
    matches = PairwiseMatches(sparse.eye_array(sum(map(len, images))), list(map(len, images)))
    matches.descriptors = tuple(f.descriptors for f in features)
    return matches


def at(*degrees: float) -> list[list[int]]:
    """Descriptors at angles in a plane; close ones have about this distance."""
    angles = np.radians(degrees)
    return np.rint(250 * np.column_stack([np.cos(angles), np.sin(angles)])).astype(int).tolist()


def labels(matches, **options) -> list[int]:
    return synchronise(matches, "quickmatch", **options).universe.tolist()


def test_features_around_two_modes():
    assert labels(described(at(10, 70), at(72, 12), at(8, 71))) == [0, 1, 1, 0, 0, 1]


def test_an_image_is_in_a_cluster_once():
    """However far edges may reach: the clusters at 20° and 60° have a feature of each image."""
    matches = described(at(20, 60), at(21, 62), at(20, 40, 60))
    assert labels(matches, rho_edge=2) == [0, 1, 0, 1, 0, 2, 1]


def test_an_edge_must_be_shorter_than_a_share_of_the_distinctiveness():
    """Features 20° apart in one image; 12° from there to that of the other."""
    matches = described(at(10, 30), at(42))
    assert labels(matches, rho_edge=0.59) == [0, 1, 2]
    assert labels(matches, rho_edge=0.61) == [0, 1, 1]


def test_the_least_distinctive_feature_of_both_clusters_counts():
    """Of five images, those at 38° to 41° join first. 32° is near, unless 41° is near 46° too."""
    for neighbour, clusters in ((80, 1), (46, 2)):
        images = (at(40, 80), at(41, neighbour), at(38, 50), at(38, 50), at(32, 80))
        first = labels(described(*images))[::2]
        assert len(set(first[:-1])) == 1
        assert len(set(first)) == clusters


def test_of_equal_densities_the_first_is_the_parent():
    """All three are alike; a feature that is its own parent would stay alone."""
    assert labels(described(at(40), at(40), at(40))) == [0, 0, 0]
    assert labels(described(at(40, 40), at(40, 10))) == [0, 1, 2, 3]  # twins have no σ


def test_lengths_of_descriptors_do_not_matter():
    assert labels(described([[9, 3], [2, 8]], [[30, 120], [90, 30]])) == [0, 1, 1, 0]


def test_zeros_stay_alone():
    assert labels(described([[0], [5]], [[0], [5]], [[5], [0]])) == [0, 1, 2, 1, 1, 3]


def quickmatch_by_definition(matches: PairwiseMatches, rho_density, rho_edge) -> list[int]:
    """Return the cluster of every feature, as a number of a member."""
    X = np.concatenate(matches.descriptors).astype(float)
    image, m = matches.image_of.tolist(), len(X)
    square = (X**2).sum(axis=1)
    used = [p for p in range(m) if square[p]]

    def distance(p, q):
        return np.sqrt(max(0.0, 2 - 2 * ((X[p] @ X[q]) / np.sqrt(square[p] * square[q]))))

    def kernel(p, q):
        d, bandwidth = distance(p, q), rho_density * sigma[q]
        return np.exp(-0.5 * (d / bandwidth) ** 2) if bandwidth else float(d == 0)

    own = {p: [q for q in used if image[q] == image[p] and q != p] for p in used}
    sigma = {p: min((distance(p, q) for q in own[p]), default=np.inf) for p in used}
    density = {p: sum(kernel(p, q) for q in used) for p in used}
    rank = sorted(used, key=lambda p: (-round(density[p], 9), p))  # twins differ by rounding only
    edges = []
    for place, p in enumerate(rank):
        higher = [q for q in rank[:place] if image[q] != image[p]]
        if higher:
            parent = min(higher, key=lambda q: distance(p, q))
            edges.append((distance(p, parent), p, parent))
    cluster = {p: {p} for p in used}
    for length, p, parent in sorted(edges, key=lambda edge: edge[0]):
        joined = cluster[p] | cluster[parent]
        images = [image[q] for q in joined]
        if len(set(images)) == len(images) and length < rho_edge * min(sigma[q] for q in joined):
            cluster |= dict.fromkeys(joined, joined)
    return [min(cluster[p]) if p in cluster else p for p in range(m)]


@st.composite
def noisy_points(draw) -> PairwiseMatches:
    """Images that show points with noise, now and then with zeros or twins."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(0, 7), min_size=1, max_size=6))
    noise = draw(st.sampled_from([0, 10, 30]))
    points = rng.integers(30, 225, (8, 128))
    images = []
    for n in sizes:
        image = np.clip(points[rng.permutation(8)[:n]] + rng.normal(0, noise, (n, 128)), 0, 255)
        image[rng.random(n) < 0.05] = 0
        if n > 1 and rng.random() < 0.2:
            image[1] = image[0]
        images.append(image.astype(np.uint8))
    return described(*images)


@pytest.mark.parametrize("block", [1, 50, 2**20])
@settings(max_examples=60)
@given(matches=noisy_points(), rho_density=st.sampled_from([0.25, 1.0]),
       rho_edge=st.sampled_from([0.3, 0.9, 1.2]))  # fmt: skip
def test_agrees_with_the_definition_for_any_size_of_blocks(block, matches, rho_density, rho_edge):
    options = {"rho_density": rho_density, "rho_edge": rho_edge}
    expected = quickmatch_by_definition(matches, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        found = labels(matches, **options)
    _, expected = np.unique(expected, return_inverse=True)
    assert found == expected.tolist()


def test_memory_does_not_grow_with_the_pairs_of_features():
    """An array of all distances would hold 72 MB, and be one of several."""
    rng = np.random.default_rng(0)
    matches = described(*rng.integers(0, 256, (6, 500, 128)))
    tracemalloc.start()
    synchronise(matches, "quickmatch")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def test_bad_options():
    matches = described(at(10, 70), at(12))
    for name, value in (("rho_density", 0), ("rho_density", np.nan), ("rho_edge", -1)):
        with pytest.raises(NmfsyncError, match=f"^{name} must .*, got {value}"):
            labels(matches, **{name: value})


def test_descriptors_come_from_matching_and_are_asked_for():
    features = [make_features(descriptors=at(10, 70)), make_features(descriptors=at(71, 9))]
    matches = match(features)
    assert labels(matches) == labels(matches.with_matrix(np.eye(4))) == [0, 1, 1, 0]
    alone = PairwiseMatches(matches.W, matches.sizes)
    with pytest.raises(NmfsyncError, match=r"^quickmatch needs the descriptors of the features"):
        synchronise(alone, "quickmatch")
    mine = replace(METHODS["quickmatch"], name="mine")
    with pytest.raises(NmfsyncError, match=r"^mine needs the descriptors of the features"):
        synchronise(alone, mine)


def test_studies_leave_it_out():
    assert [variant.name for variant in all_methods()] == [n for n in METHODS if n != "quickmatch"]
