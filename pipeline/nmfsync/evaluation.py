"""How good matches are: against ground truth, and against each other.

FCM and precision are the measures for images, gt-error, recall and f-score
those for data whose true W is known, and cycle-error needs no truth at all.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.cameras import Camera
from nmfsync.compiled import compiled
from nmfsync.epipolar import distance_to_lines, rays
from nmfsync.errors import NmfsyncError
from nmfsync.features import Features
from nmfsync.matches import IntArray, Matches
from nmfsync.progress import phase, showing
from nmfsync.scene import Truth

# Share of the largest image dimension up to which a match counts as correct.
THRESHOLDS: NDArray[np.float64] = np.round(np.linspace(0.0, 0.05, 51), 3)


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


@dataclass(frozen=True)
class MethodEvaluation:
    """The figures of one method on one scene.

    Attributes
    ----------
    fcm, precision : dict of str to float
        By threshold, written as in "0.01". Empty without truth; a precision
        is None where no match could be judged.
    matchings : int
        Matches between different images, each counted once.
    judged : int
        Matches (each direction counted on its own) that the truth can judge.
    cycle_error : float
    cycle_consistent : bool
        True if every cycle of matches agrees.
    seconds : float
        Wall time of the method alone.
    peak_memory_mb : float
        Memory the method had allocated at its peak, beyond its input (10⁶ bytes).
    epipolar_fcm, epipolar_precision : dict of str to float
        As `fcm` and `precision`, by the distance to the epipolar lines of the
        given cameras: this needs no depth, but lets pass what is wrong along
        the line. Empty without cameras.
    """

    fcm: dict[str, float]
    precision: dict[str, float | None]
    matchings: int
    judged: int
    cycle_error: float
    cycle_consistent: bool
    seconds: float
    peak_memory_mb: float
    epipolar_fcm: dict[str, float] = field(default_factory=dict)
    epipolar_precision: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class SceneEvaluation:
    """All there is to say about one scene; the content of `evaluation.json`.

    Attributes
    ----------
    scene : str
    images : int
        Number k of images.
    features : int
        Number m of features in all images.
    sizes : list of int
        Features of every image.
    universe_size : int
        The d given to the methods.
    truth : str
        What the truth comes from, or "none".
    settings : dict
        The settings that led here, and the versions of the libraries.
    methods : dict of str to MethodEvaluation
        "input" first, then the methods in the order they were asked for.
    warnings : list of str
        What degraded the result.
    depth_quality : dict
        How good depths reconstructed from the images are: what they were
        compared with (`against`), for how many features (`features`), and the
        fields of `DepthQuality`, None where nothing could be compared. Empty
        where the truth has no depths.
    """

    scene: str
    images: int
    features: int
    sizes: list[int]
    universe_size: int
    truth: str
    settings: dict[str, Any]
    methods: dict[str, MethodEvaluation]
    warnings: list[str] = field(default_factory=list)
    depth_quality: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings, ready for JSON."""
        return asdict(self)


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
    error = np.full(len(p), np.nan)
    if truth is not None and len(p):
        xy = np.concatenate([f.xy for f in features]).astype(np.float64)
        pairs = _by_pair(matches.image_of, p, q)
        with showing(progress), phase(len(pairs), "Errors", "pair") as shown:
            for i, j, rows in pairs:
                moved, valid = truth.transfer(i, j, xy[p[rows]])
                pixels = np.linalg.norm(moved - xy[q[rows]], axis=1)
                error[rows] = np.where(valid, pixels, np.nan) / max(features[j].image_size)
                shown.update()
    return MatchErrors(p, q, error)


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


def _by_pair(image: IntArray, p: IntArray, q: IntArray) -> list[tuple[int, int, NDArray[np.intp]]]:
    """Both images, and the matches, of every ordered pair of images that has some."""
    pair = image[p] * (image[-1] + 1) + image[q]
    order = np.argsort(pair, kind="stable")
    return [
        (int(image[p[rows[0]]]), int(image[q[rows[0]]]), rows)
        for rows in np.split(order, np.flatnonzero(np.diff(pair[order])) + 1)
    ]


def fcm(errors: MatchErrors, sizes: Any, thresholds: Any = THRESHOLDS) -> NDArray[np.float64]:
    """Fraction of correct matchings, relative to the number of image features.

    The number of matches with an error of at most t, over all ordered pairs of
    images i ≠ j, divided by the sum of min(m_i, m_j) over the same pairs. A
    match that the truth cannot judge is not correct. (The paper, Sec. 5.2, and
    Zhou et al. 2015: the true number of matches is unknown on real images.)

    Parameters
    ----------
    errors : MatchErrors
    sizes : (k,) ints
    thresholds : (t,) floats
        Shares of the largest image dimension.

    Returns
    -------
    (t,) float64 array
    """
    sizes = np.asarray(sizes)
    possible = np.minimum.outer(sizes, sizes).sum() - sizes.sum()
    return _correct(errors, thresholds) / max(possible, 1)


def precision_at(errors: MatchErrors, thresholds: Any = THRESHOLDS) -> NDArray[np.float64]:
    """Correct matches divided by those the truth can judge; NaN if there are none.

    Parameters
    ----------
    errors : MatchErrors
    thresholds : (t,) floats
        Shares of the largest image dimension.

    Returns
    -------
    (t,) float64 array
    """
    judged = np.isfinite(errors.error).sum()
    return _correct(errors, thresholds) / (judged if judged else np.nan)


def _correct(errors: MatchErrors, thresholds: Any) -> NDArray[np.float64]:
    judged = np.sort(errors.error[np.isfinite(errors.error)])
    return np.searchsorted(judged, thresholds, side="right").astype(np.float64)


def cycle_error(W: Any, sizes: Any, progress: bool = False) -> float:
    """How much the cycles of matches disagree; 0 if they all agree.

    (1/k³) Σ_{i,j,ℓ} ‖(P_iℓ)_{R,:} (P_ℓj)_{:,C} − (P_ij)_{R,C}‖_F over all triples
    of images, R and C the features of images i and j that have a match in
    image ℓ (the paper, Sec. 5). Weights count as 1.

    Parameters
    ----------
    W : sparse or dense array, shape (m, m)
        At most one match of a feature in every image.
    sizes : (k,) ints
    progress : bool
        Show a bar for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    float

    Raises
    ------
    NmfsyncError
        If a feature has two matches in one image.
    """
    sizes = np.asarray(sizes)
    k = len(sizes)
    image_of = np.repeat(np.arange(k), sizes)
    partner = _partners(W, image_of, k)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    through = []
    with (
        showing(progress),
        phase(k, "Cycle error", "image") as shown,
        ThreadPoolExecutor(joblib.cpu_count()) as pool,
    ):
        for total in pool.map(lambda ell: _disagreement(partner, offsets, ell), range(k)):
            through.append(total)
            shown.update()
    return float(sum(through) / k**3)


@compiled
def _disagreement(partner: NDArray[np.int32], offsets: IntArray, ell: int) -> float:
    """Σ_{i,j} of the norms for one image ℓ: the square roots of how many entries differ."""
    k = len(offsets) - 1
    in_ell = partner[:, ell] >= 0
    total = 0.0
    for i in range(k):
        differ = np.zeros(k, np.int64)
        for p in range(offsets[i], offsets[i + 1]):
            if in_ell[p]:
                middle = partner[p, ell]
                for j in range(k):
                    through, direct = partner[middle, j], partner[p, j]
                    # A direct match counts only if its other end has a match in ℓ as well.
                    if direct >= 0 and not in_ell[direct]:
                        direct = -1
                    if through != direct:
                        differ[j] += (through >= 0) + (direct >= 0)
        total += np.sqrt(differ).sum()
    return total


def _partners(W: Any, image_of: IntArray, k: int) -> NDArray[np.int32]:
    """(m, k) table: the match of every feature in every image, -1 if it has none."""
    entries = _ones(W).tocoo()
    place = (entries.row, image_of[entries.col])
    partner = np.full((len(image_of), k), -1, dtype=np.int32)
    partner[place] = entries.col
    twice = np.flatnonzero(partner[place] != entries.col)
    if len(twice):
        p, image = place[0][twice[0]], place[1][twice[0]]
        raise NmfsyncError(f"feature {p} has two matches in image {image}")
    return partner


def gt_error(W: Any, W_gt: Any) -> float:
    """‖W − W_gt‖_F over the ones of two sparse arrays, diagonal included."""
    found, true, common = _counts(W, W_gt)
    return float(np.sqrt(found + true - 2 * common))


def precision(W: Any, W_gt: Any) -> float:
    """Share of the ones of W that are ones of W_gt, diagonal included."""
    found, _, common = _counts(W, W_gt)
    return common / found if found else float("nan")


def recall(W: Any, W_gt: Any) -> float:
    """Share of the ones of W_gt that are ones of W, diagonal included."""
    _, true, common = _counts(W, W_gt)
    return common / true if true else float("nan")


def f_score(W: Any, W_gt: Any) -> float:
    """Harmonic mean of `precision` and `recall`."""
    found, true, common = _counts(W, W_gt)
    return 2 * common / (found + true) if found + true else float("nan")


def _counts(W: Any, W_gt: Any) -> tuple[int, int, int]:
    """Return the number of ones of W, of W_gt, and of both at once."""
    A, B = _ones(W), _ones(W_gt)
    return A.nnz, B.nnz, A.multiply(B).nnz


def _ones(W: Any) -> sparse.csr_array:
    """1 wherever W is not 0."""
    A = sparse.csr_array(W, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    A.data = np.ones(len(A.data))
    return A


def evaluate(
    matches: Matches,
    features: Sequence[Features],
    truth: Truth | None,
    seconds: float,
    peak_memory_mb: float,
    cameras: Sequence[Camera] | None = None,
    errors: MatchErrors | None = None,
    progress: bool = False,
) -> MethodEvaluation:
    """Measure one method's matches on one scene.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    features : sequence of Features
    truth : Truth or None
    seconds, peak_memory_mb : float
        What the method took.
    cameras : sequence of Camera, optional
        For the distances to epipolar lines.
    errors : MatchErrors, optional
        Those that `match_errors` finds, if they are known already.
    progress : bool
        Show a bar for what takes more than some seconds, if stderr is a terminal.

    Returns
    -------
    MethodEvaluation
    """
    errors = errors or match_errors(matches, features, truth, progress)
    disagreement = cycle_error(matches.W, matches.sizes, progress)
    shares, precisions = _curves(errors, matches.sizes) if truth else ({}, {})
    lines = None
    if cameras:
        distances = epipolar_errors(matches, features, cameras, progress)
        lines = _curves(distances, matches.sizes)
    return MethodEvaluation(
        fcm=shares,
        precision=precisions,
        matchings=len(errors.p) // 2,
        judged=int(np.isfinite(errors.error).sum()),
        cycle_error=disagreement,
        cycle_consistent=disagreement == 0.0,
        seconds=seconds,
        peak_memory_mb=peak_memory_mb,
        epipolar_fcm=lines[0] if lines else {},
        epipolar_precision=lines[1] if lines else {},
    )


def _curves(errors: MatchErrors, sizes: IntArray) -> tuple[dict[str, float], dict[str, Any]]:
    """FCM and precision by threshold, written as in "0.01"."""
    names = [f"{t:g}" for t in THRESHOLDS]
    shares, precisions = fcm(errors, sizes), precision_at(errors)
    return (
        dict(zip(names, map(float, shares), strict=True)),
        {n: None if np.isnan(v) else float(v) for n, v in zip(names, precisions, strict=True)},
    )
