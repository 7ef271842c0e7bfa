"""Depth maps rendered from a mesh that lies beside the images, by ray casting."""

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import read_hashed, reading
from nmfsync.truth.depths import DepthMap, DepthMaps
from nmfsync.types.arrays import FloatArray
from nmfsync.types.camera import Camera

# Share of an image that the mesh must cover in at least one image. With less it is in another
# coordinate system than the cameras.
_MIN_COVERAGE = 0.01

_FARTHEST = 1e18  # Embree computes squares in single precision

RAYS_AT_ONCE = 2**18  # a limit on memory


def mesh_beside(folder: Path) -> Path | None:
    """Find the mesh, a PLY or OBJ file with faces, in the folder of a scene's images.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    Path or None
        None if the folder contains no mesh. Point clouds do not count.

    Raises
    ------
    NmfsyncError
        If the folder contains several meshes.
    """
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (".ply", ".obj")]
    meshes = [path for path in files if _has_faces(path)]
    if len(meshes) > 1:
        names = ", ".join(path.name for path in meshes)
        raise NmfsyncError(f"{folder}: contains several meshes ({names}); leave one of them there")
    return meshes[0] if meshes else None


def _has_faces(path: Path) -> bool:
    """Tell a mesh from a point cloud without reading the whole file."""
    with reading(path, "is no readable mesh"), path.open("rb") as file:
        if path.suffix.lower() == ".obj":
            return any(line.startswith(b"f ") for line in file)
        header = file.read(20_000).partition(b"end_header")[0]
        faces = re.search(rb"element face ([0-9]+)", header)
        return bool(faces and faces[1].strip(b"0"))


def render_mesh(mesh_path: Path, cameras: Sequence[Camera], sha256: str | None = None) -> DepthMaps:
    """Render a depth map of a triangle mesh, for instance from a laser scan, for every camera.

    Needs the extra `mesh` (trimesh and Intel's Embree through embreex).

    Parameters
    ----------
    mesh_path : Path
        A PLY or OBJ file, in world coordinates.
    cameras : sequence of Camera
    sha256 : str, optional
        That of the file when it was looked at. None takes the file as it is.

    Returns
    -------
    DepthMaps

    Raises
    ------
    NmfsyncError
        If the libraries are missing, if the file is no mesh (for instance a point cloud), or if
        the mesh covers less than 1 % of every image, or is another file than `sha256` says.
    """
    # Embree computes in single precision, which loses digits far from the origin.
    origin = np.mean([camera.centre for camera in cameras], axis=0)
    corners, intersector = _load_mesh(mesh_path, origin, sha256)
    # Products of matrices with three columns get slower with several threads.
    with threadpool_limits(1, user_api="blas"):
        maps = [_render(camera, origin, corners, intersector) for camera in cameras]
    if max(np.isfinite(depth).mean() for depth in maps) < _MIN_COVERAGE:
        raise NmfsyncError(
            f"{mesh_path}: covers less than {_MIN_COVERAGE:.0%} of every image; "
            "mesh and cameras must be in the same coordinate system"
        )
    return DepthMaps(tuple(cameras), maps)


def _load_mesh(path: Path, origin: FloatArray, sha256: str | None) -> tuple[FloatArray, Any]:
    """Load a mesh: triangle corners (n, 3, 3) relative to the origin, and a ray intersector."""
    try:
        import trimesh
        from trimesh.ray.ray_pyembree import RayMeshIntersector
    except ImportError:
        raise NmfsyncError(
            f'{path}: to render a mesh, install the extra: pip install "nmfsync[mesh]"'
        ) from None
    with reading(path, "is no readable mesh"):
        # Without its path trimesh cannot read the other files that a mesh may name.
        content = BytesIO(read_hashed(path, sha256)[0])
        mesh = trimesh.load_mesh(content, file_type=path.suffix[1:].lower(), process=False)
        mesh.vertices = mesh.vertices - origin
        corners = np.asarray(mesh.triangles)
        if len(corners) == 0:
            raise NmfsyncError("contains points but no triangles; a mesh is needed")
        if not (np.abs(corners) < _FARTHEST).all():
            raise NmfsyncError("contains corners that are not finite, or too far from the cameras")
        return corners, RayMeshIntersector(mesh)


def _render(camera: Camera, origin: FloatArray, corners: FloatArray, intersector: Any) -> DepthMap:
    """Render one depth map (h, w), some rows at a time; NaN where there is no surface."""
    width, height = camera.size
    rows = max(1, RAYS_AT_ONCE // width)
    depth = np.empty((height, width), dtype=np.float32)
    for top in range(0, height, rows):
        block = depth[top : top + rows]
        y, x = np.indices(block.shape)
        pixels = np.column_stack([x.ravel(), y.ravel() + top])
        # Directions have depth 1, so that multiples of them are depths.
        directions = camera.back_project(pixels, np.ones(len(pixels))) - camera.centre
        multiples = _cast(camera.centre - origin, directions, corners, intersector)
        block[:] = multiples.reshape(block.shape)
    return depth


def _cast(
    start: FloatArray, directions: FloatArray, corners: FloatArray, intersector: Any
) -> FloatArray:
    """Cast rays start + multiple · directions (n, 3): multiples (n,) at the mesh, or NaN."""
    triangle = intersector.intersects_first(np.broadcast_to(start, directions.shape), directions)
    hit = triangle >= 0
    a, b, c = corners[triangle[hit]].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    multiple = np.full(len(directions), np.nan)
    multiple[hit] = ((a - start) * normal).sum(axis=1) / (directions[hit] * normal).sum(axis=1)
    return multiple
