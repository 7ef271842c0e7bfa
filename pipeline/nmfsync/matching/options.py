"""The options of matching and verification, and their ranges."""

from typing import NamedTuple

from nmfsync.errors import NmfsyncError


class Geometry(NamedTuple):
    """A geometry of two images, and what it needs to be believed.

    The error of a match is Sampson's for a fundamental matrix; for a homography,
    the distance in the second image from where it moves the first position.
    """

    estimator: str  # function of OpenCV
    max_error: float  # an inlier's error is smaller; pixels
    least: int  # inliers
    least_share: float  # of all matches


# Measured on EPFL and Graffiti. A fundamental matrix asks for one coordinate only, so that chance
# gives it many inliers: up to 26 of 600 random matches within 2 pixels, and more where windows
# repeat in rows. With COLMAP's values, 4 pixels and 15 inliers, nearly all pairs of images of
# castle-P19 pass. A homography asks for both coordinates, and chance gives it 6 at most.
GEOMETRIES = {
    "fundamental": Geometry("findFundamentalMat", max_error=2.0, least=20, least_share=0.15),
    "homography": Geometry("findHomography", max_error=3.0, least=8, least_share=0.0),
}


def check_limits(ratio: float | None, distance: float | None) -> None:
    """Raise NmfsyncError if a limit of `match` is out of range."""
    if ratio is not None and not 0 < ratio <= 1:
        raise NmfsyncError(f"ratio must be greater than 0 and at most 1, got {ratio}")
    if distance is not None and not distance >= 0:
        raise NmfsyncError(f"distance must not be negative, got {distance}")


def check_geometry(geometry: str) -> None:
    """Raise NmfsyncError if matches cannot be verified by such a geometry."""
    if geometry not in GEOMETRIES:
        raise NmfsyncError(f"geometry must be {' or '.join(GEOMETRIES)}, got {geometry!r}")
