"""Random multi-matching problems and damaged files for property tests."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from builders import with_descriptors
from nmfsync import MultiMatching, PairwiseMatches


@st.composite
def pairwise_matches(draw, max_images=5, max_features=6, weighted=False):
    """Any valid W: every block a random partial permutation, images without features too.

    The descriptors are random.
    """
    sizes = draw(st.lists(st.integers(0, max_features), min_size=1, max_size=max_images))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    W = np.zeros((offsets[-1], offsets[-1]))
    for i in range(len(sizes)):
        for j in range(i + 1, len(sizes)):
            n = min(sizes[i], sizes[j])
            rows = offsets[i] + rng.permutation(sizes[i])[:n]
            columns = offsets[j] + rng.permutation(sizes[j])[:n]
            kept = rng.random(n) < density
            W[rows[kept], columns[kept]] = rng.uniform(0.1, 1, kept.sum()) if weighted else 1
    return with_descriptors(PairwiseMatches(sparse.csr_array(W + W.T), sizes))


@st.composite
def multi_matchings(draw, max_images=6, max_universe=8):
    """A cycle-consistent matching: every image shows a random part of the universe."""
    d = draw(st.integers(1, max_universe))
    k = draw(st.integers(1, max_images))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shown = [rng.permutation(d)[: rng.integers(0, d + 1)] for _ in range(k)]
    return MultiMatching(np.concatenate(shown), [len(features) for features in shown])


@st.composite
def damaged(draw, content: bytes):
    """The content of a file, cut off, or with some places overwritten, removed or repeated."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        span = draw(st.sampled_from([1, 2, 4, 8, 100, 4096]))
        kind = draw(st.sampled_from(["other", "zeros", "ones", "remove", "repeat", "cut"]))
        if kind == "other":
            piece = draw(st.binary(min_size=1, max_size=8))
            changed[at : at + len(piece)] = piece
        elif kind == "zeros":
            changed[at : at + span] = bytes(span)
        elif kind == "ones":
            changed[at : at + span] = b"\xff" * span
        elif kind == "remove":
            del changed[at : at + span]
        elif kind == "repeat":
            changed[at:at] = changed[at : at + span]
        else:
            del changed[at:]
    return bytes(changed)
