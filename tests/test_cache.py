"""What is kept of images and pairs, when it is used again, and what may happen to it."""

import os
import shutil
import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features import extract as features_module
from nmfsync.features.extract import extract_all
from nmfsync.matching import match as matching
from nmfsync.matching import verification
from nmfsync.matching.match import match
from nmfsync.runtime.cache import PairCache, digest, load, save
from nmfsync.types.features import Features
from nmfsync.types.matches import PairwiseMatches


def random_features(rng, n):
    zeros = np.zeros(n, np.float32)
    descriptors = rng.integers(0, 256, (n, 128)).astype(np.uint8)
    return Features(np.zeros((n, 2), np.float32), descriptors, zeros, zeros, (10, 10), n, n)


@pytest.fixture
def collection():
    rng = np.random.default_rng(0)
    return [random_features(rng, n) for n in (30, 40, 0, 50, 35, 45)]


@pytest.fixture
def matched_pairs(monkeypatch):
    """Numbers of pairs of every task that is computed from here on."""
    counts = []
    original = matching._match_task

    def counted(arguments):
        counts.append(len(arguments[2]))
        return original(arguments)

    monkeypatch.setattr(matching, "_match_task", counted)
    return counts


@pytest.fixture
def extracted(monkeypatch):
    """Images that are looked at from here on."""
    images = []
    original = features_module.extract_with_faults

    def counted(image, *options):
        images.append(image.name)
        return original(image, *options)

    monkeypatch.setattr(features_module, "extract_with_faults", counted)
    return images


def same(a, b):
    return a.W.data.tobytes() == b.W.data.tobytes() and np.array_equal(a.W.indices, b.W.indices)


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


def test_second_time_nothing_is_matched(collection, matched_pairs, tmp_path):
    first = match(collection, weighted=True, cache=tmp_path)
    assert sum(matched_pairs) == 10  # five images have features
    assert same(first, match(collection, weighted=True))
    matched_pairs.clear()
    assert same(first, match(collection, weighted=True, cache=tmp_path))
    assert matched_pairs == []


def test_ratio_distance_and_weights_need_no_new_matching(collection, matched_pairs, tmp_path):
    match(collection, cache=tmp_path)
    matched_pairs.clear()
    for options in ({"ratio": 0.98}, {"distance": 950.0}, {"weighted": True}):
        kept = match(collection, cache=tmp_path, **options)
        assert matched_pairs == []
        assert same(kept, match(collection, **options))
        matched_pairs.clear()


def test_a_changed_image_recomputes_its_own_pairs_only(collection, matched_pairs, tmp_path):
    match(collection, cache=tmp_path)
    matched_pairs.clear()
    collection[3] = random_features(np.random.default_rng(9), 50)
    again = match(collection, cache=tmp_path)
    assert sum(matched_pairs) == 4
    assert same(again, match(collection))


def test_a_new_image_adds_its_own_pairs_only(collection, matched_pairs, tmp_path):
    match(collection, cache=tmp_path)
    matched_pairs.clear()
    collection.insert(1, random_features(np.random.default_rng(9), 20))
    match(collection, cache=tmp_path)
    assert sum(matched_pairs) == 5


def test_pairs_of_another_selection_are_kept(collection, matched_pairs, tmp_path):
    some = np.array([(0, 1), (0, 3), (4, 5)])
    match(collection, pairs=some, cache=tmp_path)
    assert sum(matched_pairs) == 3
    match(collection, cache=tmp_path)
    assert sum(matched_pairs) == 10
    match(collection, pairs=some, cache=tmp_path)
    assert sum(matched_pairs) == 10


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "other arrays"])
def test_a_damaged_entry_is_made_again(collection, matched_pairs, tmp_path, damage):
    first = match(collection, cache=tmp_path)
    path = max(tmp_path.iterdir(), key=lambda path: path.stat().st_size)  # image 0: four pairs
    content = bytearray(path.read_bytes())
    if damage == "other arrays":
        np.savez(path, results=np.arange(3))
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(
            {"cut": content[:300], "flipped": content, "empty": b"", "text": b"hello"}[damage]
        )
    matched_pairs.clear()
    assert same(first, match(collection, cache=tmp_path))
    assert sum(matched_pairs) == 4
    matched_pairs.clear()
    match(collection, cache=tmp_path)
    assert matched_pairs == []  # it was repaired


def test_what_was_finished_before_an_error_is_kept(
    collection, matched_pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr(matching, "BLOCK", 1)
    monkeypatch.setattr(matching, "TASK", 1)
    counted = matching._match_task

    def fails_late(arguments):
        if len(matched_pairs) >= 7:
            raise KeyboardInterrupt
        return counted(arguments)

    monkeypatch.setattr(matching, "_match_task", fails_late)
    monkeypatch.setattr("nmfsync.runtime.engine.thread_count", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        match(collection, cache=tmp_path)
    assert len(matched_pairs) == 7
    monkeypatch.setattr(matching, "_match_task", counted)
    matched_pairs.clear()
    assert same(match(collection, cache=tmp_path), match(collection))
    assert 3 <= sum(matched_pairs) - 10 < 10  # the second, without cache, takes 10


def test_a_killed_run_leaves_whole_entries_only(collection, tmp_path):
    """Kill a process that writes; what it leaves is read without loss."""
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from nmfsync.runtime.cache import save\n"
        "print('ready', flush=True)\n"
        "n = 0\n"
        "while True:\n"
        "    save(Path(sys.argv[1]) / f'{n % 5}.npz', {'a': np.full(200_000, n)}); n += 1\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as run:
        run.stdout.readline()
        threading.Event().wait(0.3)
        run.kill()
    entries = list(tmp_path.glob("[0-9].npz"))
    assert entries
    assert all(len(set(load(path)["a"])) == 1 for path in entries)


def test_two_runs_at_once_do_not_damage_each_other(collection, tmp_path):
    results = [None, None]

    def run(n):
        for turn in range(5):
            results[n] = match(collection[n:], cache=tmp_path / str(turn), progress=False)

    threads = [threading.Thread(target=run, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same(results[0], match(collection))
    assert same(results[1], match(collection[1:]))
    assert all(load(path) for path in tmp_path.rglob("*.npz"))


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


def test_features_of_an_image_are_kept(photographs, extracted, tmp_path):
    images = shutil.copytree(photographs, tmp_path / "images")
    paths = sorted(images.iterdir())
    first = extract_all(paths, 50, cache=tmp_path / "cache")
    assert sorted(extracted) == ["view0.png", "view1.png", "view2.png"]
    extracted.clear()
    again = extract_all(paths, 50, cache=tmp_path / "cache")
    assert extracted == []
    for a, b in zip(first, again, strict=True):
        assert a.descriptors.tobytes() == b.descriptors.tobytes()
        assert a.xy.tobytes() == b.xy.tobytes()
        assert (a.image_size, a.keypoints, a.positions) == (b.image_size, b.keypoints, b.positions)
    extract_all(paths, 40, cache=tmp_path / "cache")
    assert len(extracted) == 3
    extracted.clear()
    cv2.imwrite(str(paths[1]), cv2.imread(str(paths[1])) // 2)
    extract_all(paths, 50, cache=tmp_path / "cache")
    assert extracted == ["view1.png"]
    extracted.clear()
    for entry in (tmp_path / "cache").iterdir():
        entry.write_bytes(entry.read_bytes()[:-100])
    repaired = extract_all(paths, 50, cache=tmp_path / "cache")
    assert len(extracted) == 3
    assert repaired[0].descriptors.tobytes() == first[0].descriptors.tobytes()


def test_a_warning_comes_from_the_cache_too(photographs, flat_image, tmp_path):
    cv2.imwrite(str(tmp_path / "flat.png"), flat_image)
    for _ in range(2):
        with pytest.warns(NmfsyncWarning, match="flat.png: no features found"):
            extract_all(
                [photographs / "view0.png", tmp_path / "flat.png"], 50, cache=tmp_path / "c"
            )


def test_images_before_a_broken_one_are_kept(photographs, extracted, tmp_path, monkeypatch):
    monkeypatch.setattr("nmfsync.runtime.engine.thread_count", lambda: 1)
    broken = tmp_path / "broken.png"
    broken.write_bytes((photographs / "view0.png").read_bytes()[:5000])
    paths = [photographs / "view1.png", broken]
    with pytest.raises(NmfsyncError, match=r"broken\.png"):
        extract_all(paths, 50, cache=tmp_path / "cache")
    extracted.clear()
    extract_all(paths[:1], 50, cache=tmp_path / "cache")
    assert extracted == []


@pytest.fixture
def moved_views():
    """Three views of the same positions, each shifted a little, with matches that are right."""
    rng = np.random.default_rng(1)
    zeros, xy = np.zeros(60, np.float32), rng.uniform(0, 500, (60, 2)).astype(np.float32)
    descriptors = rng.integers(0, 256, (60, 128)).astype(np.uint8)
    return [
        Features(xy + np.float32([7 * n, 3 * n]), descriptors, zeros, zeros, (600, 600), 60, 60)
        for n in range(3)
    ]


def test_a_pair_is_verified_again_only_if_its_matches_are_others(
    moved_views, tmp_path, monkeypatch
):
    verified = []
    original = verification.verify_pair
    monkeypatch.setattr(
        verification, "verify_pair", lambda *a: verified.append(len(a[0])) or original(*a)
    )
    matches, xy = match(moved_views), [f.xy for f in moved_views]
    first = verification.verify(matches, xy, "homography", cache=tmp_path)
    assert verified == [60, 60, 60]
    assert first.W.nnz == 180 + 2 * 180  # all are right
    assert same(first, verification.verify(matches, xy, "homography", cache=tmp_path))
    assert len(verified) == 3
    W = matches.W.tolil()
    W[0, 60] = W[60, 0] = 0
    fewer = PairwiseMatches(W.tocsr(), matches.sizes)
    again = verification.verify(fewer, xy, "homography", cache=tmp_path)
    assert verified[3:] == [59]
    assert again.W.nnz == first.W.nnz - 2
    verification.verify(matches, xy, "fundamental", cache=tmp_path)
    assert len(verified) == 7
    shifted = [*xy[:2], xy[2] + 1]
    verification.verify(fewer, shifted, "homography", cache=tmp_path)
    assert len(verified) == 9  # the two pairs of the image that moved


def test_a_folder_that_cannot_be_written_is_an_error(collection, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        match(collection, cache=tmp_path / "file" / "cache")
    assert os.listdir(tmp_path) == ["file"]
