"""Union-find: tracks as the connected components of the matches."""

import warnings

import numpy as np
from scipy.sparse.csgraph import connected_components

from nmfsync.errors import NmfsyncWarning
from nmfsync.types.matches import MultiMatching, PairwiseMatches


def unionfind(matches: PairwiseMatches) -> MultiMatching:
    """Synchronise by following matches from image to image.

    A track is a connected component of the matches: the finest partition of the
    features that puts every match inside a cluster, ::

        maximise   (number of clusters)   over   partitions with every match inside.

    A component that holds two features of an image contradicts itself and is
    dropped: its features stay alone. This is how structure-from-motion programs
    commonly make their tracks.

    Parameters
    ----------
    matches : PairwiseMatches
        The weights of the matches are not used.

    Returns
    -------
    MultiMatching

    Warns
    -----
    NmfsyncWarning
        If tracks are dropped.

    Notes
    -----
    It costs O(n + m log m) for n matches of m features.

    References
    ----------
    Moulon, Monasse: Unordered feature tracking made fast and easy. CVMP 2012.
    """
    count, track = connected_components(matches.W, directed=False)
    place = matches.image_of * count + track  # in 64 bits, as image_of is
    _, which, features = np.unique(place, return_inverse=True, return_counts=True)
    dropped = np.isin(track, track[features[which] > 1])
    if dropped.any():
        warnings.warn(
            f"{dropped.sum()} of {len(track)} features are in tracks that see an image twice, "
            "and lose their matches; the other methods split such tracks",
            NmfsyncWarning,
            stacklevel=3,
        )
    alone = count + np.arange(len(track))
    return MultiMatching(np.where(dropped, alone, track), matches.sizes)
