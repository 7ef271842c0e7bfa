"""Replaces the matches of a COLMAP database, in a process of its own.

pycolmap ends the process when it cannot write, for instance on a full disk: an error
in a C++ destructor. So `nmfsync.exchange.colmap` starts this module as a program.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.exchange.colmap import MAX_IMAGES
from nmfsync.runtime.workers import end_with_parent
from nmfsync.types.arrays import AnyArray, IntArray

# The kinds of two-view geometry that contain the relative pose of the two cameras.
_GEOMETRIES = ("CALIBRATED", "UNCALIBRATED", "PLANAR", "PANORAMIC", "PLANAR_OR_PANORAMIC")

_Blocks = Iterator[tuple[tuple[int, int], AnyArray]]


def main(database: str, matches: str, verify: str, parent: str) -> None:
    """Replace all matches of a database, and its two-view geometries.

    Parameters
    ----------
    database : str
        Path of the database, which is changed.
    matches : str
        Path of an `.npz` file: the image ids of every pair in `pairs` (n, 2), its number
        of matches in `counts` (n,), and the matches of all pairs in `rows`, (sum, 2) uint32.
    verify : str
        "verify": COLMAP estimates new geometries. "keep": a pair keeps its old one.
    parent : str
        Number of the process that started this one, which ends with it.
    """
    end_with_parent(int(parent))
    import pycolmap

    pycolmap.logging.minloglevel = 2  # errors only
    with np.load(matches) as arrays:
        _replace_matches(pycolmap, Path(database), arrays, verify == "verify")
    if verify == "verify":
        _verify(pycolmap, Path(database))


def _blocks(arrays: Mapping[str, AnyArray]) -> _Blocks:
    ends = np.cumsum(arrays["counts"])
    rows: IntArray = arrays["rows"]
    for (a, b), end, count in zip(arrays["pairs"].tolist(), ends, arrays["counts"], strict=True):
        yield (a, b), rows[end - count : end]


def _replace_matches(
    pycolmap: Any, path: Path, arrays: Mapping[str, AnyArray], verify: bool
) -> None:
    with closing(pycolmap.Database.open(path)) as database:
        old = {} if verify else dict(zip(*database.read_two_view_geometries(), strict=True))
        calibrated = _calibrated(database)
        with pycolmap.DatabaseTransaction(database):
            database.clear_matches()
            database.clear_two_view_geometries()
            for pair, rows in _blocks(arrays):
                database.write_matches(*pair, rows)
                if not verify:
                    geometry = _geometry(pycolmap, old, pair, calibrated)
                    geometry.inlier_matches = rows
                    database.write_two_view_geometry(*pair, geometry)


def _calibrated(database: Any) -> set[int]:
    """Return the ids of the images whose camera has a known focal length, not a guessed one."""
    cameras = {c.camera_id for c in database.read_all_cameras() if c.has_prior_focal_length}
    return {image.image_id for image in database.read_all_images() if image.camera_id in cameras}


def _geometry(
    pycolmap: Any, old: dict[int, Any], pair: tuple[int, int], calibrated: set[int]
) -> Any:
    """Return the old two-view geometry of a pair, or else one that COLMAP's mapper accepts."""
    kinds = pycolmap.TwoViewGeometryConfiguration
    geometry = old.get(MAX_IMAGES * pair[0] + pair[1])
    if geometry is None or kinds(int(geometry.config)).name not in _GEOMETRIES:
        geometry = pycolmap.TwoViewGeometry()
        geometry.config = kinds.CALIBRATED if calibrated.issuperset(pair) else kinds.UNCALIBRATED
    return geometry


def _verify(pycolmap: Any, path: Path) -> None:
    """Let COLMAP verify all matches of a database, with a fixed seed."""
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    # Not verify_matches, whose file of pairs cannot contain names with spaces.
    pycolmap.geometric_verification(path, two_view_geometry_options=options)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(" ".join(str(error).split()))
