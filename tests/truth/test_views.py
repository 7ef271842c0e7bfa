"""Which views a depth is looked for in."""

from nmfsync.truth import views
from nmfsync.truth.views import neighbouring_views


def test_neighbours_are_other_views_and_the_nearer_ones_come_first(scene):
    found = neighbouring_views(scene.cameras)  # 7 degrees apart on an arc
    assert all(i not in chosen for i, chosen in enumerate(found))
    assert set(found[0][:3]) <= {1, 2, 3, 4}


def test_no_view_is_missed_for_being_judged_with_all_others_first(scene, monkeypatch):
    cameras = scene.cameras
    chosen = neighbouring_views(cameras)
    monkeypatch.setattr(views, "_at_useful_angles", lambda _, centres, __: range(len(centres)))
    assert [v.tolist() for v in neighbouring_views(cameras)] == [v.tolist() for v in chosen]
