"""A scene of three small images, its matches by two methods, and its report."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from PIL import Image

from builders import make_features, matches_of
from nmfsync import MultiMatching
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.curves import ratio_curve
from nmfsync.evaluation.errors import match_errors
from nmfsync.evaluation.measure import evaluate, evaluate_image_pairs
from nmfsync.evaluation.summary import SceneEvaluation
from nmfsync.report.scene_page import write_scene_report
from nmfsync.scenes.scene import Scene
from nmfsync.types.truth import Homographies

# Width and height of three images; the scene moves by the shift from the first.
SIZES = [(100, 80), (140, 100), (60, 90)]
SHIFTS = [(0, 0), (20, 10), (-10, 5)]
POINTS = [(20, 30), (50, 20), (40, 60)]


def features_at(points, size):
    return make_features(points, image_size=size, scale=4, keypoints=len(points) + 2)


def three_images(folder, names=("a.png", "b.png", "c.png"), k=3, truth=True):
    """Black images of different sizes with a white square around every feature."""
    folder.mkdir(parents=True, exist_ok=True)
    features = []
    for size, shift, name in list(zip(SIZES, SHIFTS, names, strict=True))[:k]:
        points = [(x + shift[0], y + shift[1]) for x, y in POINTS]
        pixels = np.zeros((size[1], size[0]), np.uint8)
        for x, y in points:
            pixels[y - 1 : y + 2, x - 1 : x + 2] = 255
        Image.fromarray(pixels).save(folder / name)
        features.append(features_at(points, size))
    maps = np.array([[[1, 0, x], [0, 1, y], [0, 0, 1]] for x, y in SHIFTS[:k]], dtype=float)
    paths = tuple(folder / name for name in names[:k])
    known = Homographies(maps, np.array(SIZES[:k])) if truth else None
    return Scene("set/scene", paths, known), features


def evaluation_of(scene, features, results, warnings=()):
    """Evaluate the results of methods on these images."""
    known = results["input"]
    errors = {name: match_errors(m, features, scene.truth) for name, m in results.items()}
    sure = {name: estimate_confidence(m, known) for name, m in results.items()}
    methods = {
        name: evaluate(m, features, scene.truth, 0.5, 12.0, None, errors[name], sure[name])
        for name, m in results.items()
    }
    sizes = [len(f) for f in features]
    tracks = "nmfsync" if "nmfsync" in results else "input"
    ratios = np.full((known.W.nnz - sum(sizes)) // 2, 0.7)
    return SceneEvaluation(
        scene.name,
        len(sizes),
        sum(sizes),
        sizes,
        3,
        scene.truth.kind if scene.truth else "none",
        {"features": 200, "versions": {"numpy": "2.0"}},
        methods,
        list(warnings),
        ratio_curve(errors["input"], ratios, sizes) if scene.truth else {},
        tracks,
        *evaluate_image_pairs(results[tracks], sure[tracks], errors[tracks]),
    )


def results_for(features):
    """The right matches of images 1 and 2, one wrong one, and two methods."""
    sizes = [len(f) for f in features]
    if sizes != [3] * len(sizes):
        return {"input": matches_of([], sizes)}
    edges = [(0, 3), (1, 4), (2, 5)]
    edges += [(0, 7), (3, 6)] if len(sizes) == 3 else []
    return {
        "input": matches_of(edges, sizes),
        "nmfsync": MultiMatching([0, 1, 2] * len(sizes), sizes),
        "matcheig": matches_of(edges, sizes),
    }


def write_report(folder, scene, features, warnings=(), depth_quality=None, verdicts=()):
    """Write the report of these images; return its HTML."""
    results = results_for(features)
    evaluation = replace(
        evaluation_of(scene, features, results, warnings),
        depth_quality=depth_quality or {},
        verdicts=list(verdicts),
    )
    errors = {name: match_errors(m, features, scene.truth) for name, m in results.items()}
    sure = {name: estimate_confidence(m, results["input"]) for name, m in results.items()}
    write_scene_report(folder, scene, features, results, errors, sure, evaluation)
    return (folder / "report.html").read_text()


class Page(HTMLParser):
    """Collects tags, addresses, text and the data of the viewer; checks the order of tags."""

    VOID = ("meta", "img", "br", "link", "input", "hr")

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.sources, self.links = [], [], [], []
        self.text = self.data = ""
        self.in_data = False
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for key, value in attrs if key == "src"]
        self.links += [value for key, value in attrs if key == "href"]
        self.in_data = ("id", "viewer-data") in attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["script"]:
            self.text += data
        elif self.in_data:
            self.data += data
