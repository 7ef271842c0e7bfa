"""Nearest neighbours, and second choices."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import make_features
from neighbours import mutual_by_definition
from nmfsync.matching import nearest
from nmfsync.matching.nearest import NO_SECOND, mutual_nearest, prepare


def choices(images, pairs):
    """First and second choices of pairs of images."""
    prepared, pairs = prepare(images), np.array(pairs, np.int64).reshape(-1, 2)
    first = mutual_nearest(prepared, prepared, pairs)
    return first, mutual_nearest(prepared, prepared, pairs, first)


def on_a_line(*positions):
    """Descriptors with the distances of points on a line."""
    return make_features(descriptors=[(position, 1) for position in positions]).descriptors


def expected(A, B, barred=()):
    rows = mutual_by_definition(A, B, barred)
    return [[p, q, d, NO_SECOND if np.isinf(second) else second] for p, q, d, second in rows]


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sizes=st.lists(st.integers(0, 70), min_size=2, max_size=4),
    levels=st.sampled_from([2, 4, 256]),
    length=st.sampled_from([1, 3, 128]),
    work=st.sampled_from([1, 500, 10**6]),
    seed=st.integers(0, 1000),
)
def test_second_choices_agree_with_the_definition(kernel, sizes, levels, length, work, seed):
    """With many ties and descriptors of zeros where there are few levels, and images of one."""
    rng = np.random.default_rng(seed)
    images = [
        make_features(descriptors=rng.integers(0, levels, (n, length))).descriptors for n in sizes
    ]
    pairs = [(i, j) for j in range(len(sizes)) for i in range(j)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "BLAS_PRODUCTS", work)
        first, second = choices(images, pairs)
    for (i, j), some, others in zip(pairs, first, second, strict=True):
        assert some.tolist() == expected(images[i], images[j])
        barred = some[:, :2].tolist()
        assert others.tolist() == expected(images[i], images[j], barred)


def test_second_choices_by_hand(kernel):
    # 10 and 12 choose each other, so do 50 and 53. Without these matches, the second choices are
    # 10 and 53, at distance 43, and 50 and 12, at distance 38. What is not allowed is not the
    # second nearest either, and nothing else is left.
    (first,), (second,) = choices([on_a_line(10, 50), on_a_line(12, 53)], [(0, 1)])
    assert first.tolist() == [[0, 0, 2**2, 38**2], [1, 1, 3**2, 38**2]]
    assert second.tolist() == [[0, 1, 43**2, NO_SECOND], [1, 0, 38**2, NO_SECOND]]


def test_the_brightest_descriptors_are_no_second_choice(kernel):
    """They have the largest products, and the one of black has the largest distance."""
    bright, dark = np.full((1, 128), 255, np.uint8), on_a_line(0)
    for images in ([bright, bright], [bright, dark], [dark, bright], [dark, dark]):
        (first,), (second,) = choices(images, [(0, 1)])
        assert len(first) == 1
        assert len(second) == 0


def test_there_may_be_no_pairs_of_images(kernel):
    assert choices([on_a_line(1, 2)], []) == ([], [])
