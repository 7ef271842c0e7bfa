"""Some tracks followed through all images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.report.figures.canvas import Image, Placed, new_canvas, show_image, write_text
from nmfsync.report.figures.overlays import FOOTER, judge
from nmfsync.report.figures.style import INK, RIGHT, UNKNOWN, WRONG
from nmfsync.scenes.scene import Scene
from nmfsync.types.arrays import IntArray
from nmfsync.types.features import Features
from nmfsync.types.matches import MultiMatching

# Dashes as well as colours, for a gray print.
FRAMES: dict[str, tuple[str, Any]] = {
    "first": (INK, "-"),
    "right": (RIGHT, "-"),
    "wrong": (WRONG, (0, (3, 1.2))),
    "unknown": (UNKNOWN, (0, (1, 1))),
}

MAX_TRACKS, MAX_VIEWS = 9, 12

# Tol's "muted" colours: nine that colour-blind people tell apart.
TRACK_COLOURS = (
    "#332288", "#CC6677", "#117733", "#DDCC77", "#88CCEE",
    "#882255", "#44AA99", "#999933", "#AA4499",
)  # fmt: skip


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
    figure, axes = show_image(canvas)
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
    return np.asarray(images[np.linspace(0, len(images) - 1, n).round().astype(int)])


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
        return new_canvas(width, last_top + FOOTER - self.gap)

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
        write_text(axes, place.left, sheet.head / 2, _short(labels[view], sheet.column), 22)
        for row, track in enumerate(tracks):
            if view not in track:
                continue
            x, y = place.at(features[view].xy[track[view]])
            colour = TRACK_COLOURS[row]
            axes.plot(x, y, "o", color=colour, markersize=9, markeredgecolor="white")
            side = -1 if x > place.left + place.width - 26 else 1
            how = {"ha": "left" if side > 0 else "right", "path_effects": halo}
            up = max(y - 9, place.top + 8)
            write_text(axes, x + 8 * side, up, str(row + 1), 19, color=colour, weight="bold", **how)


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
    write_text(axes, x, y + 1, str(row + 1), 22, **how)


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
            write_text(axes, x + 56, y, meanings[name], 20)
            x += 96 + 12 * len(meanings[name])
