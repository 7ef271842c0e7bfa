"""A canvas of photographs to draw on.

The coordinates of a canvas are its pixels: a feature is drawn at the place of
its image on the canvas plus its scaled position. Nothing is placed by fractions
of a figure, so lines cannot drift off the images.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2D, Bbox
from numpy.typing import NDArray

from nmfsync.errors import printable
from nmfsync.report.figures.style import INK, PAGE, Plot, current_look
from nmfsync.scenes.images import read_image
from nmfsync.scenes.scene import Scene
from nmfsync.types.arrays import AnyArray

Image = NDArray[np.uint8]  # (h, w, 3), RGB

FOOTER = 56  # height in pixels of the legend below the images

_SMOOTH = cv2.INTER_AREA

_LETTER = 0.6  # width of a letter, as a share of the height of letters


class Photograph(NamedTuple):
    """An image of a scene, which is read where it is drawn.

    Attributes
    ----------
    path : Path
    sha256 : str or None
        That of the file, as in `Scene.digests`: another file is an error.
    label : str
        A short name.
    """

    path: Path
    sha256: str | None
    label: str

    def read(self) -> Image:
        """Return the pixels."""
        return read_image(self.path, self.sha256)


def photograph(scene: Scene, i: int) -> Photograph:
    """Return an image of a scene."""
    return Photograph(scene.paths[i], scene.digests[i] if scene.digests else None, scene.labels[i])


@dataclass(frozen=True)
class Placement:
    """The place and size of an image on the canvas.

    Attributes
    ----------
    left, top : int
        Position of the top-left corner, in pixels of the canvas.
    width, height : int
        Size in pixels of the canvas.
    size : tuple of int
        Width and height of the image in its own pixels.
    """

    left: int
    top: int
    width: int
    height: int
    size: tuple[int, int]

    def to_canvas(self, xy: AnyArray) -> NDArray[np.float64]:
        """Move pixels (n, 2) of the image to pixels of the canvas."""
        scale = np.array([self.width, self.height]) / self.size
        # Pixel centres have whole coordinates, so the corner of an image is at (-0.5, -0.5).
        return (np.asarray(xy, dtype=np.float64) + 0.5) * scale - 0.5 + [self.left, self.top]

    def paint(self, canvas: Image, image: Image) -> None:
        """Paint the image on the canvas, in pale grey."""
        shrinks = self.width < image.shape[1]
        small = cv2.resize(
            image,
            (self.width, self.height),
            interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR,
        )
        place = np.s_[self.top : self.top + self.height, self.left : self.left + self.width]
        canvas[place] = _pale(np.asarray(small, dtype=np.uint8))


def _pale(image: Image) -> Image:
    """Make an image grey and light, so that coloured lines stand out on screen and paper."""
    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    light = (120 + 0.5 * gray.astype(np.float32)).astype(np.uint8)
    return np.repeat(light[..., None], 3, axis=2)


def new_canvas(width: int, height: int) -> Image:
    """Return a white canvas (height, width, 3)."""
    return np.full((height, width, 3), 255, dtype=np.uint8)


def show_canvas(canvas: Image) -> tuple[Figure, Axes]:
    """Return a figure with exactly the canvas's pixels, and axes in its coordinates."""
    height, width = canvas.shape[:2]
    dpi = current_look().photo_dpi
    figure = Plot(figsize=(width / dpi, height / dpi), dpi=dpi)
    figure.add_artist(_Backdrop(canvas))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_autoscale_on(False)
    return figure, axes


def letter_height(pixels: int) -> float:
    """Return the height of letters in pixels: this, unless it is too small to read in print."""
    look = current_look()
    return max(pixels, look.small * look.photo_dpi / 72)


def text_width(text: str, pixels: int) -> float:
    """Return about how many pixels wide a text with this height is."""
    return _LETTER * len(text) * letter_height(pixels)


def stroke(width: float) -> float:
    """Return the width of a line, or the size of a marker, in points from that on a page."""
    look = current_look()
    return max(width * PAGE.photo_dpi / look.photo_dpi, look.thinnest)


def write_text(axes: Axes, x: float, y: float, text: str, pixels: int, **options: Any) -> None:
    """Write text with a height in pixels, centred vertically at y.

    `options` are further keywords of matplotlib's `Axes.text`.
    """
    # Without parse_math, so that a file name with two dollar signs is not taken for a formula.
    options = {"va": "center", "color": INK, "parse_math": False, **options}
    size = letter_height(pixels) * 72 / current_look().photo_dpi
    axes.text(x, y, printable(text), fontsize=size, **options)


def shorten(label: str, width: float, pixels: int) -> str:
    """Shorten a label to a width in pixels, where letters have this height."""
    letters = max(4, int(width / text_width("x", pixels)))
    return label if len(label) <= letters else f"{label[: letters - 1]}…"


class _Backdrop(Artist):
    """The canvas below everything drawn, pixel for pixel.

    `Figure.figimage` would do the same, but resamples floating-point colours,
    which takes half the time of a report.
    """

    def __init__(self, canvas: Image) -> None:
        super().__init__()
        opaque = np.full((*canvas.shape[:2], 1), 255, np.uint8)
        self.pixels = np.concatenate([canvas, opaque], axis=2)[::-1].copy()
        self.set_zorder(-1)

    def get_window_extent(self, renderer: RendererBase | None = None) -> Bbox:  # noqa: ARG002
        """Return the whole figure, of which nothing may be cut off."""
        assert self.figure is not None
        return Bbox(self.figure.transSubfigure.transform([(0, 0), (1, 1)]))

    def draw(self, renderer: RendererBase) -> None:
        """Copy the pixels to the figure, or in another resolution or format scale them."""
        place = self.get_window_extent()
        context, corner = renderer.new_gc(), (round(place.x0), round(place.y0))
        if renderer.option_scale_image():
            scaled = Affine2D().scale(place.width, place.height)
            renderer.draw_image(context, *corner, self.pixels, scaled)
            return
        size = (round(place.width), round(place.height))
        same = size == self.pixels.shape[1::-1]
        pixels = self.pixels if same else cv2.resize(self.pixels, size, interpolation=_SMOOTH)
        renderer.draw_image(context, *corner, np.asarray(pixels, np.uint8))
