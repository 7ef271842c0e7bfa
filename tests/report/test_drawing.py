"""Figures that are drawn where their content changed, here and in other processes."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from nmfsync import METHODS
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.errors import match_errors
from nmfsync.report import drawing
from nmfsync.report.drawing import Drawing, draw
from nmfsync.report.figures.canvas import photograph
from nmfsync.report.figures.curves import Curves, curves_figure
from nmfsync.report.figures.matrix import Panel
from nmfsync.report.figures.style import COLUMN, paper
from nmfsync.report.paper import write_scene_figures
from nmfsync.report.scene_page import write_scene_report
from nmfsync.runtime.files import sha256_of
from three_images import evaluation_of, results_for, three_images

# What shows every method; the others show the input and the first consistent one.
OF_ALL_METHODS = {"fcm", "trade-off", "overlay-1-2", "overlay-1-3"}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    scene, features = three_images(tmp_path_factory.mktemp("images"))
    digests = tuple(sha256_of(path) for path in scene.paths)
    return replace(scene, digests=digests), features


def write(folder, images, more=(), figures=False, kept=None):
    """Write the page of three images, with more methods; return all files."""
    scene, features = images
    results = results_for(features)
    results |= dict.fromkeys(more, results["matcheig"])
    errors = {name: match_errors(m, features, scene.truth) for name, m in results.items()}
    sure = {name: estimate_confidence(m, results["input"]) for name, m in results.items()}
    evaluation = evaluation_of(scene, features, results)
    write_scene_report(folder, scene, features, results, errors, sure, evaluation, kept)
    if figures:
        write_scene_figures(folder, scene, features, results, errors, evaluation, kept)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_kept_pictures_are_those_that_are_drawn(images, drawn, tmp_path):
    first = write(tmp_path / "first", images, kept=tmp_path / "kept")
    assert {f"{name}.png" for name in drawn} == {name for name in first if "png" in name}
    drawn.clear()
    assert write(tmp_path / "second", images, kept=tmp_path / "kept") == first
    assert drawn == []
    assert write(tmp_path / "third", images) == first
    assert len(drawn) == len(first) - 1


def test_one_more_method_redraws_what_shows_it(images, drawn, tmp_path):
    kept = tmp_path / "kept"
    write(tmp_path / "before", images, kept=kept)
    drawn.clear()
    after = write(tmp_path / "after", images, ["spectral"], kept=kept)
    assert {*drawn} == OF_ALL_METHODS
    assert after == write(tmp_path / "anew", images, ["spectral"])


def test_another_process_draws_the_same_bytes(images, monkeypatch, tmp_path):
    # A label, and a method, that only this process knows.
    monkeypatch.setitem(METHODS, "nmfsync", replace(METHODS["nmfsync"], label="Renamed"))
    monkeypatch.setitem(METHODS, "own", replace(METHODS["spectral"], label="Own", style="olive"))
    written = []
    for helpers in (0, 1):
        monkeypatch.setattr(drawing, "helpers_for", lambda most, helpers=helpers: helpers)
        written.append(write(tmp_path / str(helpers), images, ["own"], figures=True))
    assert written[0] == written[1]


def fill(colour: str, values: object = None) -> Figure:
    figure = Figure(figsize=(0.2, 0.2), facecolor=colour)
    figure.text(0, 0, repr(values))
    return figure


@pytest.mark.parametrize("left", [0, 1, 40, 0.5, -33, -32, -1])
def test_what_a_killed_process_left_is_drawn_again(drawn, tmp_path, left):
    one = Drawing("red", fill, ("red",))
    whole = draw([one], tmp_path)
    content = (tmp_path / "red.npz").read_bytes()
    (tmp_path / "red.npz").write_bytes(content[: int(left * len(content)) if left == 0.5 else left])
    assert draw([one], tmp_path) == whole
    assert drawn == ["red"] * 2
    assert (tmp_path / "red.npz").read_bytes() == content


def test_a_changed_byte_or_the_picture_of_another_name_is_not_used(drawn, tmp_path):
    red, blue = (Drawing(colour, fill, (colour,)) for colour in ("red", "blue"))
    whole = draw([red, blue], tmp_path)
    content = bytearray((tmp_path / "red.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "red.npz").write_bytes(content)
    assert draw([red, blue], tmp_path) == whole
    assert drawn == ["red", "blue", "red"]
    (tmp_path / "red.npz").write_bytes((tmp_path / "blue.npz").read_bytes())
    assert draw([blue, red], tmp_path) == whole
    assert drawn == ["red", "blue", "red", "red"]


def test_an_interrupted_run_leaves_nothing_unfinished(drawn, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    red = Drawing("red", fill, ("red",))
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", stop)
        with pytest.raises(KeyboardInterrupt):
            draw([red], tmp_path)
    assert list(tmp_path.iterdir()) == []
    draw([red], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["red.npz"]


def test_every_part_of_the_content_is_part_of_the_key(images, monkeypatch, tmp_path):
    scene, _ = images
    curve = {"0.01": 0.5, "0.02": None}
    array = np.arange(4)

    def key(*arguments, function=fill, **options):
        return Drawing("x", function, arguments, **options).key()

    keys = [
        key(), key(1), key(True), key("1"), key(1.0), key([1]), key([[1]]), key([1, 2]),
        key([1], 2), key(None), key(array), key(array.astype(np.int32)), key(array[:, None]),
        key(array + 1), key({"a": 1, "b": 2}), key({"b": 2, "a": 1}), key([["a", 1], ["b", 2]]),
        key(Curves(curve, curve, True)), key(Curves(curve, curve, False)),
        key(Panel("a", "b", [(array, "red")])), key(photograph(scene, 0)),
        key(photograph(scene, 1)), key(look=paper(COLUMN)), key(formats=("pdf", "svg")),
        key(function=curves_figure),
    ]  # fmt: skip
    assert len({*keys}) == len(keys)
    assert key(np.float64(0.5)) == key(0.5)
    with pytest.raises(TypeError, match="figures cannot be drawn from set"):
        key({1})
    before = key(1)
    monkeypatch.setitem(METHODS, "nmfsync", replace(METHODS["nmfsync"], label="Renamed"))
    assert key(1) != before


def test_a_photograph_counts_by_its_content_wherever_it_is(images, tmp_path):
    scene, _ = images
    elsewhere = tmp_path / "copy.png"
    elsewhere.write_bytes(scene.paths[0].read_bytes())
    first = photograph(scene, 0)
    copy = first._replace(path=elsewhere, sha256=None)
    keys = [Drawing("x", fill, (photo,)).key() for photo in (first, copy)]
    assert keys[0] == keys[1]
    Image.new("L", (30, 30)).save(elsewhere)
    assert Drawing("x", fill, (copy,)).key() != keys[0]


def test_the_look_of_a_page_is_known_in_another_process():
    drawing = Drawing("x", fill, ("red",))
    assert pickle.loads(pickle.dumps(drawing)) == drawing


def test_only_many_files_get_a_helper(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(drawing, "helpers_for", lambda most: asked.append(most) or 0)
    vectors = [Drawing(f"v{n}", fill, ("red",), formats=("pdf", "svg")) for n in range(8)]
    draw([Drawing(f"p{n}", fill, ("red",)) for n in range(10)])  # a page
    draw(vectors, tmp_path)
    draw(vectors, tmp_path)  # which are kept
    assert [max(most, 0) for most in asked] == [0, 1, 0]
