"""Which scenes and methods of runs are compared with each other."""

import pytest

from compared import evaluation, figures, run
from nmfsync import NmfsyncError
from nmfsync.evaluation.comparison import Run, compare_evaluations


def test_runs_are_paired_by_scene_and_method():
    first = run("a", input=[0.1, 0.2, 0.3], nmfsync=[0.2, 0.3, 0.4], spectral=[0.5])
    other = run("b", nmfsync=[0.3, 0.5], input=[0.1, 0.2], clear=[0.3])
    found = compare_evaluations([first, other])
    assert found.sides == ("a", "b")
    assert found.methods == found.subjects == ("input", "nmfsync")
    assert found.scenes == ("set/0", "set/1")
    assert found.lone_scenes == {"a": ("set/2",), "b": ()}
    assert found.lone_methods == {"a": ("spectral",), "b": ("clear",)}
    fcm = found.contrasts[1].differences["fcm"]
    assert (fcm.before, fcm.after) == ((0.2, 0.3), (0.3, 0.5))
    assert found.figures("nmfsync", "b")["set/1"].fcm["0.01"] == 0.5


def test_all_runs_are_compared_with_the_first():
    runs = [run("a", m=[0.1, 0.2]), run("b", m=[0.2, 0.2], n=[0.1]), run("c", m=[0.3], n=[0.1])]
    found = compare_evaluations(runs)
    assert [(c.subject, c.side) for c in found.contrasts] == [("m", "b"), ("m", "c")]
    assert [len(c.differences["fcm"].scenes) for c in found.contrasts] == [2, 1]
    assert found.lone_methods == {"a": (), "b": ("n",), "c": ("n",)}


def test_single_scenes_are_paired_whatever_their_names():
    runs = [Run("a", {"x": evaluation("x")}), Run("b", {"y": evaluation("y")})]
    assert compare_evaluations(runs).scenes == ("x / y",)


def test_chosen_methods_in_their_order():
    runs = [run("a", m=[0.1], n=[0.2], o=[0.3]), run("b", m=[0.2], n=[0.2], o=[0.3])]
    assert compare_evaluations(runs, ["o", "m", "o"]).methods == ("o", "m")


def test_methods_of_one_run_are_compared_with_the_first():
    one = run("a", input=[0.1, 0.2], m=[0.2, 0.3], n=[0.3])
    found = compare_evaluations([one], ["m", "input", "n"])
    assert found.between_methods
    assert found.sides == found.methods == ("m", "input", "n")
    assert [(c.side, c.differences["fcm"].scenes) for c in found.contrasts] == [
        ("input", ("set/0", "set/1")),
        ("n", ("set/0",)),
    ]


@pytest.mark.parametrize(
    ("runs", "methods", "message"),
    [
        ([run("a", m=[0.1])], None, "compared with nothing.*second one.*--methods.*m"),
        ([run("a", m=[0.1], n=[0.2])], ["m", "m"], "compared with nothing"),
        ([run("a", m=[0.1])], ["m", "q"], "no method 'q' in what is compared; there are m"),
        ([run("a", spectral=[0.1])], ["spektral"], "did you mean spectral"),
        ([run("a", m=[0.1]), run("b", n=[0.1])], None, "a shares no method with another run"),
        (
            [Run(r, {s: evaluation(s) for s in scenes}) for r, scenes in (("a", "xz"), ("b", "y"))],
            None,
            "a and b have no scene in common: x, z; y",
        ),
        (
            [Run("a", {"x": evaluation("x", m=figures()), "y": evaluation("y", n=figures())})],
            ["m", "n"],
            "no scene has both m and n",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(runs, methods, message):
    with pytest.raises(NmfsyncError, match=message):
        compare_evaluations(runs, methods)
