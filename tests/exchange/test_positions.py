"""Files of detector-free matches: what is read, and what is said of those that cannot be."""

import re

import numpy as np
import pytest

from nmfsync import NmfsyncError, NmfsyncWarning, synchronise_file
from nmfsync.exchange.positions import read_positions

h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")

A, B = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6], [7, 8.5]], np.float32)
SCORES = np.array([0.5, 1], np.float32)
NAMES = ("a.jpg", "sub/b.jpg", "c.jpg")


def write_hloc(path, pairs):
    with h5py.File(path, "w") as file:
        for key, arrays in pairs.items():
            for name, values in zip(("keypoints0", "keypoints1", "scores"), arrays, strict=False):
                file[f"{key}/{name}"] = values
    return path


def content(found):
    return found.names, [(p.i, p.j, p.xy0.tolist(), p.xy1.tolist(), p.scores.tolist())
                         for p in found.pairs]  # fmt: skip


EXPECTED = (("a.jpg", "sub/b.jpg"), [(0, 1, A.tolist(), B.tolist(), SCORES.tolist())])


@pytest.mark.parametrize(
    ("key", "arrays"),
    [
        ("a.jpg/sub-b.jpg", (A, B, SCORES)),
        ("a.jpg_sub-b.jpg", (A, B, SCORES.astype(np.float16))),
        ("sub-b.jpg/a.jpg", (B.astype(np.float16), A, SCORES)),
    ],
)
def test_hloc(tmp_path, key, arrays):
    assert content(read_positions(write_hloc(tmp_path / "m.h5", {key: arrays}), NAMES)) == EXPECTED


def test_hloc_without_scores(tmp_path):
    found = read_positions(write_hloc(tmp_path / "m.h5", {"a.jpg/c.jpg": (A, B)}), NAMES)
    assert found.pairs[0].scores.tolist() == [1, 1]


def test_npz_by_pair(tmp_path):
    np.savez(tmp_path / "m.npz", **{"sub/b.jpg|a.jpg": np.column_stack([B, A, SCORES])})
    assert content(read_positions(tmp_path / "m.npz")) == EXPECTED
    np.savez(tmp_path / "m.npz", **{"a.jpg|sub/b.jpg": np.column_stack([A, B])})
    assert read_positions(tmp_path / "m.npz").pairs[0].scores.tolist() == [1, 1]


def lists(**changes):
    arrays = {
        "names": np.array(["sub/b.jpg", "a.jpg"]), "pairs": np.array([[1, 0], [0, 1]]),
        "counts": np.array([1, 1]), "xy0": np.array([A[0], B[1]]), "xy1": np.array([B[0], A[1]]),
        "scores": SCORES,
    }  # fmt: skip
    return {**arrays, **changes}


def test_npz_of_lists_joins_what_is_given_both_ways(tmp_path):
    np.savez(tmp_path / "m.npz", **lists())
    assert content(read_positions(tmp_path / "m.npz")) == EXPECTED


NAN = np.array([[1, 2], [np.nan, 4]], np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a|b": np.column_stack([NAN, B])}, "position 1 in a of the matches of a and b is [nan"),
        ({"a|b": np.column_stack([A, B, [1, np.inf]])}, "score 1 of the matches of a and b"),
        ({"a|b": A}, "a|b must be (n, 4), x y x y, or (n, 5) with scores, not (2, 2)"),
        ({"a|a": np.column_stack([A, B])}, "a has matches with itself"),
        ({"ab": np.column_stack([A, B])}, "the array ab is not named like a pair"),
        ({"a|b": np.empty((0, 4))}, "contains no matches"),
        (lists(counts=np.array([1, 2])), "counts add up to 3, but there are 2, 2 and 2 rows"),
        (lists(pairs=np.array([[1, 2], [0, 1]])), "pairs must be numbers of images from 0 to 1"),
        (lists(names=np.array([1, 2])), "names must be (k,) text"),
        ({"universe": np.arange(2), "sizes": np.ones(2)}, "contains matches of features, without"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*have no matches")
def test_npz_that_cannot_be_used(tmp_path, arrays, message):
    np.savez(tmp_path / "m.npz", **arrays)
    with pytest.raises(NmfsyncError, match="m.npz: " + re.escape(message)):
        read_positions(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"a.jpg/x.jpg": (A, B)}, "'a.jpg/x.jpg' is no pair of images among the photographs"),
        ({"a.jpg/C.jpg": (A, B)}, "did you mean c.jpg"),
        ({"a.jpg/c.jpg": (A,)}, "has keypoints0, but no keypoints1"),
        ({"a.jpg/c.jpg": (A, B[:1])}, "must be (n, 2), (n, 2) and (n,) numbers"),
        ({}, "contains no keypoints0"),
    ],
)
def test_hloc_that_cannot_be_used(tmp_path, pairs, message):
    with pytest.raises(NmfsyncError, match=re.escape(message)):
        read_positions(write_hloc(tmp_path / "m.h5", pairs), NAMES)


def test_warnings(tmp_path):
    large = np.array([[4100, 4], [8, 8]], np.float16)
    pairs = {"a.jpg/c.jpg": (large, B), "a.jpg/sub-b.jpg": (A[:0], B[:0], SCORES[:0])}
    with pytest.warns(NmfsyncWarning) as caught:
        found = read_positions(write_hloc(tmp_path / "m.h5", pairs), NAMES)
    texts = " ".join(str(w.message) for w in caught)
    assert "1 of 2 pairs of images have no matches" in texts
    assert "half precision, which moves those of large images by up to 2 pixels" in texts
    assert found.names == ("a.jpg", "c.jpg", "sub/b.jpg")
    path = write_hloc(tmp_path / "n.h5", {"a.jpg/c.jpg": (A, B, 3 * SCORES)})
    with pytest.warns(NmfsyncWarning, match="every match gets the weight 1"):
        found = read_positions(path, NAMES)
    assert found.pairs[0].scores.tolist() == [1, 1]


def colmap_database(path, shared):
    """Write three images; with `shared`, keypoint 0 of the first has matches in both others."""
    pycolmap = pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    with pycolmap.Database.open(path) as database:
        for n in (1, 2, 3):
            camera = pycolmap.Camera(
                model="PINHOLE", width=320, height=240, params=[300 + n, 300, 160, 120]
            )
            camera.has_prior_focal_length = n < 3
            camera_id = database.write_camera(camera)
            image = pycolmap.Image(name=f"{n}.png", camera_id=camera_id, image_id=n)
            database.write_image(image, True)
            database.write_keypoints(n, np.vstack([A, B]) + np.float32(0.5))
        database.write_matches(1, 2, np.array([[0, 0], [1, 1]], np.uint32))
        database.write_matches(1, 3, np.array([[0 if shared else 2, 0]], np.uint32))
        database.write_matches(2, 3, np.array([[2, 2]], np.uint32))
    return path


def test_colmap(tmp_path):
    found = read_positions(colmap_database(tmp_path / "m.db", shared=False))
    assert found.names == ("1.png", "2.png", "3.png")
    assert [(p.i, p.j) for p in found.pairs] == [(0, 1), (0, 2), (1, 2)]
    np.testing.assert_array_equal(found.pairs[0].xy1, A)
    np.testing.assert_array_equal(found.pairs[1].xy0, B[:1])


def test_colmap_whose_keypoints_belong_to_images(tmp_path):
    with pytest.raises(NmfsyncError, match="nmfsync synchronise makes these consistent"):
        read_positions(colmap_database(tmp_path / "m.db", shared=True))


def test_synchronising_keypoints_of_pairs_offers_to_merge_them(tmp_path):
    path = colmap_database(tmp_path / "m.db", shared=False)
    with pytest.warns(NmfsyncWarning) as caught:
        synchronise_file(path, tmp_path / "out.db", method="unionfind")
    assert any("nmfsync merge" in str(w.message) for w in caught)


def test_cameras_of_a_database(tmp_path):
    from nmfsync.exchange.stored_cameras import stored_cameras

    cameras = stored_cameras(colmap_database(tmp_path / "m.db", shared=False))
    assert list(cameras) == ["1.png", "2.png"]
    assert cameras["2.png"].model == "PINHOLE"
    assert cameras["2.png"].parameters == (302, 300, 160, 120)
