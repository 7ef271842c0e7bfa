"""A damaged entry of the cache counts as missing, in whatever way it is damaged."""

import random
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import rendered
from builders import lose_a_file
from faults.commands import results_of
from nmfsync import Settings, run_scene
from nmfsync.run import scene as run_module
from nmfsync.run import truth as truth_module

SETTINGS = Settings(
    methods=("clustersync", "spectral"), features=40, geometry="fundamental", pairs="all"
)
# Folders of `stages` have a file for every image, and its other files are a kind each. They are
# in the order in which they are made: an entry is not read while there is a later one.
KINDS = (
    "depths.npz", "depth-quality.npz", "features", "matches", "verified", "matches.npz",
    "methods/clustersync.npz", "methods/spectral.npz",
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder of images with cameras, and `out` after a run; treat as read-only."""
    folder = tmp_path_factory.mktemp("damage")
    rendered.write_epfl(folder / "board", rendered.scene())
    for path in (folder / "board").glob("000[4-9]*"):
        path.unlink()
    with few_depths():
        run_scene(str(folder / "board"), SETTINGS, folder / "out")
    return folder


@contextmanager
def few_depths():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "write_scene_report", lambda *arguments: None)
        patch.setattr(truth_module, "QUALITY_FEATURES", 10)
        yield


def entries(out: Path, kind: str) -> list[Path]:
    """Files of a kind in the stages."""
    [stages] = out.rglob("stages")
    path = stages / kind
    return sorted(path.glob("*.npz")) if path.is_dir() else [path]


# --- Damages: each takes a file, another one of its kind or else of any, and random numbers ---


def one_bit(path, other, rng):
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def a_page_of_zeros(path, other, rng):
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content))
    content[start : start + 4096] = bytes(len(content[start : start + 4096]))
    path.write_bytes(content)


def cut(path, other, rng):
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(1, len(content))])


def emptied(path, other, rng):
    path.write_bytes(b"")


def swapped(path, other, rng):
    mine, others = path.read_bytes(), other.read_bytes()
    path.write_bytes(others)
    other.write_bytes(mine)


def a_folder(path, other, rng):
    path.unlink()
    path.mkdir()
    (path / "file").touch()


def a_dangling_link(path, other, rng):
    path.unlink()
    path.symlink_to("nowhere")


def a_loop_of_links(path, other, rng):
    path.unlink()
    path.symlink_to(path.name)


def other_arrays(path, other, rng):
    np.savez(path, unknown=np.zeros(3))


def objects(path, other, rng):
    np.savez(path, **dict.fromkeys(np.load(path).files, np.array([None, {}], object)))


def text(path, other, rng):
    path.write_text("<html>Not found</html>")


def changed_arrays(change: Callable) -> Callable:
    """Readable, with the right names: a file as a fault of another program would leave it."""

    def damage(path, other, rng):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        text = [name for name, array in arrays.items() if array.dtype.kind == "U"]
        np.savez(path, **{n: a if n in text else change(a) for n, a in arrays.items()})

    return damage


DAMAGES = {
    "one bit": one_bit,
    "a page of zeros": a_page_of_zeros,
    "cut": cut,
    "emptied": emptied,
    "swapped": swapped,
    "a folder": a_folder,
    "a dangling link": a_dangling_link,
    "a loop of links": a_loop_of_links,
    "other arrays": other_arrays,
    "objects": objects,
    "text": text,
    "shorter arrays": changed_arrays(lambda a: a[:-1] if a.ndim else a),
    "larger numbers": changed_arrays(lambda a: a + a.dtype.type(1)),
    "another type": changed_arrays(lambda a: a.astype(str)),
    "one more axis": changed_arrays(lambda a: a[None]),
}


def make_later_ones_missing(out: Path, kind: str) -> None:
    for later in KINDS[KINDS.index(kind) + 1 :] if "." not in kind else ():
        for path in entries(out, later):
            path.unlink()


def run_after(damages: dict[str, Callable], kind: str, finished: Path, folder: Path, seed: int):
    """Damage an entry in several ways, one after the other; return how each run went wrong."""
    expected, wrong = results_of(finished / "out"), {}
    for name, damage in damages.items():
        out = finished / f"{folder.name} {name}"  # its record tells from here where the input is
        shutil.copytree(finished / "out", out)
        path, *others = entries(out, kind)
        others = others or entries(out, "features")
        rng = random.Random(f"{kind} {name} {seed}")
        damage(path, others[0], rng)
        make_later_ones_missing(out, kind)
        lose_a_file(out)
        try:
            with few_depths():
                run_scene(str(finished / "board"), SETTINGS, out)
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}"
        else:
            if results_of(out) != expected:
                wrong[name] = "other results, without a word"
        shutil.rmtree(out)
    return wrong


def test_every_kind_is_known(finished):
    [stages] = (finished / "out").rglob("stages")
    found = {path.relative_to(stages) for path in stages.rglob("*") if path.is_file()}
    kinds = {path.parent.name if len(path.stem) == 32 else path.as_posix() for path in found}
    assert kinds == {*KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_entry_is_made_again(kind, finished, tmp_path):
    """Every kind of file with some damages; together the kinds have them all."""
    names = list(DAMAGES)
    first = 3 * KINDS.index(kind)
    chosen = {"cut", "swapped", "a folder", "larger numbers"}
    chosen |= {names[n % len(names)] for n in range(first, first + 3)}
    damages = {name: damage for name, damage in DAMAGES.items() if name in chosen}
    assert run_after(damages, kind, finished, tmp_path, 0) == {}
