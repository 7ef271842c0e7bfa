"""The heap against Python's own."""

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nmfsync.runtime.heap import pop, push


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.none() | st.sampled_from([0.0, 0.5, 1.0, 2.5, np.inf]), max_size=40))
def test_the_smallest_key_comes_out_as_from_heapq(steps):
    """None takes an entry out. Of equal keys, any may come first."""
    keys, items, length = np.empty(40), np.empty(40, dtype=np.int64), 0
    expected, held = [], set()
    for item, key in enumerate(steps):
        if key is not None:
            length = push(keys, items, length, key, item)
            heapq.heappush(expected, key)
            held.add((key, item))
        elif expected:
            assert keys[0] == heapq.heappop(expected)
            held.remove((keys[0], items[0]))
            length = pop(keys, items, length)
        assert length == len(expected)
