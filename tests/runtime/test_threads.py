"""Work in blocks, on threads."""

from nmfsync.runtime.threads import map_blocks


def test_pieces_come_back_in_order():
    assert map_blocks(lambda rows: (rows.start, rows.stop), 8, 3) == [(0, 3), (3, 6), (6, 8)]
