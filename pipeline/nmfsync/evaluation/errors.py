"""The error of every match: its distance from the ground truth, or from the epipolar lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmfsync.runtime.progress import phase, showing
from nmfsync.truth.epipolar import distance_to_lines, rays
from nmfsync.types.arrays import AnyArray, FloatArray, IntArray
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
    p, q = _between_images(matches)
    if truth is None or not len(p):
        return MatchErrors(p, q, np.full(len(p), np.nan))
    pairs, offsets = list(matches.by_image_pair()), matches.offsets
    ends, shares = [], []
    with showing(progress), phase(len(pairs), "Errors", "pair") as progress_bar:
        for i, j, rows, _ in pairs:
            for a, b, (first, second) in ((i, j, rows.T), (j, i, rows.T[::-1])):
                moved, valid = truth.transfer(a, b, features[a].xy[first].astype(np.float64))
                pixels = np.linalg.norm(moved - features[b].xy[second], axis=1)
                shares.append(np.where(valid, pixels, np.nan) / max(features[b].image_size))
                ends.append((offsets[a] + first, offsets[b] + second))
            progress_bar.update()
    # By pair of images so far; p and q are sorted by p, then q.
    first_ends, second_ends = (np.concatenate(side) for side in zip(*ends, strict=True))
    return MatchErrors(p, q, np.concatenate(shares)[np.lexsort((second_ends, first_ends))])


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
