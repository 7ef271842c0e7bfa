"""The cameras of a COLMAP database."""

from pathlib import Path

import numpy as np

from nmfsync.exchange.colmap import open_read_only
from nmfsync.exchange.new_database import CameraPrior

_MODELS = (
    "SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "OPENCV_FISHEYE",
    "FULL_OPENCV", "FOV", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "THIN_PRISM_FISHEYE",
)  # fmt: skip


def stored_cameras(path: Path) -> dict[str, CameraPrior]:
    """Return the camera of every image, by name, of those whose focal length is known."""
    query = (
        "SELECT name, model, params FROM images JOIN cameras USING (camera_id) "
        "WHERE prior_focal_length"
    )
    with open_read_only(path) as database:
        return {
            name: CameraPrior(_MODELS[model], tuple(np.frombuffer(parameters).tolist()))
            for name, model, parameters in database.execute(query)
            if model in range(len(_MODELS))
        }
