"""What is found out about a pair of images."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PairVerdict:
    """Whether two images with matches show the same place, and why.

    `EVIDENCE` explains the figures after `reason`; None where one is not known.

    Attributes
    ----------
    i, j : int
        The images i < j, counted from 0.
    matches : int
        Their verified matches.
    tracks : int
        The tracks that both images show.
    right : bool
        False for look-alikes.
    reason : str
        A plain phrase, for instance "few shared tracks", or "" for a right pair.
    """

    i: int
    j: int
    matches: int
    tracks: int
    right: bool
    reason: str
    covisibility: float | None = None
    expected: int | None = None
    shared: float | None = None
    conflict: float | None = None
    unique_expected: int | None = None
    unique_shared: float | None = None
    alike_shared: float | None = None
    belief: float | None = None
    bridge: bool | None = None


# For tables and pages: field, heading, what it means.
EVIDENCE: Mapping[str, tuple[str, str]] = {
    "covisibility": (
        "Covisibility",
        "Tracks that both images show, divided by the geometric mean of the tracks of either.",
    ),
    "expected": (
        "Expected",
        "Features of one image that others confirm and that should be inside the other image, "
        "by how their matches move.",
    ),
    "shared": ("Shared", "Share of the expected features that both images show."),
    "conflict": (
        "In conflict",
        "Share of the expected features in places where both images have some, and match nothing.",
    ),
    "unique_expected": (
        "Unique",
        "Expected features in tracks that no wrong pair shares; known only if some pair is wrong.",
    ),
    "unique_shared": ("Unique shared", "Share of these that both images show."),
    "alike_shared": (
        "Look-alike shared",
        "The same share for features of tracks that wrong pairs share.",
    ),
    "belief": ("Belief", "From -1, certainly wrong, to 1, certainly right; triplets included."),
    "bridge": ("Bridge", "Without this pair, the images fall into more groups."),
}
