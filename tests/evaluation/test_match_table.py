"""The table of all matches, compared with plain loops."""

import numpy as np
import pytest

from builders import matches_of
from matched_images import Matched, matched_images
from nmfsync import MultiMatching
from nmfsync.evaluation.confidence import Confidence, estimate_confidence
from nmfsync.evaluation.errors import MatchErrors, match_errors
from nmfsync.evaluation.match_table import (
    best_probability,
    count_by_pair,
    judge_matches,
    match_table,
)
from nmfsync.evaluation.measure import evaluate_image_pairs
from two_images import TWO, shifted_by

LARGER = [101] * 5


@pytest.fixture(scope="module", params=range(4))
def example(request) -> Matched:
    return matched_images(request.param)


def table_of(example: Matched):
    table = match_table(example.confidences, [len(f) for f in example.features])
    return table, judge_matches(table, example.errors, LARGER)


def test_every_match_is_in_the_table_once_with_its_methods_and_images(example):
    table, _ = table_of(example)
    expected: dict = {}
    for n, name in enumerate(example.results):
        for match in example.matches(name):
            expected[match] = expected.get(match, 0) + 2**n
    found = list(zip(table.p.tolist(), table.q.tolist(), strict=True))
    assert found == sorted(expected)
    assert table.methods.tolist() == [expected[match] for match in found]
    image = example.image_of
    assert [tuple(pair) for pair in table.pairs[table.pair].tolist()] == [
        (image[p], image[q]) for p, q in found
    ]
    pairs = sorted({(image[p], image[q]) for p, q in found})
    assert [tuple(pair) for pair in table.pairs.tolist()] == pairs
    rows = range(len(table))
    assert table.by_pair.tolist() == sorted(rows, key=lambda r: (table.pair[r], *found[r]))


def test_each_direction_of_a_match_is_judged(example):
    table, judgement = table_of(example)
    verdicts = set()
    for row, (p, q) in enumerate(zip(table.p.tolist(), table.q.tolist(), strict=True)):
        shares = example.shares(p, q)
        right = sum(share <= 0.01 for share in shares)
        assert (judgement.judged[row], judgement.right[row]) == (len(shares), right)
        verdict = 0 if not shares else 1 if right == len(shares) else 2
        assert judgement.verdict[row] == verdict
        verdicts.add((verdict, len(shares)))
        expected = 101 * max(shares, default=np.nan)
        assert judgement.pixels[row] == pytest.approx(expected, rel=1e-6, nan_ok=True)
    assert verdicts >= {(0, 0), (1, 2), (2, 2), (2, 1)}


def test_the_error_is_in_pixels_of_the_image_where_it_is_measured():
    errors = MatchErrors(np.array([0, 1]), np.array([1, 0]), np.array([0.5, 0.2]))
    confidence = Confidence(np.array([0]), np.array([1]), np.array([0.5]))
    table = match_table({"input": confidence}, [1, 1])
    # 0.5 of the second image, 0.2 of the first one.
    assert judge_matches(table, {"input": errors}, [100, 10]).pixels.tolist() == [20]
    assert judge_matches(table, {"input": errors}, [10, 100]).pixels.tolist() == [50]


def test_counts_by_pair_and_method(example):
    table, judgement = table_of(example)
    counts = count_by_pair(table, judgement, example.confidences)
    image, given = example.image_of, example.matches("input")
    for m, name in enumerate(example.results):
        for n, (i, j) in enumerate(table.pairs.tolist()):
            matches = {
                match: probability
                for match, probability in example.matches(name).items()
                if (image[match[0]], image[match[1]]) == (i, j)
            }
            shares = [share for match in matches for share in example.shares(*match)]
            assert counts.matches[m, n] == len(matches)
            assert counts.kept[m, n] == len(matches.keys() & given.keys())
            assert counts.judged[m, n] == len(shares)
            assert counts.right[m, n] == sum(share <= 0.01 for share in shares)
            mean = sum(matches.values()) / len(matches) if matches else np.nan
            assert counts.estimated[m, n] == pytest.approx(mean, nan_ok=True)


@pytest.mark.parametrize("method", ["input", "clustersync", "matcheig"])
def test_counts_agree_with_those_of_the_evaluation(example, method):
    table, judgement = table_of(example)
    counts = count_by_pair(table, judgement, example.confidences)
    m = list(example.results).index(method)
    known = {tuple(pair): n for n, pair in enumerate(table.pairs.tolist())}
    listed, _ = evaluate_image_pairs(
        example.results[method], example.confidences[method], example.errors[method]
    )
    assert len(listed) == np.count_nonzero(counts.matches[m])
    for pair in listed:
        n = known[pair.images]
        assert counts.matches[m, n] == pair.matchings
        assert counts.estimated[m, n] == pytest.approx(pair.estimated_precision, rel=1e-12)
        if pair.precision is None:
            assert counts.judged[m, n] == 0
        else:
            assert counts.right[m, n] / counts.judged[m, n] == pair.precision


def test_a_match_has_the_probability_of_the_tracks_before_that_of_the_input(example):
    table, _ = table_of(example)
    probability = best_probability(table, example.confidences, "clustersync")
    for row, match in enumerate(zip(table.p.tolist(), table.q.tolist(), strict=True)):
        known = [example.matches(name) for name in ("clustersync", "input", "matcheig")]
        assert probability[row] == next(of[match] for of in known if match in of)


def test_of_very_long_tracks_only_listed_matches_are_judged():
    result, truth = MultiMatching([0, 1, 0, 1], [2, 2]), shifted_by(10)
    errors = match_errors(result, TWO, truth)
    listed = Confidence(np.array([1]), np.array([3]), np.array([0.5]))  # not 0–2, which is right
    table = match_table({"input": listed}, [2, 2])
    judgement = judge_matches(table, {"input": errors}, [101, 101])
    assert judgement.verdict.tolist() == [2]
    assert judgement.pixels[0] == pytest.approx(5)


def test_no_matches_at_all():
    nothing = matches_of([], [2, 0])
    confidences = {"input": estimate_confidence(nothing, nothing)}
    table = match_table(confidences, [2, 0])
    judgement = judge_matches(table, {"input": match_errors(nothing, [], None)}, [1, 1])
    counts = count_by_pair(table, judgement, confidences)
    assert (len(table), table.pairs.shape, counts.matches.shape) == (0, (0, 2), (1, 0))
