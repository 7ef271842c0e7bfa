"""Matches and tracks drawn over the photographs.

Every picture is one canvas whose coordinates are its own pixels: a feature is
drawn where its image stands on the canvas, plus its scaled position. Nothing
is placed by fractions of a figure, so that lines cannot drift off the images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from nmfsync.evaluation import MatchErrors
from nmfsync.features import Features
from nmfsync.matches import IntArray, MultiMatching
from nmfsync.report.plots import HEADLINE, INK, RIGHT, UNKNOWN, WRONG, style_of
from nmfsync.scene import Scene

Image = NDArray[np.uint8]

DPI = 100
COLOURS = {"unknown": UNKNOWN, "right": RIGHT, "wrong": WRONG}  # in the order of drawing
# Dashes as well as colours, for a gray print.
FRAMES: dict[str, tuple[str, Any]] = {
    "first": (INK, "-"),
    "right": (RIGHT, "-"),
    "wrong": (WRONG, (0, (3, 1.2))),
    "unknown": (UNKNOWN, (0, (1, 1))),
}
NEUTRAL = "#0072B2"
MARGIN, SEAM = 12, 8
PANEL_WIDTH, PANEL_HEIGHT, PANEL_TITLE = 1176, 900, 52
FOOTER = 56
MAX_TRACKS, MAX_VIEWS = 9, 12
# Tol's "muted" colours: nine that colour-blind people tell apart.
TRACK_COLOURS = (
    "#332288", "#CC6677", "#117733", "#DDCC77", "#88CCEE",
    "#882255", "#44AA99", "#999933", "#AA4499",
)  # fmt: skip


def judge(error: NDArray[np.float64]) -> NDArray[np.str_]:
    """Sort transfer errors into "right" (at most 1 %), "wrong" and "unknown" (NaN)."""
    known = np.where(error <= float(HEADLINE), "right", "wrong")
    return np.where(np.isfinite(error), known, "unknown")


@dataclass(frozen=True)
class Placed:
    """An image on the canvas: where its top-left corner is, and how it is scaled."""

    left: int
    top: int
    width: int
    height: int
    size: tuple[int, int]

    def at(self, xy: NDArray) -> NDArray[np.float64]:
        """Move (n, 2) pixels of the image to pixels of the canvas."""
        scale = np.array([self.width, self.height]) / self.size
        # Pixel centres are whole numbers, so the corner of an image is at (-0.5, -0.5).
        return (np.asarray(xy, dtype=np.float64) + 0.5) * scale - 0.5 + [self.left, self.top]

    def paint(self, canvas: Image, image: Image) -> None:
        """Put the image, pale and gray, in its place."""
        shrinks = self.width < image.shape[1]
        small = cv2.resize(
            image,
            (self.width, self.height),
            interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR,
        )
        place = np.s_[self.top : self.top + self.height, self.left : self.left + self.width]
        canvas[place] = _pale(np.asarray(small, dtype=np.uint8))


def _pale(image: Image) -> Image:
    """Gray and light, so that coloured lines stand out on the screen and on paper."""
    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    light = (120 + 0.5 * gray.astype(np.float32)).astype(np.uint8)
    return np.repeat(light[..., None], 3, axis=2)


def _canvas(width: int, height: int) -> Image:
    return np.full((height, width, 3), 255, dtype=np.uint8)


class _Backdrop(Artist):
    """The canvas under all drawing, pixel for pixel.

    `Figure.figimage` does the same through a resampling of floating-point
    colours, which takes half the time of a report.
    """

    def __init__(self, canvas: Image) -> None:
        super().__init__()
        opaque = np.full((*canvas.shape[:2], 1), 255, np.uint8)
        self.pixels = np.concatenate([canvas, opaque], axis=2)[::-1].copy()
        self.set_zorder(-1)

    def draw(self, renderer: RendererBase) -> None:
        """Put the pixels onto the figure, from its bottom-left corner."""
        renderer.draw_image(renderer.new_gc(), 0, 0, self.pixels)


def _show(canvas: Image) -> tuple[Figure, Axes]:
    """Return a figure of exactly the canvas's pixels, and axes in its coordinates."""
    height, width = canvas.shape[:2]
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    figure.add_artist(_Backdrop(canvas))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_autoscale_on(False)
    return figure, axes


def _write(axes: Axes, x: float, y: float, text: str, pixels: int, **how: Any) -> None:
    """Write text of a height in pixels, centred vertically at y."""
    # parse_math: a file name with two dollar signs is no formula.
    how = {"va": "center", "color": INK, "parse_math": False, **how}
    axes.text(x, y, text, fontsize=pixels * 72 / DPI, **how)


# Two images ----------------------------------------------------------------------------


def overlay_pairs(k: int) -> list[tuple[int, int]]:
    """Pairs to draw: the first image with the second, a middle one and the last."""
    return [(0, j) for j in sorted({1, k // 2, k - 1}) if 0 < j < k]


def pair_figure(
    scene: Scene,
    features: Sequence[Features],
    errors: Mapping[str, MatchErrors],
    pair: tuple[int, int],
) -> Figure:
    """Draw the matches between two images, one panel a method.

    Parameters
    ----------
    scene : Scene
    features : sequence of Features, length k
    errors : dict of str to MatchErrors
        Matches of every method, "input" first.
    pair : (int, int)
        Left and right image, counted from 0.

    Returns
    -------
    matplotlib.figure.Figure
        At most 2400 pixels wide. A match is right if its error from the left
        to the right image is at most 1 % of the right one's larger dimension.
    """
    images = [scene.images[i] for i in pair]
    columns = min(2, len(errors))
    widths, height = _side_by_side([image.shape for image in images])
    step_x, step_y = sum(widths) + SEAM + 2 * MARGIN, height + PANEL_TITLE + MARGIN
    rows = -(-len(errors) // columns)
    canvas = _canvas(columns * step_x, rows * step_y + FOOTER)
    panels = []
    for n in range(len(errors)):
        left = n % columns * step_x + MARGIN
        top = n // columns * step_y + PANEL_TITLE
        places = [
            Placed(x, top, width, height, (image.shape[1], image.shape[0]))
            for x, width, image in zip((left, left + widths[0] + SEAM), widths, images, strict=True)
        ]
        for placed, image in zip(places, images, strict=True):
            placed.paint(canvas, image)
        panels.append(places)
    figure, axes = _show(canvas)
    for (method, error), places in zip(errors.items(), panels, strict=True):
        _draw_pair(axes, places, pair, features, method, error, scene.truth is not None)
    _pair_legend(axes, canvas, [scene.labels[i] for i in pair], scene.truth is not None)
    return figure


def _side_by_side(shapes: Sequence[tuple[int, ...]]) -> tuple[list[int], int]:
    """Widths and common height at which two images fill a panel."""
    aspects = [shape[1] / shape[0] for shape in shapes]
    height = max(1, min(PANEL_HEIGHT, int((PANEL_WIDTH - SEAM) / sum(aspects))))
    return [max(1, int(height * aspect)) for aspect in aspects], height


def _draw_pair(
    axes: Axes,
    places: Sequence[Placed],
    pair: tuple[int, int],
    features: Sequence[Features],
    method: str,
    errors: MatchErrors,
    truth_known: bool,
) -> None:
    """Lines of one method, unknown below right below wrong, and their numbers as a title."""
    offsets = np.cumsum([0, *(len(f.xy) for f in features)])
    of = [(errors.p, pair[0]), (errors.q, pair[1])]
    here = np.all([(at >= offsets[i]) & (at < offsets[i + 1]) for at, i in of], axis=0)
    ends = np.stack(
        [
            placed.at(features[i].xy[at[here] - offsets[i]])
            for placed, (at, i) in zip(places, of, strict=True)
        ],
        axis=1,
    )
    verdict = judge(errors.error[here])
    parts = {name: ends[verdict == name] for name in COLOURS}
    for name, lines in parts.items():
        colour = COLOURS[name] if truth_known else NEUTRAL
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=1.2, alpha=0.85))
        points = lines.reshape(-1, 2)
        axes.scatter(points[:, 0], points[:, 1], s=9, color=colour, linewidths=0)
    counts = [f"{len(parts[name]):,} {name}" for name in ("right", "wrong", "unknown")]
    text = ", ".join(counts) if truth_known else f"{len(ends):,} matches, truth unknown"
    title = f"{style_of(method).name}: {text}"
    _write(axes, places[0].left, places[0].top - PANEL_TITLE / 2 + 2, title, 30)


def _pair_legend(axes: Axes, canvas: Image, labels: Sequence[str], truth_known: bool) -> None:
    """Names of the images, and what the colours mean, below the panels."""
    height, width = canvas.shape[:2]
    y = height - FOOTER / 2
    _write(axes, MARGIN, y, f"{labels[0]} and {labels[1]}", 24)
    if not truth_known:
        return
    meanings = {
        "unknown": "unknown: cannot be judged",
        "wrong": "wrong: further away",
        "right": "right: within 1 % of the truth",
    }
    x = width - MARGIN
    for name, meaning in meanings.items():
        x -= 13 * len(meaning)
        _write(axes, x, y, meaning, 22, ha="left")
        axes.plot([x - 52, x - 10], [y, y], color=COLOURS[name], linewidth=4)
        x -= 84


# Tracks --------------------------------------------------------------------------------


def tracks_figure(
    scene: Scene,
    features: Sequence[Features],
    matching: MultiMatching,
    errors: MatchErrors,
) -> Figure | None:
    """Follow some universe features through the images.

    The tracks are the longest ones, those chosen that lie far apart; the truth
    plays no part in the choice.

    Parameters
    ----------
    scene : Scene
    features : sequence of Features, length k
    matching : MultiMatching
    errors : MatchErrors
        Those of `matching`.

    Returns
    -------
    matplotlib.figure.Figure or None
        Above, the images with numbered marks; below, a strip a track with one
        patch an image. None if there is no track. At most 12 images are shown
        (see `choose_views`).
    """
    views = choose_views(matching)
    tracks = choose_tracks(matching, features, views)
    if not tracks:
        return None
    sheet = _Sheet(features, views, len(tracks))
    canvas = sheet.canvas()
    for column, view in enumerate(views):
        image = scene.images[view]
        sheet.image_place(column).paint(canvas, image)
        for row, track in enumerate(tracks):
            if view in track:
                top, left = sheet.patch_corner(row, column)
                patch = _patch(image, features, track, view, sheet.patch_size)
                canvas[top : top + sheet.patch_size[1], left : left + sheet.patch_size[0]] = patch
    figure, axes = _show(canvas)
    _draw_marks(axes, sheet, features, tracks, scene.labels)
    _draw_frames(axes, sheet, tracks, _track_verdicts(matching, errors, tracks))
    return figure


def choose_views(matching: MultiMatching) -> IntArray:
    """Choose up to 12 images to show, evenly from all.

    Where these share hardly any track, as in a long sequence whose points come
    and go, they are chosen evenly from the images of the longest track.

    Parameters
    ----------
    matching : MultiMatching

    Returns
    -------
    (n,) int array
    """
    views = _evenly(np.arange(len(matching.sizes)))
    shown = matching.universe[np.isin(matching.image_of, views)]
    if (np.bincount(shown) > 1).sum() >= MAX_TRACKS or len(views) == len(matching.sizes):
        return views
    longest = np.bincount(matching.universe, minlength=1).argmax()
    return _evenly(matching.image_of[matching.universe == longest])


def _evenly(images: IntArray) -> IntArray:
    """Return at most 12 of the images, the first and the last among them."""
    n = min(len(images), MAX_VIEWS)
    return images[np.linspace(0, len(images) - 1, n).round().astype(int)]


Track = dict[int, int]  # image -> feature within the image, in order of image


def choose_tracks(
    matching: MultiMatching, features: Sequence[Features], views: IntArray
) -> list[Track]:
    """Up to nine long tracks that lie far apart in the images where they begin.

    Parameters
    ----------
    matching : MultiMatching
    features : sequence of Features, length k
    views : (n,) int array
        The images that count.

    Returns
    -------
    list of dict of int to int
        For every track the feature (within the image) of every image in `views`.
    """
    shown = set(views.tolist())
    tracks = [{int(i): int(f) for i, f in track if i in shown} for track in matching.tracks()]
    long = sorted((t for t in tracks if len(t) > 1), key=lambda t: -len(t))[: 3 * MAX_TRACKS]
    if not long:
        return []
    starts = np.array([features[i].xy[f] / features[i].image_size for i, f in map(_first, long)])
    chosen = [0]
    while len(chosen) < min(MAX_TRACKS, len(long)):
        apart = np.linalg.norm(starts[:, None] - starts[chosen], axis=2).min(axis=1)
        apart[chosen] = -1.0
        chosen.append(int(np.argmax(apart)))
    # Numbered from left to right, so that marks and strips are easy to relate.
    return [long[c] for c in sorted(chosen, key=lambda c: (starts[c, 0], starts[c, 1]))]


def _first(track: Track) -> tuple[int, int]:
    return next(iter(track.items()))


def _track_verdicts(
    matching: MultiMatching, errors: MatchErrors, tracks: Sequence[Track]
) -> list[dict[int, str]]:
    """Judge every feature of a track by the match with the track's first one."""
    offsets = matching.offsets
    first_of = {offsets[i] + f: row for row, (i, f) in enumerate(map(_first, tracks))}
    verdicts: list[dict[int, str]] = [{} for _ in tracks]
    for n in np.flatnonzero(np.isin(errors.p, list(first_of))):
        view = int(matching.image_of[errors.q[n]])
        verdicts[first_of[errors.p[n]]][view] = str(judge(errors.error[n]))
    return verdicts


@dataclass(frozen=True)
class _Sheet:
    """The places of images and patches: one column a view, one row a track."""

    features: Sequence[Features]
    views: IntArray
    tracks: int

    head = 44
    left = 62
    gap = 10

    @property
    def column(self) -> int:
        """Width of a column without its gap."""
        return min(340, (2380 - self.left) // len(self.views) - self.gap)

    @property
    def patch_size(self) -> tuple[int, int]:
        """Width and height of a patch."""
        return self.column, min(150, self.column)

    @property
    def image_height(self) -> int:
        """Height of the highest image when all are as wide as a column."""
        sizes = [self.features[v].image_size for v in self.views]
        return max(self._fit(size)[1] for size in sizes)

    def canvas(self) -> Image:
        """White paper."""
        width = self.left + len(self.views) * (self.column + self.gap)
        last_top, _ = self.patch_corner(self.tracks, 0)
        return _canvas(width, last_top + FOOTER - self.gap)

    def _fit(self, size: tuple[int, int]) -> tuple[int, int]:
        """Size of an image in its column: as wide, or as high as 1.5 columns."""
        scale = min(self.column / size[0], 1.5 * self.column / size[1])
        return max(1, int(size[0] * scale)), max(1, int(size[1] * scale))

    def image_place(self, column: int) -> Placed:
        """Place of the image of a column."""
        size = self.features[self.views[column]].image_size
        x = self.left + column * (self.column + self.gap)
        return Placed(x, self.head, *self._fit(size), (int(size[0]), int(size[1])))

    def patch_corner(self, row: int, column: int) -> tuple[int, int]:
        """Top and left of a patch."""
        top = self.head + self.image_height + 24 + row * (self.patch_size[1] + self.gap)
        return top, self.left + column * (self.column + self.gap)


def _patch(
    image: Image, features: Sequence[Features], track: Track, view: int, size: tuple[int, int]
) -> Image:
    """Cut out a feature at its scale, turned as it is in the track's first view.

    The patch is `size` pixels, and 8 scales high, about the window SIFT describes.
    """
    feature, (first, start) = track[view], _first(track)
    turn = float(features[view].orientation[feature] - features[first].orientation[start])
    # Neither blurred to nothing nor the whole image, small and lost in the patch.
    high = np.clip(8 * features[view].scale[feature], 16, 0.5 * min(features[view].image_size))
    zoom = float(high) / size[1]
    cos, sin = zoom * np.cos(np.deg2rad(turn)), zoom * np.sin(np.deg2rad(turn))
    # From pixels of the patch to pixels of the image: turn about the centres.
    A = np.array([[cos, -sin], [sin, cos]])
    centre = (np.array(size) - 1) / 2
    shift = features[view].xy[feature] - A @ centre
    patch = cv2.warpAffine(
        image,
        np.column_stack([A, shift]),
        size,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=(235, 235, 235),
    )
    return np.asarray(patch, dtype=np.uint8)


def _draw_marks(
    axes: Axes,
    sheet: _Sheet,
    features: Sequence[Features],
    tracks: Sequence[Track],
    labels: Sequence[str],
) -> None:
    """Mark the tracks by numbers in every image, and name the images."""
    halo = [withStroke(linewidth=3, foreground="white")]
    for column, view in enumerate(sheet.views):
        place = sheet.image_place(column)
        _write(axes, place.left, sheet.head / 2, _short(labels[view], sheet.column), 22)
        for row, track in enumerate(tracks):
            if view not in track:
                continue
            x, y = place.at(features[view].xy[track[view]])
            colour = TRACK_COLOURS[row]
            axes.plot(x, y, "o", color=colour, markersize=9, markeredgecolor="white")
            side = -1 if x > place.left + place.width - 26 else 1
            how = {"ha": "left" if side > 0 else "right", "path_effects": halo}
            up = max(y - 9, place.top + 8)
            _write(axes, x + 8 * side, up, str(row + 1), 19, color=colour, weight="bold", **how)


def _short(label: str, width: int) -> str:
    """Shorten a label to what fits above a column."""
    letters = max(4, width // 13)
    return label if len(label) <= letters else f"{label[: letters - 1]}…"


def _draw_frames(
    axes: Axes, sheet: _Sheet, tracks: Sequence[Track], verdicts: Sequence[dict[int, str]]
) -> None:
    """Frame every patch by its verdict; an empty place where a track is not seen."""
    width, height = sheet.patch_size
    for row, track in enumerate(tracks):
        colour = TRACK_COLOURS[row]
        _draw_number(axes, sheet, row)
        for column, view in enumerate(map(int, sheet.views)):
            top, left = sheet.patch_corner(row, column)
            box: dict[str, Any] = {"width": width - 1, "height": height - 1, "fill": False}
            if view not in track:
                axes.add_patch(Rectangle((left, top), **box, edgecolor="#DDDDDD", linewidth=0.8))
                continue
            name = "first" if view == _first(track)[0] else verdicts[row].get(view, "unknown")
            edge, dash = FRAMES[name]
            frame = Rectangle((left, top), **box, edgecolor=edge, linestyle=dash, linewidth=3.2)
            axes.add_patch(frame)
            middle = (left + (width - 1) / 2, top + (height - 1) / 2)
            axes.plot(*middle, "+", color="white", markersize=9, markeredgewidth=2.6)
            axes.plot(*middle, "+", color=colour, markersize=8, markeredgewidth=1.2)
    _frame_legend(axes, sheet, {name for track in verdicts for name in track.values()})


def _draw_number(axes: Axes, sheet: _Sheet, row: int) -> None:
    """Draw the number of a track at the left of its strip."""
    x, y = sheet.left / 2, sheet.patch_corner(row, 0)[0] + sheet.patch_size[1] / 2
    axes.plot(x, y, "o", color=TRACK_COLOURS[row], markersize=25)
    halo = [withStroke(linewidth=1.5, foreground="#00000066")]
    how = {"ha": "center", "weight": "bold", "color": "white", "path_effects": halo}
    _write(axes, x, y + 1, str(row + 1), 22, **how)


def _frame_legend(axes: Axes, sheet: _Sheet, used: set[str]) -> None:
    """Say below the strips what the frames mean that occur."""
    meanings = {
        "first": "first view",
        "right": "right: within 1 %",
        "wrong": "wrong",
        "unknown": "unknown: cannot be judged",
    }
    top, x = sheet.patch_corner(sheet.tracks, 0)
    y = top + (FOOTER - sheet.gap) / 2
    for name, (colour, dash) in FRAMES.items():
        if name in used or name == "first":
            axes.plot([x, x + 46], [y, y], color=colour, linestyle=dash, linewidth=4)
            _write(axes, x + 56, y, meanings[name], 20)
            x += 96 + 12 * len(meanings[name])
