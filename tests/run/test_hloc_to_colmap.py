"""Matches of hloc become a new COLMAP database that mappers read at once."""

import cv2
import pytest

import rendered
from colmap_scenes import map_images
from nmfsync import (
    NmfsyncError,
    PairwiseMatches,
    Settings,
    run_scene,
    synchronise_file,
    verify_file,
)

pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")
pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Photographs, and their features and matches in files of hloc."""
    folder = tmp_path_factory.mktemp("hloc")
    (folder / "photos").mkdir()
    for n, image in enumerate(rendered.scene().images):
        cv2.imwrite(str(folder / f"photos/{n}.png"), image)
    settings = Settings(methods=("none",), features=300, hloc=folder / "files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmfsync.run.scene.write_scene_report", lambda *arguments: None)
        run_scene(folder / "photos", settings, folder / "out")
    return folder / "photos", folder / "files/matches.h5", folder / "files/features.h5"


def test_a_database_for_mappers(files, tmp_path):
    photos, matches, features = files
    done = synchronise_file(
        matches, tmp_path / "model.db", features, geometry="fundamental", images=photos
    )
    assert done.tracks
    written = PairwiseMatches.from_colmap(tmp_path / "model.db", verified=True)
    assert written.match_count == done.change.kept > 500
    for new, old in zip(written.source.xy(), done.result.source.xy(), strict=True):
        assert abs(new - old).max() < 1e-3
    (model,) = map_images(tmp_path / "model.db", tmp_path)
    assert model.num_reg_images() == len(rendered.scene().images)


def test_verified_alone(files, tmp_path):
    photos, matches, features = files
    done = verify_file(matches, tmp_path / "model.db", features, images=photos)
    written = PairwiseMatches.from_colmap(tmp_path / "model.db", verified=True)
    assert written.match_count == done.result.match_count


def test_without_photographs_there_are_no_cameras(files, tmp_path):
    _, matches, features = files
    with pytest.raises(NmfsyncError, match=r"name their folder with --images; or"):
        synchronise_file(matches, tmp_path / "model.db", features)
    assert not any(tmp_path.iterdir())


def test_a_photograph_that_is_missing_is_named(files, tmp_path):
    photos, matches, features = files
    (tmp_path / "some").mkdir()
    (tmp_path / "some/0.png").write_bytes((photos / "0.png").read_bytes())
    with pytest.raises(NmfsyncError, match=r"1\.png"):
        synchronise_file(matches, tmp_path / "model.db", features, images=tmp_path / "some")
    assert not (tmp_path / "model.db").exists()
