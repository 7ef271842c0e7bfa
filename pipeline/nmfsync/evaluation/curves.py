"""Shares of correct matches over the distance that counts as correct."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.evaluation.errors import MatchErrors
from nmfsync.types.arrays import IntArray

# Share of the largest image dimension up to which a match counts as correct.
THRESHOLDS: NDArray[np.float64] = np.round(np.linspace(0.0, 0.05, 51), 3)


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
    return np.asarray(_correct(errors, thresholds) / max(possible, 1))


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
    return np.asarray(np.searchsorted(judged, thresholds, side="right").astype(np.float64))


def by_threshold(errors: MatchErrors, sizes: IntArray) -> tuple[dict[str, float], dict[str, Any]]:
    """FCM and precision by threshold, written as in "0.01"."""
    names = [f"{t:g}" for t in THRESHOLDS]
    shares, precisions = fcm(errors, sizes), precision_at(errors)
    return (
        dict(zip(names, map(float, shares), strict=True)),
        {n: None if np.isnan(v) else float(v) for n, v in zip(names, precisions, strict=True)},
    )
