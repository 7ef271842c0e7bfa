"""Pictures of look-alike buildings, painted from random textures on rectangles; truth known."""

from dataclasses import dataclass

import cv2
import numpy as np

from look_alikes import Maker, Simulated, turned
from nmfsync import extract_all, match
from nmfsync.matching.verification import verify
from nmfsync.types.camera import Camera
from nmfsync.types.matches import ImagePair, StoredKeypoints

PIXELS_A_METRE = 110
NEAREST = 0.3  # rectangles with a corner nearer than this are left out
SKY = 205


@dataclass(frozen=True)
class Rectangle:
    """A texture in space: its top-left corner, and its sides to the right and down (metres)."""

    corner: np.ndarray
    right: np.ndarray
    down: np.ndarray
    texture: np.ndarray

    def corners(self) -> np.ndarray:
        """(4, 3) array, clockwise."""
        ways = ((0, 0), (1, 0), (1, 1), (0, 1))
        return np.array([self.corner + u * self.right + v * self.down for u, v in ways])

    def moved(self, turn: float = 0.0, by=(0, 0, 0)) -> "Rectangle":
        """Turn a copy about the vertical (radians), then shift it."""
        R = turned(turn)
        return Rectangle(R @ self.corner + by, R @ self.right, R @ self.down, self.texture)

    def meet(self, origin: np.ndarray, rays: np.ndarray) -> np.ndarray:
        """Where rays (n, 3) from a point meet the plane."""
        normal = np.cross(self.right, self.down)
        return origin + rays * ((self.corner - origin) @ normal / (rays @ normal))[:, None]


@dataclass(frozen=True)
class Painting:
    """Pictures (grey, uint8) of rectangles, the cameras, and which rectangle every pixel shows."""

    rectangles: tuple[Rectangle, ...]
    cameras: tuple[Camera, ...]
    images: tuple[np.ndarray, ...]
    shown: tuple[np.ndarray, ...]

    def places(self, n: int, xy: np.ndarray) -> np.ndarray:
        """Points (n, 3) in space at pixels of image n; NaN in the sky."""
        camera, places = self.cameras[n], np.full((len(xy), 3), np.nan)
        column, row = np.rint(xy).astype(int).T
        which = self.shown[n][row, column]
        rays = camera.back_project(xy, np.ones(len(xy))) - camera.centre
        for r in np.unique(which[which >= 0]):
            places[which == r] = self.rectangles[r].meet(camera.centre, rays[which == r])
        return places

    def photographed(self, features: int = 1000, ratio: float = 0.8) -> Simulated:
        """Detect, match and verify, and judge every match: at most a tenth of a metre apart."""
        found = extract_all(list(self.images), features, progress=False)
        xy = [f.xy for f in found]
        sizes = [f.image_size for f in found]
        matches = verify(match(found, ratio, progress=False), xy, progress=False, sizes=sizes)
        keypoints = [StoredKeypoints(f.xy, f.scale, f.orientation, f.image_size) for f in found]

        def is_right(pair: ImagePair) -> np.ndarray:
            a, b = (self.places(n, xy[n][pair.rows[:, c]]) for c, n in enumerate(pair[:2]))
            return np.linalg.norm(a - b, axis=1) < 0.1

        return Simulated.judged(matches, keypoints, self.cameras, is_right)


def textured(rng: np.random.Generator, width: float, height: float) -> np.ndarray:
    """Shapes of all sizes and greys on a wall of a width and height in metres."""
    w, h = (max(8, round(PIXELS_A_METRE * side)) for side in (width, height))
    texture = np.full((h, w), rng.uniform(90, 160), np.float32)
    for _ in range(round(45 * width * height)):
        centre, axes = rng.uniform([0, 0], [w, h]), rng.gamma(2, 5, 2) + 2
        ellipse = (centre.tolist(), (2 * axes).tolist(), float(rng.uniform(0, 180)))
        grey = float(rng.uniform(0, 255))
        if rng.random() < 0.5:
            cv2.ellipse(texture, ellipse, grey, -1)
        else:
            cv2.fillConvexPoly(texture, cv2.boxPoints(ellipse).astype(np.int32), grey)
    return cv2.GaussianBlur(texture, (0, 0), 0.8).clip(0, 255).astype(np.uint8)


def upright(width: float, height: float, texture: np.ndarray) -> Rectangle:
    """A wall that faces -y, its foot centred at the origin."""
    return Rectangle(*np.array([[-width / 2, 0, height], [width, 0, 0], [0, 0, -height]]), texture)


def ground(rng, low, high, side: float = 2.0) -> list[Rectangle]:
    """Tiles that cover the ground among corners (x, y), each with a texture of its own."""
    return [
        Rectangle(*np.array([[x, y, 0], [side, 0, 0], [0, -side, 0]]), textured(rng, side, side))
        for x in np.arange(low[0], high[0], side)
        for y in np.arange(low[1], high[1], side) + side
    ]


def street(seed: int = 0, houses: int = 5, k: int = 18) -> Painting:
    """Equal houses in a row, with gaps and things in front that differ."""
    maker = Maker(seed)
    rng = maker.rng
    house = [upright(2.4, 3.2, textured(rng, 2.4, 3.2))]
    house += [upright(0.8, 1.2, textured(rng, 0.8, 1.2)).moved(by=(x, y, 1.2))
              for x, y in ((-0.7, -0.5), (0.6, -0.3))]  # fmt: skip
    rectangles = [part.moved(by=(4 * h, 0, 0)) for h in range(houses) for part in house]
    for h in range(-1, houses):
        gap = upright(1.6, 2.6, textured(rng, 1.6, 2.6))
        rectangles.append(gap.moved(by=(4 * h + 2, rng.uniform(-0.3, 0.8), 0)))
    for x in np.arange(-2, 4 * houses, 2):
        thing = upright(0.6, 1, textured(rng, 0.6, 1))
        rectangles.append(thing.moved(by=(x + rng.uniform(-0.6, 0.6), -1, 0)))
    rectangles += ground(rng, (-4, -2), (4 * houses + 2, 0))
    places = np.linspace(-0.5, 4 * houses - 3.5, k)
    return painted(rectangles, [maker.camera((x, -5, 1.5), (x, 0, 1.3)) for x in places])


def equal_sides(seed: int = 0, k: int = 20) -> Painting:
    """A house with equal front and back, photographed from all around a garden."""
    maker = Maker(seed)
    rng = maker.rng
    front = textured(rng, 2.4, 2.4)
    walls = [front, textured(rng, 2.4, 2.4), front, textured(rng, 2.4, 2.4)]
    rectangles = [upright(2.4, 2.4, wall).moved(by=(0, -1.2, 0)).moved(n * np.pi / 2)
                  for n, wall in enumerate(walls)]  # fmt: skip
    rectangles += ground(rng, (-4, -4), (4, 4))
    for angle in np.arange(0, 2 * np.pi, np.pi / 8):
        near, far = (upright(1, h, textured(rng, 1, h)) for h in (0.7, 2.5))
        rectangles.append(near.moved(by=(0, -rng.uniform(2, 2.8), 0)).moved(angle))
        rectangles.append(far.moved(by=(0, 9, 0)).moved(angle))
    return painted(rectangles, maker.ring(k, 5.5, 1.6, (0, 0, 1)))


def painted(rectangles: list[Rectangle], cameras: list[Camera]) -> Painting:
    """Paint what cameras of half their size see."""
    half = [camera.scaled_to((400, 300)) for camera in cameras]
    images, shown = zip(*(_paint(rectangles, camera) for camera in half), strict=True)
    return Painting(tuple(rectangles), tuple(half), images, shown)


def _paint(rectangles: list[Rectangle], camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """The picture of a camera, and which rectangle every pixel shows (-1: none)."""
    large = camera.scaled_to((2 * camera.size[0], 2 * camera.size[1]))
    image = np.full(large.size[::-1], SKY, np.uint8)
    shown = np.full(camera.size[::-1], -1, np.int32)
    far_first = np.argsort(
        [-np.linalg.norm(r.corners().mean(axis=0) - camera.centre) for r in rectangles]
    )
    for n in far_first:
        r = rectangles[n]
        xy, depth = large.project(r.corners())
        facing = (camera.centre - r.corner) @ np.cross(r.down, r.right) > 0
        if (
            not facing
            or depth.min() < NEAREST
            or (xy.max(axis=0) < 0).any()
            or (xy.min(axis=0) > large.size).any()
        ):
            continue
        h, w = r.texture.shape
        frame = np.array([[0, 0], [w, 0], [w, h], [0, h]], np.float32) - 0.5
        H = cv2.getPerspectiveTransform(frame, xy.astype(np.float32))
        cv2.warpPerspective(
            r.texture, H, large.size, image, cv2.INTER_LINEAR, cv2.BORDER_TRANSPARENT
        )
        cv2.fillConvexPoly(shown, np.rint(camera.project(r.corners())[0]).astype(np.int32), int(n))
    return cv2.resize(image, camera.size, interpolation=cv2.INTER_AREA), shown
