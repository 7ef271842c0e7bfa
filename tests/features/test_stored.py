"""Features that are used like others, and lie in a file."""

import pickle

import numpy as np
import pytest

from builders import overlapping_images, same_features
from nmfsync.errors import NmfsyncError
from nmfsync.features import stored as module
from nmfsync.features.extract import extract_all
from nmfsync.features.stored import StoredFeatures, pack
from nmfsync.runtime.cache import save


@pytest.fixture
def features():
    return overlapping_images(1, 300)[0]


@pytest.fixture
def stored(features, tmp_path):
    save(tmp_path / "a.npz", "a", pack((features, [])))
    return StoredFeatures(tmp_path / "a.npz", "a", features)


@pytest.fixture
def forgotten(monkeypatch):
    """Forget what was read so far, as another process never knew it."""
    monkeypatch.setattr(module, "_recent", type(module._recent)(10**9, module._bytes_of))


def test_they_are_those_that_were_stored(features, stored, forgotten):
    assert same_features(features, stored)
    assert len(stored) == 300
    assert stored.digest() == features.digest()
    assert same_features(features.rooted(), stored.rooted())
    assert stored.rooted().digest() != stored.digest()
    assert repr(stored) == repr(features)
    with pytest.raises(AttributeError):
        stored.colour  # noqa: B018


def test_only_their_place_goes_to_another_process(features, stored, forgotten):
    sent = pickle.dumps(stored.rooted())
    assert len(sent) < 1000 < features.descriptors.nbytes
    assert same_features(pickle.loads(sent), features.rooted())


@pytest.mark.parametrize("damage", ["gone", "cut", "another"])
def test_what_is_gone_or_damaged_is_one_clear_line(stored, forgotten, tmp_path, damage):
    path = tmp_path / "a.npz"
    if damage == "another":
        save(path, "b", pack((overlapping_images(1, 20)[0], [])))
    else:
        path.write_bytes(path.read_bytes()[:-50])
    if damage == "gone":
        path.unlink()
    with pytest.raises(NmfsyncError, match=r"a\.npz: the features kept here are gone, damaged"):
        _ = stored.xy


def test_what_was_read_last_stays_in_memory_up_to_a_limit(tmp_path, monkeypatch):
    collection = overlapping_images(6, 200)
    size = module._bytes_of(collection[0])
    monkeypatch.setattr(module, "_recent", type(module._recent)(2.5 * size, module._bytes_of))
    every = []
    for n, features in enumerate(collection):
        save(tmp_path / f"{n}.npz", str(n), pack((features, [])))
        every.append(StoredFeatures(tmp_path / f"{n}.npz", str(n), features))
    assert len(module._recent) == 2
    assert all(map(same_features, every, collection))  # whether they are in memory or not
    assert len(module._recent) == 2
    monkeypatch.setattr(module, "_recent", type(module._recent)(size / 2, module._bytes_of))
    assert same_features(every[0], collection[0])


def test_extraction_with_a_cache_returns_stored_ones(photographs, tmp_path, forgotten):
    paths = sorted(photographs.iterdir())
    plain = extract_all(paths, 50)
    for kept in (extract_all(paths, 50, cache=tmp_path) for _ in range(2)):
        assert all(isinstance(f, StoredFeatures) for f in kept)
        assert all(map(same_features, kept, plain))
        assert not np.array_equal(kept[0].rooted().descriptors, kept[0].descriptors)
