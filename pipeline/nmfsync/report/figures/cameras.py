"""The figure of the cameras: their positions, and the points whose depth is known."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmfsync.report.figures.style import ADDED, FAINT, INK, WRONG, unbox
from nmfsync.scenes.scene import Scene
from nmfsync.truth.depths import DepthMaps, FeatureDepths
from nmfsync.types.arrays import FloatArray
from nmfsync.types.features import Features

MAX_POINTS = 20_000  # drawn, at most

MAX_NUMBERED = 60  # cameras; with more the numbers would overlap


def cameras_figure(scene: Scene, features: Sequence[Features]) -> Figure:
    """Draw cameras and points from two sides.

    Parameters
    ----------
    scene : Scene
        With cameras.
    features : sequence of Features

    Returns
    -------
    matplotlib.figure.Figure
        Left, the view along the direction of the smallest extent; right, a view
        perpendicular to it.
    """
    cameras = scene.cameras or ()
    centres = np.array([camera.centre for camera in cameras])
    directions = np.array([camera.R[2] for camera in cameras])
    points = _points(scene, features)
    principal = _principal_axes(np.concatenate([centres, points]))
    figure = Figure(figsize=(11, 5.2), dpi=150)
    for axes, (x, y) in zip(figure.subplots(1, 2), ((0, 1), (0, 2)), strict=True):
        projection = principal[[x, y]].T
        _draw_view(axes, centres @ projection, directions @ projection, points @ projection)
    figure.subplots_adjust(left=0.06, right=0.985, top=0.96, bottom=0.09, wspace=0.16)
    return figure


def _points(scene: Scene, features: Sequence[Features]) -> FloatArray:
    """Return points (n, 3) of the features whose depth is known, at most `MAX_POINTS`."""
    if not isinstance(scene.truth, DepthMaps | FeatureDepths):
        return np.empty((0, 3))
    points = np.concatenate([scene.truth.points(i, f.xy) for i, f in enumerate(features)])
    points = points[np.isfinite(points).all(axis=1)]
    return np.asarray(points[:: -(-len(points) // MAX_POINTS) or 1])


def _principal_axes(points: FloatArray) -> FloatArray:
    """Return the directions (3, 3), one a row, in which the points extend most to least."""
    axes = np.linalg.svd(points - np.median(points, axis=0), full_matrices=True)[2]
    return axes * np.where(axes.sum(axis=1, keepdims=True) < 0, -1, 1)


def _draw_view(axes: Axes, centres: FloatArray, directions: FloatArray, points: FloatArray) -> None:
    """Draw one view; all arrays are (n, 2), projected to its plane."""
    axes.plot(*points.T, ".", color=FAINT, markersize=1.5, alpha=0.6, zorder=1)
    length = 0.06 * np.ptp(np.concatenate([centres, points]), axis=0).max()
    ends = centres + length * directions
    for centre, end in zip(centres, ends, strict=True):
        axes.plot(*zip(centre, end, strict=True), color=WRONG, linewidth=1.2, zorder=2)
    axes.plot(*centres.T, "o", color=ADDED, markersize=4.5, zorder=3)
    numbered = centres if len(centres) <= MAX_NUMBERED else ()
    for number, centre in enumerate(numbered, start=1):
        axes.annotate(
            str(number), centre, xytext=(4, 3), textcoords="offset points", fontsize=8, color=INK
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(color="#EEEEEE", linewidth=0.6)
    unbox(axes)
