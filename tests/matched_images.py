"""Small images with random matches by several methods, some of which are right."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from builders import matches_of
from nmfsync import MultiMatching
from nmfsync.evaluation.confidence import Confidence, estimate_confidence
from nmfsync.evaluation.errors import MatchErrors, match_errors
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches
from nmfsync.types.truth import Homographies
from two_images import images_with, shifted_by

SIZES = (7, 5, 0, 8, 6)

POINTS = np.array([(5, 5), (20, 40), (45, 10), (60, 30), (85, 20), (30, 25), (70, 45), (95, 8)])


@dataclass(frozen=True)
class Matched:
    """Features of five images, the matches of three methods, and all that is known of them."""

    features: list[Features]
    truth: Homographies
    results: dict[str, Matches]
    confidences: dict[str, Confidence]
    errors: dict[str, MatchErrors]

    @property
    def image_of(self) -> list[int]:
        return np.repeat(np.arange(len(SIZES)), SIZES).tolist()

    def matches(self, method: str) -> dict[tuple[int, int], float]:
        """Matches p < q of a method, with their probabilities."""
        p, q, probability = (column.tolist() for column in self.confidences[method])
        return dict(zip(zip(p, q, strict=True), probability, strict=True))

    def shares(self, p: int, q: int) -> list[float]:
        """Errors of a match in the directions that can be judged, as shares of the image."""
        known = {}
        for errors in self.errors.values():
            columns = (column.tolist() for column in (errors.p, errors.q, errors.error))
            known |= {(a, b): error for a, b, error in zip(*columns, strict=True)}
        return [known[pair] for pair in ((p, q), (q, p)) if np.isfinite(known[pair])]


def matched_images(seed: int) -> Matched:
    """Make images that show the same points, each 15 pixels further right, some 6 pixels beside."""
    rng = np.random.default_rng(seed)
    shown = [rng.permutation(len(POINTS))[:n] for n in SIZES]
    features = images_with(
        *(
            POINTS[s] + [15 * i, 0] + 6 * (rng.random((len(s), 1)) < 0.3)
            for i, s in enumerate(shown)
        )
    )
    truth = shifted_by(15, len(SIZES))
    offsets = np.concatenate([[0], np.cumsum(SIZES)])

    def pairwise(share: float):
        edges = []
        for i, j in combinations(range(len(SIZES)), 2):
            n = int(share * min(SIZES[i], SIZES[j]))
            left, right = (rng.permutation(SIZES[image])[:n] + offsets[image] for image in (i, j))
            edges += zip(left, right, rng.uniform(0.1, 0.9, n), strict=True)
        return matches_of(edges, SIZES)

    universe = np.concatenate(
        [np.where(rng.random(len(s)) < 0.8, s, 50 + s + 10 * i) for i, s in enumerate(shown)]
    )
    results: dict[str, Matches] = {
        "input": pairwise(0.7),
        "clustersync": MultiMatching(universe, SIZES),
        "matcheig": pairwise(0.5),
    }
    return Matched(
        features,
        truth,
        results,
        {name: estimate_confidence(result, results["input"]) for name, result in results.items()},
        {name: match_errors(result, features, truth) for name, result in results.items()},
    )
