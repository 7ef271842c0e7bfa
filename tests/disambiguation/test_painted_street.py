"""A painted row of equal houses, from pictures to a model."""

import pytest

import painted
from look_alikes import parts
from mapped import map_matches
from nmfsync.run.image_pairs import without_wrong_pairs


def test_equal_houses_in_a_row_are_not_folded(tmp_path):
    pytest.importorskip("pycolmap", reason="needs pip install 'nmfsync[colmap]'")
    images = painted.street(1).photographed()
    matches, verdicts = without_wrong_pairs(images.matches, images.keypoints)
    kept = {(verdict.i, verdict.j) for verdict in verdicts if verdict.right}
    assert len(images.wrong) > 100
    assert not kept & images.wrong
    assert parts(kept, len(images.cameras)) == 1
    xy = [keypoints.xy for keypoints in images.keypoints]
    folded = map_matches(tmp_path / "all", images.cameras, xy, images.matches)
    assert folded[1] > 0.3
    images_mapped, error = map_matches(tmp_path / "kept", images.cameras, xy, matches)
    assert images_mapped == len(images.cameras)
    assert error < 0.01
