"""What runs have written, found, named and compared."""

import json
import os
from pathlib import Path

import pytest

from builders import NO_FILES, no_file
from compared import evaluation, figures, write
from nmfsync import NmfsyncError, compare_runs
from nmfsync.run.compare import labels_of


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def two_runs():
    """Write runs a and b, of two scenes without truth, whose pages have no pictures."""
    unknown = {name: figures(None, None) for name in ("input", "clustersync")}
    for label in "ab":
        write(Path(label), *(evaluation(f"set/{s}", truth="none", **unknown) for s in "xy"))
    return ["a", "b"]


@pytest.mark.parametrize("inner", [".", "set", "set/x", "set/x/evaluation.json"])
def test_every_kind_of_folder(inner):
    for label in "ab":
        write(Path(label), evaluation("set/x"), evaluation("set/y"))
    found = compare_runs([f"a/{inner}", f"b/{inner}"])
    assert found.sides == ("a", "b")
    assert found.scenes == (("set/x", "set/y") if inner in (".", "set") else ("set/x",))
    assert not any(d.sign for d in found.differences)


def test_stages_and_hidden_folders_are_no_results():
    write(Path("a"), evaluation("set/x"))
    write(Path("b"), evaluation("set/x"))
    for inner in ("set/x/stages", "set/.outputs.pending"):
        path = Path("a", inner, "evaluation.json")
        path.parent.mkdir(parents=True)
        path.write_text("no result")
    assert compare_runs(["a", "b"]).scenes == ("set/x",)


def test_what_a_killed_run_did_not_put_in_place_is_put_there():
    write(Path("a"), evaluation("set/x"))
    write(Path("b"), evaluation("set/x"))
    pending = Path("a/set/x/.outputs.pending")
    pending.mkdir()
    os.rename("a/set/x/evaluation.json", pending / "evaluation.json")
    plan = {"new": ["evaluation.json"], "old": []}
    (pending / ".plan.json").write_text(json.dumps(plan))
    assert compare_runs(["a", "b"]).scenes == ("set/x",)
    assert not pending.exists()


@pytest.mark.parametrize(
    ("paths", "labels"),
    [
        (["f100", "f200"], ["f100", "f200"]),
        (["x/f100/sample", "x/f200/sample"], ["f100", "f200"]),
        (["new/outputs", "old/mine/outputs"], ["new", "old/mine"]),
        (["outputs", "old/outputs"], ["outputs", "old/outputs"]),
        (["a/s/evaluation.json", "b/s/evaluation.json"], ["a", "b"]),
        (["a/s", "b/s", "b/t"], ["a/s", "b/s", "b/t"]),
        (["x/outputs/"], ["outputs"]),
        (["a\x1b", "b"], [r"a\x1b", "b"]),
    ],
)
def test_labels_are_what_distinguishes_the_paths(paths, labels):
    assert labels_of(list(map(Path, paths))) == labels


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ([], "nothing to compare"),
        (["a", "nowhere"], "nowhere: no such folder or file"),
        (["a", "empty"], "empty: no evaluation.json in it or below"),
        (["a", "a"], "a/set/x/evaluation.json: is in both a and a"),
        (["a/set/x", "./a"], "a/set/x/evaluation.json: is in both a/set/x and a"),
        (["a", "link"], "is in both a and link"),
        (["a", "bad"], "bad/evaluation.json: is no JSON, or cut off"),
        (["a", "foreign"], "foreign/evaluation.json: is no evaluation of a scene (scene is mis"),
        (["a", "other"], "a and other have no scene in common: set/x, set/y; set/o, set/p"),
        (["."], ".: has two results of set/x: a/set/x/evaluation.json and b/set/x/evaluation"),
        (["a"], "one run alone is compared with nothing"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(folders, message):
    two_runs()
    write(Path("other"), evaluation("set/o"), evaluation("set/p"))
    Path("link").symlink_to("a")
    for name, content in (("empty", None), ("bad", '{"scene": '), ("foreign", "{}")):
        Path(name).mkdir()
        if content:
            Path(name, "evaluation.json").write_text(content)
    if folders == ["."]:
        for name in ("bad", "foreign"):
            Path(name, "evaluation.json").unlink()
    with pytest.raises(NmfsyncError) as error:
        compare_runs(folders, out="page.html")
    assert message in str(error.value)
    assert str(error.value).isprintable()
    assert not Path("page.html").exists()


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_evaluation_at_all(kind):
    two_runs()
    no_file(Path("b/set/y/evaluation.json"), kind)
    if kind == "nothing":
        assert compare_runs(["a", "b"]).lone_scenes["a"] == ("set/y",)
    else:
        with pytest.raises(NmfsyncError, match=r"b/set/y/evaluation\.json: "):
            compare_runs(["a", "b"])


def test_the_page_replaces_its_like_and_nothing_else():
    folders = two_runs()
    page = Path("new/page.html")
    compare_runs(folders, out=page)
    first = page.read_bytes()
    compare_runs(folders, out=page)
    assert page.read_bytes() == first
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]
    page.write_text("mine")
    with pytest.raises(NmfsyncError, match="exists already"):
        compare_runs(folders, out=page)
    assert page.read_text() == "mine"
    compare_runs(folders, out=page, overwrite=True)
    assert page.read_bytes() == first


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_page_never_replaces_an_evaluation(overwrite):
    folders = two_runs()
    path = Path("b/set/y/evaluation.json")
    before = path.read_bytes()
    with pytest.raises(NmfsyncError, match="is an input file"):
        compare_runs(folders, out=path, overwrite=overwrite)
    assert path.read_bytes() == before


def test_methods_of_one_run():
    write(Path("a"), evaluation("set/x"), evaluation("set/y"))
    found = compare_runs(["a"], ["clustersync", "input"])
    assert found.contrasts[0].differences["fcm"].mean == pytest.approx(-0.05)
