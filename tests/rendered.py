"""A small textured scene whose depth is known exactly, ray-traced in NumPy.

A tilted rectangular board with two spheres in front of it, seen by seven cameras on an arc.
The texture fills space (a sum of plane waves whose colour depends on the point alone), so that a
point looks the same from everywhere; beyond the board there is nothing: grey, and no depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from nmfsync.types.camera import Camera

SIZE = (320, 240)
# The board: its centre, unit vectors along its width and height, half width and half height.
CENTRE = np.array([0.0, 0.0, 0.5])
ACROSS = np.array([np.cos(0.25), 0.0, np.sin(0.25)])
DOWN = np.array([0.1 * -np.sin(0.25), np.sqrt(0.99), 0.1 * np.cos(0.25)])
HALF = (1.75, 1.3)
# The spheres: centre and radius.
SPHERES = (((-0.55, 0.2, -0.35), 0.45), ((0.65, -0.3, -0.1), 0.35))
NOTHING, BOARD = -1, 0  # surfaces; sphere n is surface n + 1


@dataclass(frozen=True)
class Rendered:
    """The scene as its cameras see it.

    Attributes
    ----------
    images : tuple of (240, 320) uint8 arrays
        Grey.
    depths : tuple of (240, 320) float32 arrays
        Distance along the optical axis at the centre of every pixel; NaN = no surface.
    cameras : tuple of Camera
        The world's unit is about the width of a sphere; the cameras are four units away.
    """

    images: tuple[np.ndarray, ...]
    depths: tuple[np.ndarray, ...]
    cameras: tuple[Camera, ...]

    def depth_at(self, i: int, xy: np.ndarray) -> np.ndarray:
        """Exact depth (n,) in image i at any pixels (n, 2), NaN where there is no surface."""
        return _trace(self.cameras[i], xy)[0]

    def surface_at(self, i: int, xy: np.ndarray) -> np.ndarray:
        """Surface (n,) that image i shows at pixels (n, 2): -1 nothing, 0 board, 1 and 2 spheres.

        Where it differs between a pixel and its surroundings there is a depth edge.
        """
        return _trace(self.cameras[i], xy)[1]

    def transfer(self, i: int, j: int, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Exact pixels of image j, and whether j sees the points: the truth for tests of truths."""
        points = self.cameras[i].back_project(xy, self.depth_at(i, xy))
        moved, depth = self.cameras[j].project(points)
        with np.errstate(invalid="ignore"):
            inside = ((moved >= -0.5) & (moved <= np.array(SIZE) - 0.5)).all(axis=1)
        return moved, inside & (depth > 0) & self.visible(j, points)

    def visible(self, j: int, points: np.ndarray) -> np.ndarray:
        """Whether nothing is in the way from camera j to points (n, 3) on the surfaces."""
        centre = self.cameras[j].centre
        nearest = _intersections(centre, points - centre).min(axis=0)
        return np.isfinite(points).all(axis=1) & (nearest > 1 - 1e-9)


@cache
def scene() -> Rendered:
    """Render the scene: always the same, in about a second; do not change its arrays."""
    cameras = tuple(_camera(angle) for angle in np.radians(np.linspace(-21, 21, 7)))
    grid = np.stack(np.meshgrid(*map(np.arange, SIZE)), axis=-1).reshape(-1, 2).astype(float)
    depths = [_trace(camera, grid)[0] for camera in cameras]
    images = [
        _texture(camera.back_project(grid, d)) for camera, d in zip(cameras, depths, strict=True)
    ]
    shape = SIZE[::-1]
    return Rendered(
        tuple(image.reshape(shape) for image in images),
        tuple(depth.reshape(shape).astype(np.float32) for depth in depths),
        cameras,
    )


def write_epfl(folder: Path, rendered: Rendered, depth_maps: bool = False) -> list[Path]:
    """Write NNNN.png, NNNN.png.camera and, if asked, NNNN.png.depth.npy; return the images."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{n:04d}.png" for n in range(len(rendered.images))]
    for path, image, depth, camera in zip(
        paths, rendered.images, rendered.depths, rendered.cameras, strict=True
    ):
        cv2.imwrite(str(path), image)
        rows = [*camera.K, np.zeros(3), *camera.R.T, camera.centre, np.array(camera.size)]
        text = "\n".join(" ".join(repr(value.item()) for value in row) for row in rows)
        Path(f"{path}.camera").write_text(text + "\n")
        if depth_maps:
            np.save(f"{path}.depth.npy", depth)
    return paths


def write_mesh(path: Path, shift: Sequence[float] = (0, 0, 0), steps: int = 96) -> None:
    """Write the surfaces as a PLY of triangles, the spheres in `steps` x 2 `steps` faces."""
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    points = [CENTRE + u * HALF[0] * ACROSS + v * HALF[1] * DOWN for u, v in corners]
    faces = [(0, 1, 2), (0, 2, 3)]
    for centre, radius in SPHERES:
        polar, around = np.meshgrid(
            np.linspace(0, np.pi, steps + 1), np.linspace(0, 2 * np.pi, 2 * steps + 1)
        )
        unit = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)
        a = np.arange(polar.size).reshape(polar.shape) + len(points)
        a, b, c, d = (q.ravel() for q in (a[:-1, :-1], a[1:, :-1], a[1:, 1:], a[:-1, 1:]))
        points.extend(np.stack(unit, axis=-1).reshape(-1, 3) * radius + centre)
        faces.extend([*zip(a, b, c, strict=True), *zip(a, c, d, strict=True)])
    header = (
        f"ply\nformat ascii 1.0\nelement vertex {len(points)}\n"
        "property double x\nproperty double y\nproperty double z\n"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    vertices = "".join("{} {} {}\n".format(*point) for point in np.array(points) + shift)
    path.write_text(header + vertices + "".join("3 {} {} {}\n".format(*face) for face in faces))


def _camera(angle: float) -> Camera:
    """A camera on the arc, four units from the origin, looking at it from slightly above."""
    centre = 4 * np.array([np.sin(angle), -0.1, -np.cos(angle)])
    z = -centre / np.linalg.norm(centre)
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    R = np.array([x, np.cross(z, x), z])
    K = np.array([[345.0, 0, 162.3], [0, 348.0, 117.9], [0, 0, 1]])
    return Camera(K, R, -R @ centre, SIZE)


def _trace(camera: Camera, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Depth (n,) and surface (n,) at pixels (n, 2)."""
    # A ray of depth 1 reaches the depth d after d times its length.
    rays = camera.back_project(xy, np.ones(len(xy))) - camera.centre
    distances = _intersections(camera.centre, rays)
    depth = distances.min(axis=0)
    hit = np.isfinite(depth)
    return np.where(hit, depth, np.nan), np.where(hit, distances.argmin(axis=0), NOTHING)


def _intersections(origin: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """Where rays (n, 3) meet every surface: (3, n) multiples of the rays, inf if never."""
    with np.errstate(invalid="ignore"):
        distances = [_meet_board(origin, rays)]
        distances += [_meet_sphere(origin - np.array(c), rays, r) for c, r in SPHERES]
        return np.stack([np.where(d > 0, d, np.inf) for d in distances])


def _meet_board(origin: np.ndarray, rays: np.ndarray) -> np.ndarray:
    normal = np.cross(ACROSS, DOWN)
    distance = ((CENTRE - origin) @ normal) / (rays @ normal)
    place = origin + distance[:, None] * rays - CENTRE
    on_it = (np.abs(place @ ACROSS) <= HALF[0]) & (np.abs(place @ DOWN) <= HALF[1])
    return np.where(on_it, distance, np.inf)


def _meet_sphere(origin: np.ndarray, rays: np.ndarray, radius: float) -> np.ndarray:
    """Smaller root of |origin + s ray|² = radius²."""
    a, b = (rays**2).sum(axis=1), rays @ origin
    root = b**2 - a * (origin @ origin - radius**2)
    return np.where(root >= 0, (-b - np.sqrt(np.maximum(root, 0))) / a, np.inf)


def _texture(points: np.ndarray) -> np.ndarray:
    """Grey (n,) uint8 of points (n, 3); 128 where they are NaN.

    A hundred waves with wavelengths from 0.07 (4 pixels where the board is seen most
    obliquely: nothing is undersampled) to 0.6 units.
    """
    rng = np.random.default_rng(7)
    directions = rng.normal(size=(100, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    wavelengths = np.geomspace(0.07, 0.6, 100)
    waves = (2 * np.pi * directions / wavelengths[:, None]).astype(np.float32)
    phases = rng.uniform(0, 2 * np.pi, 100).astype(np.float32)
    value = np.cos(np.float32(points) @ waves.T + phases).sum(axis=1) / np.sqrt(50)
    return np.clip(np.rint(128 + 50 * np.nan_to_num(value)), 0, 255).astype(np.uint8)
