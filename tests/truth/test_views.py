"""Which views a depth is looked for in."""

from nmfsync.truth.views import neighbouring_views


def test_neighbours_are_other_views_and_the_nearer_ones_come_first(scene):
    views = neighbouring_views(scene.cameras)  # 7 degrees apart on an arc
    assert all(i not in chosen for i, chosen in enumerate(views))
    assert set(views[0][:3]) <= {1, 2, 3, 4}
