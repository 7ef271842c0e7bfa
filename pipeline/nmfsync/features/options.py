"""The options of the extraction of features, and their ranges."""

from nmfsync.errors import NmfsyncError

CONTRAST = 0.04  # OpenCV's contrast threshold

# SIFT takes about 235 bytes a pixel (it doubles the image and holds its scale
# space in floating point): 1.9 GB at this many pixels.
MAX_PIXELS = 8_000_000


def check_options(
    features: int, orientations: bool, contrast: float, max_pixels: int = MAX_PIXELS
) -> None:
    """Raise NmfsyncError if an option of `extract` is out of range."""
    if features < 1:
        raise NmfsyncError(f"number of features must be at least 1, got {features}")
    if not isinstance(orientations, bool):
        raise NmfsyncError(f"orientations must be True or False, got {orientations!r}")
    if not 0 <= contrast < 1:
        raise NmfsyncError(f"contrast must be at least 0 and less than 1, got {contrast}")
    if max_pixels < 1:
        raise NmfsyncError(f"number of pixels must be at least 1, got {max_pixels}")
