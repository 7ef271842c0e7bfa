"""Mutual nearest neighbours of two images, by their definition."""

from collections.abc import Iterable

import numpy as np


def mutual_by_definition(
    A: np.ndarray, B: np.ndarray, barred: Iterable[tuple[int, int]] = ()
) -> list[tuple[int, int, float, float]]:
    """Features p and q, their squared distance, and that to the second nearest; inf for none.

    The matches p, q in `barred` are not allowed.
    """
    A, B = A.astype(np.int64), B.astype(np.int64)
    D = ((A[:, None] - B[None]) ** 2).sum(axis=2).astype(float)
    D[~A.any(axis=1)] = D[:, ~B.any(axis=1)] = np.inf
    for p, q in barred:
        D[p, q] = np.inf
    if not D.size:
        return []
    found = []
    for p, q in enumerate(D.argmin(axis=1).tolist()):
        if np.isfinite(D[p, q]) and D[:, q].argmin() == p:
            others = np.concatenate([np.delete(D[p], q), np.delete(D[:, q], p)])
            found.append((p, q, D[p, q], others.min(initial=np.inf)))
    return found
