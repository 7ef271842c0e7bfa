"""Figures for papers and notebooks, as matplotlib Figures.

Every function draws one figure of the reports, as wide as asked for, with letters of 7 to 8 points
and lines of at least 0.6 points. `width` is "column" (3.5 inches), "text" (7.16 inches, two
columns), or a number of inches. `methods` chooses methods and their order; "input" is one of them.
The figures belong to no window: notebooks show them, and `save` writes them.
"""

import nmfsync.report.figures  # noqa: F401  # isort: skip  imports matplotlib first

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from matplotlib.figure import Figure

from nmfsync.errors import NmfsyncError, near_names, shown
from nmfsync.evaluation.errors import MatchErrors
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.evaluation.tracks import track_counts
from nmfsync.report.figures.cameras import cameras_figure
from nmfsync.report.figures.curves import dataset_figure, fcm_figure
from nmfsync.report.figures.image_graph import image_graph_figure
from nmfsync.report.figures.matrix import matrix_figure
from nmfsync.report.figures.overlays import pair_figure
from nmfsync.report.figures.reliability import reliability_figure, reliability_of
from nmfsync.report.figures.style import (
    COLUMN,
    TEXT,
    Look,
    default_look,
    paper,
    to_pdf,
    to_png,
    to_svg,
)
from nmfsync.report.figures.track_lengths import lengths_figure
from nmfsync.report.figures.track_sheet import tracks_figure
from nmfsync.report.figures.trade_off import trade_off as mean_trade_off
from nmfsync.report.figures.trade_off import trade_off_figure
from nmfsync.runtime.files import atomic_write
from nmfsync.scenes.scene import Scene
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching

__all__ = [
    "COLUMN", "TEXT", "cameras", "dataset", "fcm", "image_graph", "matrix", "pair", "reliability",
    "save", "track_lengths", "tracks", "trade_off",
]  # fmt: skip

Width = Literal["column", "text"] | float

Value = TypeVar("Value")

_WRITERS = {".pdf": to_pdf, ".svg": to_svg, ".png": to_png}


def fcm(
    evaluation: SceneEvaluation,
    methods: Sequence[str] | None = None,
    width: Width = "column",
    epipolar: bool = False,
) -> Figure:
    """Draw FCM(t) and precision(t) of every method on a scene.

    Parameters
    ----------
    evaluation : SceneEvaluation
        With truth, or with cameras if `epipolar`.
    methods : sequence of str, optional
        By default all, in their order.
    width : "column", "text" or float
        In inches.
    epipolar : bool
        Draw the curves by the distance to epipolar lines instead.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    NmfsyncError
        If the evaluation has no such curves, or not these methods.
    """
    evaluation = _chosen(evaluation, methods)
    curves = [m.epipolar_fcm if epipolar else m.fcm for m in evaluation.methods.values()]
    if not any(curves):
        what = "no cameras" if epipolar else "no ground truth"
        raise NmfsyncError(f"{evaluation.scene}: {what} to draw the curves by")
    with default_look(_look(width)):
        return fcm_figure(evaluation, epipolar)


def trade_off(
    evaluations: Sequence[SceneEvaluation],
    methods: Sequence[str] | None = None,
    width: Width = "column",
) -> Figure:
    """Draw FCM and precision at 1 %, a point a method, and the input under a ratio test.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        Means are over the scenes where every method has both values.
    methods : sequence of str, optional
        By default all, in their order.
    width : "column", "text" or float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    NmfsyncError
        If no scene has both values of every method.
    """
    values = mean_trade_off([_chosen(e, methods) for e in evaluations])
    if not values.scenes:
        raise NmfsyncError("no scene has FCM and precision of every method; choose fewer methods")
    with default_look(_look(width)):
        return trade_off_figure(values)


def reliability(
    evaluations: Sequence[SceneEvaluation],
    methods: Sequence[str] | None = None,
    width: Width = "column",
) -> Figure:
    """Draw how often matches are right, over the probability estimated for them.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        With truth. The matches of all scenes are taken together.
    methods : sequence of str, optional
        By default the input and the methods whose tracks the scenes have.
    width : "column", "text" or float
        In inches; two methods fit into a column.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    NmfsyncError
        If nothing is known about these methods.
    """
    names = methods or list(dict.fromkeys(["input", *(e.tracks for e in evaluations)]))
    known = [name for name in names if reliability_of(evaluations, name)]
    if not known:
        raise NmfsyncError(f"no scene says how reliable the estimates of {', '.join(names)} are")
    with default_look(_look(width)):
        return reliability_figure(evaluations, known)


def image_graph(
    evaluation: SceneEvaluation, labels: Sequence[str], width: Width = "column"
) -> Figure:
    """Draw the images as a graph: which hang together, and by how much.

    Parameters
    ----------
    evaluation : SceneEvaluation
    labels : sequence of str
        Short names of all images, for instance `Scene.labels`.
    width : "column", "text" or float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    NmfsyncError
        If no two images are linked, or there are not as many labels as images.
    """
    if len(labels) != evaluation.images:
        raise NmfsyncError(f"{len(labels)} labels for {evaluation.images} images")
    if not evaluation.image_graph.ties:
        raise NmfsyncError(f"{evaluation.scene}: no two images are linked")
    with default_look(_look(width)):
        return image_graph_figure(evaluation.image_graph, labels)


def dataset(
    evaluations: Sequence[SceneEvaluation],
    methods: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    width: Width = "text",
) -> Figure:
    """Draw FCM(t) of every method, one plot a scene.

    Parameters
    ----------
    evaluations : sequence of SceneEvaluation
        Those without truth are left out.
    methods : sequence of str, optional
        By default all, in their order.
    labels : dict of str to str, optional
        Scene -> title of its plot; by default its name.
    width : "column", "text" or float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    NmfsyncError
        If no scene has truth.
    """
    known = [_chosen(e, methods) for e in evaluations if e.truth != "none"]
    if not known:
        raise NmfsyncError("no scene has ground truth to draw the curves by")
    with default_look(_look(width)):
        return dataset_figure(known, labels)


def track_lengths(
    results: Mapping[str, Matches],
    methods: Sequence[str] | None = None,
    width: Width = "column",
) -> Figure:
    """Draw how many features are in tracks, and how long the tracks are.

    Parameters
    ----------
    results : dict of str to PairwiseMatches or MultiMatching
        Of pairwise matches, the tracks are those of union-find.
    methods : sequence of str, optional
        By default the input and all consistent results.
    width : "column", "text" or float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import nmfsync
    >>> result = nmfsync.MultiMatching([0, 1, 0, 1, 2], sizes=[2, 2, 1])
    >>> nmfsync.plot.track_lengths({"clustersync": result}).get_size_inches()[0]
    np.float64(3.5)
    """
    consistent = [n for n, m in results.items() if n == "input" or isinstance(m, MultiMatching)]
    chosen = _select(results, methods or consistent)
    with default_look(_look(width)):
        return lengths_figure({name: track_counts(m) for name, m in chosen.items()})


def matrix(
    before: Matches,
    after: MultiMatching | None = None,
    method: str = "result",
    labels: Sequence[str] | None = None,
    width: Width = "text",
) -> Figure:
    """Draw the matrix W of the input and of a cycle-consistent result.

    Parameters
    ----------
    before : PairwiseMatches or MultiMatching
    after : MultiMatching, optional
        Of the same features. Without it only the input is drawn.
    method : str
        The name of the result's method.
    labels : sequence of str, optional
        Names of the images, of which the number counts; by default their numbers.
    width : "column", "text" or float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = labels or [str(i + 1) for i in range(len(before.sizes))]
    with default_look(_look(width)):
        return matrix_figure(before, after, method, names)


def pair(
    scene: Scene,
    features: Sequence[Features],
    errors: Mapping[str, MatchErrors],
    images: tuple[int, int],
    methods: Sequence[str] | None = None,
    width: Width = "text",
) -> Figure:
    """Draw the matches between two images over the photographs, a panel a method.

    Parameters
    ----------
    scene : Scene
    features : sequence of Features
        One item for every image.
    errors : dict of str to MatchErrors
        The matches of every method, from `evaluation.match_errors`.
    images : (int, int)
        Left and right image, counted from 0.
    methods : sequence of str, optional
        By default all, in their order.
    width : "column", "text" or float
        In inches. Panels are below each other in a column, and two a row otherwise.

    Returns
    -------
    matplotlib.figure.Figure
    """
    k = len(scene.paths)
    if not all(0 <= image < k for image in images) or images[0] == images[1]:
        raise NmfsyncError(f"images must be two different numbers from 0 to {k - 1}, got {images}")
    with default_look(_look(width)):
        return pair_figure(scene, features, _select(errors, methods), images)


def tracks(
    scene: Scene,
    features: Sequence[Features],
    matching: MultiMatching,
    errors: MatchErrors,
    width: Width = "text",
) -> Figure:
    """Draw some long tracks through the images, with a patch around every feature.

    Parameters
    ----------
    scene : Scene
    features : sequence of Features
        One item for every image.
    matching : MultiMatching
    errors : MatchErrors
        Of `matching`, from `evaluation.match_errors`.
    width : "column", "text" or float
        In inches, at most.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    NmfsyncError
        If there is no track.
    """
    with default_look(_look(width)):
        figure = tracks_figure(scene, features, matching, errors)
    if figure is None:
        raise NmfsyncError(f"{scene.name}: there is no track to draw")
    return figure


def cameras(scene: Scene, features: Sequence[Features], width: Width = "column") -> Figure:
    """Draw the cameras, and the features whose depth is known, from two sides.

    Parameters
    ----------
    scene : Scene
        With cameras.
    features : sequence of Features
        One item for every image.
    width : "column", "text" or float
        In inches.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    NmfsyncError
        If the scene has no cameras.
    """
    if not scene.cameras:
        raise NmfsyncError(f"{scene.name}: no cameras are known")
    with default_look(_look(width)):
        return cameras_figure(scene, features)


def save(figure: Figure, path: Path | str) -> None:
    """Write a figure as PDF, SVG or PNG, by the ending of the name.

    The same figure gives the same bytes, without a date. A PDF has its fonts (TrueType) and text
    that can be searched; in an SVG, letters are outlines.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : Path or str

    Raises
    ------
    NmfsyncError
        If the name ends in something else.
    OSError
        If the file cannot be written.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise NmfsyncError(f"{shown(path)}: must end in {', '.join(_WRITERS)}")
    data = writer(figure)
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def _look(width: Width) -> Look:
    """Return the look of figures of a width, which must be possible."""
    inches = {"column": COLUMN, "text": TEXT}.get(width, width) if isinstance(width, str) else width
    if isinstance(inches, str) or not 2 <= inches <= 40:
        raise NmfsyncError(f"width must be column, text or 2 to 40 inches, got {shown(width)}")
    return paper(float(inches))


def _chosen(evaluation: SceneEvaluation, methods: Sequence[str] | None) -> SceneEvaluation:
    """Return an evaluation with these methods only, in this order."""
    return replace(evaluation, methods=_select(evaluation.methods, methods))


def _select(items: Mapping[str, Value], names: Sequence[str] | None) -> dict[str, Value]:
    """Return the items of these names in this order, or all of them."""
    for name in names or ():
        if name not in items:
            known = ", ".join(map(shown, items))
            raise NmfsyncError(
                f"no method {shown(name)}{near_names(name, items)}; there are {known}"
            )
    return {name: items[name] for name in (items if names is None else names)}
