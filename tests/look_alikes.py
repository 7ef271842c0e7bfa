"""Simulated photographs of scenes with look-alike structures, and of scenes without; truth known.

A scene is points on surfaces. Copies of one structure have the same looks, so that
their points match like the same ones. `simulate` makes keypoints and verified matches
as a matcher leaves them, and tells which pairs of images are right.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from nmfsync.matching.verification import verify_pair
from nmfsync.types.camera import Camera
from nmfsync.types.matches import ImagePair, PairwiseMatches, StoredKeypoints

SIZE = (800, 600)
LEAST_ANGLE = 0.3  # cosine between the line of sight and the normal of a point that is detected
LEAST_BLOB = 1.5  # pixels
UP = np.array([0.0, 0.0, 1.0])  # in the world
# Of distances between descriptors: what 1 radian of the view, one octave of scale, another copy
# of the structure, and chance add; and what is as far as any other feature.
VIEW, OCTAVE, COPY, CHANCE, UNRELATED = 0.5, 0.15, 0.12, 0.15, 1.0
RATIO = 0.8
PIXELS = 0.5  # standard deviation of positions


@dataclass(frozen=True)
class Simulated:
    """Photographs of a scene.

    Attributes
    ----------
    matches : PairwiseMatches
        Verified ones.
    keypoints : tuple of StoredKeypoints
    cameras : tuple of Camera
        The true ones.
    right, wrong : frozenset of (i, j)
        Pairs of images i < j with matches, by whether more than half of these are right.
    mixed : frozenset of (i, j)
        Those of the wrong ones of which more than a twentieth of the matches are right: both
        images show a common place, but most matches are of look-alikes.
    points : tuple of (n,) int arrays
        The point of the scene that every feature of an image shows; empty if it is painted.
    """

    matches: PairwiseMatches
    keypoints: tuple[StoredKeypoints, ...]
    cameras: tuple[Camera, ...]
    right: frozenset[tuple[int, int]]
    wrong: frozenset[tuple[int, int]]
    mixed: frozenset[tuple[int, int]]
    points: tuple[np.ndarray, ...] = ()

    @classmethod
    def judged(
        cls,
        matches: PairwiseMatches,
        keypoints: Sequence[StoredKeypoints],
        cameras: Sequence[Camera],
        is_right: Callable[[ImagePair], np.ndarray],
        points: Sequence[np.ndarray] = (),
    ) -> "Simulated":
        """Judge pairs of images by a function that tells which matches (n,) of them are right."""
        share = {(pair.i, pair.j): is_right(pair).mean() for pair in matches.by_image_pair()}
        right = frozenset(pair for pair, value in share.items() if value > 0.5)
        wrong = frozenset(share) - right
        mixed = frozenset(pair for pair in wrong if share[pair] > 0.05)
        return cls(matches, tuple(keypoints), tuple(cameras), right, wrong, mixed, tuple(points))


def turned(angle: float) -> np.ndarray:
    """Rotation about the vertical by an angle in radians."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


class Surface(NamedTuple):
    """Points on surfaces, n of them.

    Attributes
    ----------
    points, normals, tangents : (n, 3) arrays
    blobs : (n,) array
        Diameters.
    looks : (n,) ints
        Points with the same number look the same.
    """

    points: np.ndarray
    normals: np.ndarray
    tangents: np.ndarray
    blobs: np.ndarray
    looks: np.ndarray

    def moved(self, turn: float = 0.0, by: Sequence[float] = (0, 0, 0)) -> "Surface":
        """Make a copy that looks the same, turned about the vertical (radians), then shifted."""
        R = turned(turn)
        return self._replace(points=self.points @ R.T + by, normals=self.normals @ R.T,
                             tangents=self.tangents @ R.T)  # fmt: skip


class Scene(NamedTuple):
    """Surfaces of n points, opaque boxes (lower corner, upper corner), and k cameras.

    `absent`, (k, n) bools, says which points were not there when a photograph was taken.
    """

    surface: Surface
    boxes: Sequence[tuple[Sequence[float], Sequence[float]]]
    cameras: Sequence[Camera]
    absent: np.ndarray | None = None


class Maker:
    """Makes surfaces and cameras by chance; every new surface has looks of its own.

    Numbers of points are multiplied by `density`.
    """

    def __init__(self, seed: int, density: float = 2.0):
        self.rng = np.random.default_rng(seed)
        self.density = density
        self._look = count()

    def wall(
        self, n: int, width: float, height: float, relief: float = 0.05, blob: float = 0.05
    ) -> Surface:
        """n points on a wall over the x-axis that faces -y, its foot centred at the origin."""
        u = self.rng.uniform(
            [-width / 2, -relief, 0], [width / 2, relief, height], (self.number(n), 3)
        )
        normals = np.array([0.0, -1.0, 0.0]) + self.rng.normal(0, 0.15, u.shape)
        return self._surface(u, normals, blob)

    def ground(self, n: int, low: Sequence[float], high: Sequence[float], blob=0.08) -> Surface:
        """n points on the ground, among corners (x, y), up to a tenth of a blob above it."""
        xyz = self.rng.uniform([*low, 0], [*high, 3 * blob], (self.number(n), 3))
        return self._surface(xyz, np.tile(UP, (len(xyz), 1)), blob)

    def cylinder(
        self, n: int, radius: float, height: float, angles: tuple[float, float], blob=0.05
    ):
        """n points round a vertical axis between two angles."""
        a, z = self.rng.uniform([[angles[0]], [0]], [[angles[1]], [height]], (2, self.number(n)))
        normals = np.column_stack([np.cos(a), np.sin(a), np.zeros(len(a))])
        return self._surface(radius * normals + z[:, None] * UP, normals, blob)

    def bushes(self, n: int, radii: tuple[float, float], height: float, blob: float = 0.05):
        """n points on things in a garden round the middle, most of them on the outer side."""
        a, r, z = self.rng.uniform([[0], [radii[0]], [0]], [[2 * np.pi], [radii[1]], [height]],
                                   (3, self.number(n)))  # fmt: skip
        out = np.column_stack([np.cos(a), np.sin(a), np.zeros(len(a))])
        normals = out + self.rng.normal(0, 0.4, out.shape)
        return self._surface(r[:, None] * out + z[:, None] * UP, normals, blob)

    def surroundings(self, n: int, radius: float, height: float, blob: float = 0.3) -> Surface:
        """n points all around at various distances, which face the middle."""
        a, r, z = self.rng.uniform([[0], [1], [0]], [[2 * np.pi], [1.6], [height]],
                                   (3, self.number(n)))  # fmt: skip
        out = np.column_stack([np.cos(a), np.sin(a), np.zeros(len(a))])
        return self._surface(radius * r[:, None] * out + z[:, None] * UP, -out, blob)

    def number(self, n: int) -> int:
        """Points that are made where n are asked for."""
        return round(self.density * n)

    def _surface(self, points: np.ndarray, normals: np.ndarray, blob: float) -> Surface:
        normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
        tangents = np.cross(normals, self.rng.normal(size=normals.shape))
        tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
        blobs = blob * 2 ** self.rng.normal(0, 0.7, len(points))
        looks = np.array([next(self._look) for _ in points], int)
        return Surface(points, normals, tangents, blobs, looks)

    def camera(self, place: Sequence[float], target: Sequence[float], zoom: float = 1.0) -> Camera:
        """A camera about a place that looks at about a target, held nearly upright."""
        centre = np.asarray(place, float)
        distance = np.linalg.norm(np.asarray(target, float) - centre)
        centre = centre + self.rng.normal(0, 0.02 * distance, 3)
        z = np.asarray(target, float) + self.rng.normal(0, 0.03 * distance, 3) - centre
        z /= np.linalg.norm(z)
        x = np.cross(z, UP + self.rng.normal(0, 0.03, 3))
        x /= np.linalg.norm(x)
        R, f = np.array([x, np.cross(z, x), z]), zoom * SIZE[0]
        K = np.array([[f, 0, SIZE[0] / 2 - 0.5], [0, f, SIZE[1] / 2 - 0.5], [0, 0, 1]])
        return Camera(K, R, -R @ centre, SIZE)

    def ring(
        self, k: int, radius: float, height: float, target=(0, 0, 1), angles=(0.0, 2 * np.pi)
    ) -> list[Camera]:
        """k cameras on an arc that look at a target."""
        steps = np.linspace(*angles, k, endpoint=np.ptp(angles) < 2 * np.pi - 0.01)
        return [
            self.camera((radius * np.cos(a), radius * np.sin(a), height), target) for a in steps
        ]


def together(surfaces: Iterable[Surface]) -> Surface:
    """Unite surfaces."""
    return Surface(*(np.concatenate(parts) for parts in zip(*surfaces, strict=True)))


def box(width: float, depth: float, height: float, walls: Sequence[Surface]) -> Surface:
    """Put four walls round a box about the origin: front (towards -y), right, back, left."""
    away = [depth / 2, width / 2, depth / 2, width / 2]
    turns = [0, np.pi / 2, np.pi, -np.pi / 2]
    return together(
        wall.moved(by=(0, -distance, 0)).moved(turn)
        for wall, distance, turn in zip(walls, away, turns, strict=True)
    )


# --- Scenes with look-alikes -----------------------------------------------------------


def street(m: Maker, unique: int, houses: int = 6) -> Scene:
    """A row of equal houses, photographed from across the street while walking along it."""
    house = together([m.wall(150, 3.4, 3), m.wall(20, 1, 2, relief=0.5)])
    row = [house.moved(by=(4 * h, 0, 0)) for h in range(houses)]
    between = [m.wall(unique, 0.5, 3, relief=0.4).moved(by=(4 * h + 2, -0.2, 0))
               for h in range(-1, houses)]  # fmt: skip
    ground = m.ground(unique * houses // 2, (-2, -3), (4 * houses - 2, -0.5))
    places = np.linspace(-0.5, 4 * houses - 3.5, 3 * houses)
    cameras = [m.camera((x, -5, 1.6), (x + m.rng.normal(0, 0.3), 0, 1.4)) for x in places]
    return Scene(together([*row, *between, ground]), [], cameras)


def equal_sides(m: Maker, unique: int) -> Scene:
    """A building with equal front and back, and walls of its own on the left and right."""
    front = m.wall(200, 4, 3)
    walls = [front, m.wall(100, 3, 3), front, m.wall(100, 3, 3)]
    return _round_building(m, box(4, 3, 3, walls), ((-2, -1.5, 0), (2, 1.5, 3)), unique)


def temple(m: Maker, unique: int) -> Scene:
    """A building with four equal sides."""
    building = box(4, 4, 3, [m.wall(200, 4, 3)] * 4)
    return _round_building(m, building, ((-2, -2, 0), (2, 2, 3)), unique)


def rotunda(m: Maker, unique: int) -> Scene:
    """A round building of twelve equal columns."""
    column = m.cylinder(60, 2, 3, (0, np.pi / 6))
    columns = together(column.moved(n * np.pi / 6) for n in range(12))
    return _round_building(m, columns, ((-1.4, -1.4, 0), (1.4, 1.4, 3)), unique, k=24)


def _round_building(m: Maker, building: Surface, solid, unique: int, k: int = 20) -> Scene:
    around = [m.surroundings(8 * unique, 14, 5), m.bushes(6 * unique, (3, 5), 0.8)]
    return Scene(together([building, *around]), [solid], m.ring(k, 8, 1.6, (0, 0, 1.4)))


def cup(m: Maker, unique: int) -> Scene:
    """A cup with the same print on both sides, a handle, and a plain table."""
    printed = m.cylinder(200, 0.5, 1, (-1.2, 1.2), blob=0.015)
    rest = [m.cylinder(unique, 0.5, 1, angles, blob=0.015)
            for angles in ((1.2, np.pi - 1.2), (np.pi + 1.2, 2 * np.pi - 1.2))]  # fmt: skip
    handle = m.wall(unique, 0.3, 0.7, blob=0.02).moved(by=(0, -0.6, 0.1))
    surface = together([printed, printed.moved(np.pi), *rest, handle])
    return Scene(surface, [((-0.35, -0.35, 0), (0.35, 0.35, 1))], m.ring(24, 2.2, 1, (0, 0, 0.5)))


def towers(m: Maker, unique: int) -> Scene:
    """A church with two equal towers; photographs of it all, and of either tower."""
    tower = box(2, 2, 7, [m.wall(140, 2, 7), m.wall(80, 2, 7), m.wall(60, 2, 7), m.wall(80, 2, 7)])
    middle = m.wall(4 * unique, 5, 3).moved(by=(0, -0.6, 0))
    by = [m.wall(2 * unique, 4, 3, relief=1).moved(by=(x, 0, 0)) for x in (-8, 8)]
    surface = together([tower.moved(by=(-4, 0, 0)), tower.moved(by=(4, 0, 0)), middle, *by])
    boxes = [((x - 1, -1, 0), (x + 1, 1, 7)) for x in (-4, 4)]
    whole = [m.camera((x, -15, 2), (0.2 * x, 0, 2.5)) for x in np.linspace(-8, 8, 6)]
    close = [m.camera((side * 4 + x, -7, 2), (side * 4.4, 0, 3))
             for side in (-1, 1) for x in np.linspace(-3, 3, 6)]  # fmt: skip
    return Scene(surface, boxes, [*whole, *close])


def boxes(m: Maker, unique: int) -> Scene:
    """Two equal packets on a table, seen together in some photographs and one by one in others."""
    packet = box(1, 0.5, 1.4, [m.wall(200, 1, 1.4, blob=0.03), m.wall(60, 0.5, 1.4, blob=0.03)] * 2)
    things = m.wall(8 * unique, 7, 0.5, relief=1.5, blob=0.03)
    surface = together([packet.moved(by=(-1.6, 0, 0)), packet.moved(0.3, (1.6, 0.2, 0)), things])
    solid = [((x - 0.45, -0.2, 0), (x + 0.45, 0.2, 1.4)) for x in (-1.6, 1.6)]
    arc = [-np.pi / 2 + a for a in np.linspace(-0.7, 0.7, 6)]
    both = [m.camera((5.5 * np.cos(a), 5.5 * np.sin(a), 2), (0, 0, 0.5)) for a in arc]
    one = [m.camera((x + 2.4 * np.cos(a), 2.4 * np.sin(a), 1.2), (x, 0, 0.6))
           for x in (-1.6, 1.6) for a in arc]  # fmt: skip
    return Scene(surface, solid, [*both, *one])


def corridor(m: Maker, unique: int, doors: int = 6) -> Scene:
    """Equal doors along a corridor, with posters between them."""
    door = m.wall(140, 1.2, 2.2)
    surfaces = []
    for x in 3 * np.arange(doors):
        for turn, y in ((0.0, 1.2), (np.pi, -1.2)):
            surfaces.append(door.moved(turn, (x, y, 0)))
            surfaces.append(m.wall(2 * unique, 1.4, 2.2).moved(turn, (x + 1.5, y, 0)))
    places = np.arange(-2, 3 * doors - 6, 0.6)
    cameras = [m.camera((x, 0, 1.5), (x + 3, 0.3 * m.rng.normal(), 1.3)) for x in places]
    return Scene(together(surfaces), [], cameras)


def indoor_loop(m: Maker, unique: int) -> Scene:
    """A corridor round a block of rooms with three equal doors on every side."""
    door = m.wall(140, 1.2, 2.2)
    side = [door.moved(by=(x, -6, 0)) for x in (-4, 0, 4)]
    sides, cameras = [], []
    for n in range(4):
        posters = [m.wall(2 * unique, 2, 2.2).moved(by=(x, -6, 0)) for x in (-2, 2, 5.5)]
        sides += [surface.moved(n * np.pi / 2) for surface in [*side, *posters]]
        Turn = turned(n * np.pi / 2)
        for x in np.linspace(-8, 8, 8):
            place, target = Turn @ (x, -10.5, 1.5), Turn @ (0.75 * x, -6, 1.2)
            cameras.append(m.camera(place, target))
    return Scene(together(sides), [((-5.9, -5.9, 0), (5.9, 5.9, 3))], cameras)


def close_windows(m: Maker, unique: int) -> Scene:
    """A facade of equal windows, photographed in parts."""
    window = m.wall(70, 1.4, 1.4, relief=0.15)
    places = [(2.2 * x, 0.5 + 2.2 * z) for x in range(5) for z in range(3)]
    panes = [window.moved(by=(x, 0, z)) for x, z in places]
    bricks = m.wall(25 * unique, 12, 7, relief=0.1).moved(by=(4.4, 0, 0))
    cameras = [m.camera((x, -3.6, z), (x, 0, z)) for z in (1.2, 2.6, 4.2, 5.8)
               for x in np.arange(0, 9, 1.5)]  # fmt: skip
    return Scene(together([*panes, bricks]), [], cameras)


def posters(m: Maker, unique: int) -> Scene:
    """The same poster on three walls that no photograph shows together."""
    poster = m.wall(150, 1.5, 1.2).moved(by=(0, -0.1, 0.8))
    surfaces, cameras = [], []
    for x in (0, 40, 80):
        wall = m.wall(6 * unique, 7, 3.5, relief=0.3)
        surfaces += [poster.moved(by=(x, 0, 0)), wall.moved(by=(x, 0, 0))]
        cameras += [
            m.camera((x + d, -4, 1.5), (x + 0.6 * d, 0, 1.5)) for d in np.linspace(-2, 2, 6)
        ]
    return Scene(together(surfaces), [], cameras)


# --- Scenes without ----------------------------------------------------------------------


def ring(m: Maker) -> Scene:
    """An object photographed all around."""
    walls = [m.wall(150, 3, 2.5) for _ in range(4)]
    surface = together([box(3, 3, 2.5, walls), m.ground(100, (-3, -3), (3, 3))])
    return Scene(surface, [((-1.5, -1.5, 0), (1.5, 1.5, 2.5))], m.ring(20, 7, 1.6, (0, 0, 1.2)))


def chain(m: Maker, step: float = 2.3) -> Scene:
    """A walk along a wall: every photograph overlaps with the next one, and with no other."""
    k = 12
    wall = m.wall(200 * k, step * (k + 2), 3, relief=0.4).moved(by=(step * (k - 1) / 2, 0, 0))
    cameras = [m.camera((step * n, -5, 1.5), (step * n, 0, 1.5)) for n in range(k)]
    return Scene(wall, [], cameras)


def loop(m: Maker) -> Scene:
    """A walk round a square that looks outwards and ends where it began."""
    around = m.surroundings(2500, 10, 5, blob=0.2)
    steps = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    cameras = [m.camera((4 * np.cos(a), 4 * np.sin(a), 1.6), (14 * np.cos(a), 14 * np.sin(a), 2))
               for a in steps]  # fmt: skip
    return Scene(around, [((-2, -2, 0), (2, 2, 3))], cameras)


def internet(m: Maker, k: int = 18) -> Scene:
    """Views of a building by strangers: anywhere, any zoom."""
    surface = together([m.wall(700, 12, 7, relief=0.6, blob=0.12), m.wall(300, 3, 3, blob=0.03)])
    cameras = []
    for _ in range(k):
        a, r = m.rng.normal(-np.pi / 2, 0.45), m.rng.uniform(9, 20)
        target = (m.rng.normal(0, 2), 0, m.rng.uniform(1.5, 4))
        zoom = 2 ** m.rng.uniform(-0.3, 1.8)
        cameras.append(m.camera((r * np.cos(a), r * np.sin(a), 1.7), target, zoom))
    return Scene(surface, [], cameras)


def bridge(m: Maker) -> Scene:
    """Two places that one pair of photographs links by few matches."""
    surfaces = [m.wall(400, 5, 3, relief=0.4).moved(by=(x, 0, 0)) for x in (0, 8)]
    middle = m.wall(80, 2, 3, relief=0.4).moved(by=(4, 0, 0))
    here, there = ([m.camera((x + d, -5, 1.5), (x, 0, 1.5)) for d in np.linspace(-1.5, 1.5, 6)]
                   for x in (0, 8))  # fmt: skip
    last = [m.camera((x, -4.5, 1.5), (x, 0, 1.5)) for x in (2.6, 5.4)]
    return Scene(together([*surfaces, middle]), [], [*here, *last, *there])


def windows(m: Maker) -> Scene:
    """A facade of equal windows, all of it in every photograph."""
    window = m.wall(12, 0.8, 1)
    panes = [window.moved(by=(1.2 * x, 0, 0.4 + 1.4 * z)) for x in range(-3, 4) for z in range(3)]
    cameras = [m.camera((x, -9, 1.6), (0, 0, 2)) for x in np.linspace(-4, 4, 10)]
    return Scene(together([*panes, m.wall(250, 9, 4.5, relief=0.4)]), [], cameras)


def aerial(m: Maker) -> Scene:
    """Four flights over fields."""
    ground = m.ground(3000, (-4, -4), (14, 17), blob=0.08)
    return Scene(ground, [], [m.camera((2.6 * x, 2.2 * y, 6), (2.6 * x, 2.2 * y + 0.01, 0))
                              for x in range(4) for y in range(6)])  # fmt: skip


def few(m: Maker) -> Scene:
    """Three to five photographs of a wall."""
    k = int(m.rng.integers(3, 6))
    cameras = [m.camera((x, -6, 1.5), (0.4 * x, 0, 1.5)) for x in np.linspace(-2, 2, k)]
    return Scene(m.wall(400, 6, 4, relief=0.4), [], cameras)


def star(m: Maker) -> Scene:
    """A photograph of everything, and close-ups that overlap with it alone."""
    places = [(x, z) for x in (-3.6, 0, 3.6) for z in (0.8, 3.6)]
    wall = m.wall(2000, 12, 6, relief=0.4, blob=0.06)
    close = [m.camera((x, -4, z), (x, 0, z), 1.2) for x, z in places]
    return Scene(wall, [], [m.camera((0, -10, 2.5), (0, 0, 2.5)), *close])


def both_ends(m: Maker) -> Scene:
    """A walk towards a facade: the first photograph shows it small, the last one a detail."""
    surface = together([m.wall(600, 8, 6, relief=0.4, blob=0.12), m.wall(400, 2, 2, blob=0.03)])
    return Scene(surface, [], [m.camera((0.3, -r, 1.6), (0, 0, 1.3))
                               for r in np.geomspace(18, 2.5, 10)])  # fmt: skip


def seasons(m: Maker) -> Scene:
    """A building in summer and in winter, when it shares a quarter of its looks with summer."""
    k = 16
    surface = together([m.wall(n, 6, 4, relief=0.5) for n in (150, 450, 450)])
    cameras = [m.camera((x, -7, 1.6), (0.3 * x, 0, 1.8)) for x in np.tile(np.linspace(-3, 3, 8), 2)]
    season = np.repeat([0, 1, 2], [m.number(n) for n in (150, 450, 450)])
    gone = np.repeat([[1], [2]], k // 2, axis=0)
    return Scene(surface, [], cameras, season == gone)


def crowd(m: Maker) -> Scene:
    """A facade behind people, who hide another half of it in every photograph."""
    cameras = [m.camera((x, -8, 1.6), (0.3 * x, 0, 1.8)) for x in np.linspace(-4, 4, 14)]
    wall = m.wall(800, 8, 5, relief=0.5)
    x = wall.points[:, 0]
    left = m.rng.uniform(-4, 0, (len(cameras), 1))
    return Scene(wall, [], cameras, (x > left) & (x < left + 4))


def panorama(m: Maker) -> Scene:
    """A camera that turns."""
    around = m.surroundings(2000, 12, 8, blob=0.2)
    return Scene(around, [], [m.camera((0.1 * np.cos(a), 0.1 * np.sin(a), 1.6),
                                       (12 * np.cos(a), 12 * np.sin(a), 3))
                              for a in np.linspace(0, 2 * np.pi, 18, endpoint=False)])  # fmt: skip


def video(m: Maker) -> Scene:
    """Many photographs along a wall, a step apart."""
    wall = m.wall(2400, 26, 3, relief=0.4).moved(by=(10, 0, 0))
    return Scene(wall, [], [m.camera((x, -5, 1.5), (x, 0, 1.5)) for x in np.arange(0, 20, 0.7)])


def with_unique(make: Callable[[Maker, int], Scene], unique: int) -> Callable[[Maker], Scene]:
    """Fix how many points of their own surround look-alikes."""
    return lambda maker: make(maker, unique)


AMBIGUOUS: dict[str, Callable[[Maker], Scene]] = {
    f"{make.__name__} {strength}": with_unique(make, unique)
    for make in (
        street,
        equal_sides,
        temple,
        rotunda,
        cup,
        towers,
        boxes,
        corridor,
        indoor_loop,
        close_windows,
        posters,
    )
    for strength, unique in (("weak", 35), ("strong", 100))
}
UNAMBIGUOUS: dict[str, Callable[[Maker], Scene]] = {
    make.__name__: make
    for make in (
        ring,
        chain,
        loop,
        internet,
        bridge,
        windows,
        aerial,
        few,
        star,
        both_ends,
        seasons,
        crowd,
        panorama,
        video,
    )
}
KINDS = AMBIGUOUS | UNAMBIGUOUS


# --- From a scene to matches -------------------------------------------------------------


class Seen(NamedTuple):
    """What an image shows: n features.

    Attributes
    ----------
    points, looks : (n,) ints
    keypoints : StoredKeypoints
    views : (n, 3) array
        Direction to the camera, in the frame of the normal and the tangent of the point.
    """

    points: np.ndarray
    looks: np.ndarray
    keypoints: StoredKeypoints
    views: np.ndarray


def simulate(kind: str, seed: int = 0, shuffled: bool = False) -> Simulated:
    """Photograph a scene.

    Parameters
    ----------
    kind : str
        A name in `KINDS`.
    seed : int
    shuffled : bool
        Number the images by chance, not in the order of the walk.
    """
    maker = Maker(seed)
    scene = KINDS[kind](maker)
    order = maker.rng.permutation(len(scene.cameras)) if shuffled else range(len(scene.cameras))
    cameras = tuple(scene.cameras[n] for n in order)
    repeats = maker.rng.beta(2, 1, len(scene.surface.points))  # how well a point is detected again
    absent = np.zeros((len(order), 1), bool) if scene.absent is None else scene.absent
    seen = [_photograph(scene, cameras[n], repeats * ~absent[order[n]], maker.rng)
            for n in range(len(cameras))]  # fmt: skip
    verified = {pair: _matches(*(seen[n] for n in pair), maker.rng)
                for pair in combinations(range(len(seen)), 2)}  # fmt: skip
    matches = PairwiseMatches.from_pairs(
        {pair: rows for pair, rows in verified.items() if len(rows)}, [len(s.points) for s in seen]
    )
    keypoints, points = [s.keypoints for s in seen], [s.points for s in seen]
    return Simulated.judged(
        matches,
        keypoints,
        cameras,
        lambda pair: points[pair.i][pair.rows[:, 0]] == points[pair.j][pair.rows[:, 1]],
        points,
    )


def parts(pairs: Collection[tuple[int, int]], k: int) -> int:
    """Count the parts into which pairs divide k images."""
    if not pairs:
        return k
    graph = coo_array((np.ones(len(pairs)), tuple(np.transpose(sorted(pairs)))), shape=(k, k))
    return int(connected_components(graph)[0])


def _photograph(scene: Scene, camera: Camera, repeats: np.ndarray, rng: Any) -> Seen:
    """Detect what a camera sees."""
    surface = scene.surface
    xy, depth = camera.project(surface.points)
    sight = camera.centre - surface.points
    sight /= np.linalg.norm(sight, axis=1, keepdims=True)
    facing = (sight * surface.normals).sum(axis=1)
    blobs = camera.K[0, 0] * surface.blobs / np.maximum(depth, 1e-9)
    inside = ((xy >= 0) & (xy < np.array(SIZE) - 1)).all(axis=1) & (depth > 0.1)
    seen = inside & (facing > LEAST_ANGLE) & (blobs > LEAST_BLOB) & (blobs < 100)
    seen &= rng.random(len(xy)) < repeats * np.sqrt(np.maximum(facing, 0))
    seen[seen] = ~_hidden(camera.centre, surface.points[seen], scene.boxes)
    at = np.flatnonzero(seen)
    frame = np.stack([surface.normals, surface.tangents,
                      np.cross(surface.normals, surface.tangents)], axis=1)[at]  # fmt: skip
    return Seen(at, surface.looks[at], _keypoints(surface, camera, at, xy[at], blobs[at], rng),
                np.einsum("nij,nj->ni", frame, sight[at]))  # fmt: skip


def _keypoints(surface, camera, at, xy, blobs, rng) -> StoredKeypoints:
    """Positions, sizes and orientations as a detector finds them."""
    tip, _ = camera.project(
        surface.points[at] + 0.1 * surface.blobs[at, None] * surface.tangents[at]
    )
    angle = np.degrees(np.arctan2(*(tip - xy).T[::-1])) + rng.normal(0, 6, len(at))
    return StoredKeypoints(
        (xy + rng.normal(0, PIXELS, xy.shape)).astype(np.float32),
        (blobs * 2 ** rng.normal(0, 0.15, len(at))).astype(np.float32),
        (angle % 360).astype(np.float32),
        SIZE,
    )


def _hidden(centre: np.ndarray, points: np.ndarray, boxes) -> np.ndarray:
    """Whether an opaque box is between a camera and points (n, 3) outside of it."""
    hidden = np.zeros(len(points), bool)
    rays = points - centre
    for low, high in boxes:
        with np.errstate(divide="ignore"):
            t = (np.stack([low, high]).astype(float)[:, None] - centre) / rays
        enter, leave = t.min(axis=0).max(axis=1), t.max(axis=0).min(axis=1)
        hidden |= (enter < leave) & (enter > 0) & (enter < 0.97)
    return hidden


def _matches(a: Seen, b: Seen, rng: Any) -> np.ndarray:
    """Verified matches (n, 2) of two images: mutual nearest neighbours that pass the ratio test."""
    if min(len(a.points), len(b.points)) < 2:
        return np.empty((0, 2), int)
    distance = rng.uniform(0.6 * UNRELATED, 1.2 * UNRELATED, (len(a.points), len(b.points)))
    rows, columns = np.nonzero(a.looks[:, None] == b.looks)
    distance[rows, columns] = _distances(a, b, rows, columns, rng)
    first, second = np.partition(distance, 1, axis=1)[:, :2].T
    best = distance.argmin(axis=1)
    mutual = distance.argmin(axis=0)[best] == np.arange(len(best))
    kept = np.flatnonzero(mutual & (first < RATIO * second))
    found = np.column_stack([kept, best[kept]])
    return found[verify_pair(a.keypoints.xy[found[:, 0]], b.keypoints.xy[found[:, 1]])]


def _distances(a: Seen, b: Seen, rows: np.ndarray, columns: np.ndarray, rng: Any) -> np.ndarray:
    """Distances (n,) of the descriptors of features that look alike."""
    cosine = (a.views[rows] * b.views[columns]).sum(axis=1).clip(-1, 1)
    octaves = np.log2(a.keypoints.scale[rows] / b.keypoints.scale[columns])
    other = a.points[rows] != b.points[columns]
    return np.asarray(VIEW * np.arccos(cosine) + OCTAVE * np.maximum(np.abs(octaves) - 0.5, 0)
                      + COPY * other + CHANCE * rng.gamma(1, 1, len(rows)))  # fmt: skip
