"""Small COLMAP databases, written by pycolmap itself."""

import os
from itertools import combinations
from pathlib import Path

import numpy as np

from nmfsync import PairwiseMatches

POINTS, EXTRA = 300, 20  # features of points in space, the same in every view, and others


def write_database(
    path,
    names=tuple(f"view{v}.jpg" for v in range(6)),
    ids=None,
    columns=2,
    wrong=0.1,
    pairs=None,
    empty=(),
    seed=0,
):
    """Write views of random points from a circle, with two cameras that take turns.

    Feature n of every view shows point n, and a share `wrong` of all matches
    are shuffled. Images in `empty` have no keypoints and no matches. Returns
    the positions in each view, the centre of the top-left pixel at (0.5, 0.5).
    """
    import pycolmap

    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (POINTS, 3))
    ids = ids or range(1, len(names) + 1)
    xy = []
    database = pycolmap.Database.open(Path(path))
    focal = 500.0, 510.0
    cameras = [
        database.write_camera(pycolmap.Camera(model="SIMPLE_PINHOLE", width=640, height=480,
                                              params=[f, 320, 240]))
        for f in focal
    ]  # fmt: skip
    for v, (name, image_id) in enumerate(zip(names, ids, strict=True)):
        angle = 0.2 * (v - len(names) / 2)
        c, s = np.cos(angle), np.sin(angle)
        Y = X @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]).T + [0, 0, 4]
        seen = focal[v % 2] * Y[:, :2] / Y[:, 2:] + [320, 240] + rng.normal(0, 0.3, (POINTS, 2))
        xy.append(np.vstack([seen, rng.uniform([0, 0], [640, 480], (EXTRA, 2))]).astype("f4"))
        image = pycolmap.Image(name=name, camera_id=cameras[v % 2], image_id=image_id)
        database.write_image(image, use_image_id=True)
        if v not in empty:
            keypoints = np.ones((POINTS + EXTRA, columns), np.float32)
            keypoints[:, :2] = xy[-1]
            database.write_keypoints(image_id, keypoints)
    for a, b in pairs if pairs is not None else combinations(range(len(names)), 2):
        if a not in empty and b not in empty:
            rows = np.column_stack([np.arange(POINTS)] * 2).astype(np.uint32)
            bad = rng.random(POINTS) < wrong
            rows[bad, 1] = rng.permutation(rows[bad, 1])
            database.write_matches(ids[a], ids[b], rows)
    database.close()
    return xy


def map_images(database, folder) -> list:
    """Let COLMAP's incremental mapper make models of a database."""
    import pycolmap

    level, pycolmap.logging.minloglevel = pycolmap.logging.minloglevel, 2
    options = pycolmap.IncrementalPipelineOptions()
    options.min_model_size = 3
    options.extract_colors = False
    options.random_seed = 0
    try:
        models = pycolmap.incremental_mapping(database, folder, folder, options)
    finally:
        pycolmap.logging.minloglevel = level
    return list(models.values())


def copy_on_one_core(database: str, copy: str) -> None:
    """Read a database and write its matches to another, with one core to use."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    try:
        if cores:
            os.sched_setaffinity(0, {min(cores)})
        PairwiseMatches.from_colmap(database).to_colmap(copy)
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
