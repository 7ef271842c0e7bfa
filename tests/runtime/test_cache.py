"""Digests, and entries on disk: whole or not there."""

import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nmfsync.runtime.cache import PairCache, digest, load, save


def test_digest_tells_content_and_order_apart():
    a, b = np.arange(4, dtype=np.uint8), np.arange(4, dtype=np.int32)
    parts = [
        (a,),
        (b,),
        (a, a),
        (a.reshape(2, 2),),
        (b"ab", b"c"),
        (b"a", b"bc"),
        ("a", 1),
        (1, "a"),
    ]
    assert len({digest(*p) for p in parts}) == len(parts)
    assert digest(a, 1, "x") == digest(a.copy(), 1, "x")
    assert len(digest()) == 16


def test_a_killed_run_leaves_whole_entries_only(tmp_path):
    """Kill a process that writes; what it leaves is read without loss."""
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from nmfsync.runtime.cache import save\n"
        "n = 0\n"
        "while True:\n"
        "    save(Path(sys.argv[1]) / f'{n % 5}.npz', 'key', {'a': np.full(200_000, n)}); n += 1\n"
        "    print(n, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as run:
        for _ in range(12):  # by now it replaces entries
            assert run.stdout.readline()
        run.kill()
    entries = list(tmp_path.glob("[0-9].npz"))
    assert len(entries) == 5
    assert all(len(set(load(path, "key", dict)["a"])) == 1 for path in entries)


def known(cache):
    """Arrays that a cache of pairs knows, by number of the pair."""
    found = [
        item for numbers, arrays in cache.known() for item in zip(numbers, arrays, strict=True)
    ]
    return {int(n): array.tolist() for n, array in found}


def test_a_pair_is_found_under_both_contents_only(tmp_path):
    contents = [digest("a"), digest("b"), digest("c")]
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    for n, result in ((1, np.empty((0, 3), np.int32)), (0, np.int32([[1, 2, 3]]))):
        cache = PairCache(tmp_path, contents, pairs)
        cache.add(n, result)
        cache.flush()
    assert known(PairCache(tmp_path, contents, pairs)) == {0: [[1, 2, 3]], 1: []}
    moved = PairCache(tmp_path, [digest("x"), contents[0], contents[1]], pairs)
    assert known(moved) == {2: [[1, 2, 3]]}
    other = PairCache(tmp_path, contents, pairs, lambda n: digest("another question", n))
    assert known(other) == {}


def test_saved_arrays_come_back_under_their_key(tmp_path):
    save(tmp_path / "a" / "b.npz", "key", ARRAYS)
    arrays = load(tmp_path / "a" / "b.npz", "key", dict)
    assert arrays["x"].tolist() == [0, 1, 2]
    assert str(arrays["y"]) == "text"
    assert load(tmp_path / "missing.npz", "key", dict) is None
    assert load(tmp_path / "a" / "b.npz", "other key", dict) is None
    assert np.load(tmp_path / "a" / "b.npz")["x"].tolist() == [0, 1, 2]  # an ordinary file


def test_threads_read_at_once(tmp_path):
    """Python 3.11 calls a header wrong if another thread parses one while garbage is collected."""

    def collecting(*_):
        time.sleep(1e-5)  # another thread goes on

    def read(depth):
        if depth:  # what Python confuses are the depths of calls
            return read(depth - 1)
        return [load(tmp_path / "e.npz", "key", dict) for _ in range(200)]

    save(tmp_path / "e.npz", "key", {name: np.arange(5) for name in "abcd"})
    threshold = gc.get_threshold()
    gc.callbacks.append(collecting)
    try:
        gc.set_threshold(31)
        with ThreadPoolExecutor(4) as pool:
            found = [entry for entries in pool.map(read, range(0, 28, 7)) for entry in entries]
    finally:
        gc.callbacks.remove(collecting)
        gc.set_threshold(*threshold)
    assert len(found) == 800
    assert all(entry is not None for entry in found)


def test_an_entry_that_cannot_be_unpacked_is_made_again(tmp_path):
    save(tmp_path / "a.npz", "key", ARRAYS)
    assert load(tmp_path / "a.npz", "key", lambda arrays: arrays["z"]) is None


ARRAYS = {"x": np.arange(3), "y": np.array("text")}


@pytest.fixture
def entry(tmp_path):
    """Return the path of an entry."""
    save(tmp_path / "entry.npz", "key", ARRAYS)
    return tmp_path / "entry.npz"


def test_no_damaged_byte_is_overlooked(entry):
    whole = entry.read_bytes()
    flips = [(place, 1 << place % 8) for place in range(len(whole))]
    damaged = [whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :] for at, bit in flips]
    damaged += [part for at in range(0, len(whole), 50) for part in (whole[:at], whole[at + 1 :])]
    for content in [*damaged, whole + b"!", b"!" + whole, whole * 2]:
        entry.write_bytes(content)
        assert load(entry, "key", dict) is None
    entry.write_bytes(whole)
    assert load(entry, "key", dict) is not None


@pytest.mark.parametrize("content", [{}, {"x": np.arange(4)}, ARRAYS], ids=["none", "one", "same"])
def test_a_file_of_arrays_that_nothing_here_wrote_is_no_entry(entry, content):
    with entry.open("wb") as file:
        np.savez(file, **content)
    assert load(entry, "key", dict) is None


def replace_by(entry, kind):
    """Put something else in the place of an entry."""
    kept = entry.rename(entry.with_name("kept"))
    match kind:
        case "folder":
            entry.mkdir()
            (entry / "file").touch()
        case "pipe":
            os.mkfifo(entry)
        case "link to itself":
            entry.symlink_to(entry)
        case "link to nothing":
            entry.symlink_to("nothing")
        case "link to a device":
            entry.symlink_to("/dev/zero")
        case "link to a folder":
            entry.symlink_to(entry.parent)
        case "forbidden":
            kept.rename(entry).chmod(0)


@pytest.mark.parametrize(
    "kind",
    [
        "folder", "pipe",
        "link to itself", "link to nothing", "link to a device", "link to a folder",
        pytest.param("forbidden", marks=pytest.mark.skipif(os.geteuid() == 0, reason="for root")),
    ],
)  # fmt: skip
def test_whatever_is_in_the_place_of_an_entry_is_replaced(entry, kind):
    replace_by(entry, kind)
    assert load(entry, "key", dict) is None
    save(entry, "key", ARRAYS)
    assert load(entry, "key", dict) is not None
    assert entry.is_file()
    assert not entry.is_symlink()


def test_two_swapped_entries_are_made_again(tmp_path):
    contents = [digest("a"), digest("b"), digest("c")]
    pairs = np.array([(0, 1), (1, 2)])
    cache = PairCache(tmp_path, contents, pairs)
    for n in range(2):
        cache.add(n, np.int32([[n, n, n]]))
    cache.flush()
    first, second = sorted(tmp_path.iterdir())
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    assert known(PairCache(tmp_path, contents, pairs)) == {}
