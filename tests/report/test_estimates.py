"""Sentences and rows about the estimated precision."""

import numpy as np

from nmfsync.evaluation.confidence import Confidence
from nmfsync.evaluation.summary import ImagePairEvaluation, MethodEvaluation, SceneEvaluation
from nmfsync.report.estimates import (
    doubtful_rows,
    doubtful_sentence,
    image_pairs_of,
    result_sentence,
    scene_sentence,
)

NAMES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]

# Of seven matches nothing is known, and of the others two are below 80 %.
PAIRS = [
    ImagePairEvaluation((0, 1), 90, 0.95, 0.9),
    ImagePairEvaluation((0, 2), 1234, 0.7, 0.5),
    ImagePairEvaluation((0, 3), 7, 0.1, 0.0),
    ImagePairEvaluation((1, 2), 8, 0.2, None),
    ImagePairEvaluation((2, 3), 8, 0.8, None),
]


def evaluation_with(methods, truth="homographies", tracks="input"):
    """Evaluate methods: name -> estimated and measured precision, and whether consistent."""
    return SceneEvaluation(
        "a/b", 2, 9, [4, 5], 4, truth, {},
        {
            name: MethodEvaluation(
                {}, {} if measured is None else {"0.01": measured}, 12345, 9, 0.0, consistent,
                1.0, 1.0, estimated,
            )
            for name, (estimated, measured, consistent) in methods.items()
        },
        tracks=tracks,
    )  # fmt: skip


def test_the_sentence_is_about_the_method_with_the_tracks():
    methods = {"input": (0.5, 0.4, False), "clustersync": (0.914, 0.926, True)}
    assert scene_sentence(evaluation_with(methods, tracks="clustersync")) == (
        "About 91 % of the 12,345 matches in the tracks of ClusterSync are right (estimated); "
        "measured against the ground truth: 93 % of those that it can judge."
    )
    assert "About 50 % of the 12,345 matches of the input are" in scene_sentence(
        evaluation_with(methods)
    )


def test_the_sentence_without_truth_and_without_matches():
    sentence = scene_sentence(evaluation_with({"input": (0.5, None, True)}, "none"))
    assert sentence == "About 50 % of the 12,345 matches of the input are right (estimated)."
    assert scene_sentence(evaluation_with({"input": (None, None, True)})) == ""


def test_nearly_all_is_not_all():
    for share, text in ((0.999, "99 %"), (1.0, "100 %")):
        sentence = scene_sentence(evaluation_with({"input": (0.5, share, True)}))
        assert f"ground truth: {text} of" in sentence


def test_the_worst_pairs_of_images_come_first():
    assert doubtful_rows(PAIRS, NAMES, most=10) == [
        ["b.jpg", "c.jpg", "8", "20.0 %", "–"],
        ["a.jpg", "c.jpg", "1,234", "70.0 %", "50.0 %"],
    ]
    assert [row[0] for row in doubtful_rows(PAIRS, NAMES, most=1)] == ["b.jpg"]
    assert doubtful_sentence(PAIRS).endswith("below 80 %: 2 of 4.")


def test_no_doubtful_pair_of_images():
    assert doubtful_rows(PAIRS[:1], NAMES, most=10) == []
    assert doubtful_sentence(PAIRS[:1]).endswith("below 80 %: none of 1.")
    assert doubtful_sentence(PAIRS[2:3]) == ""  # too few matches to say anything


def test_estimates_of_a_result_by_pair_of_images():
    """Feature 0 is of image 0, the next nine of image 1, the others of image 2."""
    q = np.arange(10, 20)
    confidence = Confidence(np.zeros(10, np.int64), q, np.full(10, 0.25))
    pairs = image_pairs_of(confidence, np.repeat([0, 1, 2], [1, 9, 10]))
    assert doubtful_rows(pairs, NAMES, most=10) == [["a.jpg", "c.jpg", "10", "25.0 %"]]
    assert result_sentence(confidence, "cycles") == (
        "About 25 % of the 10 matches of the result are right (estimated from cycles)."
    )


def test_no_sentence_about_no_matches():
    nothing = np.empty(0, np.int64)
    assert result_sentence(Confidence(nothing, nothing, np.empty(0)), "cycles") == ""
