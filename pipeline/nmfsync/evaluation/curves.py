"""Fraction of correct matchings (FCM) and precision, as curves over an error threshold."""

import numpy as np
from numpy.typing import ArrayLike

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.types.arrays import FloatArray

# A match is correct at threshold t if its error is at most t, as a share of the largest image
# dimension. From 0 to 5 % in steps of 0.1 %.
THRESHOLDS: FloatArray = np.round(np.linspace(0.0, 0.05, 51), 3)

Curves = tuple[dict[str, float], dict[str, float | None]]  # FCM and precision by threshold


def fcm(errors: MatchErrors, sizes: ArrayLike, thresholds: ArrayLike = THRESHOLDS) -> FloatArray:
    """Fraction of correct matchings, relative to the number of image features.

    The number of matches with an error of at most t, over all ordered pairs of
    images i ≠ j, divided by the sum of min(m_i, m_j) over the same pairs. A
    match that the truth cannot judge is not correct. (The paper, Sec. 5.2, and
    Zhou et al. 2015: the true number of matches is unknown on real images.)

    Parameters
    ----------
    errors : MatchErrors
    sizes : (k,) ints
        Number of features m_i of every image.
    thresholds : (t,) floats
        Shares of the largest image dimension.

    Returns
    -------
    (t,) float64 array
        From 0 to 1.
    """
    return np.asarray(_count_correct(errors, thresholds) / _possible(sizes))


def precision_at(errors: MatchErrors, thresholds: ArrayLike = THRESHOLDS) -> FloatArray:
    """Return the share of correct matches among those that the truth can judge.

    Parameters
    ----------
    errors : MatchErrors
    thresholds : (t,) floats
        Shares of the largest image dimension.

    Returns
    -------
    (t,) float64 array
        From 0 to 1; NaN if no match can be judged.
    """
    judged = np.isfinite(errors.error).sum()
    return _count_correct(errors, thresholds) / (judged if judged else np.nan)


def by_threshold(errors: MatchErrors, sizes: ArrayLike) -> Curves:
    """Return FCM and precision as dictionaries for JSON.

    Keys are the thresholds as text, for instance "0.01". A precision is None if
    no match can be judged.
    """
    names = [f"{t:g}" for t in THRESHOLDS]
    fractions, precisions = fcm(errors, sizes), precision_at(errors)
    return (
        dict(zip(names, map(float, fractions), strict=True)),
        {n: None if np.isnan(v) else float(v) for n, v in zip(names, precisions, strict=True)},
    )


# Of the ratio test, from strict to none.
RATIOS: FloatArray = np.round(np.arange(0.2, 1.001, 0.025), 3)


def ratio_curve(
    errors: MatchErrors, ratios: ArrayLike, sizes: ArrayLike, threshold: float = 0.01
) -> dict[str, list[float | None]]:
    """Return FCM and precision of the input under a ratio test, for every limit of it.

    This is what a method has to beat: thresholding alone, without synchronisation.

    Parameters
    ----------
    errors : MatchErrors
        Of all input matches.
    ratios : (n,) floats
        Distance ratio of every match p < q, in order of p, then q (`PairwiseMatches.ratios`).
    sizes : (k,) ints
        Number of features of every image.
    threshold : float
        A match is correct up to this error, as a share of the largest image dimension.

    Returns
    -------
    dict of str to list
        `ratio`, `RATIOS`; `fcm` and `precision` of the matches with a smaller ratio, the last
        ones of all matches. A precision is None if no match can be judged.
    """
    # The first limit that every match is below.
    place = np.searchsorted(RATIOS[:-1], errors.both_ways(ratios), side="right")
    kept = (errors.error <= threshold, np.isfinite(errors.error))
    correct, judged = (np.cumsum(np.bincount(place[k], minlength=len(RATIOS))) for k in kept)
    return {
        "ratio": RATIOS.tolist(),
        "fcm": (correct / _possible(sizes)).tolist(),
        "precision": [
            c / n if n else None for c, n in zip(correct.tolist(), judged.tolist(), strict=True)
        ],
    }


def _possible(sizes: ArrayLike) -> int:
    """Count the matches that there could be at most, in both directions; at least 1."""
    sizes = np.sort(np.asarray(sizes))
    larger = np.arange(len(sizes))[::-1]  # images that have no fewer features
    return max(int(2 * (sizes * larger).sum()), 1)


def _count_correct(errors: MatchErrors, thresholds: ArrayLike) -> FloatArray:
    """Count the matches with an error of at most each threshold: (t,) floats."""
    judged = np.sort(errors.error[np.isfinite(errors.error)])
    return np.searchsorted(judged, thresholds, side="right").astype(np.float64)
