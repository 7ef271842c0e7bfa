"""A canvas of photographs to draw on.

The coordinates of a canvas are its pixels: a feature is drawn at the place of
its image on the canvas plus its scaled position. Nothing is placed by fractions
of a figure, so lines cannot drift off the images.
"""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nmfsync.errors import printable
from nmfsync.report.figures.style import INK
from nmfsync.types.arrays import AnyArray

Image = NDArray[np.uint8]  # (h, w, 3), RGB

DPI = 100

FOOTER = 56  # height in pixels of the legend below the images


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
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    figure.add_artist(_Backdrop(canvas))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_autoscale_on(False)
    return figure, axes


def write_text(axes: Axes, x: float, y: float, text: str, pixels: int, **options: Any) -> None:
    """Write text with a height in pixels, centred vertically at y.

    `options` are further keywords of matplotlib's `Axes.text`.
    """
    # Without parse_math, so that a file name with two dollar signs is not taken for a formula.
    options = {"va": "center", "color": INK, "parse_math": False, **options}
    axes.text(x, y, printable(text), fontsize=pixels * 72 / DPI, **options)


def shorten(label: str, width: float, letter: int = 13) -> str:
    """Shorten a label to a width in pixels, where a letter has `letter` of them."""
    letters = max(4, int(width) // letter)
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

    def draw(self, renderer: RendererBase) -> None:
        """Copy the pixels to the figure, from its bottom-left corner."""
        renderer.draw_image(renderer.new_gc(), 0, 0, self.pixels)
