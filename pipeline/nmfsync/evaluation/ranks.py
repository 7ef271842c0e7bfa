"""How methods rank against each other over several scenes."""

from collections.abc import Mapping, Sequence

import numpy as np

DIGITS = 3  # of a share: 54.2 % and 54.2 % are equal


def mean_ranks(scenes: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    """Average the ranks of methods over scenes; 1 is the best, and equal values share a rank.

    Parameters
    ----------
    scenes : sequence of dict of str to (float or None)
        For every scene: the value of every method, the larger the better. A method whose value
        is None or missing comes last on that scene. Values count with three decimals, as they
        are shown.

    Returns
    -------
    dict of str to float
        By method, in order of appearance. Empty without scenes.

    Examples
    --------
    >>> mean_ranks([{"a": 0.9, "b": 0.5}, {"a": 0.2, "b": 0.4}, {"a": 0.3, "b": None}])
    {'a': 1.3333333333333333, 'b': 1.6666666666666667}
    """
    from scipy.stats import rankdata  # which takes longer to load than all else of a short run

    names = list(dict.fromkeys(name for scene in scenes for name in scene))
    if not names:
        return {}
    values = np.array([[scene.get(name) for name in names] for scene in scenes], dtype=np.float64)
    ranks = rankdata(-np.nan_to_num(values.round(DIGITS), nan=-np.inf), axis=1)
    return dict(zip(names, ranks.mean(axis=0).tolist(), strict=True))
