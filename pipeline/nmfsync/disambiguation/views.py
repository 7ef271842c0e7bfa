"""What the images show of the tracks, gathered once for all pairs of images."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from nmfsync.types.arrays import FloatArray, IntArray
from nmfsync.types.matches import MultiMatching, StoredKeypoints

# Nearest neighbours of a feature that are looked at. More make the test of missing
# correspondences possible at lower shares of matches, but blur small places.
NEIGHBOURS = 30


@dataclass(frozen=True)
class View:
    """The features of an image that are in tracks.

    Attributes
    ----------
    features : (n,) ints
        Their numbers in the image, ascending.
    xy : (n, 2) array
    tracks : (n,) ints
    lengths : (n,) ints
        Images that show the track.
    size : (2,) array
        Width and height of the image.
    """

    features: IntArray
    xy: FloatArray
    tracks: IntArray
    lengths: IntArray
    size: FloatArray

    @cached_property
    def tree(self) -> cKDTree:
        """For nearest neighbours by position."""
        return cKDTree(self.xy)

    @cached_property
    def nearest(self) -> IntArray:
        """(n, NEIGHBOURS + 1) ints: every feature and its nearest neighbours, near ones first."""
        return np.asarray(self.tree.query(self.xy, NEIGHBOURS + 1)[1], np.int64)

    @cached_property
    def reach(self) -> FloatArray:
        """(n,) floats: distance to the tenth neighbour, or the last one."""
        last = self.nearest[:, min(10, NEIGHBOURS)]
        return np.asarray(np.linalg.norm(self.xy - self.xy[last], axis=1))


def views_of(tracks: MultiMatching, keypoints: Sequence[StoredKeypoints]) -> list[View]:
    """Gather what every image shows."""
    lengths = np.bincount(tracks.universe)[tracks.universe]
    offsets, views = tracks.offsets, []
    for i, image in enumerate(keypoints):
        part = slice(offsets[i], offsets[i + 1])
        used = np.flatnonzero(lengths[part] > 1)
        xy = np.asarray(image.xy, np.float64)
        size = image.image_size or (xy.max(axis=0) + 1 if len(xy) else (1, 1))
        views.append(
            View(
                used,
                xy[used],
                tracks.universe[part][used],
                lengths[part][used],
                np.array(size, np.float64),
            )
        )
    return views
