"""Matches of detector-free matchers: positions that belong to pairs of images."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmfsync.types.arrays import Float32Array


class PositionPair(NamedTuple):
    """The matches of two images.

    Attributes
    ----------
    i, j : int
        The images, counted from 0.
    xy0, xy1 : (n, 2) float32 arrays
        Matched positions in image i and in image j, in pixels; the centre of the top-left pixel
        is (0, 0).
    scores : (n,) float32 array
        In (0, 1]; they rise with the probability that a match is right.
    """

    i: int
    j: int
    xy0: Float32Array
    xy1: Float32Array
    scores: Float32Array


@dataclass(frozen=True, eq=False)
class PositionMatches:
    """The matches of all pairs of images.

    Attributes
    ----------
    path : Path
        The file that they come from.
    names : tuple of str
        Names of the images.
    pairs : tuple of PositionPair
        Each pair of images once, in order of i < j; none is empty.
    """

    path: Path
    names: tuple[str, ...]
    pairs: tuple[PositionPair, ...]

    @property
    def match_count(self) -> int:
        """Number of matches."""
        return sum(len(pair.scores) for pair in self.pairs)

    def of_images(self) -> list[Float32Array]:
        """Return the positions in every image, (n, 2) arrays: pair after pair."""
        parts: list[list[Float32Array]] = [[np.empty((0, 2), np.float32)] for _ in self.names]
        for pair in self.pairs:
            parts[pair.i].append(pair.xy0)
            parts[pair.j].append(pair.xy1)
        return [np.concatenate(of_image) for of_image in parts]
