"""Wrong and right pairs of images, before and after look-alikes are left out; models of both.

python -m pytest -m benchmark tests/benchmarks/test_look_alikes.py -s

The models need `pip install pycolmap`.
"""

import warnings

import pytest

import painted
from benchmarks.comparison import Table
from look_alikes import KINDS, UNAMBIGUOUS, parts, simulate
from nmfsync import NmfsyncWarning
from nmfsync.run.image_pairs import without_wrong_pairs

pytestmark = pytest.mark.benchmark

SEEDS = range(3)
# Not those that the mapper fails on with the right pairs alone: tracks of two images give no
# scale, and it does not start with a camera that moves forwards.
MAPPED = (
    "street strong", "equal_sides strong", "temple strong", "cup strong", "boxes strong",
    "ring", "internet", "aerial",
)  # fmt: skip
PAINTED = {"painted street": painted.street, "painted equal sides": painted.equal_sides}


def test_pairs_of_simulated_images():
    columns = ["wrong", "left", "mixed left", "right", "lost", "parts", "after"]
    table = Table("Pairs of images that are wrong and right, and parts of the graph", columns)
    split = []
    for kind in KINDS:
        for seed in SEEDS:
            images = simulate(kind, seed, shuffled=seed % 2 == 1)
            kept = judged_right(images.matches, images.keypoints)
            k, right, wrong = len(images.cameras), images.right, images.wrong
            wrongs = [len(pairs) for pairs in (wrong, wrong & kept, images.mixed & kept)]
            graph = [parts(right, k), parts(right & kept, k)]
            table.add(f"{kind}, {seed}", *wrongs, len(right), len(right - kept), *graph)
            if kind in UNAMBIGUOUS and parts(right & kept, k) > parts(right, k):
                split.append((kind, seed))
    table.write("look-alikes")
    assert not split


def test_models_of_simulated_images(tmp_path):
    pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    table = models_table("simulated images")
    for kind in MAPPED:
        add_models(table, kind, tmp_path / kind, simulate(kind))
    table.write("look-alikes-models")


def test_models_of_painted_images(tmp_path):
    pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    table = models_table("painted images")
    for name, make in PAINTED.items():
        for seed in SEEDS:
            images = make(seed).photographed()
            add_models(table, f"{name}, {seed}", tmp_path / f"{name} {seed}", images)
    table.write("look-alikes-painted")


def models_table(what: str) -> Table:
    columns = ["pairs", "images", "error", "kept", "images", "error"]
    return Table(f"Models of {what}: all pairs, and those that are kept; errors in %", columns)


def add_models(table, name, folder, images) -> None:
    """Map all matches, and those of the pairs that are judged right."""
    from mapped import map_matches

    everything = images.right | images.wrong
    kept = judged_right(images.matches, images.keypoints)
    xy = [keypoints.xy for keypoints in images.keypoints]
    folder.mkdir()
    cells = []
    for label, pairs in (("all", everything), ("kept", kept)):
        matches = images.matches.without_image_pairs(everything - pairs)
        count, error = map_matches(folder / label, images.cameras, xy, matches)
        cells += [len(pairs), count, 100 * error]
    table.add(name, *cells, digits=2)


def judged_right(matches, keypoints) -> set[tuple[int, int]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NmfsyncWarning)
        _, verdicts = without_wrong_pairs(matches, keypoints)
    return {(verdict.i, verdict.j) for verdict in verdicts if verdict.right}
