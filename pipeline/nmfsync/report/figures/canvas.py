"""A canvas of photographs to draw on, in pixels."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nmfsync.report.figures.style import INK
from nmfsync.types.arrays import AnyArray

Image = NDArray[np.uint8]

DPI = 100


@dataclass(frozen=True)
class Placed:
    """An image on the canvas: where its top-left corner is, and how it is scaled."""

    left: int
    top: int
    width: int
    height: int
    size: tuple[int, int]

    def at(self, xy: AnyArray) -> NDArray[np.float64]:
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


def new_canvas(width: int, height: int) -> Image:
    """White paper, (height, width, 3)."""
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


def show_image(canvas: Image) -> tuple[Figure, Axes]:
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


def write_text(axes: Axes, x: float, y: float, text: str, pixels: int, **how: Any) -> None:
    """Write text of a height in pixels, centred vertically at y."""
    # parse_math: a file name with two dollar signs is no formula.
    how = {"va": "center", "color": INK, "parse_math": False, **how}
    axes.text(x, y, text, fontsize=pixels * 72 / DPI, **how)
