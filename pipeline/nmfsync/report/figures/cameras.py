"""The figure of the cameras: their positions, and the points whose depth is known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmfsync.report.figures.style import ADDED, FAINT, INK, WRONG, current_look, new_figure, unbox
from nmfsync.scenes.scene import Scene
from nmfsync.truth.depths import DepthMaps, FeatureDepths
from nmfsync.types.arrays import FloatArray
from nmfsync.types.features import Features

MAX_POINTS = 20_000  # drawn, at most


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
    return views_figure(*views_of(scene, features))


def views_of(
    scene: Scene, features: Sequence[Features]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what is drawn: centres and directions of the cameras (k, 3), and points (n, 3)."""
    cameras = scene.cameras or ()
    centres = np.array([camera.centre for camera in cameras])
    directions = np.array([camera.R[2] for camera in cameras])
    return centres, directions, _points(scene, features)


def views_figure(centres: FloatArray, directions: FloatArray, points: FloatArray) -> Figure:
    """Draw `cameras_figure` from what `views_of` returns."""
    principal = _principal_axes(np.concatenate([centres, points]))
    figure = new_figure(0.47, narrow=0.55)
    for axes, (x, y) in zip(figure.subplots(1, 2), ((0, 1), (0, 2)), strict=True):
        projection = principal[[x, y]].T
        _draw_view(axes, centres @ projection, directions @ projection, points @ projection)
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
    # The full matrices have an entry for every two points. Only fewer than three need them.
    few = len(points) < 3
    axes = np.linalg.svd(points - np.median(points, axis=0), full_matrices=few)[2]
    return axes * np.where(axes.sum(axis=1, keepdims=True) < 0, -1, 1)


def _draw_view(axes: Axes, centres: FloatArray, directions: FloatArray, points: FloatArray) -> None:
    """Draw one view; all arrays are (n, 2), projected to its plane."""
    look = current_look()
    cloud: dict[str, Any] = {"markersize": 1.5 * look.scale, "alpha": 0.6, "zorder": 1}
    axes.plot(*points.T, ".", color=FAINT, **cloud, markeredgewidth=0, rasterized=True)
    length = 0.06 * np.ptp(np.concatenate([centres, points]), axis=0).max()
    ends = centres + length * directions
    for centre, end in zip(centres, ends, strict=True):
        axes.plot(*zip(centre, end, strict=True), color=WRONG, linewidth=look.line(1.2), zorder=2)
    axes.plot(*centres.T, "o", color=ADDED, markersize=4.5 * look.scale, zorder=3)
    # As many numbers as fit beside each other: a plot is as wide as two fifths of the figure.
    for n in _apart(centres, 1.2 * look.small / (72 * 0.4 * look.width)):
        beside: dict[str, Any] = {"xytext": (3, 2), "textcoords": "offset points", "color": INK}
        axes.annotate(str(n + 1), tuple(centres[n]), **beside, fontsize=look.small)
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(color="#EEEEEE", linewidth=look.line(0.6))
    unbox(axes)


def _apart(centres: FloatArray, distance: float) -> list[int]:
    """Choose points, the first ones before others, that are apart by this share of their extent."""
    least = distance * np.ptp(centres, axis=0).max(initial=0)
    chosen: list[int] = []
    for n, centre in enumerate(centres):
        if (np.linalg.norm(centres[chosen] - centre, axis=1) >= least).all():
            chosen.append(n)
    return chosen
