"""Truth from depths: through space from one calibrated image to another."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

from nmfsync.cameras import Camera
from nmfsync.errors import NmfsyncError

FloatArray = NDArray[np.float64]
DepthMap = NDArray[np.float32]

# Four pixels whose depths differ by more than this show a depth edge, or a surface
# seen so obliquely that its depth between the pixels is anybody's guess.
_EDGE = 0.02
# Features of image j at most this many pixels from a point can tell that it is hidden,
# if they are nearer to the camera by this share: on a surface seen at 60 degrees the
# depth changes by about 1 % in 3 pixels.
_HIDING_RADIUS = 3.0
_HIDING_SHARE = 0.05
# A mesh that fills less of every image lies elsewhere.
_LEAST_SHARE = 0.01
_RAYS_AT_ONCE = 2**18


@dataclass(frozen=True, eq=False)
class DepthMaps:
    """Truth from the depth of every pixel of every image.

    Between pixels the inverse depth is interpolated bilinearly, which is exact on planes, from
    those of the four pixels around that have a surface. A point cannot be judged, since its
    position in space is not known, if the nearest pixel has no surface, or if the depths of the
    four differ by more than 2 %: it lies beside a depth edge, on this or that side.

    Whether image j sees a point is told by the depth of image j at the place where the point
    lands (beside a depth edge: of the nearest pixel). Where both agree within `tolerance`, it
    does. Where image j has no surface its depth map has a hole, and nobody knows what hides
    there: such a point cannot be judged either.

    Nearer than two pixels to a depth edge the test for hidden points is right for about nine in
    ten of the points that have a depth, elsewhere always, if the maps are exact.

    Attributes
    ----------
    cameras : tuple of Camera
    maps : sequence of (h, w) float32 arrays
        Distance along the optical axis at the centre of every pixel of the image,
        NaN where there is no surface.
    kind : str
        What the depths come from, as written in `evaluation.json`.
    tolerance : float
        Largest relative difference between two depths of one point. 1 % is well above the
        errors of laser scans, of their registration and of the interpolation (all about
        0.1 %) and below the distance between most things and what is behind them.

    Raises
    ------
    NmfsyncError
        If there is not one map for every camera, of the size of its image.
    """

    cameras: tuple[Camera, ...]
    maps: Sequence[DepthMap]
    kind: str = "depths (laser)"
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if len(self.cameras) != len(self.maps):
            raise NmfsyncError(f"{len(self.maps)} depth maps for {len(self.cameras)} cameras")
        for i, (camera, depth) in enumerate(zip(self.cameras, self.maps, strict=True)):
            _check_size(depth, camera, f"the depth map of image {i + 1}")

    def transfer(self, i: int, j: int, xy: NDArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Move points of image i to image j; valid where image j sees them (see `Truth`)."""
        depth = _Sample(self.maps[i], xy).between
        moved, reached, valid = _move(self.cameras[i], self.cameras[j], xy, depth)
        there = _Sample(self.maps[j], moved[valid])
        seen = np.where(np.isfinite(there.between), there.between, there.nearest)
        valid[valid] = np.abs(reached[valid] - seen) <= self.tolerance * seen
        return moved, valid

    def points(self, i: int, xy: NDArray) -> FloatArray:
        """Points (n, 3) of the world at pixels (n, 2) of image i, NaN where there is no depth."""
        return self.cameras[i].back_project(xy, _Sample(self.maps[i], xy).between)


@dataclass(frozen=True, eq=False)
class FeatureDepths:
    """Truth from depths that are known at the features only.

    A point is looked up among the features of image i; it cannot be judged if it is none of
    them, or if its feature has no depth. It is hidden in image j if a feature of image j
    within 3 pixels of the place where it lands is nearer to the camera by more than 5 %. Most
    of what is hidden thus goes unnoticed if the features are sparse.

    Attributes
    ----------
    cameras : tuple of Camera
    xy : sequence of (n_i, 2) arrays
        Features of every image, in pixels.
    depth : sequence of (n_i,) float arrays
        Their distances along the optical axis, NaN where unknown.

    Raises
    ------
    NmfsyncError
        If the numbers of cameras, features and depths do not agree.
    """

    cameras: tuple[Camera, ...]
    xy: Sequence[NDArray]
    depth: Sequence[NDArray]
    kind: ClassVar[str] = "depths (reconstructed)"

    def __post_init__(self) -> None:
        if not len(self.cameras) == len(self.xy) == len(self.depth):
            raise NmfsyncError(
                f"{len(self.cameras)} cameras, but features of {len(self.xy)} images "
                f"and depths of {len(self.depth)}"
            )
        for i, (xy, depth) in enumerate(zip(self.xy, self.depth, strict=True)):
            if len(xy) != len(depth):
                raise NmfsyncError(f"image {i + 1} has {len(xy)} features, but {len(depth)} depths")

    def transfer(self, i: int, j: int, xy: NDArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Move features of image i to image j; valid where nothing hides them (see `Truth`)."""
        moved, reached, valid = _move(self.cameras[i], self.cameras[j], xy, self._depth_at(i, xy))
        valid[valid] = ~self._hidden(j, moved[valid], reached[valid])
        return moved, valid

    def points(self, i: int, xy: NDArray) -> FloatArray:
        """Points (n, 3) of the world at features (n, 2) of image i, NaN where there is no depth."""
        return self.cameras[i].back_project(xy, self._depth_at(i, xy))

    def _depth_at(self, i: int, xy: NDArray) -> FloatArray:
        # The tree returns the number of features where it finds none.
        _, feature = self._trees[i].query(xy, distance_upper_bound=1e-3)
        return np.append(self.depth[i], np.nan)[feature]

    @cached_property
    def _trees(self) -> tuple[cKDTree, ...]:
        return tuple(cKDTree(np.reshape(xy, (-1, 2))) for xy in self.xy)

    def _hidden(self, j: int, xy: FloatArray, depth: FloatArray) -> NDArray[np.bool_]:
        near = cKDTree(xy).sparse_distance_matrix(
            self._trees[j], _HIDING_RADIUS, output_type="ndarray"
        )
        in_front = self.depth[j][near["j"]] < depth[near["i"]] * (1 - _HIDING_SHARE)
        hidden = np.zeros(len(xy), dtype=bool)
        hidden[near["i"][in_front]] = True
        return hidden


def _move(
    source: Camera, target: Camera, xy: NDArray, depth: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Pixels and depths in the target, and whether the points lie inside its image."""
    moved, reached = target.project(source.back_project(xy, depth))
    return moved, reached, np.isfinite(depth) & (reached > 0) & _inside(moved, target.size)


def _inside(xy: NDArray, size: tuple[int, int]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        inside = (xy >= -0.5) & (xy <= np.array(size) - 0.5)
    return inside[:, 0] & inside[:, 1]


class _Sample:
    """A depth map at any pixels (n, 2).

    Attributes
    ----------
    nearest : (n,) float64 array
        Depth of the nearest pixel; NaN outside the image and without surface.
    between : (n,) float64 array
        Depth interpolated between four pixels; NaN also beside a depth edge.
    """

    def __init__(self, depth: DepthMap, xy: NDArray) -> None:
        last = np.array(depth.shape[::-1]) - 1
        inside = _inside(xy, depth.shape[::-1])
        place = np.clip(np.where(inside[:, None], xy, 0), 0, last)
        low = np.floor(place).astype(np.int64)
        (x0, y0), (x1, y1) = low.T, np.minimum(low + 1, last).T
        around = depth[[y0, y0, y1, y1], [x0, x1, x0, x1]].astype(np.float64)
        fx, fy = (place - low).T
        weights = np.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy])
        nearest = around[weights.argmax(axis=0), np.arange(len(place))]
        # A hole, and a pixel that lies exactly beside the point, count for nothing.
        weights = np.where(np.isfinite(around), weights, 0)
        around = np.where(weights > 0, around, nearest)
        flat = around.max(axis=0) <= around.min(axis=0) * (1 + _EDGE)
        self.nearest = np.where(inside, nearest, np.nan)
        self.between = np.where(
            inside & flat, weights.sum(axis=0) / (weights / around).sum(axis=0), np.nan
        )


def depth_maps_beside(paths: Sequence[Path], cameras: Sequence[Camera]) -> DepthMaps | None:
    """Read the depth maps that lie beside the images.

    The depth map of `0001.jpg` is called `0001.jpg.depth` or `0001`, followed by `.npy` (float
    array), `.pfm`, `.exr` or `.png` (16 bits; one number in `depth_scale.txt` in the same
    folder is the depth that the value 1 stands for; without that file `0001.png` is taken for a
    picture). Depths that are not positive and finite mean that there is no surface.

    Parameters
    ----------
    paths : sequence of Path
        The image files.
    cameras : sequence of Camera
        Theirs, for the images in the size they have.

    Returns
    -------
    DepthMaps or None
        None if no image has a depth map.

    Raises
    ------
    NmfsyncError
        If only some images have one, or if one is damaged, not of the kind its name
        says, or of another size than its image.
    """
    files = [_depth_file(path, paths) for path in paths]
    found = [file for file in files if file is not None]
    if not found:
        return None
    if len(found) < len(files):
        raise NmfsyncError(
            f"{paths[files.index(None)]}: has no depth map, though {len(found)} of the "
            f"{len(files)} images have one; add those that are missing or remove the others"
        )
    maps = [_read(file) for file in found]
    for depth, camera, file in zip(maps, cameras, found, strict=False):
        _check_size(depth, camera, str(file))
    return DepthMaps(tuple(cameras), maps)


def _depth_file(image: Path, images: Sequence[Path]) -> Path | None:
    for suffix in _READERS:
        if (file := image.with_name(image.name + ".depth" + suffix)).is_file():
            return file
        file = image.with_suffix(suffix)
        picture = file in images or (suffix == ".png" and not _scale_file(file).is_file())
        if file.is_file() and not picture:
            return file
    return None


def _check_size(depth: NDArray, camera: Camera, name: str) -> None:
    if depth.shape[::-1] != camera.size:
        has = " × ".join(map(str, depth.shape[::-1]))
        raise NmfsyncError(
            f"{name}: has {has} pixels, but its image {camera.size[0]} × {camera.size[1]}; "
            "give both the same size"
        )


def _read(file: Path) -> DepthMap:
    """Read a depth map of any kind; NaN where there is no surface."""
    try:
        depth = _READERS[file.suffix](file).astype(np.float32)
    except NmfsyncError:
        raise
    except (OSError, ValueError, EOFError, cv2.error) as error:
        reason = " ".join(str(error).split())
        raise NmfsyncError(f"{file}: is not a depth map that can be read ({reason})") from None
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(np.nan))


def _read_npy(file: Path) -> NDArray:
    with file.open("rb") as stream:
        values = np.lib.format.read_array(stream, allow_pickle=False)
    return _check(values, file, np.floating)


def _read_pfm(file: Path) -> NDArray:
    return _check(_decode(file), file, np.floating)


def _read_exr(file: Path) -> NDArray:
    # OpenCV leaves its EXR reader switched off, where it has one at all.
    os.environ.setdefault("OPENCV_IO_ENABLE_OPENEXR", "1")
    try:
        return _check(_decode(file), file, np.floating)
    except (ValueError, cv2.error):
        raise NmfsyncError(
            f"{file}: is damaged, or the OpenCV installed ({cv2.__version__}) cannot read EXR "
            "files; convert the depth maps to NPY or PFM"
        ) from None


def _read_png(file: Path) -> NDArray:
    values = _check(_decode(file), file, np.uint16)
    note = _scale_file(file)
    try:
        scale = float(note.read_text())
    except (FileNotFoundError, ValueError):
        scale = np.nan
    if not 0 < scale < np.inf:
        raise NmfsyncError(
            f"{note}: must hold one positive number, the depth that the value 1 "
            f"of {file.name} stands for"
        )
    return values * scale


_READERS: dict[str, Callable[[Path], NDArray]] = {
    ".npy": _read_npy, ".pfm": _read_pfm, ".exr": _read_exr, ".png": _read_png,
}  # fmt: skip


def _scale_file(file: Path) -> Path:
    return file.with_name("depth_scale.txt")


def _decode(file: Path) -> NDArray:
    values = cv2.imdecode(np.fromfile(file, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if values is None:
        raise ValueError(f"not a {file.suffix} file, or damaged")
    return np.asarray(values)


def _check(values: Any, file: Path, kind: type[np.generic]) -> NDArray:
    if values.ndim != 2 or not np.issubdtype(values.dtype, kind):
        wanted = "16-bit integers" if kind is np.uint16 else "floating-point numbers"
        shape = " × ".join(map(str, values.shape))
        raise NmfsyncError(
            f"{file}: holds {shape} values of type {values.dtype}; "
            f"a depth map has height × width {wanted}"
        )
    return values


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
    rows = max(1, _RAYS_AT_ONCE // width)
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
