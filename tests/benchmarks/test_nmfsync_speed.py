"""The paper's method as it is written down, with dense arrays, against `nmfsync`.

python -m pytest -m benchmark tests/benchmarks/test_nmfsync_speed.py -s
"""

import time
from itertools import pairwise

import numpy as np
import pytest
from scipy import linalg
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import eigsh
from threadpoolctl import threadpool_limits

from nmfsync import (
    MultiMatching,
    evaluation,
    extract_all,
    load_scene,
    match,
    synthetic,
)
from nmfsync.synchronisation.methods import resolve_universe_size
from nmfsync.synchronisation.nmfsync import factorisation as nmf
from nmfsync.synchronisation.nmfsync.rotation import flip_signs, successive_block_rotation
from nmfsync.synchronisation.numerics.components import label_components
from nmfsync.synchronisation.numerics.eigenpairs import top_eigenpairs
from nmfsync.synchronisation.numerics.rounding import assign_to_universe
from real_data import real_data

pytestmark = [pytest.mark.benchmark, pytest.mark.filterwarnings("ignore:.*universe size")]


class Stages:
    """Wall and CPU seconds of stages, and of all of them."""

    def __init__(self, name):
        self.name, self.wall, self.cpu = name, 0.0, 0.0

    def __call__(self, stage, work, *arguments):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work(*arguments)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.wall += wall
        self.cpu += cpu
        print(f"{self.name:9}{stage:12}{wall:9.2f} s{cpu:9.2f} CPU s", flush=True)
        return result


def straightforward(W, sizes, d, eigenpairs):
    """Algorithm 1 of the paper on dense arrays; BLAS may use all threads."""
    stage = Stages("dense")
    W = W.toarray()
    values, vectors = stage("eigenpairs", eigenpairs, W, d)
    X = flip_signs(vectors * np.sqrt(np.maximum(values, 0)))
    X = stage("rotation", rotate_dense, X, sizes)
    V = stage("updates", update_dense, W, np.maximum(X, 0))
    R = stage("rotation", rotate_dense, V, sizes)
    universe = stage("assignment", assign_dense, R, sizes)
    return MultiMatching(universe, sizes), stage


def ours(W, sizes, d):
    """Do what `nmfsync` does, stage by stage."""
    stage = Stages("nmfsync")
    with threadpool_limits(1, user_api="blas"):
        component_of = label_components(W)
        values, vectors = stage("eigenpairs", top_eigenpairs, W, d)
        X = flip_signs(vectors * np.sqrt(np.maximum(values, 0)))
        X = stage("rotation", successive_block_rotation, X, sizes, component_of)
        V, _ = stage("updates", nmf.factorise, W, np.maximum(X, 0))
        R = stage("rotation", successive_block_rotation, V, sizes, component_of)
        universe = stage("assignment", assign_to_universe, R, sizes, 0.0)
    return MultiMatching(universe, sizes), stage


def arpack(W, d):
    return eigsh(W, d, which="LA", v0=np.ones(len(W)))


def lapack(W, d):
    return linalg.eigh(W, subset_by_index=(len(W) - d, len(W) - 1))


def rotate_dense(X, sizes):
    """Algorithm 2: every target a dense matrix, every rotation a full singular value problem."""
    m, d = X.shape
    image_of = np.repeat(np.arange(len(sizes)), sizes)
    C, used, inactive, threshold = np.zeros((m, d)), 0, np.ones(m, dtype=bool), None
    while True:
        counts = np.bincount(image_of[inactive])
        rows = np.flatnonzero(inactive & (image_of == counts.argmax()))[: d - used]
        C[rows, used + np.arange(len(rows))] = 1
        used += len(rows)
        left, _, right = linalg.svd(X.T @ C)
        R = flip_signs(X @ (left @ right))
        if threshold is None:
            threshold = np.median(R[C > 0]) / 2
        inactive = R[:, :used].max(axis=1) < threshold
        if used == d or not inactive.any():
            return R
        best = R[:, :used].argmax(axis=1)
        C = np.zeros((m, d))
        C[~inactive, best[~inactive]] = 1


def update_dense(W, V):
    """Multiplicative updates with the published stopping rule; returns the balanced V."""
    eps, m, square = np.finfo(float).eps, len(W), np.vdot(W, W)
    H = V.T.copy()

    def residual():
        squared = square - 2 * np.vdot(V, W @ H.T) + np.vdot(V.T @ V, H @ H.T)
        return np.sqrt(max(squared, 0)) / m

    previous = residual()
    for update in range(100):
        H_new = H * (V.T @ W) / ((V.T @ V) @ H + eps)
        V_new = V * (W @ H_new.T) / (V @ (H_new @ H_new.T) + eps)
        change = max(
            abs(new - old).max() / (abs(old).max() + np.sqrt(eps))
            for new, old in ((V_new, V), (H_new, H))
        )
        V, H = V_new, H_new
        now = residual()
        if update > 0 and (change <= 1e-4 or previous - now <= 1e-4 * max(1, previous)):
            break
        previous = now
    v, h = np.linalg.norm(V, axis=0), np.linalg.norm(H, axis=1)
    both = (v > 0) & (h > 0)
    return V * np.sqrt(np.divide(h, v, out=np.ones_like(v), where=both))


def assign_dense(R, sizes):
    """Assign features to columns, image by image; others stay alone."""
    m, d = R.shape
    universe = d + np.arange(m)
    for start, stop in pairwise(np.concatenate([[0], np.cumsum(sizes)])):
        rows, columns = linear_sum_assignment(R[start:stop], maximize=True)
        supported = R[start + rows, columns] > 1e-9
        universe[start + rows[supported]] = columns[supported]
    return universe


def compare(W, sizes, d, eigenpairs):
    print(f"\nm = {W.shape[0]}, d = {d}, {W.nnz} entries")
    fast, our_time = ours(W, sizes, d)
    slow, dense_time = straightforward(W, sizes, d, eigenpairs)
    differing = (fast.W != slow.W).nnz // 2
    print(
        f"{dense_time.wall:.1f} against {our_time.wall:.1f} s, ratio "
        f"{dense_time.wall / our_time.wall:.0f}; {dense_time.cpu:.1f} against "
        f"{our_time.cpu:.1f} CPU s, ratio {dense_time.cpu / our_time.cpu:.0f}; "
        f"{differing} matches differ of {slow.W.nnz // 2}"
    )
    assert dense_time.cpu > 10 * our_time.cpu
    return fast, slow, differing


def test_one_large_component():
    W, W_gt, sizes = synthetic.generate(k=83, d=400, rho=0.6, sigma=0.4, seed=0)
    fast, slow, differing = compare(W, sizes, 400, arpack)
    errors = [evaluation.gt_error(result.W, W_gt) for result in (fast, slow)]
    print(f"gt-error {errors[0]:.2f}, of the dense version {errors[1]:.2f}")
    assert differing == 0


def test_many_components():
    """Real matches. They repeat eigenvalues, which ARPACK does not bear: LAPACK instead."""
    real_data("graffiti")
    scene = load_scene("graffiti/wall")
    features = extract_all(scene.paths, 1000, progress=False)
    matches = match(features, progress=False)
    d = resolve_universe_size("auto", matches.sizes)
    fast, slow, _ = compare(matches.W, matches.sizes, d, lapack)
    for name, result in (("nmfsync", fast), ("dense", slow), ("input", matches)):
        errors = evaluation.match_errors(result, features, scene.truth).error
        judged = errors[np.isfinite(errors)] <= 0.01
        print(f"{name:9}{judged.sum()} of {len(judged)} matches right, {judged.mean():.3f}")
