"""Digests, and entries on disk: whole or not there."""

import subprocess
import sys

import numpy as np

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
        "    save(Path(sys.argv[1]) / f'{n % 5}.npz', {'a': np.full(200_000, n)}); n += 1\n"
        "    print(n, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as run:
        for _ in range(12):  # by now it replaces entries
            assert run.stdout.readline()
        run.kill()
    entries = list(tmp_path.glob("[0-9].npz"))
    assert len(entries) == 5
    assert all(len(set(load(path)["a"])) == 1 for path in entries)


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


def test_saved_arrays_come_back(tmp_path):
    save(tmp_path / "a" / "b.npz", {"x": np.arange(3), "y": np.array("text")})
    arrays = load(tmp_path / "a" / "b.npz")
    assert arrays["x"].tolist() == [0, 1, 2]
    assert str(arrays["y"]) == "text"
    assert load(tmp_path / "missing.npz") is None
