"""Depths of a mesh beside the images, by ray casting."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.truth.depths import DepthMap, DepthMaps
from nmfsync.types.arrays import FloatArray
from nmfsync.types.camera import Camera

# A mesh that fills less of every image lies elsewhere.
_LEAST_SHARE = 0.01

RAYS_AT_ONCE = 2**18


def mesh_beside(folder: Path) -> Path | None:
    """Find the mesh, a PLY or OBJ file with faces, that lies beside the images of a scene.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    Path or None
        None if there is none; a cloud of points is none.

    Raises
    ------
    NmfsyncError
        If there are several.
    """
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (".ply", ".obj")]
    meshes = [path for path in files if _has_faces(path)]
    if len(meshes) > 1:
        names = ", ".join(path.name for path in meshes)
        raise NmfsyncError(f"{folder}: holds several meshes ({names}); leave one of them there")
    return meshes[0] if meshes else None


def _has_faces(path: Path) -> bool:
    with path.open("rb") as file:
        if path.suffix.lower() == ".obj":
            return any(line.startswith(b"f ") for line in file)
        header = file.read(20_000).partition(b"end_header")[0]
    found = re.search(rb"element face ([0-9]+)", header)
    return bool(found and int(found[1]))


def render_mesh(mesh_path: Path, cameras: Sequence[Camera]) -> DepthMaps:
    """Render the depth of a triangle mesh, as a laser scan gives it, for every camera.

    Needs the extra `mesh` (trimesh and Intel's Embree through embreex).

    Parameters
    ----------
    mesh_path : Path
        PLY or OBJ, in the world's coordinates.
    cameras : sequence of Camera

    Returns
    -------
    DepthMaps

    Raises
    ------
    NmfsyncError
        If the libraries are missing, if the file is no mesh (for instance a point cloud), or if
        it lies elsewhere: in no image does it show in 1 % of the pixels.
    """
    # A mesh far from the origin would lose digits in Embree's single precision.
    origin = np.mean([camera.centre for camera in cameras], axis=0)
    corners, rays = _load_mesh(mesh_path, origin)
    # Products with three columns only lose time to threads.
    with threadpool_limits(1, user_api="blas"):
        maps = [_render(camera, origin, corners, rays) for camera in cameras]
    if max(np.isfinite(depth).mean() for depth in maps) < _LEAST_SHARE:
        raise NmfsyncError(
            f"{mesh_path}: shows in less than {_LEAST_SHARE:.0%} of the pixels of every image; "
            "mesh and cameras must be in the same coordinate system"
        )
    return DepthMaps(tuple(cameras), maps)


def _load_mesh(path: Path, origin: FloatArray) -> tuple[FloatArray, Any]:
    """Corners (n, 3, 3) of the triangles, seen from the origin, and what intersects rays."""
    try:
        import trimesh
        from trimesh.ray.ray_pyembree import RayMeshIntersector
    except ImportError:
        raise NmfsyncError(
            f'{path}: to render a mesh, install the extra: pip install "nmfsync[mesh]"'
        ) from None
    if not path.is_file():
        raise NmfsyncError(f"{path}: no such file")
    try:
        mesh = trimesh.load_mesh(path, process=False)
        mesh.vertices = mesh.vertices - origin
        corners = np.asarray(mesh.triangles)
    except Exception as error:  # a reader of many formats fails in many ways
        reason = " ".join(str(error).split())
        raise NmfsyncError(f"{path}: is not a mesh that can be read ({reason})") from None
    if len(corners) == 0:
        raise NmfsyncError(f"{path}: holds points but no triangles; a mesh is needed")
    return corners, RayMeshIntersector(mesh)


def _render(camera: Camera, origin: FloatArray, corners: FloatArray, rays: Any) -> DepthMap:
    width, height = camera.size
    rows = max(1, RAYS_AT_ONCE // width)
    depth = np.empty((height, width), dtype=np.float32)
    for top in range(0, height, rows):
        block = depth[top : top + rows]
        y, x = np.indices(block.shape)
        pixels = np.column_stack([x.ravel(), y.ravel() + top])
        # Of depth 1, so that multiples of a ray are depths.
        directions = camera.back_project(pixels, np.ones(len(pixels))) - camera.centre
        block[:] = _cast(camera.centre - origin, directions, corners, rays).reshape(block.shape)
    return depth


def _cast(start: FloatArray, directions: FloatArray, corners: FloatArray, rays: Any) -> FloatArray:
    """Multiples (n,) of the directions (n, 3) at which they meet the mesh, or NaN."""
    triangle = rays.intersects_first(np.broadcast_to(start, directions.shape), directions)
    hit = triangle >= 0
    a, b, c = corners[triangle[hit]].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    multiple = np.full(len(directions), np.nan)
    multiple[hit] = ((a - start) * normal).sum(axis=1) / (directions[hit] * normal).sum(axis=1)
    return multiple
