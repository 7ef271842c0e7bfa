"""Public figures: as wide as asked for, legible, whole, and always the same bytes."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.text import Text
from PIL import Image

import nmfsync
from nmfsync import METHODS, MultiMatching, NmfsyncError, plot
from nmfsync.evaluation import MethodEvaluation, SceneEvaluation, match_errors
from nmfsync.evaluation.curves import RATIOS, THRESHOLDS
from nmfsync.report.figures.style import PAGE, current_look
from nmfsync.scenes.scene import Scene
from rendered import scene as rendered_scene
from three_images import features_at, results_for, three_images

NAMES = ["input", *METHODS]


def curve(height):
    return {f"{t:g}": height * float(1 - np.exp(-200 * t)) for t in THRESHOLDS}


def evaluation_with(names, scene="set/scene", truth="homographies"):
    """Make up figures of many methods, with everything that a page can show."""
    classes = {"probability": [0.1, 0.9], "right": [0.2, 0.95], "judged": [40, 4000]}
    methods = {
        name: MethodEvaluation(
            curve(0.3 + 0.05 * n), curve(0.5 + 0.05 * n), 12_345, 20_000, 0.0, n % 2 == 1, 1.0, 1.0,
            0.8, classes, curve(0.4 + 0.05 * n), curve(0.5 + 0.05 * n),
        )
        for n, name in enumerate(names)
    }  # fmt: skip
    ratios = {"ratio": RATIOS.tolist(), "fcm": RATIOS.tolist(), "precision": RATIOS.tolist()[::-1]}
    return SceneEvaluation(
        scene, 6, 123_456, [9] * 6, 4, truth, {}, methods, ratio_curve=ratios, tracks=names[-1]
    )


def figures(folder, width):
    """Draw everything there is: nine methods, long names, many features."""
    evaluation = evaluation_with(NAMES)
    three, features = three_images(folder)
    results = results_for(features)
    errors = {name: match_errors(m, features, three.truth) for name, m in results.items()}
    rendered = rendered_scene()
    cameras = Scene("a/b", three.paths, None, rendered.cameras)
    result = results["nmfsync"]
    same = dict.fromkeys(["input", "nmfsync", "clustersync", "spectral", "clear"], result)
    return {
        "fcm": plot.fcm(evaluation, width=width),
        "epipolar": plot.fcm(evaluation, width=width, epipolar=True),
        "trade-off": plot.trade_off([evaluation], width=width),
        "reliability": plot.reliability([evaluation], width=width),
        "dataset": plot.dataset([evaluation], width=width),
        "datasets": plot.dataset(
            [evaluation_with(NAMES, f"epfl/castle-P{n}") for n in range(15, 20)], width=width
        ),
        "lengths": plot.track_lengths(same, width=width),
        "matrix": plot.matrix(results["input"], result, "nmfsync", width=width),
        "pair": plot.pair(three, features, errors, (0, 2), width=width),
        "tracks": plot.tracks(three, features, result, errors["nmfsync"], width=width),
        "cameras": plot.cameras(cameras, [features_at([], (320, 240))] * 7, width=width),
    }


@pytest.fixture(scope="module", params=["column", "text"])
def drawn(request, tmp_path_factory):
    """Draw every figure in one width; also say how wide that is, in inches."""
    made = figures(tmp_path_factory.mktemp("images"), request.param)
    for figure in made.values():
        figure.draw_without_rendering()
    return made, {"column": 3.5, "text": 7.16}[request.param]


def texts(figure):
    return [t for t in figure.findobj(Text) if t.get_text() and t.get_visible()]


def test_figures_are_as_wide_as_asked_for(drawn):
    made, inches = drawn
    for name, figure in made.items():
        width = figure.get_figwidth()
        if name == "tracks":  # of three images only
            assert width <= inches
        else:
            assert abs(width - inches) < 0.02 * inches, name
    assert current_look() is PAGE


def test_letters_and_lines_are_legible_in_print(drawn):
    made, _ = drawn
    for name, figure in made.items():
        assert texts(figure), name
        for text in texts(figure):
            assert 6.99 <= text.get_fontsize() <= 8, (name, text.get_text())
        for line in figure.findobj(Line2D):
            if line.get_linestyle() != "None":
                assert line.get_linewidth() >= 0.6, name
        for lines in figure.findobj(LineCollection):
            assert np.all(lines.get_linewidths() >= 0.6), name


def test_nothing_is_cut_off(drawn):
    made, _ = drawn
    for name, figure in made.items():
        inside, whole = figure.get_tightbbox(), figure.bbox_inches.padded(0.01)
        assert whole.x0 <= inside.x0 <= inside.x1 <= whole.x1, name
        assert whole.y0 <= inside.y0 <= inside.y1 <= whole.y1, name


def test_legends_cover_neither_plots_nor_labels(drawn):
    made, _ = drawn
    for name, figure in made.items():
        for legend in figure.legends:
            box = legend.get_window_extent().padded(-1)
            for axes in figure.axes:
                assert not box.overlaps(axes.get_tightbbox()), name
            for part in figure.subfigs:
                assert not box.overlaps(part._supxlabel.get_window_extent()), name


def labels(figure):
    return [line.get_label() for line in figure.axes[0].lines if line.get_label()[0] != "_"]


def test_methods_are_chosen_and_ordered():
    evaluation = evaluation_with(NAMES)
    chosen = ["clustersync", "input", "spectral"]
    assert labels(plot.fcm(evaluation, chosen)) == ["ClusterSync", "input", "Spectral"]
    trade_off = labels(plot.trade_off([evaluation], chosen))
    assert trade_off == ["input, ratio test", "ClusterSync", "input", "Spectral"]
    titles = [a.get_title(loc="left") for a in plot.reliability([evaluation], chosen[:1]).axes]
    assert titles == ["ClusterSync:\n4,040 matches judged", ""]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda e: plot.fcm(e, ["clustersnyc"]), "no method clustersnyc; did you mean clustersync"),
        (lambda e: plot.fcm(e, width="wide"), "width must be column, text or 2 to 40 inches"),
        (lambda e: plot.fcm(e, width=0.1), "width must be"),
        (lambda e: plot.dataset([]), "no scene has ground truth"),
        (lambda e: plot.trade_off([]), "no scene has FCM and precision"),
        (lambda e: plot.reliability([e], ["nobody"]), "reliable the estimates of nobody"),
        (lambda e: plot.cameras(Scene("a/b", ()), []), "a/b: no cameras are known"),
        (lambda e: plot.pair(Scene("a/b", ()), [], {}, (0, 1)), "two different numbers"),
        (lambda e: plot.save(plot.fcm(e), "figure.doc"), "figure.doc: must end in .pdf"),
    ],
)
def test_mistakes_are_named(draw, message):
    with pytest.raises(NmfsyncError, match=message):
        draw(evaluation_with(NAMES))


def test_files_are_always_the_same_and_have_their_fonts(tmp_path):
    for name in ("one", "two"):
        for ending in ("pdf", "svg", "png"):
            plot.save(plot.fcm(evaluation_with(NAMES[:2])), tmp_path / f"{name}.{ending}")
    for ending in ("pdf", "svg", "png"):
        data = (tmp_path / f"one.{ending}").read_bytes()
        assert data == (tmp_path / f"two.{ending}").read_bytes()
        assert b"Date" not in data
        assert b"atplotlib v" not in data
    pdf = (tmp_path / "one.pdf").read_bytes()
    assert b"/FontFile2" in pdf  # TrueType
    assert b"/Type3" not in pdf


def test_photographs_fill_the_figure_in_every_resolution_and_format(tmp_path):
    """A figure of pixels saved in another resolution keeps its lines on the photographs."""
    scene, features = three_images(tmp_path)
    errors = {"input": match_errors(results_for(features)["input"], features, scene.truth)}
    figure = plot.pair(scene, features, errors, (0, 1))
    plot.save(figure, tmp_path / "own.png")
    figure.savefig(tmp_path / "half.png", dpi=figure.dpi / 2)
    own = Image.open(tmp_path / "own.png").convert("L")
    half = Image.open(tmp_path / "half.png").convert("L")
    small = np.asarray(own.resize(half.size, Image.Resampling.BOX), float)
    assert np.abs(small - np.asarray(half, float)).mean() < 3


def test_notebooks_show_figures():
    figure = plot.track_lengths({"m": MultiMatching([0, 1, 0], [2, 1])})
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert nmfsync.plot is plot
