"""From a file of detector-free matches to what a mapper reads."""

import re

import cv2
import numpy as np
import pytest

import rendered
from detector_free import rendered_pairs
from nmfsync import NmfsyncError, PairwiseMatches, merge_file

h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")
pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")

IMAGES = (1, 2, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three photographs, and matches of them as hloc writes them."""
    folder = tmp_path_factory.mktemp("dense")
    (folder / "photos").mkdir()
    for n in IMAGES:
        cv2.imwrite(str(folder / f"photos/{n}.png"), rendered.scene().images[n])
    with h5py.File(folder / "dense.h5", "w") as file:
        for (i, j), arrays in rendered_pairs(IMAGES).items():
            for name, values in zip(("keypoints0", "keypoints1", "scores"), arrays, strict=True):
                file[f"{i}.png/{j}.png/{name}"] = values
    return folder


def test_a_database_for_mappers(folder, tmp_path):
    done = merge_file(folder / "dense.h5", tmp_path / "out.db", folder / "photos")
    matches = PairwiseMatches.from_colmap(tmp_path / "out.db", verified=True)
    assert matches.source.names == ("1.png", "2.png", "3.png")
    assert matches.match_count == done.matches > 1000
    assert done.keypoints == matches.sizes.sum()
    assert (done.pairs, done.pairs_kept, done.images) == (3, 3, 3)
    assert done.observations > done.observations_kept > done.places > done.keypoints
    assert done.tracks < done.matches
    keypoints = matches.source.keypoints()
    assert {k.image_size for k in keypoints} == {rendered.SIZE}
    moved, valid = rendered.scene().transfer(1, 2, keypoints[0].xy.astype(float))
    pair = next(matches.by_image_pair())
    first, second = pair.rows.T
    error = np.linalg.norm(moved[first] - keypoints[1].xy[second], axis=1)[valid[first]]
    assert np.median(error) < 0.6  # half a pixel more would show


def test_files_of_hloc(folder, tmp_path):
    done = merge_file(folder / "dense.h5", tmp_path / "out", folder / "photos", radius=12)
    matches = PairwiseMatches.from_hloc(tmp_path / "out/matches.h5", tmp_path / "out/features.h5")
    assert matches.match_count == done.matches
    assert done.radius == 12
    assert 0 < matches.W.data.min() < matches.W.data.max() <= 1


def without_photograph(folder, tmp_path):
    (tmp_path / "photos").mkdir()
    for n in IMAGES[:2]:
        (tmp_path / f"photos/{n}.png").write_bytes((folder / f"photos/{n}.png").read_bytes())
    return tmp_path / "photos"


def test_what_cannot_be_used(folder, tmp_path):
    dense, photos = folder / "dense.h5", folder / "photos"
    np.savez(tmp_path / "far.npz", **{"1.png|2.png": np.array([[1.0, 2, 400, 3]])})
    np.savez(tmp_path / "lone.npz", **{"1.png|2.png": np.array([[1.0, 2, 4, 3]])})
    (tmp_path / "taken.db").write_text("precious")
    for path, out, images, message in (
        (dense, "o.db", without_photograph(folder, tmp_path), "is no pair of images among"),
        (tmp_path / "far.npz", "o.db", photos, "has features outside of its 320 × 240 pixels"),
        (tmp_path / "lone.npz", "o.db", photos, "no pair of images has matches that agree"),
        (dense, "o.h5", photos, "name a folder for them"),
        (dense, "taken.db", photos, "exists already"),
        (dense, "o.db", tmp_path / "absent", "is no folder"),
    ):
        with pytest.raises(NmfsyncError, match=re.escape(message)):
            merge_file(path, tmp_path / out, images)
        assert not (tmp_path / "o.db").exists()
    assert (tmp_path / "taken.db").read_text() == "precious"
    with pytest.raises(NmfsyncError, match="--radius must be greater than 0"):
        merge_file(dense, tmp_path / "o.db", photos, radius=0)
