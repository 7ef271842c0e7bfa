"""Simulated frames of a video: features of points that stay for some frames."""

from pathlib import Path

import numpy as np

from builders import make_features
from nmfsync.features.stored import StoredFeatures, pack
from nmfsync.runtime.cache import save
from nmfsync.types.features import Features

LIFE = 30  # frames that see a point, of which each misses a third
STEP = 4.0  # pixels that the scene moves from frame to frame


def frame(i: int, n: int) -> Features:
    """Make the frame i of a video whose frames see about n points and a fifth as many others."""
    slot = np.arange(round(1.5 * n))
    point = slot + len(slot) * ((i + slot * LIFE // len(slot)) // LIFE)
    rng = np.random.default_rng(i)
    seen = point[rng.random(len(point)) < 2 / 3]
    others = rng.integers(2**40, 2**41, n // 5)
    shown = rng.permutation(np.concatenate([seen, others]))
    each = [np.random.default_rng(p) for p in shown.tolist()]
    xy = np.array([own.uniform(0, 1000, 2) for own in each]) - [STEP * i, 0]
    descriptors = np.array([own.gamma(0.5, size=128) for own in each])
    descriptors *= 500 / np.linalg.norm(descriptors, axis=1, keepdims=True)
    descriptors += rng.normal(0, 12, descriptors.shape)
    rounded = np.clip(descriptors, 0, 255).astype(np.uint8)
    return make_features(xy + rng.normal(0, 0.3, xy.shape), rounded, (1000, 1000), scale=4.0)


def write_frames(task: tuple[Path, range, int]) -> list[StoredFeatures]:
    """Write frames to a folder, as the extraction of a cluster does; return where they are."""
    folder, frames, n = task
    stored = []
    for i in frames:
        path, features = folder / f"{i}.npz", frame(i, n)
        save(path, str(i), pack((features, [])))
        stored.append(StoredFeatures(path, str(i), features))
    return stored
