"""The error of every match: its distance from the ground truth, or from the epipolar lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmfsync.runtime.progress import phase, showing
from nmfsync.truth.epipolar import distance_to_lines, rays
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray, IntArray
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches
from nmfsync.types.notebook import html_facts, shown_share
from nmfsync.types.truth import Truth


@dataclass(frozen=True)
class MatchErrors:
    """Every match between two images, in both directions, with its error.

    Attributes
    ----------
    p, q : (n,) int64 arrays
        The matched features, numbered through all images: p lies in an image i
        and q in another image j. Both (p, q) and (q, p) are listed.
    error : (n,) float64 array
        Distance in image j between q and the place to which the truth moves p,
        as a share of the larger dimension of image j. NaN where the truth
        cannot judge the match.
    """

    p: IntArray
    q: IntArray
    error: NDArray[np.float64]

    def __repr__(self) -> str:
        judged = int(np.isfinite(self.error).sum())
        return f"MatchErrors({len(self.p):,} matches in both directions, {judged:,} judged)"

    def _repr_html_(self) -> str:
        known = self.error[np.isfinite(self.error)]
        facts: dict[str, object] = {"directed matches": len(self.p), "judged": len(known)}
        if len(known):
            facts["right at 1 %"] = shown_share(float((known <= 0.01).mean()))
            facts["median error"] = f"{100 * np.median(known):.2g} % of the image"
        return html_facts("MatchErrors", facts)

    def both_ways(self, values: ArrayLike) -> FloatArray:
        """Return a value for every row from those of the matches p < q.

        Parameters
        ----------
        values : (n / 2,) floats
            In order of p, then q.

        Returns
        -------
        (n,) float64 array
        """
        once = self.p < self.q
        result = np.empty(len(self.p))
        result[once] = np.asarray(values)
        # Sorted by q, then p, the rows are the same matches in the other direction.
        result[~once] = result[np.lexsort((self.p, self.q))[~once]]
        return result


def match_errors(
    matches: Matches,
    features: Sequence[Features],
    truth: Truth | None,
    progress: bool = False,
) -> MatchErrors:
    """Measure every match against the truth.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    features : sequence of Features
        One item for every image.
    truth : Truth or None
        Without truth every error is NaN.
    progress : bool
        Show a progress bar if this takes more than some seconds and stderr is a terminal.

    Returns
    -------
    MatchErrors
    """
    return errors_of_all({"": matches}, features, truth, progress)[""]


def errors_of_all(
    results: Mapping[str, Matches],
    features: Sequence[Features],
    truth: Truth | None,
    progress: bool = False,
) -> dict[str, MatchErrors]:
    """Measure the matches of several results as `match_errors` does, those they share once.

    Parameters
    ----------
    results : dict of str to PairwiseMatches or MultiMatching
        Matches of the same features.
    features, truth, progress
        As for `match_errors`.

    Returns
    -------
    dict of str to MatchErrors
    """
    ends = {name: _between_images(matches) for name, matches in results.items()}
    if truth is None:
        return {name: MatchErrors(p, q, np.full(len(p), np.nan)) for name, (p, q) in ends.items()}
    m = max(sum(map(len, features)), 1)
    numbers = {name: (p * m + q)[p < q] for name, (p, q) in ends.items()}
    every = reduce(np.union1d, numbers.values())
    of_every = _measure(*np.divmod(every, m), features, truth, progress)
    errors = {}
    for name, (p, q) in ends.items():
        once, error = p < q, np.empty(len(p))
        there, back = of_every[:, np.searchsorted(every, numbers[name])]
        # Libraries round one point otherwise than several, in the last digit.
        alone = _are_alone(_pair_of_images(p[once], q[once], features))
        own = _measure(p[once][alone], q[once][alone], features, truth, progress=False)
        there[alone], back[alone] = own
        error[once], error[~once] = there, back[np.argsort(q[once], kind="stable")]  # by q, then p
        errors[name] = MatchErrors(p, q, error)
    return errors


def _pair_of_images(p: IntArray, q: IntArray, features: Sequence[Features]) -> IntArray:
    """Return the number (n,) of the pair of images that each match is in."""
    image_of = np.repeat(np.arange(len(features)), [len(f) for f in features])
    return np.asarray(image_of[p] * len(features) + image_of[q])


def _are_alone(pair: IntArray) -> BoolArray:
    """Say which matches are the only one of their pair of images."""
    _, place, count = np.unique(pair, return_inverse=True, return_counts=True)
    return np.asarray(count[place] == 1)


def _measure(
    p: IntArray, q: IntArray, features: Sequence[Features], truth: Truth, progress: bool
) -> FloatArray:
    """Return the errors of matches p < q, sorted: (2, n), where p is moved and where q is."""
    offsets = np.cumsum([0, *(len(f) for f in features)])
    pair = _pair_of_images(p, q, features)
    order = np.argsort(pair, kind="stable")
    pairs = np.split(order, np.flatnonzero(np.diff(pair[order])) + 1) if len(order) else []
    result = np.empty((2, len(p)))
    there, back = result
    with showing(progress), phase(len(pairs), "Errors", "pair") as progress_bar:
        for rows in pairs:
            i, j = divmod(int(pair[rows[0]]), len(features))
            first, second = p[rows] - offsets[i], q[rows] - offsets[j]
            for errors, a, b, from_a, to_b in (
                (there, i, j, first, second), (back, j, i, second, first),
            ):  # fmt: skip
                moved, valid = truth.transfer(a, b, features[a].xy[from_a].astype(np.float64))
                pixels = np.linalg.norm(moved - features[b].xy[to_b], axis=1)
                errors[rows] = np.where(valid, pixels, np.nan) / max(features[b].image_size)
            progress_bar.update()
    return result


def epipolar_errors(
    matches: Matches,
    features: Sequence[Features],
    cameras: Sequence[Camera],
    progress: bool = False,
) -> MatchErrors:
    """Measure the distance of every match to its epipolar lines.

    A match that is wrong along the epipolar line has a small error all the same.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    features : sequence of Features
        One item for every image.
    cameras : sequence of Camera
        One item for every image.
    progress : bool
        Show a progress bar if this takes more than some seconds and stderr is a terminal.

    Returns
    -------
    MatchErrors
        The error is the mean distance in both images (see `epipolar_distance`),
        as a share of the larger dimension of image j.
    """
    p, q = _between_images(matches)
    image = matches.image_of
    centres = np.array([camera.centre for camera in cameras])
    directions = np.concatenate(
        [rays(camera, f.xy) for camera, f in zip(cameras, features, strict=True)]
    )
    distance_of_p = np.empty(len(p))  # in pixels of the image of p
    ends = np.searchsorted(p, [*matches.offsets])
    with (
        showing(progress),
        phase(len(cameras), "Epipolar distances", "image") as progress_bar,
    ):
        for i, camera in enumerate(cameras):
            rows = slice(ends[i], ends[i + 1])
            baseline = centres[image[q[rows]]] - centres[i]
            distance_of_p[rows] = distance_to_lines(
                camera, directions[p[rows]], baseline, directions[q[rows]]
            )
            progress_bar.update()
    # Matches are sorted by p, then q, and symmetric: sorted by q, then p, they are
    # the same matches in the other direction.
    distance_of_q = distance_of_p[np.argsort(q, kind="stable")]
    larger = np.array([max(f.image_size) for f in features])
    return MatchErrors(p, q, (distance_of_p + distance_of_q) / 2 / larger[image[q]])


def epipolar_pixels(
    p: IntArray, q: IntArray, xy: Sequence[AnyArray], cameras: Sequence[Camera]
) -> FloatArray:
    """Measure the distances of some matches to their epipolar lines (see `epipolar_distance`).

    Parameters
    ----------
    p, q : (n,) ints
        Matched features, numbered through all images.
    xy : sequence of (n, 2) arrays, length k
        Positions of the features of every image, in pixels.
    cameras : sequence of Camera, length k

    Returns
    -------
    (n,) float64 array
        The mean distance in both images, in pixels; NaN where there is no epipolar line.
    """
    image = np.repeat(np.arange(len(xy)), [len(points) for points in xy])
    centres = np.array([camera.centre for camera in cameras])
    directions = np.concatenate(
        [rays(camera, points) for camera, points in zip(cameras, xy, strict=True)]
    )

    def distance_of(a: IntArray, b: IntArray) -> FloatArray:
        distance = np.empty(len(a))
        order = np.argsort(image[a], kind="stable")
        ends = np.searchsorted(image[a][order], np.arange(len(cameras) + 1))
        for i, camera in enumerate(cameras):
            rows = order[ends[i] : ends[i + 1]]
            baseline = centres[image[b[rows]]] - centres[i]
            distance[rows] = distance_to_lines(
                camera, directions[a[rows]], baseline, directions[b[rows]]
            )
        return distance

    return (distance_of(p, q) + distance_of(q, p)) / 2


def _between_images(matches: Matches) -> tuple[IntArray, IntArray]:
    """Return the matches p, q (n,) between images, in both directions, sorted by p, then q."""
    p, q = matches.W.tocoo().coords
    image = matches.image_of
    between = image[p] != image[q]
    return p[between].astype(np.int64), q[between].astype(np.int64)
