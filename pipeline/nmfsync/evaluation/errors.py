"""The error of every match: distance from the truth, or from the epipolar line."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmfsync.runtime.progress import phase, showing
from nmfsync.truth.epipolar import distance_to_lines, rays
from nmfsync.types.arrays import IntArray
from nmfsync.types.camera import Camera
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches
from nmfsync.types.truth import Truth


@dataclass(frozen=True)
class MatchErrors:
    """Every match between two images, in both directions, with its transfer error.

    Attributes
    ----------
    p, q : (n,) int arrays
        Features, counted through all images: p in one image, q in another.
        Both (p, q) and (q, p) are listed.
    error : (n,) float64 array
        Distance in image j between the transferred p and q, as a share of the
        larger dimension of image j. NaN where the truth cannot judge.
    """

    p: IntArray
    q: IntArray
    error: NDArray[np.float64]


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
        Those of every image, in the order of the matches.
    truth : Truth or None
        Without truth every error is NaN.
    progress : bool
        Show a bar for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    MatchErrors
    """
    p, q = _between_images(matches)
    if truth is None or not len(p):
        return MatchErrors(p, q, np.full(len(p), np.nan))
    pairs, offsets = list(matches.by_image_pair()), matches.offsets
    ends, found = [], []
    with showing(progress), phase(len(pairs), "Errors", "pair") as progress_bar:
        for i, j, rows, _ in pairs:
            for a, b, (first, second) in ((i, j, rows.T), (j, i, rows.T[::-1])):
                moved, valid = truth.transfer(a, b, features[a].xy[first].astype(np.float64))
                pixels = np.linalg.norm(moved - features[b].xy[second], axis=1)
                found.append(np.where(valid, pixels, np.nan) / max(features[b].image_size))
                ends.append((offsets[a] + first, offsets[b] + second))
            progress_bar.update()
    start, stop = (np.concatenate(side) for side in zip(*ends, strict=True))
    return MatchErrors(p, q, np.concatenate(found)[np.lexsort((stop, start))])


def epipolar_errors(
    matches: Matches,
    features: Sequence[Features],
    cameras: Sequence[Camera],
    progress: bool = False,
) -> MatchErrors:
    """Measure the distance of every match to the epipolar lines.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    features : sequence of Features
    cameras : sequence of Camera
        One an image.
    progress : bool
        Show a bar for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    MatchErrors
        A match that is wrong along the epipolar line has no error here.
    """
    p, q = _between_images(matches)
    image = matches.image_of
    centres = np.array([camera.centre for camera in cameras])
    seen = np.concatenate([rays(camera, f.xy) for camera, f in zip(cameras, features, strict=True)])
    here = np.empty(len(p))  # the distance in the image of p
    ends = np.searchsorted(p, [*matches.offsets])
    with showing(progress), phase(len(cameras), "Epipolar distances", "image") as shown:
        for i, camera in enumerate(cameras):
            rows = slice(ends[i], ends[i + 1])
            baseline = centres[image[q[rows]]] - centres[i]
            here[rows] = distance_to_lines(camera, seen[p[rows]], baseline, seen[q[rows]])
            shown.update()
    # Matches are sorted by p, then q, and symmetric: sorted by q, then p, they are
    # the same matches in the other direction.
    there = here[np.argsort(q, kind="stable")]
    larger = np.array([max(f.image_size) for f in features])
    return MatchErrors(p, q, (here + there) / 2 / larger[image[q]])


def _between_images(matches: Matches) -> tuple[IntArray, IntArray]:
    """Return matches p, q (n,) between images, in both directions, sorted by p, then q."""
    p, q = matches.W.tocoo().coords
    image = matches.image_of
    between = image[p] != image[q]
    return p[between].astype(np.int64), q[between].astype(np.int64)
