"""The figure of some tracks: their features marked in the images, and patches around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.report.figures.canvas import (
    FOOTER,
    Image,
    Photograph,
    Placement,
    letter_height,
    new_canvas,
    photograph,
    shorten,
    show_canvas,
    stroke,
    text_width,
    write_text,
)
from nmfsync.report.figures.style import INK, RIGHT, UNKNOWN, WRONG, current_look, judge
from nmfsync.scenes.scene import Scene
from nmfsync.types.arrays import IntArray
from nmfsync.types.features import Features
from nmfsync.types.matches import MultiMatching

# Colours and dashes of the frames of patches; the dashes are for a grey print.
FRAMES: dict[str, tuple[str, Any]] = {
    "first": (INK, "-"),
    "right": (RIGHT, "-"),
    "wrong": (WRONG, (0, (3, 1.2))),
    "unknown": (UNKNOWN, (0, (1, 1))),
}

MAX_TRACKS, MAX_VIEWS = 9, 12

# Tol's "muted" colours, which colour-blind people can distinguish.
TRACK_COLOURS = (
    "#332288", "#CC6677", "#117733", "#DDCC77", "#88CCEE",
    "#882255", "#44AA99", "#999933", "#AA4499",
)  # fmt: skip

Track = dict[int, int]  # image -> feature within the image, in order of image


def tracks_figure(
    scene: Scene,
    features: Sequence[Features],
    matching: MultiMatching,
    errors: MatchErrors,
) -> Figure | None:
    """Draw some tracks through the images.

    The choice of the tracks does not depend on the truth, see `choose_tracks`.

    Parameters
    ----------
    scene : Scene
    features : sequence of Features, length k
    matching : MultiMatching
    errors : MatchErrors
        The errors of `matching`.

    Returns
    -------
    matplotlib.figure.Figure or None
        Above, the images with numbered marks; below, one strip a track with one
        patch an image. At most 12 images are shown (see `choose_views`). None
        if there is no track.
    """
    sheet = track_sheet(scene, features, matching, errors)
    return None if sheet is None else sheet_figure(sheet)


class Keypoints(NamedTuple):
    """The features of an image without their descriptors, as in `Features`."""

    xy: NDArray[np.float32]
    scale: NDArray[np.float32]
    orientation: NDArray[np.float32]
    image_size: tuple[int, int]


class Sheet(NamedTuple):
    """What a figure of tracks shows.

    Attributes
    ----------
    photographs : dict of int to Photograph
        The images, by number, in their order.
    features : dict of int to Keypoints
        Of each of them.
    tracks : list of dict of int to int
    verdicts : list of dict of int to str
        Of every track: image -> "right", "wrong" or "unknown".
    """

    photographs: dict[int, Photograph]
    features: dict[int, Keypoints]
    tracks: list[Track]
    verdicts: list[dict[int, str]]


def track_sheet(
    scene: Scene,
    features: Sequence[Features],
    matching: MultiMatching,
    errors: MatchErrors,
) -> Sheet | None:
    """Return what `tracks_figure` draws, or None if there is no track."""
    chosen = choose_views(matching)
    tracks = choose_tracks(matching, features, chosen)
    if not tracks:
        return None
    views = chosen.tolist()
    own = [features[view] for view in views]
    keypoints = [Keypoints(f.xy, f.scale, f.orientation, f.image_size) for f in own]
    return Sheet(
        {view: photograph(scene, view) for view in views},
        dict(zip(views, keypoints, strict=True)),
        tracks,
        _judge_tracks(matching, errors, tracks),
    )


def sheet_figure(sheet: Sheet) -> Figure:
    """Draw `tracks_figure` from what it shows."""
    features, views, tracks = sheet.features, [*sheet.photographs], sheet.tracks
    layout = _Layout(features, views, len(tracks))
    width, height = layout.patch_size
    canvas = layout.new_canvas()
    for column, view in enumerate(views):
        image = sheet.photographs[view].read()
        layout.image_placement(column).paint(canvas, image)
        for row, track in enumerate(tracks):
            if view in track:
                top, left = layout.patch_corner(row, column)
                patch = _cut_patch(image, features, track, view, layout.patch_size)
                canvas[top : top + height, left : left + width] = patch
    figure, axes = show_canvas(canvas)
    _draw_marks(axes, layout, sheet)
    _draw_frames(axes, layout, tracks, sheet.verdicts)
    return figure


def choose_views(matching: MultiMatching) -> IntArray:
    """Choose up to 12 images to show, evenly from all.

    If these share hardly any track, as in a long sequence in which points
    appear and disappear, they are chosen evenly from the images of the longest
    track.

    Parameters
    ----------
    matching : MultiMatching

    Returns
    -------
    (n,) int64 array
        Numbers of images, ascending.
    """
    views = _thin_out(np.arange(len(matching.sizes)))
    in_views = matching.universe[np.isin(matching.image_of, views)]
    if (np.bincount(in_views) > 1).sum() >= MAX_TRACKS or len(views) == len(matching.sizes):
        return views
    longest = np.bincount(matching.universe, minlength=1).argmax()
    return _thin_out(matching.image_of[matching.universe == longest])


def choose_tracks(
    matching: MultiMatching, features: Sequence[Features], views: IntArray
) -> list[Track]:
    """Choose up to nine of the longest tracks, which lie far apart in their first images.

    Parameters
    ----------
    matching : MultiMatching
    features : sequence of Features, length k
    views : (n,) int64 array
        The images to show; features in other images are ignored.

    Returns
    -------
    list of dict of int to int
        For every track: images in `views` -> feature within the image.
    """
    images = set(views.tolist())
    tracks = [{int(i): int(f) for i, f in track if i in images} for track in matching.tracks()]
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


def _thin_out(images: IntArray) -> IntArray:
    """Return at most 12 of the images, evenly spaced, with the first and the last one."""
    n = min(len(images), MAX_VIEWS)
    return np.asarray(images[np.linspace(0, len(images) - 1, n).round().astype(int)])


def _first(track: Track) -> tuple[int, int]:
    """Return the first image of a track, and its feature there."""
    return next(iter(track.items()))


def _judge_tracks(
    matching: MultiMatching, errors: MatchErrors, tracks: Sequence[Track]
) -> list[dict[int, str]]:
    """Judge every feature of every track by its match with the track's first feature.

    Returns for every track: image -> "right", "wrong" or "unknown".
    """
    offsets = matching.offsets
    first_of = {offsets[i] + f: row for row, (i, f) in enumerate(map(_first, tracks))}
    verdicts: list[dict[int, str]] = [{} for _ in tracks]
    for n in np.flatnonzero(np.isin(errors.p, list(first_of))):
        view = int(matching.image_of[errors.q[n]])
        verdicts[first_of[errors.p[n]]][view] = str(judge(errors.error[n]))
    return verdicts


@dataclass(frozen=True)
class _Layout:
    """The places of images and patches in pixels: one column a view, one row a track.

    Attributes
    ----------
    features : dict of int to Keypoints
        Of every view.
    views : sequence of int, length n
        Numbers of the images.
    tracks : int
        Number of tracks.
    head, left, gap : int
        Height of the names of the images, width of the numbers of the tracks,
        and distance between patches.
    """

    features: Mapping[int, Keypoints]
    views: Sequence[int]
    tracks: int

    head: ClassVar[int] = 44
    left: ClassVar[int] = 62
    gap: ClassVar[int] = 10

    @property
    def column(self) -> int:
        """Width of a column without its gap."""
        width = current_look().photo_width - self.left
        return min(340, width // len(self.views) - self.gap)

    @property
    def patch_size(self) -> tuple[int, int]:
        """Width and height of a patch."""
        return self.column, min(150, self.column)

    @property
    def image_height(self) -> int:
        """Height of the highest image, when all are fitted to their columns."""
        return max(self._fit(self.features[view].image_size)[1] for view in self.views)

    def new_canvas(self) -> Image:
        """Return a white canvas of the right size."""
        width = self.left + len(self.views) * (self.column + self.gap)
        last_top, _ = self.patch_corner(self.tracks, 0)
        return new_canvas(width, last_top + FOOTER - self.gap)

    def image_placement(self, column: int) -> Placement:
        """Return the placement of the image of a column."""
        size = self.features[self.views[column]].image_size
        x = self.left + column * (self.column + self.gap)
        return Placement(x, self.head, *self._fit(size), (int(size[0]), int(size[1])))

    def patch_corner(self, row: int, column: int) -> tuple[int, int]:
        """Return top and left of a patch."""
        top = self.head + self.image_height + 24 + row * (self.patch_size[1] + self.gap)
        return top, self.left + column * (self.column + self.gap)

    def _fit(self, size: tuple[int, int]) -> tuple[int, int]:
        """Fit an image of this width and height to its column, at most 1.5 columns high."""
        scale = min(self.column / size[0], 1.5 * self.column / size[1])
        return max(1, int(size[0] * scale)), max(1, int(size[1] * scale))


def _cut_patch(
    image: Image,
    features: Mapping[int, Keypoints],
    track: Track,
    view: int,
    size: tuple[int, int],
) -> Image:
    """Cut out the patch around a feature, rotated as in the track's first view.

    The patch has `size` pixels (width, height) and shows 8 scales of the feature
    from top to bottom, about the window that SIFT describes.
    """
    feature, (first, start) = track[view], _first(track)
    angle = float(features[view].orientation[feature] - features[first].orientation[start])
    # At least 16 pixels of the image, which are not blurred beyond recognition, and at most half
    # of its smaller side.
    extent = np.clip(8 * features[view].scale[feature], 16, 0.5 * min(features[view].image_size))
    zoom = float(extent) / size[1]
    cos, sin = zoom * np.cos(np.deg2rad(angle)), zoom * np.sin(np.deg2rad(angle))
    # From pixels of the patch to pixels of the image: a rotation about the centres.
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


def _draw_marks(axes: Axes, layout: _Layout, sheet: Sheet) -> None:
    """Mark the tracks by numbers in every image, and write the names of the images."""
    halo = [withStroke(linewidth=stroke(3), foreground="white")]
    features = sheet.features
    for column, (view, photo) in enumerate(sheet.photographs.items()):
        place = layout.image_placement(column)
        label = shorten(photo.label, layout.column, 22)
        write_text(axes, place.left, layout.head / 2, label, 22)
        for row, track in enumerate(sheet.tracks):
            if view not in track:
                continue
            x, y = place.to_canvas(features[view].xy[track[view]])
            colour = TRACK_COLOURS[row]
            edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": stroke(1)}
            axes.plot(x, y, "o", color=colour, markersize=stroke(9), **edge)
            # The number is above right of its mark, but stays inside the image.
            side = -1 if x > place.left + place.width - 26 else 1
            options = {"ha": "left" if side > 0 else "right", "path_effects": halo}
            options |= {"color": colour, "weight": "bold"}
            write_text(axes, x + 8 * side, max(y - 9, place.top + 8), str(row + 1), 19, **options)


def _draw_frames(
    axes: Axes, layout: _Layout, tracks: Sequence[Track], verdicts: Sequence[dict[int, str]]
) -> None:
    """Frame every patch by its verdict, and leave an empty frame where a track is not seen."""
    width, height = layout.patch_size
    for row, track in enumerate(tracks):
        colour = TRACK_COLOURS[row]
        _draw_number(axes, layout, row)
        for column, view in enumerate(layout.views):
            top, left = layout.patch_corner(row, column)
            box: dict[str, Any] = {"width": width - 1, "height": height - 1, "fill": False}
            if view not in track:
                axes.add_patch(
                    Rectangle((left, top), **box, edgecolor="#DDDDDD", linewidth=stroke(0.8))
                )
                continue
            name = "first" if view == _first(track)[0] else verdicts[row].get(view, "unknown")
            edge, dash = FRAMES[name]
            frame = Rectangle(
                (left, top), **box, edgecolor=edge, linestyle=dash, linewidth=stroke(3.2)
            )
            axes.add_patch(frame)
            middle = (left + (width - 1) / 2, top + (height - 1) / 2)
            for ink, size, thickness in (("white", 9, 2.6), (colour, 8, 1.2)):
                cross: dict[str, Any] = {
                    "markersize": stroke(size),
                    "markeredgewidth": stroke(thickness),
                }
                axes.plot(*middle, "+", color=ink, **cross)
    _draw_legend(axes, layout, {name for track in verdicts for name in track.values()})


def _draw_number(axes: Axes, layout: _Layout, row: int) -> None:
    """Draw the number of a track to the left of its strip."""
    x, y = layout.left / 2, layout.patch_corner(row, 0)[0] + layout.patch_size[1] / 2
    round_text = 1.5 * letter_height(22) * 72 / current_look().photo_dpi
    axes.plot(x, y, "o", color=TRACK_COLOURS[row], markersize=max(stroke(25), round_text))
    halo = [withStroke(linewidth=stroke(1.5), foreground="#00000066")]
    options = {"ha": "center", "weight": "bold", "color": "white", "path_effects": halo}
    write_text(axes, x, y + 1, str(row + 1), 22, **options)


def _draw_legend(axes: Axes, layout: _Layout, used: set[str]) -> None:
    """Write below the strips what the frames that occur mean."""
    meanings = {
        "first": "first view",
        "right": "right: within 1 %",
        "wrong": "wrong",
        "unknown": "unknown: cannot be judged",
    }
    if current_look().narrow:
        meanings |= {"right": "right", "unknown": "unknown"}
    top, x = layout.patch_corner(layout.tracks, 0)
    y = top + (FOOTER - layout.gap) / 2
    for name, (colour, dash) in FRAMES.items():
        if name in used or name == "first":
            axes.plot([x, x + 46], [y, y], color=colour, linestyle=dash, linewidth=stroke(4))
            write_text(axes, x + 56, y, meanings[name], 20)
            x += 96 + round(text_width(meanings[name], 20))
