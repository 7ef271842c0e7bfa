"""Writes the images and matches of a COLMAP database, in a process of its own.

pycolmap ends the process when it cannot write, for instance on a full disk: an error
in a C++ destructor. And beside it in one process, Pillow cannot write PNG files. So
`nmfsync.exchange.colmap` starts this module as a program.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.exchange.colmap import MAX_IMAGES
from nmfsync.runtime.workers import end_with_parent
from nmfsync.types.arrays import AnyArray, IntArray

# The kinds of two-view geometry that COLMAP's mappers use.
_GEOMETRIES = ("CALIBRATED", "UNCALIBRATED", "PLANAR", "PANORAMIC", "PLANAR_OR_PANORAMIC")

_FEWEST = 8  # matches that COLMAP may estimate a geometry from; the mappers ask for 15 by default

_Blocks = Iterator[tuple[tuple[int, int], AnyArray]]


def main(database: str, arrays: str, verify: str, parent: str) -> None:
    """Replace all matches of a database, and its two-view geometries; make it if it is new.

    Parameters
    ----------
    database : str
        Path of the database, which is changed.
    arrays : str
        Path of an `.npz` file: the image ids of every pair in `pairs` (n, 2), its number
        of matches in `counts` (n,), and the matches of all pairs in `rows`, (sum, 2) uint32.
        For a new database also what `new_database` says of its images.
    verify : str
        "verify": COLMAP estimates new geometries. "keep": a pair keeps its old one.
    parent : str
        Number of the process that started this one, which ends with it.
    """
    end_with_parent(int(parent))
    import pycolmap

    pycolmap.logging.minloglevel = 2  # errors only
    with np.load(arrays) as content:
        if "images" in content:
            _write_images(pycolmap, Path(database), content)
        _replace_matches(pycolmap, Path(database), content, verify == "verify")
    if verify == "verify":
        _verify(pycolmap, Path(database))


def _write_images(pycolmap: Any, path: Path, arrays: Mapping[str, AnyArray]) -> None:
    """Write images with their cameras and features, each in a frame of its own, as COLMAP does."""
    ends = np.cumsum(arrays["sizes"])
    keypoints, descriptors = arrays["keypoints"], arrays["descriptors"]
    cameras: dict[Any, tuple[int, int]] = {}  # what is known of a camera -> its id, that of its rig
    described = 0
    with closing(pycolmap.Database.open(path)) as database, pycolmap.DatabaseTransaction(database):
        for n, said in enumerate(json.loads(str(arrays["images"]))):
            key, camera = _camera(pycolmap, said)
            if key is None or key not in cameras:
                ids = _write_camera(pycolmap, database, camera)
                cameras[n if key is None else key] = ids
            camera_id, rig_id = cameras[n if key is None else key]
            name = os.fsencode(said["name"])
            image = pycolmap.Image(name=name, camera_id=camera_id, image_id=n + 1)
            database.write_image(image, use_image_id=True)
            frame = pycolmap.Frame(rig_id=rig_id)
            frame.add_data_id(image.data_id)
            database.write_frame(frame)
            size = int(arrays["sizes"][n])
            database.write_keypoints(n + 1, keypoints[ends[n] - size : ends[n]])
            if said["described"]:
                rows = descriptors[described : described + size]
                described += size
                kind = pycolmap.FeatureExtractorType.SIFT
                database.write_descriptors(n + 1, pycolmap.FeatureDescriptors(kind, rows))


def _write_camera(pycolmap: Any, database: Any, camera: Any) -> tuple[int, int]:
    """Write a camera and the rig that it is alone; return their ids."""
    camera.camera_id = database.write_camera(camera)
    rig = pycolmap.Rig()
    rig.add_ref_sensor(camera.sensor_id)
    return camera.camera_id, database.write_rig(rig)


def _camera(pycolmap: Any, said: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the camera of an image, and what images that share it have in common, or None."""
    width, height = said["size"]
    if said["camera"]:
        model, parameters = said["camera"]
        camera = pycolmap.Camera(model=model, width=width, height=height, params=parameters)
        camera.has_prior_focal_length = True
        return (model, *parameters, width, height), camera
    known = _look_at(pycolmap, said["photograph"])
    if known and (known[1].width, known[1].height) == (width, height):
        return known
    options = pycolmap.ImageReaderOptions()
    focal = options.default_focal_length_factor * max(width, height)
    return None, pycolmap.Camera.create_from_model_name(
        0, options.camera_model, focal, width, height
    )


def _look_at(pycolmap: Any, photograph: str | None) -> tuple[str | None, Any] | None:
    """Return what the EXIF data of a photograph call its camera, and the camera, as COLMAP does."""
    if photograph is None:
        return None
    path = os.fsencode(photograph)
    try:
        camera = pycolmap.infer_camera_from_image(path)
        if not camera.has_prior_focal_length:
            return None, camera
        return pycolmap.Bitmap.read(path, False).exif_camera_model(), camera
    except Exception:  # a file that we read and COLMAP cannot; nothing is known of its camera then
        return None


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
        views = _Views(database)
        with pycolmap.DatabaseTransaction(database):
            database.clear_matches()
            database.clear_two_view_geometries()
            for pair, rows in _blocks(arrays):
                database.write_matches(*pair, rows)
                if not verify:
                    geometry: Any = old.get(MAX_IMAGES * pair[0] + pair[1])
                    if not _is_usable(pycolmap, geometry):
                        geometry = _geometry(pycolmap, views, pair, rows)
                    geometry.inlier_matches = rows
                    database.write_two_view_geometry(*pair, geometry)


class _Views:
    """The cameras and the positions of features of all images, by image id."""

    def __init__(self, database: Any) -> None:
        self._database = database
        cameras = {camera.camera_id: camera for camera in database.read_all_cameras()}
        images = database.read_all_images()
        self.cameras = {image.image_id: cameras[image.camera_id] for image in images}
        self._xy: dict[int, AnyArray] = {}

    def xy(self, image: int) -> AnyArray:
        if image not in self._xy:
            keypoints = np.asarray(self._database.read_keypoints(image), np.float64)
            self._xy[image] = keypoints[:, :2]
        return self._xy[image]


def _is_usable(pycolmap: Any, geometry: Any) -> bool:
    """Say whether both kinds of mapper can use a two-view geometry."""
    if geometry is None or geometry.cam2_from_cam1 is None:
        return False
    return pycolmap.TwoViewGeometryConfiguration(int(geometry.config)).name in _GEOMETRIES


def _geometry(pycolmap: Any, views: _Views, pair: tuple[int, int], rows: AnyArray) -> Any:
    """Estimate the two-view geometry of matches that are right, the same every time.

    If COLMAP finds none, the kind of geometry follows from the cameras, which its incremental
    mapper accepts.
    """
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    options.compute_relative_pose = True
    options.detect_watermark = False  # what it takes for one, the mappers would leave out
    options.min_num_inliers = _FEWEST
    cameras = [views.cameras[image] for image in pair]
    sides = [side for n in (0, 1) for side in (cameras[n], views.xy(pair[n]))]
    geometry = pycolmap.estimate_two_view_geometry(*sides, rows, options)
    if not _is_usable(pycolmap, geometry):
        kinds = pycolmap.TwoViewGeometryConfiguration
        known = all(camera.has_prior_focal_length for camera in cameras)
        geometry = pycolmap.TwoViewGeometry()
        geometry.config = kinds.CALIBRATED if known else kinds.UNCALIBRATED
    return geometry


def _verify(pycolmap: Any, path: Path) -> None:
    """Let COLMAP verify all matches of a database, with a fixed seed."""
    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = 0
    options.compute_relative_pose = True  # which global mapping needs
    # Not verify_matches, whose file of pairs cannot contain names with spaces.
    pycolmap.geometric_verification(path, two_view_geometry_options=options)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(" ".join(str(error).split()))
