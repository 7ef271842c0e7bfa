"""What is kept of matched pairs, when it is used again, and what may happen to it."""

import os
import threading
from dataclasses import replace

import numpy as np
import pytest

from builders import bits, links, overlapping_images, random_features
from nmfsync.matching import match as matching
from nmfsync.matching.match import match
from nmfsync.runtime.cache import load


@pytest.fixture
def collection():
    rng = np.random.default_rng(0)
    return [random_features(rng, n) for n in (30, 40, 0, 50, 35, 45)]


@pytest.fixture
def matched_pairs(monkeypatch):
    """Numbers of pairs of every task that is computed from here on; second choices not counted."""
    counts = []
    original = matching.mutual_nearest

    def counted(left, right, pairs, without=None):
        if without is None:
            counts.append(len(pairs))
        return original(left, right, pairs, without)

    monkeypatch.setattr(matching, "mutual_nearest", counted)
    return counts


def test_second_time_nothing_is_matched(collection, matched_pairs, tmp_path):
    first = match(collection, weighted=True, cache=tmp_path)
    assert sum(matched_pairs) == 10  # five images have features
    assert bits(first) == bits(match(collection, weighted=True))
    matched_pairs.clear()
    assert bits(first) == bits(match(collection, weighted=True, cache=tmp_path))
    assert matched_pairs == []


@pytest.mark.parametrize("weighted", [False, True])
def test_ratio_and_distance_need_no_new_matching(collection, matched_pairs, tmp_path, weighted):
    match(collection, weighted=weighted, cache=tmp_path)
    matched_pairs.clear()
    for options in ({"ratio": 0.98}, {"distance": 950.0}):
        kept = match(collection, weighted=weighted, cache=tmp_path, **options)
        assert matched_pairs == []
        assert bits(kept) == bits(match(collection, weighted=weighted, **options))
        matched_pairs.clear()


def test_weights_need_their_own_matching_once(collection, matched_pairs, tmp_path):
    """They look at more than the neighbours."""
    for weighted in (False, True):
        match(collection, weighted=weighted, cache=tmp_path)
        assert sum(matched_pairs) == 10
        matched_pairs.clear()
    for weighted in (False, True):
        match(collection, weighted=weighted, cache=tmp_path)
        assert matched_pairs == []


def test_weights_are_the_same_whatever_the_cache_knows(matched_pairs, tmp_path):
    images = overlapping_images(4, 80)
    expected = match(images, weighted=True)
    some = np.array([(0, 2), (1, 3)])
    match(images, weighted=True, pairs=some, cache=tmp_path)
    for pairs in (4, 0):
        matched_pairs.clear()
        assert bits(match(images, weighted=True, cache=tmp_path)) == bits(expected)
        assert sum(matched_pairs) == pairs


def test_features_that_moved_are_weighed_anew(matched_pairs, tmp_path):
    """With the same descriptors, so that the same features match."""
    images = overlapping_images(3, 80)
    before = match(images, weighted=True, cache=tmp_path)
    images[1] = replace(images[1], xy=images[1].xy[::-1].copy())
    matched_pairs.clear()
    after = match(images, weighted=True, cache=tmp_path)
    assert sum(matched_pairs) == 2
    assert bits(after) == bits(match(images, weighted=True))
    assert links(after) == links(before)
    assert bits(after) != bits(before)


def test_a_changed_image_recomputes_its_own_pairs_only(collection, matched_pairs, tmp_path):
    match(collection, cache=tmp_path)
    matched_pairs.clear()
    collection[3] = random_features(np.random.default_rng(9), 50)
    again = match(collection, cache=tmp_path)
    assert sum(matched_pairs) == 4
    assert bits(again) == bits(match(collection))


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
    assert bits(first) == bits(match(collection, cache=tmp_path))
    assert sum(matched_pairs) == 4
    matched_pairs.clear()
    match(collection, cache=tmp_path)
    assert matched_pairs == []  # it was repaired


def test_what_was_finished_before_an_error_is_kept(
    collection, matched_pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr(matching, "BLOCK", 1)
    monkeypatch.setattr(matching, "TASK", 1)
    counted = matching.mutual_nearest

    def fails_late(*arguments):
        if len(matched_pairs) >= 7:
            raise KeyboardInterrupt
        return counted(*arguments)

    monkeypatch.setattr(matching, "mutual_nearest", fails_late)
    monkeypatch.setattr("nmfsync.runtime.engine.thread_count", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        match(collection, cache=tmp_path)
    assert len(matched_pairs) == 7
    monkeypatch.setattr(matching, "mutual_nearest", counted)
    matched_pairs.clear()
    assert bits(match(collection, cache=tmp_path)) == bits(match(collection))
    assert 3 <= sum(matched_pairs) - 10 < 10  # the second, without cache, takes 10


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
    assert bits(results[0]) == bits(match(collection))
    assert bits(results[1]) == bits(match(collection[1:]))
    assert all(load(path, path.stem, dict) for path in tmp_path.rglob("*.npz"))


def test_a_folder_that_cannot_be_written_is_an_error(collection, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        match(collection, cache=tmp_path / "file" / "cache")
    assert os.listdir(tmp_path) == ["file"]
