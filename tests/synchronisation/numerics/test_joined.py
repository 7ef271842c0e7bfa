"""Components that are joined match by match."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from nmfsync.synchronisation.numerics.components import components_of, join, label_components

pairs = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20)


@given(pairs, st.integers(0, 20))
def test_they_are_those_of_the_graph(edges, cut):
    root = np.arange(12, dtype=np.int32)
    for part in (edges[:cut], edges[cut:]):
        p, q = np.array(part, np.int64).reshape(-1, 2).T
        join(root, np.ascontiguousarray(p), np.ascontiguousarray(q))
    p, q = np.array(edges, np.int64).reshape(-1, 2).T
    W = sparse.csr_array((np.ones(len(p)), (p, q)), shape=(12, 12))
    assert components_of(root).tolist() == label_components(W).tolist()
