"""Matches in memory, to be clustered in parts."""

import numpy as np

from nmfsync.synchronisation.clustersync.graph import build_graph
from nmfsync.synchronisation.clustersync.parts import Problem
from nmfsync.synchronisation.numerics.components import label_components


class InMemory:
    """Matches as a source of parts."""

    def __init__(self, matches):
        self._W = matches.between_images()

    def part(self, features):
        return lambda: self._read(features)

    def _read(self, features):
        W = self._W[features][:, features]
        W.sort_indices()
        return W.indptr.astype(np.int64), W.indices.astype(np.int32), W.data


def problem_of(matches) -> Problem:
    """Make matches a problem to be solved in parts."""
    graph = build_graph(matches.W, matches.sizes)
    return Problem(
        InMemory(matches), label_components(matches.W).astype(np.int32), graph.offset, graph.pairs
    )
