"""The landmark sequences House and Hotel: few points, many frames, known truth.

Thirty points were marked by hand in every frame of two image sequences of the
CMU Vision and Autonomous Systems Center. The truth is simple: landmark a of one
frame is landmark a of every other. Pairwise matches are often wrong all the
same, because points are described by their positions only, not by pixels.
"""

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.io import loadmat
from scipy.optimize import linear_sum_assignment

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import read_hashed, reading, sha256_of
from nmfsync.types.arrays import AnyArray, FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, PairwiseMatches

# Of shape contexts, as in Belongie, Malik & Puzicha 2002, whose rings end at 1/8, 1/4, 1/2, 1 and
# 2 mean distances.
RINGS, SECTORS = 5, 12

# Files with the positions; that of House contains pairwise matches too.
FILES = {"house": "house_sync_data.mat", "hotel": "groundT.mat"}

# SciPy's reader can crash on a damaged file, so only the published ones get to it.
_SHA256 = {
    "house": "902a249cd9b89f4a17586083ffe2eb5c3084014ceeff5bc6e39536b60ff56f73",
    "hotel": "1c2adb1b6ec379b284927adc9afcab8a1c62597e6669aba95a3afced7144eda0",
}

FRAMES = {"house": 111, "hotel": 101}  # length of each sequence


@dataclass(frozen=True)
class LandmarkSequence:
    """The same n points in each of k frames, and the pairwise matches of the frames.

    Attributes
    ----------
    name : str
    xy : (k, n, 2) float64 array
        Pixels as published, x to the right and y down. Whether the authors
        counted them from 0 or from 1 is not recorded; nothing here depends on it.
    matches : PairwiseMatches
        Of all k frames with n features each: every block is a full permutation.
    """

    name: str
    xy: FloatArray
    matches: PairwiseMatches


def load_landmarks(
    name: str, data: Path | str | None = None, sha256: str | None = None
) -> LandmarkSequence:
    """Load House (111 frames) or Hotel (101 frames), each of 30 landmarks.

    House is published with pairwise matches by shape contexts, 0.866 of which
    are correct; they are used unchanged. Hotel is published without matches;
    `match_by_shape` makes them, 0.907 of which are correct. The images are not
    used.

    Parameters
    ----------
    name : {"house", "hotel"}
    data : Path or str, optional
        Folder that holds `landmarks/house/house_sync_data.mat` and
        `landmarks/hotel/groundT.mat`. None means $NMFSYNC_DATA.
    sha256 : str, optional
        That of the file when it was looked at, see `landmark_digests`.

    Returns
    -------
    LandmarkSequence

    Raises
    ------
    NmfsyncError
        If there is no such sequence, or its file is missing, not the published one, or
        another one than `sha256` says.

    References
    ----------
    Pachauri, Kondor & Singh, Solving the multi-way matching problem by
    permutation synchronization, NIPS 2013.
    """
    if name not in FILES:
        raise NmfsyncError(f"no landmark sequence {name!r}; there are {' and '.join(FILES)}")
    path = _find(name, data)
    with reading(path, "not the published MATLAB file; get it again"):
        content, found = read_hashed(path, sha256)
        if found != _SHA256[name]:
            raise NmfsyncError(f"not the published MATLAB file; get it again (SHA-256 {found})")
        xy, W = _parse(content, with_matches=name == "house")
        matches = match_by_shape(xy) if W is None else PairwiseMatches(W, _sizes(xy))
    return LandmarkSequence(name, xy, matches)


def landmark_digests(data: Path | str | None = None) -> dict[str, str]:
    """Return the SHA-256 of the file of every sequence, by its name.

    Raises
    ------
    NmfsyncError
        If a file is missing.
    """
    return {name: sha256_of(_find(name, data)) for name in FILES}


def landmark_matches(
    sequence: LandmarkSequence, frames: int, seed: int
) -> tuple[PairwiseMatches, MultiMatching]:
    """Choose frames at random, and return their pairwise matches and the truth.

    Parameters
    ----------
    sequence : LandmarkSequence
    frames : int
        Number of frames, from 2 to k. They keep the order of the sequence.
    seed : int

    Returns
    -------
    matches : PairwiseMatches
    truth : MultiMatching
        The identity in every block.

    Raises
    ------
    NmfsyncError
        If `frames` is not from 2 to k.
    """
    k, n, _ = sequence.xy.shape
    if not 2 <= frames <= k:
        raise NmfsyncError(f"{sequence.name} has {k} frames: choose 2 to {k} of them, got {frames}")
    chosen = np.sort(np.random.default_rng(seed).choice(k, size=frames, replace=False))
    rows = (chosen[:, None] * n + np.arange(n)).ravel()
    sizes = np.full(frames, n)
    matches = PairwiseMatches(sequence.matches.W[rows][:, rows], sizes)
    return matches, MultiMatching(np.tile(np.arange(n), frames), sizes)


def shape_contexts(xy: ArrayLike) -> FloatArray:
    """Describe every point by the positions of the other points around it.

    The description is a histogram over 5 rings, whose outer radii double up to
    twice the mean distance, and 12 sectors of 30 degrees. Points farther out are
    not counted. It is invariant under translation and scale, but not rotation.

    Parameters
    ----------
    xy : (n, 2) array
        Positions; any unit.

    Returns
    -------
    (n, 60) float64 array
        Rows with sum 1 (0 if no point is near enough), ring by ring from the
        inside, each ring from the direction of x towards that of y.

    References
    ----------
    Belongie, Malik & Puzicha, Shape matching and object recognition using shape
    contexts, PAMI 2002, Sec. 3. The radii are those of the authors' demo. As in
    the paper, the mean is over all n² pairs, a point and itself included.

    Examples
    --------
    >>> contexts = shape_contexts([[0, 0], [10, 0], [10, 10]])
    >>> contexts[0].nonzero()[0].tolist(), contexts[0].max().item()
    ([48, 49], 0.5)
    """
    xy = np.asarray(xy, dtype=np.float64)
    x, y = np.moveaxis(xy[None, :] - xy[:, None], 2, 0)
    distance = np.hypot(x, y)
    outer = np.mean(distance) * 2.0 ** np.arange(2 - RINGS, 2)
    ring = np.searchsorted(outer, distance, side="right")
    sector = np.floor(np.arctan2(y, x) / (2 * np.pi) * SECTORS).astype(np.int64) % SECTORS
    counted = (ring < RINGS) & ~np.eye(len(xy), dtype=bool)
    point = np.nonzero(counted)[0]
    histograms = np.zeros((len(xy), RINGS * SECTORS))
    np.add.at(histograms, (point, (ring * SECTORS + sector)[counted]), 1)
    return np.asarray(histograms / np.maximum(histograms.sum(axis=1, keepdims=True), 1))


def chi_square(a: FloatArray, b: FloatArray) -> FloatArray:
    """Chi-square distance ½ Σ (a − b)² / (a + b) between all rows of two arrays.

    Parameters
    ----------
    a : (n, bins) array
    b : (l, bins) array
        Not negative. Bins that are empty in both count as 0.

    Returns
    -------
    (n, l) float64 array
        From 0 for the same histogram to 1 for two that share no bin.
    """
    difference = a[:, None] - b[None, :]
    total = a[:, None] + b[None, :]
    return np.asarray((difference**2 / np.where(total > 0, 2 * total, 1)).sum(axis=2))


def match_by_shape(xy: FloatArray) -> PairwiseMatches:
    """Match every two frames by the shape contexts of their points.

    The matches of two frames are the assignment with the smallest sum of
    chi-square distances. All parameters are those of Belongie et al. Of all
    matches between different frames 0.923 are correct on House (the published
    matches have 0.866) and 0.907 on Hotel.

    Parameters
    ----------
    xy : (k, n, 2) float64 array
        Positions of n points in k frames; any unit.

    Returns
    -------
    PairwiseMatches
        A full permutation in every block.
    """
    k, n, _ = xy.shape
    contexts = [shape_contexts(frame) for frame in xy]
    ends = [np.empty((2, 0), np.int64)]
    for i in range(k):
        for j in range(i + 1, k):
            p, q = linear_sum_assignment(chi_square(contexts[i], contexts[j]))
            ends.append(np.stack([i * n + p, j * n + q]))
    p, q = np.hstack(ends)
    return PairwiseMatches.from_entries(p, q, _sizes(xy))


def _find(name: str, data: Path | str | None) -> Path:
    path = _data_folder(data) / "landmarks" / name / FILES[name]
    if not path.is_file():
        raise NmfsyncError(
            f"{path.name} is not in {path.parent}: nmfsync cannot download this file (CMU VASC; "
            "landmarks of Pachauri et al. 2013); put it there yourself"
        )
    return path


def _data_folder(data: Path | str | None) -> Path:
    folder = data or os.environ.get("NMFSYNC_DATA")
    if not folder:
        raise NmfsyncError(
            "no folder for landmark data (CMU VASC; landmarks of Pachauri et al. 2013): name one "
            "that contains landmarks/house and landmarks/hotel with --data, or set NMFSYNC_DATA"
        )
    return Path(folder)


def _parse(data: bytes, with_matches: bool) -> tuple[FloatArray, AnyArray | None]:
    """Read positions (k, n, 2), and W (k·n, k·n) or None."""
    content = loadmat(BytesIO(data))
    xy = np.stack(list(content["data"].ravel())).astype(np.float64)
    if xy.ndim != 3 or xy.shape[2] != 2 or not np.isfinite(xy).all():
        raise ValueError("positions")
    return xy, content["Wnoise"] if with_matches else None


def _sizes(xy: FloatArray) -> IntArray:
    """Return the number of features n of every frame: (k,)."""
    return np.full(len(xy), xy.shape[1])
