"""Features of many images: warnings, errors, and what is kept of every image."""

import shutil

import cv2
import numpy as np
import pytest

from builders import same_features
from nmfsync import NmfsyncError, NmfsyncWarning
from nmfsync.features import extract as features_module
from nmfsync.features.extract import extract_all, extract_readable
from nmfsync.features.sift import extract


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


def test_features_of_an_image_are_kept(photographs, extracted, tmp_path):
    images = shutil.copytree(photographs, tmp_path / "images")
    paths = sorted(images.iterdir())
    first = extract_all(paths, 50, cache=tmp_path / "cache")
    assert sorted(extracted) == ["view0.png", "view1.png", "view2.png"]
    extracted.clear()
    again = extract_all(paths, 50, cache=tmp_path / "cache")
    assert extracted == []
    assert all(map(same_features, first, again))
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


def test_folder_with_a_flat_image_keeps_its_place(write_image, astronaut):
    paths = [write_image("a.png", astronaut), write_image("flat.png", np.full((9, 9), 7, np.uint8))]
    paths.append(write_image("b.png", astronaut.T.copy()))
    with pytest.warns(NmfsyncWarning, match=r"flat\.png: no features") as caught:
        found = extract_all(paths, features=20)
    assert [len(f) for f in found] == [20, 0, 20]
    assert same_features(found[2], extract(paths[2], features=20))
    assert len(caught) == 1


def test_many_flat_images_are_one_warning(write_image):
    paths = [write_image(f"flat{i}.png", np.full((9, 9), 7, np.uint8)) for i in range(5)]
    with pytest.warns(NmfsyncWarning, match=r"flat2\.png and 2 more: no feat") as caught:
        extract_all(paths)
    assert len(caught) == 1


def test_unreadable_image_is_named_before_any_work(write_image, tmp_path, astronaut, monkeypatch):
    bad = tmp_path / "notes.jpg"
    bad.write_text("not a picture")
    paths = [write_image("a.png", astronaut), bad]
    monkeypatch.setattr("nmfsync.features.extract.extract_with_faults", None)
    with pytest.raises(NmfsyncError, match=r"notes\.jpg"):
        extract_all(paths)


def test_image_cut_in_half_is_named(write_image, astronaut):
    path = write_image("half.jpg", astronaut)
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(NmfsyncError, match=r"half\.jpg: is damaged or incomplete"):
        extract_all([path])


def test_one_damaged_image_does_not_end_the_others(photographs, extracted, tmp_path):
    """And it is no entry of the cache: the next run looks at it again."""
    images = shutil.copytree(photographs, tmp_path / "images")
    paths = sorted(images.iterdir())
    sound = paths[1].read_bytes()
    paths[1].write_bytes(sound[:9000])
    for looked_at in (3, 1):
        found = extract_readable(paths, 50, cache=tmp_path / "cache")
        assert [isinstance(f, NmfsyncError) for f in found] == [False, True, False]
        assert "view1.png: is damaged" in str(found[1])
        assert len(extracted) == looked_at
        extracted.clear()
    paths[1].write_bytes(sound)
    assert len(extract_all(paths, 50, cache=tmp_path / "cache")[1]) == 50
