"""The evidence of matches and what it is worth: photographs, estimated and true precision.

python -m pytest -m benchmark tests/benchmarks/test_evidence.py -s

Tables go to outputs/benchmarks. The settings of the evidence were compared on the
scenes of Graffiti and on `CAMERAS`; `HELD_OUT` took no part in any choice.
"""

import time

import numpy as np
import pytest

from benchmarks.comparison import Table, compile_kernels, synchronise
from nmfsync import calibrate_by_cycles, evaluation, extract_all, load_scene, match
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.curves import ratio_curve
from nmfsync.run.stages import Stages
from nmfsync.run.truth import with_truth
from nmfsync.scenes.catalogue import scene_names
from real_data import real_data

pytestmark = pytest.mark.benchmark

CAMERAS = [
    "epfl/fountain-P11", "epfl/Herz-Jesu-P8", "epfl/entry-P10", "epfl/castle-P19",
    "middlebury/dinoSparseRing", "middlebury/templeSparseRing",
]  # fmt: skip

HELD_OUT = ["epfl/Herz-Jesu-P25", "epfl/castle-P30"]

THETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

CONTROLS = ("nmfsync", "unionfind", "matcheig", "quickmatch")


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    compile_kernels()


class Prepared:
    """A scene with its features, truth, and matches with their probabilities."""

    def __init__(self, name: str, features: int, folder):
        scene = load_scene(name)
        self.name = name
        self.features = extract_all(scene.paths, features, progress=False)
        self.matches = match(self.features, weighted=True, progress=False)
        stages = Stages(folder / name / str(features), bars=False)
        stages.keys["features"] = f"{name} {features}"
        self.truth = with_truth(scene, self.features, self.matches, stages).truth
        self.errors = self.errors_of(self.matches)
        self.curve = ratio_curve(self.errors, self.matches.ratios, self.matches.sizes)

    def errors_of(self, result):
        return evaluation.match_errors(result, self.features, self.truth)

    def measured(self, result) -> tuple[float, float]:
        """FCM and precision at 1 %."""
        errors = self.errors_of(result)
        fcm = evaluation.fcm(errors, self.matches.sizes, [0.01])[0]
        return float(fcm), float(evaluation.precision_at(errors, [0.01])[0])

    def curve_at(self, fcm: float) -> float:
        """Precision of the ratio test at this FCM; NaN where it never gets there."""
        fcms, precisions = (np.array(self.curve[key], float) for key in ("fcm", "precision"))
        return float(np.interp(fcm, fcms, precisions, left=1.0, right=np.nan))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("depths")


def groups(folder):
    real_data("graffiti")
    real_data("epfl")
    real_data("middlebury")
    graffiti = scene_names("graffiti")
    for title, names, features in (
        ("Graffiti, 200 features", graffiti, 200),
        ("Graffiti, 1000 features", graffiti, 1000),
        ("six scenes with cameras, 300 features", CAMERAS, 300),
        ("held out, 300 features", HELD_OUT, 300),
    ):
        yield title, [Prepared(name, features, folder) for name in names]


def test_photographs(folder):
    """FCM and precision at 1 %: the default, its θ, the ratio test, and others with evidence."""
    for title, scenes in groups(folder):
        trade_off(title, scenes)
        by_scene(title, scenes)


def trade_off(title: str, scenes: list[Prepared]) -> None:
    table = Table(f"{title}: mean of {len(scenes)} scenes", ["FCM 1 %", "precision"])
    for limit in (0.7, 0.8, 0.85, 0.9, 1.0):
        place = scenes[0].curve["ratio"].index(limit)
        row = np.mean([[s.curve[k][place] for k in ("fcm", "precision")] for s in scenes], axis=0)
        table.add(f"input, ratio {limit}", *row.tolist(), digits=4)
    below = 0
    for theta in THETAS:
        points = [s.measured(synchronise(s.matches, "clustersync", theta=theta)) for s in scenes]
        table.add(f"clustersync {theta}", *np.mean(points, axis=0).tolist(), digits=4)
        for s, (fcm, precision) in zip(scenes, points, strict=True):
            if precision < s.curve_at(fcm):
                below += 1
                print(f"  below: {s.name} at θ = {theta}: {fcm:.4f}/{precision:.4f}, "
                      f"ratio curve {s.curve_at(fcm):.4f}")  # fmt: skip
    unweighted = [s.measured(synchronise(s.matches.unweighted(), "clustersync")) for s in scenes]
    table.add("clustersync, no evidence", *np.mean(unweighted, axis=0).tolist(), digits=4)
    for method in CONTROLS:
        for least in (0.0, 0.5, 0.8):
            if method == "quickmatch" and least:
                continue  # it clusters descriptors
            points = [
                s.measured(synchronise(s.matches, method, min_probability=least)) for s in scenes
            ]
            label = f"{method}, P ≥ {least}" if least else method
            table.add(label, *np.mean(points, axis=0).tolist(), digits=4)
    table.write("evidence-" + title.replace(" ", "-").replace(",", ""))
    print(f"points of clustersync below the ratio curve of their scene: {below} of "
          f"{len(scenes) * len(THETAS)}")  # fmt: skip
    assert below <= len(scenes) / 2  # where next to nothing is kept


def by_scene(title: str, scenes: list[Prepared]) -> None:
    """The default, scene by scene: measured and estimated precision."""
    table = Table(
        f"{title}: the default method",
        ["FCM 1 %", "precision", "estimated", "ratio curve", "input", "mean P", "by cycles"],
    )
    for s in scenes:
        result = synchronise(s.matches, "clustersync")
        fcm, precision = s.measured(result)
        estimated = estimate_confidence(result, s.matches).precision
        judged = np.isfinite(s.errors.error)
        entries = s.errors.p[judged], s.errors.q[judged]
        cycles = calibrate_by_cycles(s.matches.unweighted())
        means = [float(np.asarray(W[entries]).mean()) for W in (s.matches.W, cycles.W)]
        right = evaluation.precision_at(s.errors, [0.01])[0]
        table.add(s.name, fcm, precision, estimated, s.curve_at(fcm), float(right), *means)
    values = np.array([row[1:] for row in table.rows])
    table.add("mean", *values.mean(axis=0).tolist())
    differences = [np.abs(values[:, a] - values[:, b]).mean() for a, b in ((2, 1), (5, 4), (6, 4))]
    print("mean |estimated − measured|: result {:.3f}, input {:.3f}, input by cycles {:.3f}".format(
        *differences))  # fmt: skip
    table.write("evidence-scenes-" + title.replace(" ", "-").replace(",", ""))


def test_graffiti_where_homographies_were_measured(folder):
    """Estimated and measured precision of pairs with image 1, and of the other pairs.

    A homography was measured between image 1 and every other one. Between others
    it is their composition, which extrapolates where image 1 shows nothing.
    """
    real_data("graffiti")
    columns = ["with image 1", "estimated", "others", "estimated"]
    for features in (200, 1000):
        table = Table(f"Graffiti, {features} features: precision of the default", columns)
        for name in scene_names("graffiti"):
            s = Prepared(name, features, folder)
            result = synchronise(s.matches, "clustersync")
            errors, confidence = s.errors_of(result), estimate_confidence(result, s.matches)
            row = []
            for first in (True, False):
                chosen, estimated = (
                    (np.minimum(m.p, m.q) < s.matches.sizes[0]) == first
                    for m in (errors, confidence)
                )
                judged = errors.error[chosen & np.isfinite(errors.error)]
                row += [
                    float((judged <= 0.01).mean()),
                    float(confidence.probability[estimated].mean()),
                ]
            table.add(name, *row)
        values = np.array([row[1:] for row in table.rows])
        table.add("mean", *values.mean(axis=0).tolist())
        differences = np.abs(values[:, [0, 2]] - values[:, [1, 3]]).mean(axis=0)
        print(f"mean |estimated − measured|: {differences[0]:.3f} with image 1, "
              f"{differences[1]:.3f} others")  # fmt: skip
        table.write(f"evidence-graffiti-image1-{features}")


def test_cost():
    """Seconds of the whole dino ring, 363 images: extraction, matching, evidence, clustering."""
    real_data("middlebury")
    scene = load_scene("middlebury/dino")
    seconds = {}

    def timed(name, work):
        start = time.perf_counter()
        result = work()
        seconds[name] = time.perf_counter() - start
        return result

    features = timed(
        "features", lambda: extract_all(scene.paths, 355, contrast=0.01, progress=False)
    )
    plain = timed("matches", lambda: match(features, progress=False))
    matches = timed("with evidence", lambda: match(features, weighted=True, progress=False))
    result = timed("clustersync", lambda: synchronise(matches, "clustersync"))
    print(f"\n{len(features)} images, {len(plain.image_of):,} features, "
          f"{plain.W.nnz // 2:,} matches; seconds:")  # fmt: skip
    print({name: round(value, 1) for name, value in seconds.items()})
    errors = [evaluation.epipolar_errors(m, features, scene.cameras) for m in (plain, result)]
    print("epipolar precision at 1 % of input and result:",
          [round(float(evaluation.precision_at(e, [0.01])[0]), 3) for e in errors])  # fmt: skip
    evidence = seconds["with evidence"] - seconds["matches"]
    assert evidence <= seconds["features"] + seconds["matches"]


def test_paper_instances():
    """The paper's instances: the default with evidence and without, on 0/1 matches.

    By homographies, or by the distance to epipolar lines, which passes what is wrong along one.
    """
    real_data("graffiti")
    real_data("epfl")
    real_data("middlebury")
    columns = ["input FCM", "precision", "with FCM", "precision", "without FCM", "precision"]
    table = Table("ClusterSync with evidence and without, 200 features, 1 %", columns)
    groups: dict[str, list[list[float]]] = {}
    for name in scene_names("paper"):
        scene = load_scene(name)
        features = extract_all(scene.paths, 200, progress=False)
        matches = match(features, weighted=True, progress=False)
        row: list[float] = []
        for result in (matches, synchronise(matches, "clustersync"),
                       synchronise(matches.unweighted(), "clustersync")):  # fmt: skip
            errors = (
                evaluation.epipolar_errors(result, features, scene.cameras)
                if scene.cameras
                else evaluation.match_errors(result, features, scene.truth)
            )
            row.append(float(evaluation.fcm(errors, matches.sizes, [0.01])[0]))
            row.append(float(evaluation.precision_at(errors, [0.01])[0]))
        table.add(name, *row)
        groups.setdefault(name.split("/")[0], []).append(row)
    for group, rows in groups.items():
        table.add(f"mean of {group}", *np.mean(rows, axis=0).tolist())
    table.write("evidence-paper")


def test_look_alikes():
    """Estimated precision by the distance of the cameras, in a row of equal houses.

    Cameras in the first line are neighbours; those in the last one see other houses.
    """
    folder = real_data("sfm/street")
    rows = (folder / "poses.txt").read_text().splitlines()[1:]
    centre = {row.split()[0]: np.array(row.split()[-3:], float) for row in rows}
    paths = sorted((folder / "images").iterdir())
    features = extract_all(paths, 1000, progress=False)
    matches = match(features, weighted=True, progress=False)
    confidence = estimate_confidence(synchronise(matches, "clustersync"), matches)
    pairs, counts, precision = evaluation.precision_by_image_pair(confidence, matches.image_of)
    centres = np.array([centre[path.name] for path in paths])
    distance = np.linalg.norm(centres[pairs[:, 0]] - centres[pairs[:, 1]], axis=1)
    table = Table("row of equal houses", ["pairs", "matches", "estimated"])
    for low, high in ((0, 1), (1, 2), (2, 4), (4, 6), (6, np.inf)):
        chosen = (distance >= low) & (distance < high)
        right = (counts * precision)[chosen].sum() / counts[chosen].sum()
        table.add(f"{low} to {high}", int(chosen.sum()), int(counts[chosen].sum()), float(right))
