"""From numbers of any range to the 256 levels of an image."""

import numpy as np
from numpy.typing import NDArray

from nmfsync.types.arrays import AnyArray

_FEW = 0.001  # largest share of the values that may be defects, at either end
_RARE = 0.00002  # share of the values that is less than a star's
_AREA = 0.05  # smallest share of the image, or of its outermost pixels, that is an area
_SAMPLE = 1_000_000  # so many values are enough to find their ends
_GAP = 0.5  # of the width of the other values: what is nearer to them costs little contrast
_PICTURE = 0.5  # correlation of pixels with their next but one, above which they are no noise

# Values that stand for missing data wherever they are: at most the first, or beyond the second.
_CUSTOMARY = -9999.0, 1e20

_MISSING = (
    "values that are NaN, infinite or the file's nodata value are missing, and black; fill them to "
    "have no edges there"
)
_FILL = "the value {:g} is far from all others and taken for missing data; fill it if it is not"
_CLIPPED = (
    "a few values are far from all others, like hot pixels, and are clipped; clip the image "
    "yourself if they matter"
)


def to_8_bit(
    pixels: AnyArray, nodata: float | None = None
) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Map values linearly to 0 … 255; the rule is that of `images.read_image`.

    Parameters
    ----------
    pixels : (h, w) or (h, w, 3) array of integers or floating point
    nodata : float, optional
        The value that the file declares to be missing.

    Returns
    -------
    levels : uint8 array of the same shape
    faults : tuple of str
        What degraded the picture.
    """
    if pixels.dtype == np.uint8:
        return pixels, ()
    with np.errstate(over="ignore"):
        return _map(pixels, nodata)


def _map(pixels: AnyArray, nodata: float | None) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    values = pixels.astype(np.result_type(pixels, np.float32))
    missing = ~np.isfinite(values)
    if nodata is not None:
        missing |= values == values.dtype.type(nodata)
    faults = [_MISSING] if missing.any() else []
    known = values[~missing]
    if not len(known) or known.min() == known.max():
        return np.zeros(pixels.shape, np.uint8), tuple(faults)
    rest, fills = _without_fills(values, ~missing)
    faults += [_FILL.format(fill) for fill in fills]
    low, high = _without_defects(known := values[rest])
    defects = int(np.count_nonzero((known < low) | (known > high)))
    if defects and (_is_rare(defects, known) or _is_picture(values, rest, low, high)):
        faults.append(_CLIPPED)
    else:
        low, high = _range(known)
    values[missing] = low
    return _stretch(values, low, high), tuple(faults)


def _stretch(values: AnyArray, low: float, high: float) -> NDArray[np.uint8]:
    if high - low > np.finfo(values.dtype).max:  # the difference must not overflow
        values, low, high = values / 4, low / 4, high / 4
    from skimage.exposure import rescale_intensity  # most images have 8 bits

    stretched = rescale_intensity(values, in_range=(low, high), out_range=(0.0, 255.0))
    return np.asarray(np.rint(stretched).astype(np.uint8))


def _range(known: AnyArray) -> tuple[float, float]:
    return float(known.min()), float(known.max())


def _ends(known: AnyArray) -> tuple[float, float]:
    """Return the smallest and the largest value that are no defects."""
    sample = known[:: len(known) // _SAMPLE | 1]  # no even step: columns of sensors alternate
    few = int(_FEW * len(sample))
    ordered = np.partition(sample, (few, len(sample) - 1 - few))
    return float(ordered[few]), float(ordered[-1 - few])


def _without_fills(
    values: AnyArray, known: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], list[float]]:
    """Return which values are no fill, and the fills: values that stand for missing data."""
    fills: list[float] = []
    while True:
        ends = _ends(values[known])
        first, last = (known & _all_channels(values == end) for end in ends)
        others = values[known & ~first & ~last]
        if not len(others):
            return known, fills
        low, high = _ends(others)
        gap = _GAP * (high - low)
        if 0 < gap < low - ends[0] and first.any():
            fill, rest = ends[0], known & (values > ends[0])
        elif 0 < gap < ends[1] - high and last.any():
            fill, rest = ends[1], known & (values < ends[1])
        else:
            return known, fills
        area = _largest_share(known & (values == fill)) >= _AREA
        customary = fill <= _CUSTOMARY[0] or fill >= _CUSTOMARY[1]
        if not (area or customary or _is_picture(values, rest, low, high)):
            return known, fills
        known = rest
        fills.append(fill)


def _all_channels(equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Keep what is true in every channel: black and white are fills, red and blue are colours."""
    return equal if equal.ndim == 2 else np.broadcast_to(equal.all(2, keepdims=True), equal.shape)


def _largest_share(where: NDArray[np.bool_]) -> float:
    """Return the share of an image, or of its outermost pixels, whichever is larger."""
    edges = np.concatenate([where[[0, -1]].ravel(), where[:, [0, -1]].ravel()])
    return float(max(where.mean(), edges.mean()))


def _without_defects(known: AnyArray) -> tuple[float, float]:
    """Return the range of values, without a few that are farther out than the rest is wide.

    What is nearer than that costs at most two thirds of the contrast.
    """
    first, last = _ends(known)
    if first == last:
        return _range(known)
    near = known[(known >= first - (last - first)) & (known <= last + (last - first))]
    return _range(near)


def _is_rare(number: int, known: AnyArray) -> bool:
    """Whether so few values are defects whatever the rest is: a star or a lamp has more."""
    return number <= max(3, _RARE * len(known))


def _is_picture(values: AnyArray, valid: NDArray[np.bool_], low: float, high: float) -> bool:
    """Whether values within a range resemble their neighbours, as those of noise do not.

    Behind stars or lamps on a dark ground there is noise, which must not be stretched.
    """
    rows = slice(None, None, max(1, len(values) // 500))
    a, b = values[rows, :-2], values[rows, 2:]
    both = valid[rows, :-2] & valid[rows, 2:]
    pairs = np.clip(np.stack([a[both], b[both]]).astype(np.float64), low, high)
    pairs /= max(abs(low), abs(high))  # so that squares do not overflow
    if pairs.shape[1] < 2 or not pairs.std(axis=1).all():
        return False
    return bool(np.corrcoef(pairs[0], pairs[1]).item(0, 1) > _PICTURE)
